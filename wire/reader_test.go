package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// limits of these tests: frames above 1 KiB are long, and the largest has 64 KiB.
var limits = Limits{MaxFrame: 64 << 10, Store: 1 << 10, Buffer: 16 << 10}

// claim is a header of command c that claims size.
func claim(c Command, size uint32) []byte {
	f := frame(c, 0, 0, nil)
	Size.Set((*Header)(f), size)
	return f
}

// traffic is a stream of frames with bodies of the given lengths, no two alike.
func traffic(bodies ...int) (stream []byte, frames [][]byte) {
	for i, n := range bodies {
		body := make([]byte, n)
		for j := range body {
			body[j] = byte(i + j*j)
		}
		f := frame(Command(i%Commands), uint32(i), 0, body)
		frames = append(frames, f)
		stream = append(stream, f...)
	}
	return stream, frames
}

// roomy is a reader that traffic has grown: one read brings many frames.
func roomy(l Limits) *Reader {
	r := NewReader(l)
	r.buf = make([]byte, min(8<<10, l.Buffer))
	return r
}

// A feed drives a reader with a stream, never more than next() bytes at a time.
type feed struct {
	r      *Reader
	stream []byte
	next   func() int
	held   int // the most memory the reader had
}

// read is one read of a socket, and false at the stream's end.
func (f *feed) read() bool {
	if len(f.stream) == 0 {
		return false
	}
	free := f.r.Free()
	n := copy(free, f.stream[:min(len(f.stream), max(1, f.next()))])
	f.r.Filled(n)
	f.stream = f.stream[n:]
	f.held = max(f.held, f.r.Held())
	return true
}

// frames takes every frame out, long ones piece by piece.
func (f *feed) frames() (frames [][]byte, err error) {
	for {
		g, err := f.r.Next()
		switch {
		case err != nil:
			return frames, err
		case g.Head() == nil:
			if !f.read() {
				return frames, nil
			}
			continue
		}
		b := bytes.Clone(g.Bytes)
		for rest := g.Rest; rest > 0; {
			piece := f.r.Take(min(rest, max(1, f.next())))
			if len(piece) == 0 && !f.read() {
				return append(frames, b), nil
			}
			b, rest = append(b, piece...), rest-len(piece)
		}
		frames = append(frames, b)
	}
}

func equalFrames(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// §2.1: frames lie back to back; one read can bring many, and they lie side by
// side in memory, so that a run of them is one write.
func TestReaderManyFrames(t *testing.T) {
	stream, want := traffic(0, 1, 700, 0, 0, 44, 768)
	r := roomy(limits)
	r.Filled(copy(r.Free(), stream))
	var run []byte
	for i, w := range want {
		f, err := r.Next()
		if err != nil || !bytes.Equal(f.Bytes, w) || f.Long() || f.Head() != (*Header)(f.Bytes) {
			t.Fatalf("frame %d: got %d bytes, %v, long %v", i, len(f.Bytes), err, f.Long())
		}
		if run == nil {
			run = f.Bytes
		} else {
			run = run[:len(run)+len(f.Bytes)]
		}
		if left := len(stream) - len(run); r.Buffered() != left || r.Inside() != (left > 0) {
			t.Errorf("frame %d: got %d bytes in, inside %v", i, r.Buffered(), r.Inside())
		}
	}
	if f, err := r.Next(); f.Head() != nil || err != nil || !bytes.Equal(run, stream) {
		t.Errorf("at the end: got %v, %v, a run of %d bytes, want %d", f.Head(), err, len(run), len(stream))
	}
}

// §2.1: a stream cut anywhere gives the same frames; every cut in two.
func TestReaderCutAnywhere(t *testing.T) {
	stream, want := traffic(0, 300, 0, 2000, 5)
	for cut := range len(stream) {
		sizes := []int{cut, len(stream)}
		f := feed{r: NewReader(limits), stream: stream, next: func() int {
			n := sizes[0]
			if len(sizes) > 1 {
				sizes = sizes[1:]
			}
			return n
		}}
		if got, err := f.frames(); err != nil || !equalFrames(got, want) {
			t.Fatalf("cut at %d: got %d frames, %v", cut, len(got), err)
		}
	}
}

// §2.1: random frames, long ones among them, in random reads: the stream comes
// back, and the memory stays within its bound.
func TestReaderRandomCuts(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		bodies := make([]int, 1+rng.IntN(40))
		for i := range bodies {
			bodies[i] = []int{0, rng.IntN(300), rng.IntN(2000), rng.IntN(50000)}[rng.IntN(4)]
		}
		stream, want := traffic(bodies...)
		most := 1 + rng.IntN(20000)
		f := feed{r: NewReader(limits), stream: stream, next: func() int { return rng.IntN(most) }}
		got, err := f.frames()
		if err != nil || !equalFrames(got, want) {
			t.Fatalf("seed %d: got %d frames of %d, %v", seed, len(got), len(want), err)
		}
		if f.held > limits.Buffer {
			t.Fatalf("seed %d: got %d bytes of memory, want at most %d", seed, f.held, limits.Buffer)
		}
		if f.r.Inside() || f.r.Buffered() != 0 {
			t.Errorf("seed %d: inside %v with %d bytes at the end", seed, f.r.Inside(), f.r.Buffered())
		}
	}
}

