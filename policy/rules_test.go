package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// fault is a frame that a rule refuses, the honest frame it was made from, and
// what must have passed before. It breaks that one rule alone; where it cannot,
// then is the next that it breaks.
type fault struct {
	rule, what  string
	frame, next []byte
	before      [][]byte
	then        string
}

// Every command that replicas send, as builders build it, passes in silence.
func TestHonestFramesPass(t *testing.T) {
	for _, c := range replicaPlane() {
		wantForward(t, c.String(), look(newJudge(t), honest(c)))
	}
	wantForward(t, "SendMessages", look(newJudge(t), sendMessages(5, "hello")))
}

// Each rule by its own frames: the default verdict, every switch, and the honest
// neighbour under the strictest table.
func TestEachRuleAlone(t *testing.T) {
	all := faults()
	for _, r := range policy.Rules() {
		if !slices.ContainsFunc(all, func(f fault) bool { return f.rule == r.Name }) &&
			!slices.Contains([]string{"frame_size", "frame_command", "hello_strict"}, r.Name) { // the reader's and the handshake's
			t.Errorf("%s: got no frame that it refuses", r.Name)
		}
	}
	for _, f := range all {
		t.Run(f.rule+"/"+f.what, func(t *testing.T) {
			info := byName(t, f.rule)
			checkFault(t, f, info, info.Default, nil)
			for _, action := range info.Allowed {
				checkFault(t, f, info, action, []string{f.rule, action.String()})
			}
			if f.next != nil {
				strict := []string{"identity_absent_repair", "drop", "reserved_tail", "drop", "token_jump", "drop"}
				wantForward(t, "the honest one", look(primed(t, f, strict), f.next))
			}
		})
	}
}

// primed returns a judge through which what belongs before f has passed.
func primed(t *testing.T, f fault, set []string) *policy.Judge {
	t.Helper()
	j := newJudge(t, set...)
	for _, frame := range f.before {
		wantForward(t, "before", look(j, frame))
	}
	return j
}

func checkFault(t *testing.T, f fault, info policy.RuleInfo, want policy.Action, set []string) {
	t.Helper()
	v := look(primed(t, f, set), f.frame)
	if want != policy.Observe {
		wantRefused(t, fmt.Sprint(set), v, want, f.rule)
		if v.Observed != 0 || v.Unframed() {
			t.Errorf("%v: got observed %v, unframed %v beside it, want this rule alone", set, observed(v.Observed), v.Unframed())
		}
		return
	}
	names := []string{f.rule}
	if f.then != "" {
		// An observing rule does not stop those behind it.
		if then := byName(t, f.then); then.Default != policy.Observe {
			wantRefused(t, fmt.Sprint(set), v, then.Default, f.then)
		} else {
			names = append(names, f.then)
		}
	} else if v.Action != policy.Forward || v.Rule != policy.None || v.Cause != nil {
		t.Errorf("%v: got %v by %v (%v), want forward", set, v.Action, v.Rule, v.Cause)
	}
	if !slices.Equal(observed(v.Observed), names) {
		t.Errorf("%v: got observed %v, want %v", set, observed(v.Observed), names)
	}
}

func faults() []fault {
	return slices.Concat(commandFaults(), sealFaults(), layoutFaults(), addressFaults(), reservedFaults(), planeFaults(), memoryFaults(), bodyFaults())
}

// §2.3: what replicas do not send to one another, and requests.
func commandFaults() (all []fault) {
	for _, c := range []byte{0, 1, 2, 3, 4, 8, 13, 14, 15, 16} {
		all = append(all, fault{rule: "command_unexpected", what: wire.Command(c).String(), frame: with(honest(wire.Commit), setByte(60, c))})
	}
	request := with(honest(wire.Commit), setByte(60, 5))
	stranger := with(request, setByte(32, 0xFF), setByte(61, 200), setByte(62, 1), setSize(300))
	return append(all, fault{rule: "client_request", what: "Request", frame: request},
		fault{rule: "client_request", what: "another cluster's with a body", frame: stranger})
}

// §4.3, §4.4: each byte of the checksum.
func sealFaults() (all []fault) {
	for _, c := range replicaPlane() {
		rule, frame := "seal", honest(c)
		if c.IsPrepare() {
			rule = "identity"
		}
		for at := range 16 {
			all = append(all, fault{rule: rule, what: fmt.Sprintf("%v checksum byte %d", c, at), frame: spoil(frame, at, 0x40), next: frame})
		}
	}
	zeroed := honest(wire.Commit)
	clear(zeroed[:16])
	all = append(all, fault{rule: "seal", what: "no bypass for zero", frame: zeroed})
	// §4.4: the identity is that of command 6; the hash of the frame as it is under 19 is not it.
	repair := honest(wire.RepairPrepare)
	var t wire.Header
	copy(t[:], repair)
	clear(t[:16])
	clear(t[52:56])
	wire.Checksum.Set((*wire.Header)(repair), wire.Wide(wire.Hash(t[:])))
	all = append(all, fault{rule: "identity", what: "hashed under command 19", frame: repair, next: honest(wire.RepairPrepare)})
	for rule, c := range map[string]wire.Command{"identity_absent": wire.Prepare, "identity_absent_repair": wire.RepairPrepare} {
		frame := honest(c)
		clear(frame[:16])
		all = append(all, fault{rule: rule, what: c.String(), frame: frame, next: honest(c)})
	}
	return all
}

