package proxy

import (
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// pumpOn builds one pump of a link whose legs are in memory, for virtual time.
func pumpOn(t testing.TB, src, dst net.Conn, rate int64) *pump {
	t.Helper()
	table, err := policy.NewTable(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Settings{Local: 1, Replicas: 3, Rules: table, MaxFrame: 64 << 20, StoreLimit: 256 << 10, FrameRate: rate,
		Peers: []Peer{{ID: 0}, {ID: 2}}, Metrics: noMetrics{}, Log: slog.New(slog.DiscardHandler), WriteStall: time.Hour}
	l := &link{server: new(Server), settings: s, peer: &s.Peers[0], log: s.Log, near: &leg{io: dst, side: near, replica: 1}}
	l.far.Store(&leg{io: src, side: far})
	return newPump(l, inward, 0)
}

// largest is a consumer-offset prepare of 64 MiB, whose body has no seal: the
// largest frame there can be, and one that is never held.
func largest() []byte {
	frame := make([]byte, 64<<20)
	h := (*wire.Header)(frame)
	h.SetCommand(wire.Prepare)
	wire.Size.Set(h, uint32(len(frame)))
	wire.PrepareOperation.Set(h, uint8(wire.OpStoreConsumerOffset))
	wire.PrepareOp.Set(h, 1)
	wire.Seal(h)
	return frame
}

// feed writes b at rate bytes per second, in pieces of a tenth of a second.
func feed(w io.WriteCloser, b []byte, rate int) {
	defer w.Close()
	for len(b) > 0 {
		n := min(len(b), rate/10)
		if _, err := w.Write(b[:n]); err != nil {
			return
		}
		b = b[n:]
		time.Sleep(100 * time.Millisecond) // virtual time: the pump is in a bubble
	}
}

// TestSlowIsNotDead is T37: a sender inside a frame must make the least rate after
// five seconds; a slow one that makes it lives through 64 MiB.
func TestSlowIsNotDead(t *testing.T) {
	frame := largest()
	for _, c := range []struct {
		name       string
		sent, rate int
		want       Ending
		within     time.Duration
	}{
		{"1 Mb/s lives", 125_000, 64 << 10, PeerEOF, 10 * time.Minute},
		{"32 KiB/s dies", 32 << 10, 64 << 10, FrameStalled, 11 * time.Second},
		{"32 KiB/s lives with the key at 16 KiB/s", 32 << 10, 16 << 10, PeerEOF, time.Hour},
		{"a byte a second dies", 10, 64 << 10, FrameStalled, 6 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sender, src := net.Pipe()
				dst, reader := net.Pipe()
				p := pumpOn(t, src, dst, int64(c.rate))
				var others sync.WaitGroup
				others.Go(func() { feed(sender, frame, c.sent) })
				received := int64(0)
				others.Go(func() { received, _ = io.Copy(io.Discard, reader) })
				ends, began := make(chan end, 1), time.Now()
				p.run(ends)
				e := <-ends
				src.Close()
				dst.Close()
				if e.ending != c.want || time.Since(began) > c.within {
					t.Errorf("got %q after %v, want %q within %v", e.ending, time.Since(began), c.want, c.within)
				}
				others.Wait()
				if c.want == PeerEOF && received != int64(len(frame)) {
					t.Errorf("got %d bytes at the reader, want %d", received, len(frame))
				}
			})
		})
	}
}

// TestReaderIsNotTheSendersFault: the clock stands while the pump is blocked on
// its reader.
func TestReaderIsNotTheSendersFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sender, src := net.Pipe()
		dst, reader := net.Pipe()
		p := pumpOn(t, src, dst, 64<<10)
		var others sync.WaitGroup
		others.Go(func() { feed(sender, largest(), 1<<20) })
		others.Go(func() {
			one := make([]byte, 1<<20)
			for {
				time.Sleep(30 * time.Second) // virtual time: slower than any sender may be
				if _, err := io.ReadFull(reader, one); err != nil {
					return
				}
			}
		})
		ends := make(chan end, 1)
		p.run(ends)
		if e := <-ends; e.ending != PeerEOF {
			t.Errorf("got %q, want the sender to be waited for only while it is waited for", e.ending)
		}
		src.Close()
		dst.Close()
		others.Wait()
	})
}

// TestIdleLinkLives is T27: a day without a byte ends nothing, and the frame after
// it goes through.
func TestIdleLinkLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sender, src := net.Pipe()
		dst, reader := net.Pipe()
		p := pumpOn(t, src, dst, 64<<10)
		go func() {
			time.Sleep(24 * time.Hour) // virtual time
			h := commit(1)
			sender.Write(h[:])
			sender.Close()
		}()
		got := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(reader)
			got <- b
		}()
		ends := make(chan end, 1)
		p.run(ends)
		if e := <-ends; e.ending != PeerEOF {
			t.Errorf("got %q, want the peer's own end", e.ending)
		}
		dst.Close()
		if b := <-got; len(b) != wire.HeaderSize {
			t.Errorf("got %d bytes after a day of silence, want one frame", len(b))
		}
	})
}

// commit is an honest Commit of replica 0.
func commit(token uint64) wire.Header {
	var h wire.Header
	h.SetCommand(wire.Commit)
	wire.Size.Set(&h, wire.HeaderSize)
	wire.CommitGroup.Set(&h, wire.MetadataGroup)
	wire.CommitToken.Set(&h, token)
	wire.Seal(&h)
	return h
}

// TestFramesAreJudgedByThemselves: many slow frames, each in time, never add up to
// a stuck one.
func TestFramesAreJudgedByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sender, src := net.Pipe()
		dst, reader := net.Pipe()
		p := pumpOn(t, src, dst, 64<<10)
		var others sync.WaitGroup
		others.Go(func() { io.Copy(io.Discard, reader) })
		var stream []byte
		for token := range uint64(100) {
			h := commit(token + 1)
			stream = append(stream, h[:]...)
		}
		others.Go(func() {
			defer sender.Close()
			sender.Write(stream[:100])
			for at := 100; at < len(stream); at += wire.HeaderSize {
				time.Sleep(4 * time.Second) // virtual time: the stream never stands at a boundary
				sender.Write(stream[at:min(at+wire.HeaderSize, len(stream))])
			}
		})
		ends := make(chan end, 1)
		p.run(ends)
		if e := <-ends; e.ending != PeerEOF {
			t.Errorf("got %q, want every frame to have its own time", e.ending)
		}
		dst.Close()
		others.Wait()
	})
}