// The recordings go through the reader as they went over the wire.
func TestReaderRecordings(t *testing.T) {
	streams := map[string][]byte{}
	want := map[string][][]byte{}
	for _, r := range recordings(t) {
		streams[r.file] = append(streams[r.file], r.bytes...)
		want[r.file] = append(want[r.file], r.bytes)
	}
	big := Limits{MaxFrame: maxFrame, Store: 256 << 10, Buffer: 1 << 20}
	for name, stream := range streams {
		rng := rand.New(rand.NewPCG(Hash(stream), 0))
		f := feed{r: NewReader(big), stream: stream, next: func() int { return rng.IntN(40000) }}
		if got, err := f.frames(); err != nil || !equalFrames(got, want[name]) {
			t.Errorf("%s: got %d frames, %v, want %d", name, len(got), err, len(want[name]))
		}
	}
}

// §2.1: the sizes at the edges. Size is judged before the command, and before any
// memory is taken; a claim takes none, whatever it says.
func TestReaderSizes(t *testing.T) {
	const max = 64 << 10
	for _, row := range []struct {
		size     uint32
		ok, long bool
	}{
		{0, false, false}, {1, false, false}, {255, false, false}, {256, true, false}, {257, true, false},
		{1024, true, false}, {1025, true, true}, {max - 1, true, true}, {max, true, true}, {max + 1, false, false},
		{1<<31 - 1, false, false}, {1 << 31, false, false}, {1<<32 - 1, false, false},
	} {
		for _, c := range []Command{Commit, Prepare, 30, 255} {
			r := NewReader(limits)
			before := r.Held()
			r.Filled(copy(r.Free(), claim(c, row.size)))
			f, err := r.Next()
			name := fmt.Sprintf("§2.1 size %d, %v", row.size, c)
			var size *SizeError
			var command *CommandError
			switch {
			case !row.ok:
				if !errors.As(err, &size) || *size != (SizeError{row.size, max}) {
					t.Errorf("%s: got %v, want a SizeError", name, err)
				}
			case !c.Valid():
				if !errors.As(err, &command) || command.Command != c {
					t.Errorf("%s: got %v, want a CommandError", name, err)
				}
			case err != nil || f.Long() != row.long || (f.Head() != nil) != (row.long || row.size == 256):
				t.Errorf("%s: got %v, %v, long %v", name, f.Head() != nil, err, f.Long())
			case row.long && (f.Rest != int(row.size)-256 || len(f.Bytes) != 256):
				t.Errorf("%s: got rest %d beside %d bytes", name, f.Rest, len(f.Bytes))
			}
			if err != nil && f.Head() != nil {
				t.Errorf("%s: got a frame beside an error", name)
			}
			if err == nil {
				r.Free()
			}
			if r.Held() != before {
				t.Errorf("%s: got %d bytes of memory for a claim, %d before", name, r.Held(), before)
			}
		}
	}
}

// §2.1: commands above 29 end the stream, and not before their frame has its turn.
func TestReaderCommands(t *testing.T) {
	for i := range 256 {
		r := NewReader(limits)
		r.Filled(copy(r.Free(), append(claim(Commit, 256), claim(Command(i), 256)...)))
		if f, err := r.Next(); err != nil || f.Head().Command() != Commit {
			t.Fatalf("command %d behind: got %v", i, err)
		}
		f, err := r.Next()
		var command *CommandError
		if i <= 29 && (err != nil || f.Head() == nil) || i > 29 && !errors.As(err, &command) {
			t.Errorf("§2.1 command %d: got %v", i, err)
		}
	}
	for file, want := range map[string]string{"command-31": "*wire.CommandError", "size-255": "*wire.SizeError"} {
		r := NewReader(limits)
		r.Filled(copy(r.Free(), single(t, file)[:]))
		if _, err := r.Next(); fmt.Sprintf("%T", err) != want {
			t.Errorf("§2.1 %s, on which Iggy closed: got %v", file, err)
		}
	}
}

// TestReaderBegun: a header can be judged before its body comes, and the body then
// taken in pieces; the frame behind it comes as always (§2.5).
func TestReaderBegun(t *testing.T) {
	body := make([]byte, 1000)
	var h Header
	h.SetCommand(StateChunk)
	Size.Set(&h, uint32(HeaderSize+len(body)))
	r := roomy(Limits{MaxFrame: 64 << 20, Store: 256 << 10, Buffer: 1 << 20})
	put := func(b []byte) { r.Filled(copy(r.Free(), b)) }
	put(h[:100])
	if f, err := r.Next(); f.Head() != nil || err != nil || r.Begun() != nil {
		t.Fatalf("got %v, %v and begun %v of part of a header, want nothing yet", f.Head(), err, r.Begun())
	}
	put(append(h[100:], body[:10]...))
	if f, err := r.Next(); f.Head() != nil || err != nil || r.Begun() == nil || r.Begun().Command() != StateChunk {
		t.Fatalf("got %v, %v and begun %v, want the header of the frame under way", f.Head(), err, r.Begun())
	}
	f := r.Break()
	if f.Rest != len(body) || !f.Long() {
		t.Fatalf("got %d bytes to come, want %d", f.Rest, len(body))
	}
	rest := f.Rest - len(r.Take(f.Rest))
	h.SetCommand(Commit)
	Size.Set(&h, HeaderSize)
	put(append(body[10:], h[:]...))
	rest -= len(r.Take(rest))
	f, err := r.Next()
	if rest != 0 || err != nil || f.Head() == nil || f.Head().Command() != Commit {
		t.Errorf("got %d bytes left, %v and %v, want the frame behind it", rest, f.Head(), err)
	}
}