// §4.3, §4.4: seal and identity cover all other bytes of the header, but the view
// and the command of a prepare. Whatever else is wrong then has no name.
func TestSealsCoverTheHeader(t *testing.T) {
	for _, c := range replicaPlane() {
		rule := "seal"
		if c.IsPrepare() {
			rule = "identity"
		}
		for at := 16; at < 256; at++ {
			if at == 60 || c.IsPrepare() && at >= 52 && at < 56 {
				continue
			}
			h := (*wire.Header)(spoil(honest(c), at, 0x20))
			if v := newJudge(t).Header(h); v.Rule.String() != rule || v.Observed != 0 {
				t.Errorf("%v byte %d: got %v, observed %v, want %s alone", c, at, v.Rule, observed(v.Observed), rule)
			}
		}
	}
}

// §4.4: a new view changes no identity, and a repair keeps its prepare's.
func TestIdentityLeavesOutViewAndCommand(t *testing.T) {
	prepare := honest(wire.Prepare)
	wire.View.Set((*wire.Header)(prepare), 123)
	wantForward(t, "under another view", look(newJudge(t), prepare))
	prepare[60] = 19
	wantForward(t, "as a repair", look(newJudge(t), prepare))
}

// §1: what Iggy's own validation refuses, command by command.
func layoutFaults() (all []fault) {
	then := ""
	add := func(c wire.Command, what string, changes ...func(h *wire.Header)) {
		all = append(all, fault{rule: "layout", what: fmt.Sprintf("%v %s", c, what), frame: with(honest(c), changes...), next: honest(c), then: then})
	}
	zero := func(at, n int) func(h *wire.Header) { return func(h *wire.Header) { clear(h[at : at+n]) } }
	for _, c := range []wire.Command{6, 19} {
		then = ""
		add(c, "reserved_frame begin", setByte(62, 1))
		add(c, "reserved_frame end", setByte(127, 1))
		then = "reserved_tail"
		add(c, "reserved begin", setByte(228, 1))
		add(c, "reserved end", setByte(255, 1))
	}
	then = "plane"
	for _, op := range []byte{4, 63, 69, 127, 150, 159, 163, 255} {
		add(wire.Prepare, fmt.Sprintf("operation %d", op), setByte(208, op))
		add(wire.RepairPrepare, fmt.Sprintf("operation %d", op), setByte(208, op))
		add(wire.PrepareOk, fmt.Sprintf("operation %d", op), setByte(192, op))
	}
	then = "header_only_size"
	for _, c := range []wire.Command{9, 22, 24, 26, 27, 28, 29} {
		add(c, "with a body", setSize(300))
	}
	then = "release"
	for _, c := range []wire.Command{10, 11, 12, 17} {
		add(c, "release", setByte(56, 1))
	}
	then = "body"
	for _, c := range []wire.Command{11, 12} {
		add(c, "suffix of half an entry", setSize(256+384))
		add(c, "suffix of 129 entries", setSize(256+129*256))
	}
	then = ""
	add(wire.DoViewChange, "commit above op", setByte(136, 4))
	add(wire.StartView, "commit above op", setByte(136, 4))
	add(wire.DoViewChange, "log_view above view", setByte(152, 8))
	add(wire.DoViewChange, "a nack for a third entry", setByte(224, 4))
	add(wire.DoViewChange, "a nack for entry 127", setByte(239, 0x80))
	add(wire.DoViewChange, "a third entry present", setByte(240, 7))
	add(wire.RequestPrepares, "from 0", zero(144, 8))
	add(wire.RequestPrepares, "from above to", setByte(144, 4))
	add(wire.StateTransferTarget, "available 2", setByte(160, 2))
	add(wire.StateTransferTarget, "transient 2", setByte(160, 0), setByte(161, 2), setSize(256))
	add(wire.StateTransferTarget, "available and transient", setByte(161, 1))
	add(wire.StateTransferTarget, "refused with a body", setByte(160, 0))
	add(wire.RequestStateChunk, "len 0", zero(160, 4))
	for _, c := range []wire.Command{26, 27, 28, 29} {
		add(c, "first id 0", zero(128, 16))
		add(c, "second id 0", zero(144, 16))
	}
	add(wire.ForwardLogout, "session 0", zero(160, 8))
	add(wire.ForwardLogout, "request 0", zero(168, 8))
	add(wire.ForwardRegisterResult, "outcome 7", zero(160, 16), setByte(255, 7))
	add(wire.ForwardRegisterResult, "epoch beside NotPrimary", setByte(255, 1))
	add(wire.ForwardRegisterResult, "watermark beside Canceled", zero(160, 8), setByte(168, 1), setByte(255, 5))
	add(wire.ForwardLogoutResult, "outcome 5", zero(160, 8), setByte(255, 5))
	add(wire.ForwardLogoutResult, "commit beside NotPrimary", setByte(255, 1))
	return all
}

