package proxy

import (
	"net"
	"testing"
	"time"

	"github.com/replgate/replgate/wire"
)

// endless is a connection that always has the same train of frames to read, and
// takes everything.
type endless struct {
	net.Conn
	train []byte
}

func (c endless) Read(b []byte) (int, error)      { return copy(b, c.train), nil }
func (c endless) Write(b []byte) (int, error)     { return len(b), nil }
func (c endless) SetReadDeadline(time.Time) error { return nil }

// TestPumpDoesNotAllocate pins the frame path: read, judge, write and count of a
// thousand frames allocate nothing.
func TestPumpDoesNotAllocate(t *testing.T) {
	var train []byte
	for token := range uint64(1000) {
		h := commit(token + 1)
		train = append(train, h[:]...)
	}
	p := pumpOn(t, endless{train: train}, endless{}, 64<<10)
	step := func() {
		if e := p.fill(p.reader.Inside()); e != nil {
			t.Fatalf("got an end %q", e.ending)
		}
		if e := p.forward(); e != nil {
			t.Fatalf("got an end %q", e.ending)
		}
	}
	for range 20 {
		step() // the buffer grows to the traffic
	}
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("got %v allocations for %d frames, want none", n, len(train)/wire.HeaderSize)
	}
	if p.seen.frames[Forwarded].Load() == 0 || p.seen.frames[Dropped].Load() != 0 {
		t.Errorf("got %+v, want every frame forwarded", p.seen.snapshot())
	}
}

// TestWriteDoesNotAllocate is the same for the socket below: a write that the
// kernel takes at once costs no memory.
func TestWriteDoesNotAllocate(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := newStream(c.(*net.TCPConn))
	s.watch(time.Minute)
	h := commit(1)
	if n := testing.AllocsPerRun(100, func() { // 26 KB, which fit into any send buffer
		if n, err := s.Write(h[:]); n != len(h) || err != nil {
			t.Fatalf("got %d and %v", n, err)
		}
	}); n != 0 {
		t.Errorf("got %v allocations for a write, want none", n)
	}
}

// BenchmarkPump is the same by the clock: what the gate adds to a frame, without
// sockets.
func BenchmarkPump(b *testing.B) {
	var train []byte
	for token := range uint64(1000) {
		h := commit(token + 1)
		train = append(train, h[:]...)
	}
	p := pumpOn(b, endless{train: train}, endless{}, 64<<10)
	b.ReportAllocs()
	b.SetBytes(int64(len(train)))
	for b.Loop() {
		p.fill(p.reader.Inside())
		p.forward()
	}
}
