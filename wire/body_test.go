package wire

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// inAnyPieces returns the verdict on a frame's body, after it has held the verdict
// on the whole against those on the body byte by byte and in random pieces. One
// verifier sees them all, so a frame must leave nothing behind for the next.
func inAnyPieces(t testing.TB, f []byte) error {
	t.Helper()
	h, body := (*Header)(f), f[HeaderSize:]
	rng := rand.New(rand.NewPCG(uint64(len(f)), Hash(f)))
	var v BodyVerifier
	whole := v.Verify(h, body)
	pieces := func(how string, next func() int) {
		v.Start(h)
		for p := body; len(p) > 0; {
			n := min(next(), len(p))
			v.Write(p[:n])
			p = p[n:]
		}
		if got := v.Sum(); got != whole {
			t.Fatalf("%v of %d bytes: got %v %s, %v as a whole", h.Command(), len(f), got, how, whole)
		}
	}
	if len(body) <= 8<<10 {
		pieces("byte by byte", func() int { return 1 })
	}
	pieces("in small pieces", func() int { return rng.IntN(70) })
	pieces("in pieces", func() int { return rng.IntN(5000) })
	pieces("in halves", func() int { return max(len(body)/2, 1) })
	pieces("in one piece", func() int { return len(body) })
	if again := v.Verify(h, body); again != whole {
		t.Fatalf("%v of %d bytes: got %v the second time, %v the first", h.Command(), len(f), again, whole)
	}
	return whole
}

// The verdict on a recorded body does not depend on how it arrives (§4.5, §5, §6),
// and neither does that on a body with one bit changed.
func TestRecordedBodiesInPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range recordings(t) {
		kind := BodyKindOf(r.head())
		if len(r.body()) == 0 {
			continue
		}
		if got := inAnyPieces(t, r.bytes); got != nil {
			t.Errorf("%v: got %v", r, got)
		}
		f := bytes.Clone(r.bytes)
		f[HeaderSize+rng.IntN(len(f)-HeaderSize)] ^= 1 << rng.IntN(8)
		got := inAnyPieces(t, f)
		var fault BodyError
		if errors.As(got, &fault) != (kind != BodyUnsealed) {
			t.Errorf("%v, one bit changed: got %v for a body of kind %d", r, got, kind)
		}
	}
}

// A message straddles pieces at each of its bytes: every cut of a batch in two and
// in three (§5.2).
func TestBatchCutEverywhere(t *testing.T) {
	f := send(sealedBatch(fourMessages()...))
	bad := bytes.Clone(f)
	bad[len(bad)-1] ^= 1 // the last message's user headers
	var v BodyVerifier
	for i := HeaderSize; i <= len(f); i++ {
		for j := i; j <= len(f); j += 1 + (j-i)/8 {
			for _, row := range []struct {
				f    []byte
				want error
			}{{f, nil}, {bad, errMessageSum}} {
				v.Start((*Header)(row.f))
				v.Write(row.f[HeaderSize:i])
				v.Write(row.f[i:j])
				v.Write(row.f[j:])
				if got := v.Sum(); got != row.want {
					t.Fatalf("cut at %d and %d: got %v, want %v", i, j, got, row.want)
				}
			}
		}
	}
}

// The streaming hash is the one-shot hash at every length (§4.1), around all the
// block sizes that XXH3 has inside.
func TestSealedBodyLengths(t *testing.T) {
	var f []byte
	for n := range 2500 {
		f = append(f[:0], make([]byte, HeaderSize)...)
		for i := range n {
			f = append(f, byte(i*31+n))
		}
		h := (*Header)(f)
		h.SetCommand(Prepare)
		Size.Set(h, uint32(len(f)))
		PrepareOperation.Set(h, uint8(OpRegister))
		copy(h[16:32], refPrint(f[HeaderSize:]))
		if got := inAnyPieces(t, f); got != nil || BodyKindOf(h) != BodySealed {
			t.Fatalf("§4.5 %d bytes: got %v", n, got)
		}
		h[16+n%16] ^= 1
		if got := inAnyPieces(t, f); got != errBodySeal {
			t.Fatalf("§4.5 %d bytes, byte %d of the seal changed: got %v", n, n%16, got)
		}
	}
}

