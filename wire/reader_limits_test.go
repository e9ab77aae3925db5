package wire

import (
	"bytes"
	"slices"
	"testing"
)

// Memory follows bytes that came, not bytes that were announced: a stored frame
// that is never finished costs no more than twice what was sent of it.
func TestReaderGrowsWithTraffic(t *testing.T) {
	big := Limits{MaxFrame: 64 << 20, Store: 256 << 10, Buffer: 1 << 20}
	for _, sent := range []int{256, 4 << 10, 8 << 10, 20 << 10, 100 << 10, 255 << 10} {
		r := NewReader(big)
		stream := append(claim(Prepare, 256<<10), make([]byte, sent-256)...)
		for len(stream) > 0 {
			n := copy(r.Free(), stream[:min(len(stream), 1000)])
			r.Filled(n)
			stream = stream[n:]
			if f, err := r.Next(); f.Head() != nil || err != nil {
				t.Fatalf("%d bytes: got a frame of %d, %v", sent, len(f.Bytes), err)
			}
		}
		if free := r.Free(); len(free) == 0 {
			t.Errorf("%d bytes: got no room for the next read", sent)
		}
		if most := max(readerMin, 2*(sent+1)); r.Held() > most {
			t.Errorf("%d bytes of a frame of 256 KiB: got %d bytes of memory, want at most %d", sent, r.Held(), most)
		}
	}
}

// A reader starts small, grows where reads fill it, and stops at its bound; a long
// frame of 8 MiB costs what its reads cost.
func TestReaderBound(t *testing.T) {
	for _, l := range []Limits{{1 << 20, 256, 256}, {1 << 20, 1000, 1000}, {1 << 20, 8 << 10, 12345}, {8 << 20, 256 << 10, 1 << 20}} {
		r := NewReader(l)
		if want := min(readerMin, l.Buffer); r.Held() != want {
			t.Errorf("%+v: got %d bytes at the start, want %d", l, r.Held(), want)
		}
		size := l.MaxFrame
		f := feed{r: r, stream: append(claim(Prepare, size), make([]byte, size-256)...), next: func() int { return 1 << 30 }}
		got, err := f.frames()
		if err != nil || len(got) != 1 || len(got[0]) != int(size) {
			t.Errorf("%+v: got %d frames, %v", l, len(got), err)
		}
		if f.held != l.Buffer {
			t.Errorf("%+v: got %d bytes of memory under full reads, want %d", l, f.held, l.Buffer)
		}
	}
}