// §3.1, §3.2, §3.4, and sizes where Iggy does not look (§1.0).
func addressFaults() (all []fault) {
	for _, c := range []wire.Command{7, 10, 17, 18, 20, 21} {
		for _, size := range []uint32{257, 512} {
			all = append(all, fault{rule: "header_only_size", what: fmt.Sprintf("%v of %d", c, size), frame: with(honest(c), setSize(size)), next: honest(c)})
		}
	}
	for _, c := range replicaPlane() {
		for _, at := range []int{32, 47} {
			frame := with(honest(c), func(h *wire.Header) { h[at] ^= 1 })
			all = append(all, fault{rule: "cluster", what: fmt.Sprintf("%v byte %d", c, at), frame: frame, next: honest(c)})
		}
		then := "sender"
		if c.IsPrepare() {
			then = ""
		}
		for _, replica := range []byte{3, 31, 32, 200, 255} {
			all = append(all, fault{rule: "replica_range", what: fmt.Sprintf("%v from %d", c, replica), frame: with(honest(c), setByte(61, replica)), next: honest(c), then: then})
		}
	}
	for _, c := range controls() {
		for _, replica := range []byte{1, 2} {
			all = append(all, fault{rule: "sender", what: fmt.Sprintf("%v from %d", c, replica), frame: with(honest(c), setByte(61, replica)), next: honest(c)})
		}
		if !slices.Contains([]wire.Command{10, 11, 12, 17}, c) { // those are Iggy's own: layout
			for _, at := range []int{56, 59} {
				all = append(all, fault{rule: "release", what: fmt.Sprintf("%v byte %d", c, at), frame: with(honest(c), setByte(at, 1)), next: honest(c)})
			}
		}
	}
	return all
}

// §3.2, §3.4: a prepare keeps its builder's id, whoever sends it on, and its
// client's release.
func TestPreparesKeepBuilderAndRelease(t *testing.T) {
	for _, c := range []wire.Command{6, 19} {
		for replica := range byte(3) {
			wantForward(t, "builder", look(newJudge(t), with(honest(c), setByte(61, replica))))
		}
		wantForward(t, "release", look(newJudge(t), with(honest(c), setByte(56, 3))))
	}
}

// unchecked is what §1 leaves of each command's area as reserved and Iggy does
// not look at, to excluded.
var unchecked = []struct {
	command  wire.Command
	from, to int
}{
	{6, 209, 216}, {19, 209, 216}, {7, 193, 200}, {7, 208, 256}, {9, 176, 256}, {10, 136, 256},
	{11, 156, 224}, {12, 152, 240}, {17, 136, 240}, {18, 168, 256}, {20, 160, 256}, {21, 160, 256},
	{22, 152, 256}, {23, 162, 168}, {23, 176, 256}, {24, 168, 256}, {25, 164, 256},
}

// §3.5 and the reserved bytes of §1.
func reservedFaults() (all []fault) {
	for _, c := range controls() {
		for at := 62; at < 128; at++ {
			all = append(all, fault{rule: "reserved_frame", what: fmt.Sprintf("%v byte %d", c, at), frame: with(honest(c), setByte(at, 1)), next: honest(c)})
		}
	}
	for _, run := range unchecked {
		for at := run.from; at < run.to; at++ {
			frame := with(honest(run.command), setByte(at, 0x80))
			all = append(all, fault{rule: "reserved_tail", what: fmt.Sprintf("%v byte %d", run.command, at), frame: frame, next: honest(run.command)})
		}
	}
	// §1.13: there Iggy looks.
	for _, run := range []struct{ command, from, to int }{{26, 164, 256}, {27, 176, 255}, {28, 176, 256}, {29, 168, 255}} {
		c := wire.Command(run.command)
		for at := run.from; at < run.to; at++ {
			all = append(all, fault{rule: "layout", what: fmt.Sprintf("%v byte %d", c, at), frame: with(honest(c), setByte(at, 1)), next: honest(c), then: "reserved_tail"})
		}
	}
	return all
}
