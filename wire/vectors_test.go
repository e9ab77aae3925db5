package wire

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/zeebo/xxh3"
)

// The vectors of docs/PROTOCOL.md, appendix A: computed apart from this package.

// unhex reads a vector.
func unhex(tb testing.TB, text string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// §0: the first half of BLAKE3(name), in the digest's order.
func TestClusterIDVectors(t *testing.T) {
	for name, want := range map[string]string{
		"iggy-cluster": "21bb05c88727bab88d0ec27be8a72d46",
		"test-cluster": "fa4ea7b6db2917e00eb3a1b68ee4581d",
	} {
		id := ClusterIDOf(name)
		if got := hex.EncodeToString(id[:]); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		var h Header
		h.SetClusterID(id)
		if got := hex.EncodeToString(h[32:48]); got != want || h.ClusterID() != id {
			t.Errorf("%s: got %s in the header, want %s", name, got, want)
		}
	}
}

// §4.1: XXH3-64 with seed 0, widened with zeros.
func TestHashVectors(t *testing.T) {
	for text, want := range map[string]uint64{"": 0x2d06800538d394c2, "abc": 0x78af5f94892f3950} {
		if got := Hash([]byte(text)); got != want {
			t.Errorf("Hash(%q): got %x, want %x", text, got, want)
		}
	}
	if got := Wide(7); got != (U128{Lo: 7}) || got.IsZero() || !Wide(0).IsZero() || (U128{Hi: 1}).IsZero() {
		t.Errorf("Wide(7): got %v", got)
	}
}

// §4.5: the seal of a metadata prepare without a body is the hash of nothing; a
// DoViewChange without a suffix carries zero.
func TestBodySealVectors(t *testing.T) {
	if got := BodySeal([]byte("abc")); got != Wide(0x78af5f94892f3950) {
		t.Errorf("got %x", got)
	}
	if got := BodySeal(nil); !got.IsZero() {
		t.Errorf("got %x for no body, want zero", got)
	}
	var v BodyVerifier
	h := registerPrepare(7)
	if err := v.Verify(&h, nil); err != nil || BodyKindOf(&h) != BodySealed {
		t.Errorf("XXH3 of nothing: got %v", err)
	}
	ChecksumBody.Set(&h, Wide(0x2d06800538d394c3))
	if err := v.Verify(&h, nil); err != errBodySeal {
		t.Errorf("another hash than of nothing: got %v, want %v", err, errBodySeal)
	}
}

func commit() (h Header) {
	h.SetCommand(Commit)
	h.SetClusterID(ClusterIDOf("iggy-cluster"))
	Size.Set(&h, HeaderSize)
	View.Set(&h, 7)
	Replica.Set(&h, 1)
	CommitToken.Set(&h, 123456789)
	CommitCommit.Set(&h, 42)
	CommitGroup.Set(&h, MetadataGroup)
	Seal(&h)
	return h
}

func registerPrepare(view uint32) (h Header) {
	h.SetCommand(Prepare)
	h.SetClusterID(ClusterIDOf("iggy-cluster"))
	ChecksumBody.Set(&h, Wide(0x2d06800538d394c2))
	Size.Set(&h, HeaderSize)
	View.Set(&h, view)
	Replica.Set(&h, 1)
	PrepareClient.Set(&h, Wide(0x99))
	PrepareOp.Set(&h, 5)
	PrepareCommit.Set(&h, 4)
	PrepareTimestamp.Set(&h, 1700000000000000)
	PrepareOperation.Set(&h, uint8(OpRegister))
	PrepareGroup.Set(&h, MetadataGroup)
	PrepareUser.Set(&h, 1)
	Seal(&h)
	return h
}

// §4.3: the seal of a Commit, as a number and as bytes.
func TestFrameSealVector(t *testing.T) {
	h := commit()
	if got := FrameSeal(&h); got != Wide(0x3759a79b89eb447a) {
		t.Errorf("got seal %x, want 3759a79b89eb447a", got)
	}
	if got := hex.EncodeToString(h[:16]); got != "7a44eb899ba759370000000000000000" || !SealOK(&h) {
		t.Errorf("got bytes %s, seal holds: %v", got, SealOK(&h))
	}
}

// §4.3: all of 16..256 is under the seal, the upper half of the checksum counts,
// and zero is no bypass.
func TestFrameSealCovers(t *testing.T) {
	good := commit()
	for i := range good {
		h := good
		h[i] ^= 0x80
		if SealOK(&h) {
			t.Errorf("a bit of byte %d changed, and the seal holds", i)
		}
	}
	h := good
	Checksum.Set(&h, U128{})
	if SealOK(&h) {
		t.Error("the seal holds with checksum zero")
	}
}

// §4.4: one identity for every view and for the form of a repair.
func TestIdentityVector(t *testing.T) {
	for _, view := range []uint32{0, 7, 8, 1 << 31} {
		for _, c := range []Command{Prepare, RepairPrepare} {
			h := registerPrepare(view)
			h.SetCommand(c)
			if got := Identity(&h); got != Wide(0x5803106f7a9623a3) {
				t.Errorf("view %d, %v: got identity %x, want 5803106f7a9623a3", view, c, got)
			}
			if got := Checksum.Get(&h); got != Wide(0x5803106f7a9623a3) {
				t.Errorf("view %d, %v: got checksum %x", view, c, got)
			}
			Checksum.Set(&h, U128{})
			if Seal(&h); Checksum.Get(&h) != Wide(0x5803106f7a9623a3) {
				t.Errorf("view %d, %v: Seal wrote %x", view, c, h[:16])
			}
		}
	}
}

// §4.4: every byte but checksum, view and the command is part of the identity.
func TestIdentityCovers(t *testing.T) {
	good := registerPrepare(7)
	for i := range good {
		h := good
		h[i] ^= 0x80
		free := i < 16 || i >= 52 && i < 56 || i == 60
		if same := Identity(&h) == Identity(&good); same != free {
			t.Errorf("byte %d: identity unchanged: %v, want %v", i, same, free)
		}
	}
}

// Seal writes nothing where a command carries no checksum of its own (§1.0).
func TestSealLeavesTheRestAlone(t *testing.T) {
	for c := range Command(255) {
		h := commit()
		h.SetCommand(c)
		Checksum.Set(&h, U128{1, 2})
		Seal(&h)
		want := le.AppendUint64(le.AppendUint64(nil, 1), 2)
		switch {
		case refSealed(byte(c)):
			want = refPrint(h[16:])
		case c == 6 || c == 19:
			want = refIdentity(h[:])
		}
		if !bytes.Equal(h[:16], want) {
			t.Errorf("%v: got checksum %x, want %x", c, h[:16], want)
		}
	}
}

// hello is the batch of appendix A.
func hello() []byte {
	body := make([]byte, BatchHeaderSize+MessageHeaderSize+5)
	le.PutUint64(body[BatchPartition:], 3)
	le.PutUint64(body[BatchBaseOffset:], 10)
	le.PutUint64(body[BatchBaseTimestamp:], 1700000000000000)
	le.PutUint64(body[BatchOriginTimestamp:], 1699999999000000)
	le.PutUint64(body[BatchLength:], 309)
	le.PutUint32(body[BatchCount:], 1)
	m := body[BatchHeaderSize:]
	le.PutUint64(m[MessageID:], 1)
	le.PutUint32(m[MessagePayload:], 5)
	copy(m[MessageHeaderSize:], "hello")
	SealBatch(body)
	return body
}

// §5.2, §5.3: the checksums of a message and of its batch.
func TestBatchVector(t *testing.T) {
	body := hello()
	if got := le.Uint64(body[BatchHeaderSize+MessageChecksum:]); got != 0xb9bfbddb9ea55c8e {
		t.Errorf("got message checksum %x, want b9bfbddb9ea55c8e", got)
	}
	if got := le.Uint64(body[BatchChecksum:]); got != 0x3ca4c488abebe4ce {
		t.Errorf("got batch checksum %x, want 3ca4c488abebe4ce", got)
	}
	if !refBatch(body, 1700000000000000) {
		t.Error("the batch does not hold by the clauses")
	}
}

// §6.1: a manifest of one entry, byte for byte.
func TestManifestVector(t *testing.T) {
	want := unhex(t, "49534d31010000001900c0000000000000000e000000000000000b9f080384ac8e2942af98868a0b53da")
	artifact := Artifact{Kind: MetadataSnapshot, Frontier: 192, Len: 14, Checksum: xxh3.HashString("snapshot-bytes")}
	if got := AppendManifest([]byte("before"), []Artifact{artifact}); !bytes.Equal(got, append([]byte("before"), want...)) {
		t.Errorf("got %x, want %x", got, want)
	}
	got, err := DecodeManifest(want)
	if err != nil || len(got) != 1 || got[0] != artifact {
		t.Errorf("got %v, %v, want %v", got, err, artifact)
	}
}
