package policy_test

import (
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// chained builds a metadata prepare; two that differ in salt are two prepares.
func chained(view uint32, op uint64, parent wire.U128, salt byte) []byte {
	return with(honest(wire.Prepare), func(h *wire.Header) {
		wire.View.Set(h, view)
		wire.PrepareOp.Set(h, op)
		wire.PrepareCommit.Set(h, op-1)
		wire.PrepareParent.Set(h, parent)
		wire.PrepareUser.Set(h, uint32(salt))
	})
}

func identity(frame []byte) wire.U128 { return wire.Checksum.Get((*wire.Header)(frame)) }

// run builds prepares from op first on, each the parent of the next.
func run(view uint32, first uint64, parent wire.U128, count int) (frames [][]byte) {
	for op := first; op < first+uint64(count); op++ {
		f := chained(view, op, parent, 0)
		parent = identity(f)
		frames = append(frames, f)
	}
	return frames
}

// restamped is the same prepare under another view (§3.3).
func restamped(frame []byte, view uint32) []byte {
	return with(frame, func(h *wire.Header) { wire.View.Set(h, view) })
}

// gate is one gate's chain between the local replica 1 and its peers.
type gate struct {
	t     *testing.T
	chain policy.Chain
	// in is from replica 0, out to it; other is from replica 2.
	in, out, other *policy.Judge
}

func newGate(t *testing.T, set ...string) *gate {
	g := &gate{t: t}
	from := func(sender uint8, inward bool) *policy.Judge {
		l := leg()
		l.Sender, l.Inward = sender, inward
		return policy.NewJudge(table(t, set...), l, &g.chain)
	}
	g.in, g.out, g.other = from(0, true), from(1, false), from(2, true)
	return g
}

// pass says that frames from replica 0 must be forwarded.
func (g *gate) pass(what string, frames ...[]byte) {
	g.t.Helper()
	for _, f := range frames {
		wantForward(g.t, what, look(g.in, f))
	}
}

// refuse says that a frame must be refused, whichever peer sends it.
func (g *gate) refuse(what string, frame []byte) {
	g.t.Helper()
	wantRefused(g.t, what, look(g.in, frame), policy.Drop, "metadata_chain")
	wantRefused(g.t, what+", from the other peer", look(g.other, frame), policy.Drop, "metadata_chain")
}

// acknowledge lets the local replica's PrepareOk for a prepare go out.
func (g *gate) acknowledge(view uint32, frame []byte) {
	g.t.Helper()
	wantForward(g.t, "PrepareOk", look(g.out, prepareOk(1, view, frame)))
}

func prepareOk(replica byte, view uint32, frame []byte) []byte {
	p := (*wire.Header)(frame)
	return with(honest(wire.PrepareOk), setByte(61, replica), func(h *wire.Header) {
		wire.View.Set(h, view)
		wire.PrepareOkOp.Set(h, wire.PrepareOp.Get(p))
		wire.PrepareOkChecksum.Set(h, wire.Checksum.Get(p))
		wire.PrepareOkParent.Set(h, wire.PrepareParent.Get(p))
	})
}
