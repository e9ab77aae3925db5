package policy_test

import (
	"encoding/binary"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// FuzzJudge: whatever the bytes, sealed or not, nothing panics; what is forwarded
// satisfies, by hashes made here and not by package wire, what the default table
// promises; and a judgement is repeatable and leaves the frame alone.
func FuzzJudge(f *testing.F) {
	for _, c := range replicaPlane() {
		f.Add(honest(c), false)
		f.Add(spoil(honest(c), 9, 1), false)
		f.Add(with(honest(c), setByte(61, 77)), true)
	}
	for _, fault := range suffixFaults() {
		f.Add(fault.frame, true)
	}
	f.Add(sendMessages(5, "hello"), true)
	f.Add(make([]byte, 256), false)
	f.Fuzz(func(t *testing.T, frame []byte, seal bool) {
		if len(frame) < wire.HeaderSize {
			frame = append(frame, make([]byte, wire.HeaderSize-len(frame))...)
		}
		h := (*wire.Header)(frame)
		if !h.Command().Valid() {
			return // the reader's
		}
		wire.Size.Set(h, uint32(len(frame)))
		if seal {
			wire.Seal(h)
		}
		for _, j := range []*policy.Judge{newJudge(t), primedJudge(t)} {
			before := string(frame)
			v := j.Header(h)
			if again := j.Header(h); again != v {
				t.Fatalf("got %+v, then %+v", v, again)
			}
			if v.Action == policy.Forward {
				v = j.Body(h, frame[wire.HeaderSize:], v)
				checkForwarded(t, v, frame)
			}
			j.Forwarded(h, policy.Verdict{}) // whatever it is
			checkVerdict(t, v)
			if string(frame) != before {
				t.Fatal("the judge changed the frame")
			}
		}
	})
}

// primedJudge has a log and tokens in its memories.
func primedJudge(t testing.TB) *policy.Judge {
	j := newJudge(t)
	for _, f := range append(run(7, 1, wire.U128{}, 5), token(3, 1)) {
		look(j, f)
	}
	return j
}

func checkVerdict(t *testing.T, v policy.Verdict) {
	t.Helper()
	decided := v.Action == policy.Drop || v.Action == policy.Close
	switch {
	case v.Action == policy.Observe, decided != (v.Rule != policy.None), v.Observed.Has(policy.None), v.Observed.Has(v.Rule),
		v.Cause != nil && !decided, v.Unframed() && v.Action != policy.Close:
		t.Fatalf("got %+v: the parts contradict each other", v)
	}
}

// checkForwarded holds a forwarded frame against the promises of the default table.
func checkForwarded(t *testing.T, v policy.Verdict, frame []byte) {
	t.Helper()
	if v.Action != policy.Forward {
		return
	}
	h := frame[:256]
	checksum, upper := binary.LittleEndian.Uint64(h), binary.LittleEndian.Uint64(h[8:])
	switch c := h[60]; c {
	case 6, 19:
		var t6 [256]byte
		copy(t6[16:], h[16:])
		clear(t6[52:56])
		t6[60] = 6
		absent := c == 19 && checksum|upper == 0 && v.Observed.Has(policy.IdentityAbsentRepair)
		if !absent && (upper != 0 || checksum != xxh3.Hash(t6[:])) {
			t.Fatalf("forwarded command %d with another identity", c)
		}
	case 7, 9, 10, 11, 12, 17, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29:
		if upper != 0 || checksum != xxh3.Hash(h[16:]) {
			t.Fatalf("forwarded command %d with another seal", c)
		}
		if h[61] != 0 || binary.LittleEndian.Uint32(h[56:]) != 0 {
			t.Fatalf("forwarded command %d from replica %d with release %x", c, h[61], h[56:60])
		}
	default:
		t.Fatalf("forwarded command %d", c)
	}
	if string(h[32:48]) != string(cluster[:]) || h[61] > 2 {
		t.Fatalf("forwarded a frame of cluster %x and replica %d", h[32:48], h[61])
	}
	if body := binary.LittleEndian.Uint64(h[16:]); (h[60] == 11 || h[60] == 12) && len(frame) > 256 && body != xxh3.Hash(frame[256:]) {
		t.Fatal("forwarded a suffix with another seal")
	}
}
