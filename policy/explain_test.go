package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// What a log line says of each fault: two texts, found and expected, that differ.
func TestExplain(t *testing.T) {
	for _, f := range faults() {
		j := newJudge(t)
		h := (*wire.Header)(f.frame)
		v := look(j, f.frame)
		found, want := j.Explain(byName(t, f.rule).Rule, h, v.Cause)
		if found == "" || want == "" || found == want {
			t.Errorf("%s %s: got %q, want %q", f.rule, f.what, found, want)
		}
	}
}

// The figures are the frame's own.
func TestExplainNamesFigures(t *testing.T) {
	j := newJudge(t)
	for _, c := range []struct {
		rule        policy.Rule
		frame       []byte
		cause       error
		found, want string
	}{
		{policy.Sender, with(honest(wire.Commit), setByte(61, 2)), nil, "replica 2", "0, which is at the other end"},
		{policy.ReplicaRange, with(honest(wire.Commit), setByte(61, 200)), nil, "replica 200", "an id below 3"},
		{policy.HeaderOnlySize, with(honest(wire.PrepareOk), setSize(300)), nil, "size 300", "256: the command has no body"},
		{policy.CommandUnexpected, with(honest(wire.Commit), setByte(60, 14)), nil, "ReplicaHello", "a command that replicas send after the handshake"},
		{policy.Release, with(honest(wire.Commit), setByte(56, 9)), nil, "release 9", "0 on control frames"},
		{policy.TokenJump, token(3, 77), nil, "Commit token 77", "one near the last"},
		{policy.Plane, ofPlane(wire.Prepare, 138, 3), nil, "DeleteSegments in group 0x3", "the operation's own plane"},
		{policy.Seal, spoil(honest(wire.Commit), 15, 0xAB), nil, "seal ab", "00000000"},
		{policy.Cluster, with(honest(wire.Commit), setByte(32, 0xFF)), nil, "cluster ffbb05c88727bab88d0ec27be8a72d46", "21bb05c88727bab88d0ec27be8a72d46"},
		{policy.MetadataChain, chained(7, 9, wire.U128{Lo: 0xBAD}, 0), nil, "op 9 with parent 00000000000000000000000000000bad", "the chain of view 7"},
		{policy.Layout, honest(wire.Commit), errors.New("wire: got a body"), "wire: got a body", "a frame that Iggy accepts"},
	} {
		found, want := j.Explain(c.rule, (*wire.Header)(c.frame), c.cause)
		if !strings.HasPrefix(found, c.found) || !strings.HasPrefix(want, c.want) {
			t.Errorf("%v: got %q and %q, want %q and %q", c.rule, found, want, c.found, c.want)
		}
	}
}
