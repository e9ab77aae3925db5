package wire

import (
	"bytes"
	"testing"
)

// rebuild builds a header anew from zeroed memory: every field is written by its
// setter with what its accessor returned.
func rebuild(h *Header) *Header {
	var out Header
	for _, f := range allFields(h.Command()) {
		f.set(&out, f.get(h))
	}
	return &out
}

// Every recorded header is what its fields say and nothing more (§0, §1), and Seal
// finds its checksum again (§4.3, §4.4).
func TestRebuildHeaders(t *testing.T) {
	for _, r := range recordings(t) {
		got := rebuild(r.head())
		if *got != *r.head() {
			t.Fatalf("%v: the fields make\n%x\nwant\n%x", r, got[:], r.bytes[:256])
		}
		if c := got.Command(); c.ReplicaPlane() {
			Checksum.Set(got, U128{})
			if Seal(got); *got != *r.head() {
				t.Fatalf("%v: got checksum %x, want %x", r, got[:16], r.bytes[:16])
			}
		}
		named := *got // the fields that have a method of their own
		named.SetCommand(Reserved)
		named.SetClusterID(ClusterID{})
		named.SetCommand(r.head().Command())
		named.SetClusterID(r.head().ClusterID())
		if named != *r.head() {
			t.Fatalf("%v: SetCommand and SetClusterID write elsewhere than the accessors read", r)
		}
	}
}

// Handshake frames come out of their constructors as a real replica wrote them (§1.8).
func TestRebuildHandshakes(t *testing.T) {
	forms := map[string]int{}
	for _, r := range recordings(t) {
		h := r.head()
		var got Header
		var form string
		switch h.Command() {
		case ReplicaHello:
			got, form = NewHello(h.ClusterID(), Replica.Get(h), h.Nonce()), "hello"
			if !h.HasNonce() {
				got, form = NewHello(h.ClusterID(), Replica.Get(h), nil), "hello without nonce"
			}
		case ReplicaChallenge:
			got, form = NewChallenge(h.ClusterID(), Replica.Get(h), h.Nonce(), h.MAC()), "challenge"
		case ReplicaFinish:
			got, form = NewFinish(h.ClusterID(), Replica.Get(h), h.MAC()), "finish"
		default:
			continue
		}
		forms[form]++
		if got != *h {
			t.Errorf("%v: got\n%x\nwant\n%x", r, got[:], h[:])
		}
	}
	if len(forms) != 4 {
		t.Errorf("got the forms %v, want all four", forms)
	}
}

// The bodies that have a structure are built anew too: suffixes entry by entry
// (§4.6), batches field by field (§5), manifests through their encoder (§6.1).
func TestRebuildBodies(t *testing.T) {
	seen := map[string]int{}
	for _, r := range recordings(t) {
		h := r.head()
		var got []byte
		var kind string
		switch {
		case len(r.body()) == 0:
			continue
		case h.Command() == DoViewChange, h.Command() == StartView:
			got, kind = rebuildSuffix(r.body()), "suffix"
			if BodySeal(got) != ChecksumBody.Get(h) {
				t.Errorf("%v: §4.5 body seal", r)
			}
		case BodyKindOf(h) == BodyBatch:
			got, kind = rebuildBatch(r.body()), "batch"
		case BodyKindOf(h) == BodyManifest:
			artifacts, err := DecodeManifest(r.body())
			if err != nil {
				t.Errorf("%v: %v", r, err)
			}
			got, kind = AppendManifest(nil, artifacts), "manifest"
		default:
			continue
		}
		seen[kind]++
		if !bytes.Equal(got, r.body()) {
			t.Errorf("%v: §4.6, §5, §6.1: the %s is not what its fields say", r, kind)
		}
	}
	for _, kind := range []string{"suffix", "batch", "manifest"} {
		if seen[kind] == 0 {
			t.Errorf("no recorded %s", kind)
		}
	}
}

func rebuildSuffix(body []byte) []byte {
	out := make([]byte, len(body))
	from, to := Suffix(body), Suffix(out)
	for i := range from.Len() {
		e := from.Entry(i)
		if op := PrepareOp.Get(e); Blank(e, op) {
			SetBlank(to.Entry(i), op)
			continue
		}
		*to.Entry(i) = *rebuild(e)
	}
	return out
}

// batchField is a line of the tables of §5.1 and §5.2: the package's offset and
// the length.
type batchField struct{ at, want, len int }

var batchFields = []batchField{
	{BatchPartition, 0, 8}, {BatchBaseOffset, 8, 8}, {BatchBaseTimestamp, 16, 8}, {BatchOriginTimestamp, 24, 8},
	{BatchLength, 32, 8}, {BatchChecksum, 40, 8}, {BatchCount, 48, 4},
}

var messageFields = []batchField{
	{MessageChecksum, 0, 8}, {MessageID, 8, 16}, {MessageOffset, 24, 4}, {MessageTimestamp, 28, 4},
	{MessageUserHeaders, 32, 4}, {MessagePayload, 36, 4},
}

// The offsets inside a batch (§5.1, §5.2).
func TestBatchOffsets(t *testing.T) {
	for _, f := range append(batchFields, messageFields...) {
		if f.at != f.want {
			t.Errorf("§5.1, §5.2: got offset %d, want %d", f.at, f.want)
		}
	}
}

// rebuildBatch copies what the named offsets cover, and leaves both kinds of
// checksum to SealBatch.
func rebuildBatch(body []byte) []byte {
	out := make([]byte, len(body))
	for _, f := range batchFields {
		copy(out[f.at:f.at+f.len], body[f.at:])
	}
	clear(out[BatchChecksum : BatchChecksum+8])
	for at := BatchHeaderSize; at < len(body); {
		m := body[at:]
		payload, headers := int(le.Uint32(m[MessagePayload:])), int(le.Uint32(m[MessageUserHeaders:]))
		for _, f := range messageFields[1:] {
			copy(out[at+f.at:at+f.at+f.len], m[f.at:])
		}
		end := MessageHeaderSize + payload + headers
		copy(out[at+MessageHeaderSize:], m[MessageHeaderSize:end])
		at += end
	}
	SealBatch(out)
	return out
}
