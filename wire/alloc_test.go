package wire

import (
	"testing"

	"github.com/zeebo/xxh3"
)

// The frame path takes no memory (house rule 2). What is timed below is what is
// pinned here.

// sink keeps the compiler from removing what is measured.
var sink struct {
	ok    bool
	err   error
	sum   U128
	hash  uint64
	frame Frame
}

// oneOfEach is the first recorded frame of each command.
func oneOfEach(tb testing.TB) (frames []recorded) {
	tb.Helper()
	seen := map[byte]bool{}
	for _, r := range recordings(tb) {
		if c := r.bytes[60]; !seen[c] {
			seen[c] = true
			frames = append(frames, r)
		}
	}
	return frames
}

func noAllocs(t *testing.T, name string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s: got %v allocations, want none", name, n)
	}
}

func TestHeaderChecksDoNotAllocate(t *testing.T) {
	for _, r := range oneOfEach(t) {
		h := r.head()
		bad := *h
		bad[255], bad[62] = 99, 1
		Release.Set(&bad, 1)
		noAllocs(t, "SealOK", func() { sink.ok = SealOK(h) })
		noAllocs(t, "Identity", func() { sink.sum = Identity(h) })
		noAllocs(t, "Seal", func() { Seal(&bad) })
		noAllocs(t, "Validate", func() { sink.err = Validate(h) })
		noAllocs(t, "Validate that refuses", func() { sink.err = Validate(&bad) })
		noAllocs(t, "reserved", func() { sink.ok = ReservedFrameZero(h) && ReservedTailZero(h) })
		noAllocs(t, "HonestSize", func() { sink.ok = h.Command().HonestSize(Size.Get(h), maxFrame) })
		noAllocs(t, "HandshakeClean", func() { sink.ok = HandshakeClean(h) })
		noAllocs(t, "Operation and Group", func() { _, sink.ok = h.Operation(); sink.hash, _ = h.Group() })
		noAllocs(t, "ClusterID", func() { sink.ok = h.ClusterID() == testCluster })
	}
	rejected := (*Header)(request(OpLogout, 0, 0, 0))
	noAllocs(t, "ValidateRequest", func() { sink.err = ValidateRequest(rejected) })
}

func TestBodyChecksDoNotAllocate(t *testing.T) {
	full := suffix(chain(500, 128)...)
	noAllocs(t, "CheckSuffix", func() { sink.err = CheckSuffix(500, full) })
	noAllocs(t, "CheckSuffix that refuses", func() { sink.err = CheckSuffix(501, full) })
	var v BodyVerifier
	for name, f := range bodies() {
		h, body := (*Header)(f), f[HeaderSize:]
		bad := append([]byte(nil), f...)
		bad[len(bad)-1] ^= 1
		noAllocs(t, name, func() { sink.err = v.Verify(h, body) })
		noAllocs(t, name+" in pieces", func() {
			v.Start(h)
			for p := body; len(p) > 0; p = p[min(100, len(p)):] {
				v.Write(p[:min(100, len(p))])
			}
			sink.err = v.Sum()
		})
		noAllocs(t, name+" refused", func() { sink.err = v.Verify((*Header)(bad), bad[HeaderSize:]) })
		if sink.err == nil {
			t.Errorf("%s with a bit changed: got no error", name)
		}
	}
}

// bodies is one frame for each kind of seal, about 16 KiB of body where it can be.
func bodies() map[string][]byte {
	var messages [][]byte
	for i := range 16 {
		messages = append(messages, message(uint64(i), string(make([]byte, 1000)), "k", uint32(i), 0))
	}
	metadata := entry(9, 1009, Wide(0x808))
	sealed := append(metadata[:], make([]byte, 16<<10)...)
	Size.Set((*Header)(sealed), uint32(len(sealed)))
	ChecksumBody.Set((*Header)(sealed), BodySeal(sealed[HeaderSize:]))
	return map[string][]byte{
		"Verify a batch":    send(sealedBatch(messages...)),
		"Verify a seal":     sealed,
		"Verify a manifest": target(AppendManifest(nil, make([]Artifact, 600)), 1, 0),
	}
}

