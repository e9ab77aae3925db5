package policy_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/replgate/replgate/wire"
)

// groups are the edges between the planes (§1.14): partition groups are packed
// into 52 bits, the metadata group is 1<<63.
var groups = []uint64{0, 3, 1<<52 - 1, 1 << 52, 1<<62 + 1, 1 << 63, 1<<63 + 1, 1<<64 - 1}

// operations are all bytes that are an operation, by plane (§1.14).
func operations() (metadata, partition, never []byte) {
	metadata = []byte{1, 3, 64, 65, 66, 67, 68}
	for op := byte(128); op <= 149; op++ {
		if op != 138 {
			metadata = append(metadata, op)
		}
	}
	return metadata, []byte{160, 161, 162}, []byte{0, 2, 138}
}

// ofPlane builds a prepare or its acknowledgement for an operation in a group.
func ofPlane(c wire.Command, op byte, group uint64) []byte {
	if op == 160 && c.IsPrepare() {
		return with(sendMessages(5, "hello"), setByte(60, byte(c)), func(h *wire.Header) { wire.PrepareGroup.Set(h, group) })
	}
	return with(honest(c), func(h *wire.Header) {
		if c == wire.PrepareOk {
			wire.PrepareOkOperation.Set(h, op)
			wire.PrepareOkGroup.Set(h, group)
			return
		}
		wire.PrepareOperation.Set(h, op)
		wire.PrepareGroup.Set(h, group)
	})
}

func planeFaults() (all []fault) {
	metadata, partition, never := operations()
	for _, c := range []wire.Command{6, 7, 19} {
		add := func(op byte, group uint64) {
			all = append(all, fault{rule: "plane", what: fmt.Sprintf("%v %v in %#x", c, wire.Operation(op), group), frame: ofPlane(c, op, group)})
		}
		for _, group := range groups {
			for _, op := range metadata {
				// Old logs hold metadata operations under group 0; sessions they do not (§1.14).
				if old := c == wire.RepairPrepare && group == 0 && op >= 64; group != 1<<63 && !old {
					add(op, group)
				}
			}
			for _, op := range partition {
				if group > 1<<52-1 {
					add(op, group)
				}
			}
			for _, op := range never {
				add(op, group)
			}
		}
	}
	return all
}

// §1.14: what belongs together passes, and so does an old log's repair.
func TestPlanesThatFit(t *testing.T) {
	metadata, partition, _ := operations()
	for _, c := range []wire.Command{6, 7, 19} {
		for _, op := range metadata {
			wantForward(t, fmt.Sprintf("%v %d", c, op), look(newJudge(t), ofPlane(c, op, 1<<63)))
		}
		for _, op := range partition {
			for _, group := range groups[:3] {
				wantForward(t, fmt.Sprintf("%v %d in %d", c, op, group), look(newJudge(t), ofPlane(c, op, group)))
			}
		}
	}
	wantForward(t, "old log", look(newJudge(t), ofPlane(wire.RepairPrepare, 128, 0)))
}

func memoryFaults() (all []fault) {
	first := chained(7, 1, wire.U128{}, 0)
	second := chained(7, 2, identity(first), 0)
	all = append(all,
		fault{"metadata_chain", "a parent that is not op − 1's", chained(7, 2, wire.U128{Lo: 0xBAD}, 0), second, [][]byte{first}, ""},
		fault{"metadata_chain", "another for the same op", chained(7, 1, wire.U128{}, 1), first, [][]byte{first}, ""},
		fault{"metadata_chain", "another, its parent unknown", chained(7, 2, identity(first), 1), second, [][]byte{second}, ""})
	for _, last := range []uint64{0, 1, 1_000_000} {
		all = append(all, fault{"token_jump", fmt.Sprintf("from %d", last), token(3, last+10_001), token(3, last+10_000), [][]byte{token(3, last)}, ""})
	}
	return append(all, fault{"token_jump", "the greatest", token(3, 1<<64-1), token(3, 6), [][]byte{token(3, 5)}, ""})
}

// token builds a Commit of a group.
func token(group, token uint64) []byte {
	return with(honest(wire.Commit), func(h *wire.Header) {
		wire.CommitGroup.Set(h, group)
		wire.CommitToken.Set(h, token)
	})
}

