package wire

import (
	"bytes"
	"os"
	"slices"
	"testing"
)

// Shapes that no recording has. The files of testdata were written by a program
// of their own (testdata/README.md); here the same frames are built through the
// setters and compared.

// shape reads a golden file and cuts it into frames.
func shape(tb testing.TB, name string) [][]byte {
	tb.Helper()
	b, err := os.ReadFile("testdata/" + name + ".bin")
	if err != nil {
		tb.Fatal(err)
	}
	var frames [][]byte
	for len(b) > 0 {
		size := le.Uint32(b[48:])
		frames = append(frames, b[:size:size])
		b = b[size:]
	}
	return frames
}

// sameShapes holds frames against a golden file.
func sameShapes(t *testing.T, name string, frames ...[]byte) {
	t.Helper()
	want := shape(t, name)
	if len(frames) != len(want) {
		t.Fatalf("%s: got %d frames, want %d", name, len(frames), len(want))
	}
	for i := range frames {
		if !bytes.Equal(frames[i], want[i]) {
			t.Errorf("%s, frame %d: got\n%x\nwant\n%x", name, i, frames[i], want[i])
		}
	}
}

// frame begins a frame of the recordings' cluster.
func frame(c Command, view uint32, replica uint8, body []byte) []byte {
	f := append(make([]byte, HeaderSize), body...)
	h := (*Header)(f)
	h.SetCommand(c)
	h.SetClusterID(ClusterIDOf("iggy-cluster"))
	Size.Set(h, uint32(len(f)))
	View.Set(h, view)
	Replica.Set(h, replica)
	return f
}

// entry is a metadata prepare's header as a suffix carries it.
func entry(op, timestamp uint64, parent U128) Header {
	h := *(*Header)(frame(Prepare, 3, 1, nil))
	Size.Set(&h, 300) // the body is not shipped, its length stays
	ChecksumBody.Set(&h, Wide(0xb0d7))
	PrepareClient.Set(&h, Wide(0x99))
	PrepareParent.Set(&h, parent)
	PrepareOp.Set(&h, op)
	PrepareCommit.Set(&h, op-1)
	PrepareTimestamp.Set(&h, timestamp)
	PrepareRequest.Set(&h, 7)
	PrepareOperation.Set(&h, 128)
	PrepareGroup.Set(&h, MetadataGroup)
	PrepareUser.Set(&h, 1)
	Seal(&h)
	return h
}

func blank(op uint64) (h Header) {
	SetBlank(&h, op)
	return h
}

func unsealed(h Header) Header {
	Checksum.Set(&h, U128{})
	return h
}

func suffix(entries ...Header) (body []byte) {
	for i := range entries {
		body = append(body, entries[i][:]...)
	}
	return body
}

func doViewChange(op, commit uint64, nacks, present U128, entries ...Header) []byte {
	body := suffix(entries...)
	f := frame(DoViewChange, 9, 2, body)
	h := (*Header)(f)
	ChecksumBody.Set(h, BodySeal(body))
	ViewOp.Set(h, op)
	ViewCommit.Set(h, commit)
	ViewGroup.Set(h, MetadataGroup)
	DoViewChangeLogView.Set(h, 8)
	DoViewChangeNacks.Set(h, nacks)
	DoViewChangePresent.Set(h, present)
	Seal(h)
	return f
}

func startView(op, commit uint64, incarnation U128, entries ...Header) []byte {
	body := suffix(entries...)
	f := frame(StartView, 9, 2, body)
	h := (*Header)(f)
	ChecksumBody.Set(h, BodySeal(body))
	ViewOp.Set(h, op)
	ViewCommit.Set(h, commit)
	ViewGroup.Set(h, MetadataGroup)
	StartViewIncarnation.Set(h, incarnation)
	Seal(h)
	return f
}

// chain is n linked entries, the highest op first.
func chain(op uint64, n int) []Header {
	entries := make([]Header, n)
	parent := Wide(0x3f4)
	for i := n - 1; i >= 0; i-- {
		o := op - uint64(i)
		entries[i] = entry(o, 100000+o, parent)
		parent = Checksum.Get(&entries[i])
	}
	return entries
}

// suffixShapes are DoViewChange and StartView frames that the recordings lack.
func suffixShapes() map[string][]byte {
	e11 := entry(11, 1011, Wide(0x1010))
	return map[string][]byte{
		// blanks, and their neighbours linked to the nearest valid entry above
		"dvc-blanks": doViewChange(20, 16, U128{}, U128{Lo: 0b10101}, entry(20, 1020, Wide(0x1919)), blank(19),
			entry(18, 1018, Wide(0x1717)), blank(17), entry(16, 1016, Wide(0x1515))),
		"dvc-nacks": doViewChange(20, 17, U128{Lo: 0b0110}, U128{Lo: 0b1001}, entry(20, 1020, Wide(0x1919)), blank(19),
			blank(18), entry(17, 1017, Wide(0x1616))),
		"dvc-128": doViewChange(500, 373, U128{}, U128{^uint64(0), ^uint64(0)}, chain(500, 128)...),
		"dvc-unsealed-entries": doViewChange(12, 10, U128{}, U128{Lo: 0b111},
			unsealed(entry(12, 1012, Checksum.Get(&e11))), e11, unsealed(entry(10, 1010, Wide(0x909)))),
		"dvc-empty": doViewChange(7, 7, U128{}, U128{}),
		// an SV's gap: timestamps compare across it, parents do not
		"sv-gap":   startView(30, 27, U128{0xabc, 0x77}, entry(30, 1030, Wide(0x2929)), blank(29), blank(28), entry(27, 1029, Wide(0x2626))),
		"sv-empty": startView(30, 30, U128{Hi: 0x77}),
	}
}