// §4.5, §5.6, §6.4: which commands carry which seal.
func TestBodyKinds(t *testing.T) {
	type edit = func(h *Header)
	seal := set128(ChecksumBody, U128{Hi: 1})
	long := set32(Size, 512)
	op := func(o Operation) edit { return set8(PrepareOperation, uint8(o)) }
	for _, row := range []struct {
		name string
		c    []Command
		edit edit
		want BodyKind
	}{
		{"§5 SendMessages", prepares, op(OpSendMessages), BodyBatch},
		{"§5 SendMessages with a body seal", prepares, both(op(OpSendMessages), seal), BodyBatch},
		{"§4.5 metadata", prepares, both(op(128), seal), BodySealed},
		{"§4.5 metadata without a body", prepares, both(op(OpRegister), seal, set32(Size, 256)), BodySealed},
		{"§4.5 checksum_body zero is not looked at", prepares, op(128), BodyUnsealed},
		{"§5.6 consumer offset", prepares, op(OpStoreConsumerOffset), BodyUnsealed},
		{"§5.6 consumer offset with a body seal", prepares, both(op(OpDeleteConsumerOffset), seal), BodySealed},
		{"§4.5 suffix", []Command{DoViewChange, StartView}, long, BodySealed},
		{"§4.5 no suffix, and the seal is not looked at", []Command{DoViewChange, StartView}, both(set32(Size, 256), seal), BodyUnsealed},
		{"§6.1 manifest", []Command{StateTransferTarget}, both(long, set8(TargetAvailable, 1)), BodyManifest},
		{"§6.1 manifest that is missing", []Command{StateTransferTarget}, both(set32(Size, 256), set8(TargetAvailable, 1)), BodyManifest},
		{"§6.1 refused transfer", []Command{StateTransferTarget}, both(set32(Size, 256), set8(TargetAvailable, 0)), BodyUnsealed},
		{"§6.4 chunk", []Command{StateChunk}, both(long, seal), BodyUnsealed},
		{"§4.5 never looked at elsewhere", []Command{0, 5, 7, 8, 9, 10, 13, 14, 17, 20, 22, 24, 26, 29, 30}, both(long, seal), BodyUnsealed},
	} {
		for _, c := range row.c {
			h := *(*Header)(frame(c, 0, 0, nil))
			row.edit(&h)
			if got := BodyKindOf(&h); got != row.want {
				t.Errorf("%s, %v: got %d, want %d", row.name, c, got, row.want)
			}
		}
	}
}

// §4.5: a suffix with checksum_body zero is a mismatch; without a suffix the field
// is not looked at.
func TestSuffixSeal(t *testing.T) {
	for _, f := range [][]byte{doViewChange(40, 37, U128{}, U128{}, links()...), startView(40, 37, U128{}, links()...)} {
		if got := inAnyPieces(t, f); got != nil {
			t.Errorf("§4.5: got %v", got)
		}
		ChecksumBody.Set((*Header)(f), U128{})
		if got := inAnyPieces(t, f); got != errBodySeal {
			t.Errorf("§4.5 checksum_body zero: got %v, want %v", got, errBodySeal)
		}
		f = f[:HeaderSize]
		Size.Set((*Header)(f), HeaderSize)
		ChecksumBody.Set((*Header)(f), Wide(1))
		if got := inAnyPieces(t, f); got != nil {
			t.Errorf("§4.5 without a body: got %v", got)
		}
	}
}