// §4.5, §4.6, §5, §6.1: bodies that carry a seal.
func bodyFaults() (all []fault) {
	for _, c := range []wire.Command{6, 19, 11, 12} {
		frame, then := honest(c), ""
		if c == wire.StartView {
			then = "suffix_sv"
		}
		for _, at := range []int{256, len(frame) - 1} {
			all = append(all, fault{rule: "body", what: fmt.Sprintf("%v byte %d", c, at), frame: spoil(frame, at, 1), next: frame, then: then})
		}
	}
	for _, c := range []wire.Command{11, 12} {
		unsealed := with(honest(c), func(h *wire.Header) { clear(h[16:32]) })
		all = append(all, fault{rule: "body", what: fmt.Sprintf("%v with a body and no seal for it", c), frame: unsealed})
	}
	empty := with(honest(wire.Prepare), setSize(256), func(h *wire.Header) { wire.ChecksumBody.Set(h, wire.Wide(0x2d06800538d394c2)) })
	cut := with(honest(wire.Prepare), setSize(256))
	all = append(all, fault{rule: "body", what: "an empty one where another is sealed", frame: cut, next: empty})
	batch := sendMessages(5, "hello")
	for _, at := range []int{256 + 16, 256 + 32, 256 + 40, 256 + 48, 256 + 52, 256 + 255, 512, 512 + 8, 512 + 36, len(batch) - 1} {
		all = append(all, fault{rule: "batch", what: fmt.Sprintf("byte %d", at), frame: spoil(batch, at, 1), next: batch})
	}
	all = append(all, fault{rule: "batch", what: "none", frame: with(batch, setSize(256)), next: batch})
	target := honest(wire.StateTransferTarget)
	for _, at := range []int{256, 260, 264, 265, len(target) - 1} {
		all = append(all, fault{rule: "manifest", what: fmt.Sprintf("byte %d", at), frame: spoil(target, at, 1), next: target})
	}
	all = append(all, fault{rule: "manifest", what: "none", frame: with(target, setSize(256)), next: target})
	return append(all, suffixFaults()...)
}

// §4.6: a suffix that its seal covers and that does not decode.
func suffixFaults() (all []fault) {
	entry := func(body []byte, i int, change func(e *wire.Header)) []byte {
		e := (*wire.Header)(body[i*256:])
		change(e)
		wire.Seal(e)
		return body
	}
	for what, body := range map[string][]byte{
		"another op":            suffix(4, 2),
		"ops ascending":         slices.Concat(suffix(3, 2)[256:], suffix(3, 2)[:256]),
		"a command 19":          entry(suffix(3, 2), 0, setByte(60, 19)),
		"an operation 99":       entry(suffix(3, 2), 1, setByte(208, 99)),
		"reserved bytes":        entry(suffix(3, 2), 1, setByte(255, 1)),
		"a foreign parent":      entry(suffix(3, 2), 0, setByte(144, 0xEE)),
		"timestamps the same":   entry(suffix(3, 2), 0, func(e *wire.Header) { wire.PrepareTimestamp.Set(e, 1002) }),
		"an identity that lies": spoil(suffix(3, 2), 0, 1),
	} {
		for rule, c := range map[string]wire.Command{"body": wire.DoViewChange, "suffix_sv": wire.StartView} {
			frame := honest(c)
			h := (*wire.Header)(frame)
			all = append(all, fault{rule: rule, what: fmt.Sprintf("%v with %s", c, what), frame: finish(*h, body), next: frame})
		}
	}
	return all
}

// §4.6: an empty suffix, 128 entries, and a blank pass.
func TestSuffixesThatDecode(t *testing.T) {
	blank := suffix(3, 2)
	clear(blank[256:])
	blank[256+60] = 6
	binary.LittleEndian.PutUint64(blank[256+176:], 2)
	for what, body := range map[string][]byte{"none": nil, "one": suffix(3, 1), "a blank": blank} {
		for _, c := range []wire.Command{11, 12} {
			h := (*wire.Header)(honest(c))
			clear(h[224:256]) // bits for entries that are not there
			wantForward(t, fmt.Sprintf("%v with %s", c, what), look(newJudge(t), finish(*h, body)))
		}
	}
	h := (*wire.Header)(honest(wire.DoViewChange))
	wire.ViewOp.Set(h, 500)
	wire.DoViewChangePresent.Set(h, wire.U128{Lo: 1<<64 - 1, Hi: 1<<64 - 1})
	wantForward(t, "128 entries", look(newJudge(t), finish(*h, suffix(500, 128))))
}

// §5.6, §6.4: what carries no seal passes as it is.
func TestUnsealedBodiesPass(t *testing.T) {
	for what, frame := range map[string][]byte{
		"state chunk":          spoil(honest(wire.StateChunk), 256, 0xFF),
		"consumer offset":      spoil(ofPlane(wire.Prepare, 161, 3), 256, 0xFF),
		"refused transfer":     with(honest(wire.StateTransferTarget), setByte(160, 0), setByte(161, 1), setSize(256)),
		"consumer offset, old": ofPlane(wire.RepairPrepare, 162, 3),
	} {
		if what == "consumer offset" {
			// §4.5: zero from the builders of partition prepares.
			frame = with(frame, func(h *wire.Header) { clear(h[16:32]) })
		}
		wantForward(t, what, look(newJudge(t), frame))
	}
}
