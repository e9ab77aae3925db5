package policy_test

import (
	"slices"
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// Frames that break many rules at once, and the rules in product.md's order.
var ladders = []struct {
	what  string
	rules []string
	frame func() []byte
	first func() []byte // has passed before
}{
	{"PrepareOk", []string{"seal", "layout", "header_only_size", "cluster", "replica_range", "sender", "plane", "release", "reserved_frame", "reserved_tail"},
		func() []byte {
			frame := with(honest(wire.PrepareOk), setByte(192, 99), setSize(257), setByte(32, 0xFF), setByte(61, 200),
				setByte(56, 1), setByte(62, 1), setByte(255, 1))
			return spoil(frame, 5, 1)
		}, nil},
	{"Prepare", []string{"identity", "layout", "cluster", "replica_range", "plane", "reserved_tail", "metadata_chain", "body"},
		func() []byte {
			frame := with(chained(7, 2, wire.U128{Lo: 0xBAD}, 0), setByte(62, 1), setByte(32, 0xFF), setByte(61, 200),
				setByte(208, 138), setByte(209, 1))
			return spoil(spoil(frame, 5, 1), 256, 1)
		}, func() []byte { return chained(7, 1, wire.U128{}, 0) }},
	{"Prepare without identity", []string{"identity_absent", "layout", "cluster", "replica_range", "plane", "reserved_tail", "metadata_chain", "body"},
		func() []byte {
			frame := with(chained(7, 2, wire.U128{Lo: 0xBAD}, 0), setByte(62, 1), setByte(32, 0xFF), setByte(61, 200),
				setByte(208, 138), setByte(209, 1))
			clear(frame[:16])
			return spoil(frame, 256, 1)
		}, func() []byte { return chained(7, 1, wire.U128{}, 0) }},
	{"RepairPrepare", []string{"identity_absent_repair", "layout", "cluster", "replica_range", "plane", "reserved_tail", "batch"},
		func() []byte {
			frame := with(sendMessages(5, "hello"), setByte(60, 19), setByte(228, 1), setByte(47, 0xFF), setByte(61, 3),
				func(h *wire.Header) { wire.PrepareGroup.Set(h, wire.MetadataGroup) })
			clear(frame[:16])
			return spoil(frame, 520, 1)
		}, nil},
	{"Commit", []string{"seal", "layout", "header_only_size", "cluster", "sender", "release", "reserved_frame", "reserved_tail", "token_jump"},
		func() []byte {
			frame := with(token(3, 50_000), setSize(512), setByte(40, 1), setByte(61, 2), setByte(59, 1), setByte(127, 1), setByte(255, 1))
			return spoil(frame, 15, 1)
		}, func() []byte { return token(3, 1) }},
	{"StateTransferTarget", []string{"seal", "layout", "cluster", "sender", "release", "reserved_frame", "reserved_tail", "manifest"},
		func() []byte {
			frame := with(honest(wire.StateTransferTarget), setByte(161, 1), setByte(40, 1), setByte(61, 2), setByte(59, 1), setByte(127, 1), setByte(162, 1))
			return spoil(spoil(frame, 9, 1), 256, 1)
		}, nil},
	{"StartView", []string{"seal", "layout", "cluster", "sender", "release", "reserved_frame", "reserved_tail", "body", "suffix_sv"},
		func() []byte {
			frame := with(honest(wire.StartView), setByte(136, 9), setByte(40, 1), setByte(61, 2), setByte(59, 1), setByte(127, 1), setByte(152, 1))
			return spoil(spoil(frame, 9, 1), 256, 1)
		}, nil},
}

// The first rule that drops or closes decides and gives its name; one that only
// observes is counted, and the rules behind it are still applied.
func TestOrderOfRules(t *testing.T) {
	for _, l := range ladders {
		for step := range len(l.rules) + 1 {
			j := climbed(t, l.rules, step, policy.Drop)
			if l.first != nil {
				wantForward(t, "before", look(j, l.first()))
			}
			v := look(j, l.frame())
			action, rule := policy.Drop, ""
			switch {
			case step == len(l.rules):
				action = policy.Forward
			case step == 0 && slices.Contains(l.rules, "header_only_size"):
				action, rule = policy.Close, l.rules[0] // an impossible size: framing is lost
			default:
				rule = l.rules[step]
			}
			wantRefused(t, l.what, v, action, rule)
			if !slices.Equal(observed(v.Observed), l.rules[:step]) {
				t.Errorf("%s, %d rules observing: got %v, want %v", l.what, step, observed(v.Observed), l.rules[:step])
			}
		}
	}
}

// climbed returns a judge with the first of rules only observing and the others
// set to action.
func climbed(t *testing.T, rules []string, first int, action policy.Action) *policy.Judge {
	var set []string
	for i, r := range rules {
		word := action.String()
		if i < first {
			word = "observe"
		}
		set = append(set, r, word)
	}
	return newJudge(t, set...)
}

// The same with close: who closes first, names the end.
func TestCloseBehindObserve(t *testing.T) {
	for _, l := range ladders {
		for step := range l.rules {
			j := climbed(t, l.rules, step, policy.Close)
			if l.first != nil {
				wantForward(t, "before", look(j, l.first()))
			}
			wantRefused(t, l.what, look(j, l.frame()), policy.Close, l.rules[step])
		}
	}
}

// The ladders and the table have one order.
func TestLaddersAreInTheTablesOrder(t *testing.T) {
	for _, l := range ladders {
		for i := 1; i < len(l.rules); i++ {
			if byName(t, l.rules[i-1]).Rule >= byName(t, l.rules[i]).Rule {
				t.Errorf("%s: %s is judged before %s", l.what, l.rules[i-1], l.rules[i])
			}
		}
	}
}

// Nothing else is said about what is not the replica plane's: it has no seal to
// hold against and no sender.
func TestForeignCommandsAreJudgedByTheirCommandAlone(t *testing.T) {
	for _, c := range []byte{0, 1, 2, 3, 4, 5, 8, 13, 14, 15, 16} {
		rule := "command_unexpected"
		if c == 5 {
			rule = "client_request"
		}
		frame := make([]byte, 256)
		frame[49], frame[60], frame[61], frame[62] = 1, c, 255, 1
		wantRefused(t, rule, look(newJudge(t), frame), policy.Drop, rule)
		v := look(newJudge(t, rule, "observe"), frame)
		if v.Action != policy.Forward || !slices.Equal(observed(v.Observed), []string{rule}) {
			t.Errorf("command %d: got %v by %v, observed %v, want it forwarded and observed", c, v.Action, v.Rule, observed(v.Observed))
		}
	}
}

// A finding of package wire goes along, for the log line.
func TestCauses(t *testing.T) {
	want := map[string]string{
		"layout":    "wire: got a chunk request of zero bytes",
		"body":      "wire: body: got bytes that checksum_body does not match",
		"suffix_sv": "wire: got suffix entries that are not consecutive and descending",
	}
	frames := map[string][]byte{
		"layout":    with(honest(wire.RequestStateChunk), setByte(162, 0)),
		"body":      spoil(honest(wire.Prepare), 256, 1),
		"suffix_sv": finish(*(*wire.Header)(honest(wire.StartView)), suffix(4, 2)),
	}
	for rule, frame := range frames {
		if v := look(newJudge(t), frame); v.Cause == nil || v.Cause.Error() != want[rule] {
			t.Errorf("%s: got %v, want %s", rule, v.Cause, want[rule])
		}
	}
}

// A body's verdict adds to its header's and does not undo it.
func TestBodyKeepsWhatTheHeaderFound(t *testing.T) {
	frame := with(honest(wire.StateTransferTarget), setByte(255, 1))
	h, body := (*wire.Header)(frame), frame[256:]
	for what, spoiled := range map[string]byte{"whole": 0, "spoiled": 1} {
		j := newJudge(t)
		body[0] ^= spoiled
		v := j.Body(h, body, j.Header(h))
		if !slices.Equal(observed(v.Observed), []string{"reserved_tail"}) || (v.Rule.String() == "manifest") != (spoiled == 1) {
			t.Errorf("%s: got %v by %v, observed %v", what, v.Action, v.Rule, observed(v.Observed))
		}
	}
}