// §6.1, rule by rule.
func TestManifestRefusals(t *testing.T) {
	two := []Artifact{{MetadataSnapshot, 1, 2, 3}, {SegmentLog, 4, 5, 6}}
	good := AppendManifest(nil, two)
	// edited is a manifest with a trailer that matches again.
	edited := func(b []byte, edit func(b []byte)) []byte {
		b = bytes.Clone(b)
		edit(b)
		le.PutUint64(b[len(b)-8:], Hash(b[:len(b)-8]))
		return b
	}
	count := func(n uint32) func([]byte) { return func(b []byte) { le.PutUint32(b[4:], n) } }
	entry := func(n byte) func([]byte) { return func(b []byte) { b[8] = n } }
	for _, row := range []struct {
		name string
		body []byte
		want error
	}{
		{"two entries", good, nil},
		{"none", AppendManifest(nil, nil), nil},
		{"entries of 26", longEntries(26, two...), nil},
		{"entries of 255", longEntries(255, two...), nil},
		{"nothing", nil, errManifestShort},
		{"16 bytes", good[:16], errManifestShort},
		{"trailer", append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1), errManifestTrailer},
		{"an entry changed", append([]byte{good[0], good[1], good[2], good[3] ^ 1}, good[4:]...), errManifestTrailer},
		{"a byte behind the trailer", append(bytes.Clone(good), 0), errManifestTrailer},
		{"magic", edited(good, func(b []byte) { b[3] = '2' }), errManifestMagic},
		{"count above 65536", edited(good, count(65537)), errManifestCount},
		{"count of 2^32-1", edited(good, count(1<<32-1)), errManifestCount},
		{"entries of 24", edited(good, entry(24)), errManifestEntry},
		{"entries of 0", edited(good, entry(0)), errManifestEntry},
		{"count of 1 in front of two", edited(good, count(1)), errManifestShape},
		{"count of 3 in front of two", edited(good, count(3)), errManifestShape},
		{"entries of 26 that have 25", edited(good, entry(26)), errManifestShape},
		{"a byte between entries and trailer", edited(append(bytes.Clone(good), 0), func([]byte) {}), errManifestShape},
		{"trailer before magic", append([]byte("ISM2"), good[4:]...), errManifestTrailer},
	} {
		if got := inAnyPieces(t, target(row.body, 1, 0)); got != row.want {
			t.Errorf("§6.1 %s: got %v, want %v", row.name, got, row.want)
		}
		artifacts, err := DecodeManifest(row.body)
		if err != row.want || err != nil && artifacts != nil {
			t.Errorf("§6.1 %s: decoded: got %v, %v, want %v", row.name, artifacts, err, row.want)
		}
		if _, ok := refManifest(row.body); ok != (row.want == nil) {
			t.Errorf("§6.1 %s: by the clauses %v", row.name, ok)
		}
	}
}

// §6.1: the largest manifest, and what HonestSize thinks of it.
func TestManifestLargest(t *testing.T) {
	all := make([]Artifact, 65536)
	body := AppendManifest(nil, all)
	if got := inAnyPieces(t, target(body, 1, 0)); got != nil || len(body) != ManifestMax {
		t.Errorf("65536 entries: got %v, %d bytes", got, len(body))
	}
	if got := inAnyPieces(t, target(AppendManifest(nil, append(all, Artifact{})), 1, 0)); got != errManifestCount {
		t.Errorf("65537 entries: got %v, want %v", got, errManifestCount)
	}
}

// What the errors print (house rule: pkg: got X, want Y). The text is for people;
// nobody branches on it.
func TestErrorTexts(t *testing.T) {
	for _, err := range []error{errBodySeal, errBatchCount, errManifestMagic, errSize256, errRequestSession,
		&SizeError{255, 1024}, &CommandError{31}} {
		if !strings.HasPrefix(err.Error(), "wire: ") || !strings.Contains(err.Error(), "got") {
			t.Errorf("got %q", err)
		}
	}
	for _, err := range []error{&SizeError{255, 1024}, &CommandError{31}} {
		if !strings.Contains(err.Error(), "want") {
			t.Errorf("got %q", err)
		}
	}
}
