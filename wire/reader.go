package wire

import "fmt"

// A SizeError is a frame whose claimed size is outside 256..max. The stream has
// lost its framing: Iggy ends the connection (§2.1).
type SizeError struct{ Size, Max uint32 }

func (e *SizeError) Error() string {
	return fmt.Sprintf("wire: got a frame of size %d, want %d..%d", e.Size, HeaderSize, e.Max)
}

// A CommandError is a frame whose command is not in the registry. Iggy ends the
// connection (§2.1).
type CommandError struct{ Command Command }

func (e *CommandError) Error() string {
	return fmt.Sprintf("wire: got %v, want a command of 0..%d", e.Command, CommandMax)
}

// Limits bound a Reader's memory.
type Limits struct {
	// MaxFrame is the largest size a frame may claim, inclusive. It must equal
	// Iggy's message_bus.max_message_size.
	MaxFrame uint32
	// Store is the largest frame that is gathered whole, in bytes; above it a
	// frame is yielded by its header and its body taken in pieces.
	Store int
	// Buffer is the most memory the reader holds, in bytes; at least Store.
	Buffer int
}

// readerMin is the memory a Reader starts with, and rests with. Most links are
// idle most of the time, so a buffer grows with its traffic and not before.
const readerMin = 512

// Reader cuts a byte stream into frames. It does no I/O: bytes are put in with
// Free and Filled, and come out with Next as many frames as there are. Frames
// are views into its buffer, valid until the next call to Free.
//
//	n, err := conn.Read(r.Free())
//	r.Filled(n)
//	for {
//		f, err := r.Next()
//		...
//	}
type Reader struct {
	limits     Limits
	buf        []byte
	start, end int  // the bytes that are in and not yet out
	want       int  // bytes at buf[start:] that end the frame under way, 0 when none is
	full       bool // the last read filled the buffer
}

// NewReader returns a reader that holds readerMin bytes until it needs more.
func NewReader(limits Limits) *Reader {
	return &Reader{limits: limits, buf: make([]byte, min(readerMin, limits.Buffer))}
}

// Frame is what Next yields. It is of four words, which the compiler keeps in
// registers.
type Frame struct {
	// Bytes is the frame as far as it is there: the whole of it, or for a Long
	// one the header alone. It is empty when more bytes are needed.
	Bytes []byte
	// Rest is the number of bytes of a Long frame's body; they are taken with
	// Take. It is zero for a whole frame.
	Rest int
}

// Head is the frame's header, nil when more bytes are needed.
func (f Frame) Head() *Header {
	if len(f.Bytes) < HeaderSize {
		return nil
	}
	return (*Header)(f.Bytes)
}

// Long reports whether f is larger than what is stored.
func (f Frame) Long() bool { return f.Rest > 0 }

// Free returns the memory for the next read, never empty. It moves what has not
// been taken to the front, so frames yielded before are no longer valid. The
// buffer grows when a read has filled it, and never because a frame claims to be
// long: whoever wants memory has to send that much first.
func (r *Reader) Free() []byte {
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	if r.full && len(r.buf) < r.limits.Buffer {
		grown := make([]byte, min(2*len(r.buf), r.limits.Buffer))
		copy(grown, r.buf[:r.end])
		r.buf, r.full = grown, false
	}
	return r.buf[r.end:]
}

// FreeLimit is Free, but returns no more than what the frame under way still
// needs, or a header's length between two frames: whoever must stop at a frame's
// end reads with it, and takes first what is in of a Long one.
func (r *Reader) FreeLimit() []byte {
	free, want := r.Free(), r.want
	if want == 0 {
		want = HeaderSize
	}
	return free[:min(len(free), want-r.end)]
}

// Filled says that a read put n bytes into what Free returned.
func (r *Reader) Filled(n int) {
	r.end += n
	r.full = r.end == len(r.buf)
}

// Next yields the next frame, an empty Frame when more bytes are needed, or
// a *SizeError or *CommandError when framing is lost. After an error the reader
// must not be used again.
func (r *Reader) Next() (Frame, error) {
	in := r.buf[r.start:r.end]
	if len(in) < HeaderSize {
		r.want = 0
		if len(in) > 0 {
			r.want = HeaderSize
		}
		return Frame{}, nil
	}
	h := (*Header)(in)
	size := Size.Get(h)
	if size < HeaderSize || size > r.limits.MaxFrame {
		return Frame{}, &SizeError{Size: size, Max: r.limits.MaxFrame}
	}
	if !h.Command().Valid() {
		return Frame{}, &CommandError{Command: h.Command()}
	}
	n := int(size)
	if n > r.limits.Store {
		r.want = n - HeaderSize
		r.start += HeaderSize
		return Frame{Bytes: in[:HeaderSize], Rest: n - HeaderSize}, nil
	}
	if len(in) < n {
		r.want = n
		return Frame{}, nil
	}
	r.want = 0
	r.start += n
	return Frame{Bytes: in[:n]}, nil
}

// Begun returns the header of the frame under way, once it is in and its body is
// not: it can be judged before the rest comes. It is valid until the next call to
// Free.
func (r *Reader) Begun() *Header {
	if r.want <= HeaderSize || r.Buffered() < HeaderSize {
		return nil
	}
	return (*Header)(r.buf[r.start:])
}

// Break yields the frame that has begun as a Long one, whatever its size: its body
// is taken in pieces and not gathered.
func (r *Reader) Break() Frame {
	in := r.buf[r.start:r.end]
	r.want -= HeaderSize
	r.start += HeaderSize
	return Frame{Bytes: in[:HeaderSize], Rest: r.want}
}

// Take yields up to n bytes of a Long frame's body, none when more bytes are
// needed or the frame has ended. They are valid until the next call to Free.
func (r *Reader) Take(n int) []byte {
	p := r.buf[r.start:min(r.end, r.start+min(n, r.want))]
	r.start += len(p)
	r.want -= len(p)
	return p
}

// Buffered returns how many bytes are in and not yet out.
func (r *Reader) Buffered() int { return r.end - r.start }

// Held returns the memory the reader holds, in bytes.
func (r *Reader) Held() int { return len(r.buf) }

// Grown reports whether the reader holds more than it rests with.
func (r *Reader) Grown() bool { return len(r.buf) > readerMin }

// Rest gives back what traffic has grown the buffer by, when nothing is in it.
func (r *Reader) Rest() {
	if r.Grown() && !r.Inside() {
		*r = *NewReader(r.limits)
	}
}

// Inside reports whether the stream stands inside a frame and not at a boundary:
// part of one is in, or a Long one has not been taken to its end.
func (r *Reader) Inside() bool { return r.start != r.end || r.want > 0 }