// steady is a reader that has grown as far as it will, and a read's worth of
// frames for it.
func steady() (r *Reader, stream []byte, frames int) {
	r = NewReader(Limits{MaxFrame: maxFrame, Store: 256 << 10, Buffer: 256 << 10})
	h := commit()
	for len(stream) < 256<<10 {
		stream = append(stream, h[:]...)
		frames++
	}
	for r.Held() < 256<<10 {
		pump(r, stream)
	}
	return r, stream, frames
}

// pump puts in one read and takes out all frames.
func pump(r *Reader, stream []byte) (frames int) {
	r.Filled(copy(r.Free(), stream))
	for {
		f, err := r.Next()
		if f.Head() == nil || err != nil {
			return frames
		}
		sink.frame = f
		frames++
	}
}

func TestReaderDoesNotAllocate(t *testing.T) {
	r, stream, want := steady()
	noAllocs(t, "Free, Filled, Next", func() {
		if got := pump(r, stream); got != want {
			t.Fatalf("got %d frames, want %d", got, want)
		}
	})
	long := claim(StateChunk, 1<<20)
	noAllocs(t, "a long frame", func() {
		r.Filled(copy(r.Free(), long))
		f, err := r.Next()
		if err != nil || !f.Long() {
			t.Fatalf("got %v, long %v", err, f.Long())
		}
		for rest := f.Rest; rest > 0; rest -= len(r.Take(rest)) {
			r.Filled(min(len(r.FreeLimit()), rest))
		}
	})
}

func BenchmarkHeader(b *testing.B) {
	h := commit()
	p := registerPrepare(7)
	limit := uint32(maxFrame)
	b.Run("XXH3-raw-240", func(b *testing.B) {
		for b.Loop() {
			sink.hash = xxh3.Hash(h[16:])
		}
	})
	b.Run("SealOK", func(b *testing.B) {
		for b.Loop() {
			sink.ok = SealOK(&h)
		}
	})
	b.Run("size-and-seal", func(b *testing.B) {
		for b.Loop() {
			size := Size.Get(&h)
			sink.ok = size >= HeaderSize && size <= limit && h.Command().Valid() && SealOK(&h)
		}
	})
	b.Run("Identity", func(b *testing.B) {
		for b.Loop() {
			sink.sum = Identity(&p)
		}
	})
	b.Run("Validate", func(b *testing.B) {
		for b.Loop() {
			sink.err = Validate(&p)
		}
	})
	b.Run("reserved", func(b *testing.B) {
		for b.Loop() {
			sink.ok = ReservedFrameZero(&h) && ReservedTailZero(&h)
		}
	})
}

func BenchmarkBody(b *testing.B) {
	full := suffix(chain(500, 128)...)
	b.Run("CheckSuffix-128", func(b *testing.B) {
		b.SetBytes(int64(len(full)))
		for b.Loop() {
			sink.err = CheckSuffix(500, full)
		}
	})
	var v BodyVerifier
	for name, f := range bodies() {
		h, body := (*Header)(f), f[HeaderSize:]
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				sink.err = v.Verify(h, body)
			}
		})
		b.Run(name+" against raw XXH3", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				sink.hash = xxh3.Hash(body)
			}
		})
	}
}

// The time is that of one frame of 256 bytes.
func BenchmarkReader(b *testing.B) {
	r, stream, frames := steady()
	for _, row := range []struct {
		name  string
		check bool
	}{{"Next", false}, {"Next-and-SealOK", true}} {
		b.Run(row.name, func(b *testing.B) {
			b.SetBytes(HeaderSize)
			for n := 0; n < b.N; n += frames {
				r.Filled(copy(r.Free(), stream))
				for f, _ := r.Next(); f.Head() != nil; f, _ = r.Next() {
					if row.check {
						sink.ok = SealOK(f.Head())
					}
				}
			}
		})
	}
}