// §1.6, §1.7, §4.6.
func TestSuffixShapes(t *testing.T) {
	var v BodyVerifier
	for name, f := range suffixShapes() {
		sameShapes(t, name, f)
		h, body := (*Header)(f), f[HeaderSize:]
		if err := Validate(h); err != nil || !SealOK(h) {
			t.Errorf("%s: §1.6, §1.7: got %v, seal holds: %v", name, err, SealOK(h))
		}
		if err := v.Verify(h, body); err != nil {
			t.Errorf("%s: §4.5: got %v", name, err)
		}
		if err := CheckSuffix(ViewOp.Get(h), body); err != nil || !refSuffix(ViewOp.Get(h), body) {
			t.Errorf("%s: §4.6: got %v, by the clauses %v", name, err, refSuffix(ViewOp.Get(h), body))
		}
		if !bytes.Equal(rebuildSuffix(body), body) || *rebuild(h) != *h {
			t.Errorf("%s: does not come back from its fields", name)
		}
	}
}

func target(manifest []byte, available, transient uint8) []byte {
	f := frame(StateTransferTarget, 4, 1, manifest)
	h := (*Header)(f)
	TargetNonce.Set(h, U128{0xa0, 0xa1})
	TargetCommitOp.Set(h, 900)
	TargetGroup.Set(h, MetadataGroup)
	TargetAvailable.Set(h, available)
	TargetTransient.Set(h, transient)
	TargetCommitMax.Set(h, 950)
	Seal(h)
	return f
}

// longEntries is a manifest whose entries have n bytes, as a later Iggy may send.
func longEntries(n int, artifacts ...Artifact) []byte {
	short := AppendManifest(nil, artifacts)
	b := slices.Clone(short[:manifestHead])
	b[8] = byte(n)
	for i := range artifacts {
		b = append(b, short[manifestHead+i*manifestEntry:][:manifestEntry]...)
		b = append(b, bytes.Repeat([]byte{0xee}, n-manifestEntry)...)
	}
	return le.AppendUint64(b, Hash(b))
}

// §1.12, §6.1, §6.2: none, all kinds, unknown kinds, entries of 32 bytes, refusals.
func TestManifestShapes(t *testing.T) {
	kinds := []Artifact{{MetadataSnapshot, 192, 14, 0x1111}, {ClientTable, 193, 9, 0x2222},
		{SegmentLog, 0, 1 << 30, 0x3333}, {ConsumerOffsets, 900, 32, 0x4444}}
	unknown := []Artifact{{4, 1, 2, 3}, {200, 4, 5, 6}, {255, 7, 8, 9}}
	long := []Artifact{{MetadataSnapshot, 192, 14, 0x1111}, {9, 1, 2, 3}}
	frames := [][]byte{target(AppendManifest(nil, nil), 1, 0), target(AppendManifest(nil, kinds), 1, 0),
		target(AppendManifest(nil, unknown), 1, 0), target(longEntries(32, long...), 1, 0), target(nil, 0, 0), target(nil, 0, 1)}
	sameShapes(t, "manifests", frames...)
	var v BodyVerifier
	for i, want := range [][]Artifact{{}, kinds, unknown, long, nil, nil} {
		h, body := (*Header)(frames[i]), frames[i][HeaderSize:]
		if err := Validate(h); err != nil || !SealOK(h) || v.Verify(h, body) != nil {
			t.Errorf("manifest %d: got %v, seal holds: %v, body %v", i, err, SealOK(h), v.Verify(h, body))
		}
		if want == nil {
			continue
		}
		if got, err := DecodeManifest(body); err != nil || !slices.Equal(got, want) {
			t.Errorf("manifest %d: got %v, %v, want %v", i, got, err, want)
		}
	}
}

// §1.2, §4.4: a repaired prepare of an old log without an identity, and a prepare
// whose client set a release (§3.4).
func TestPrepareShapes(t *testing.T) {
	body := []byte("xy")
	repair := append(make([]byte, HeaderSize), body...)
	h := (*Header)(repair)
	*h = unsealed(entry(9, 1009, Wide(0x808)))
	h.SetCommand(RepairPrepare)
	Size.Set(h, uint32(len(repair)))
	ChecksumBody.Set(h, Wide(Hash(body)))
	released := entry(9, 1009, Wide(0x808))
	Size.Set(&released, HeaderSize)
	ChecksumBody.Set(&released, Wide(Hash(nil)))
	Release.Set(&released, 0x010203)
	Seal(&released)
	sameShapes(t, "prepares", repair, released[:])
	var v BodyVerifier
	for _, f := range [][]byte{repair, released[:]} {
		h := (*Header)(f)
		if Validate(h) != nil || v.Verify(h, f[HeaderSize:]) != nil || !ReservedTailZero(h) {
			t.Errorf("%v: got %v, body %v", h.Command(), Validate(h), v.Verify(h, f[HeaderSize:]))
		}
	}
	if Checksum.Get(&released) != Identity(&released) {
		t.Error("§4.4: a release is part of the identity")
	}
}