// Small frames on a link that is mostly silent do not make the buffer grow.
func TestReaderStaysSmall(t *testing.T) {
	r := NewReader(Limits{MaxFrame: 64 << 20, Store: 256 << 10, Buffer: 1 << 20})
	stream, _ := traffic(44)
	for range 10000 {
		r.Filled(copy(r.Free(), stream))
		for f, err := r.Next(); f.Head() != nil; f, err = r.Next() {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if r.Held() != readerMin {
		t.Errorf("got %d bytes, want %d", r.Held(), readerMin)
	}
}

// readLimit reads as much of a stream as the reader asks for with FreeLimit, and
// returns how much was left when a frame was whole.
func readLimit(t *testing.T, r *Reader, stream []byte, most int) (left []byte, frame []byte) {
	t.Helper()
	for {
		f, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if f.Head() != nil {
			frame = bytes.Clone(f.Bytes)
			for rest := f.Rest; rest > 0; {
				piece := r.Take(rest)
				rest -= len(piece)
				frame = append(frame, piece...)
				if rest > 0 && len(piece) == 0 {
					stream = fill(t, r, stream, most)
				}
			}
			return stream, frame
		}
		stream = fill(t, r, stream, most)
	}
}

func fill(t *testing.T, r *Reader, stream []byte, most int) []byte {
	t.Helper()
	free := r.FreeLimit()
	n := copy(free[:min(len(free), most)], stream)
	if n == 0 {
		t.Fatalf("got %d bytes to read into, with %d to come", len(free), len(stream))
	}
	r.Filled(n)
	return stream[n:]
}

// FreeLimit stops at a frame's end, whatever the frame's length and however the
// bytes come: the next frame stays in the socket.
func TestReaderFreeLimit(t *testing.T) {
	for _, body := range []int{0, 1, 255, 256, 700, 768, 769, 1000, 5000, 9000, 40000} {
		for _, most := range []int{1, 7, 256, 300, 1 << 20} {
			first := frame(StateChunk, 1, 0, bytes.Repeat([]byte{7}, body))
			second := frame(Commit, 2, 0, nil)
			r := NewReader(limits)
			left, got := readLimit(t, r, slices.Concat(first, second), most)
			if !bytes.Equal(got, first) || !bytes.Equal(left, second) || r.Inside() || r.Buffered() != 0 {
				t.Errorf("body of %d, reads of %d: got a frame of %d, left %d, inside %v, %d bytes in",
					body, most, len(got), len(left), r.Inside(), r.Buffered())
			}
		}
	}
}

// The reader may change from Free to FreeLimit at any byte: with part of a frame
// in, what FreeLimit offers ends where that frame ends.
func TestReaderFreeLimitInside(t *testing.T) {
	first, second := frame(Prepare, 1, 0, make([]byte, 500)), frame(Commit, 2, 0, nil)
	long := frame(StateChunk, 1, 0, make([]byte, 3000))
	for _, f := range [][]byte{first, long} {
		stream := slices.Concat(f, second)
		for cut := 1; cut < len(f); cut++ {
			r := roomy(limits)
			r.Filled(copy(r.Free(), stream[:cut]))
			left, got := readLimit(t, r, stream[cut:], 1<<20)
			if !bytes.Equal(got, f) || !bytes.Equal(left, second) {
				t.Fatalf("a frame of %d cut at %d: got %d, left %d, want %d", len(f), cut, len(got), len(left), len(second))
			}
		}
	}
}

// A long frame is a frame under way until its last byte is taken, even while the
// buffer is empty.
func TestReaderInsideLongFrame(t *testing.T) {
	f := frame(StateChunk, 1, 0, make([]byte, 2000))
	stream := slices.Concat(f, claim(Commit, 256))
	r := roomy(limits)
	r.Filled(copy(r.Free(), stream[:256]))
	g, err := r.Next()
	if err != nil || !g.Long() || g.Rest != 2000 || !r.Inside() || r.Buffered() != 0 {
		t.Fatalf("got rest %d, %v, inside %v with %d bytes in", g.Rest, err, r.Inside(), r.Buffered())
	}
	r.Filled(copy(r.Free(), stream[256:]))
	if p := r.Take(1 << 20); len(p) != 2000 {
		t.Errorf("Take went on into the next frame: got %d bytes, want 2000", len(p))
	}
	if p := r.Take(10); len(p) != 0 || !r.Inside() {
		t.Errorf("got %d bytes behind the frame, inside %v", len(p), r.Inside())
	}
	if h, err := r.Next(); err != nil || h.Head() == nil || r.Inside() {
		t.Errorf("the next frame: got %v, %v, inside %v", h.Head(), err, r.Inside())
	}
}

// What traffic has grown is given back between frames, and never with bytes in it.
func TestReaderRests(t *testing.T) {
	r := NewReader(Limits{MaxFrame: 64 << 20, Store: 256 << 10, Buffer: 1 << 20})
	stream, frames := traffic(5000, 300)
	f := feed{r: r, stream: stream[:len(stream)-1], next: func() int { return 1 << 30 }}
	got, err := f.frames()
	if err != nil || len(got) != 1 || !r.Grown() {
		t.Fatalf("got %d frames, %v, %d bytes of memory; want one and a grown buffer", len(got), err, r.Held())
	}
	if r.Rest(); !r.Grown() {
		t.Fatal("got the memory given back inside a frame")
	}
	f.stream = stream[len(stream)-1:]
	if got, err = f.frames(); err != nil || len(got) != 1 || !bytes.Equal(got[0], frames[1]) {
		t.Fatalf("got %d frames, %v, want the one that was under way", len(got), err)
	}
	if r.Rest(); r.Grown() || r.Held() != readerMin {
		t.Errorf("got %d bytes of memory at rest, want %d", r.Held(), readerMin)
	}
	f.stream = stream
	if got, err = f.frames(); err != nil || !equalFrames(got, frames) {
		t.Errorf("got %d frames after a rest, %v", len(got), err)
	}
}
