package policy_test

import (
	"sync"
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// The bounds of the memories, as their documentation has them.
const (
	chainViews  = 4
	chainOps    = 1024
	tokenGroups = 1024
)

// 1024 ops of a view are remembered, older ones are not judged any more.
func TestChainWindow(t *testing.T) {
	g := newGate(t)
	log := run(7, 1, wire.U128{}, 3000)
	g.pass("log", log...)
	foreign := func(op uint64) []byte { return chained(7, op, wire.U128{Lo: 0xBAD}, 0) }
	g.refuse("the newest", foreign(3000))
	g.refuse("the oldest that is remembered", foreign(3000-chainOps+1))
	g.pass("older by two: neither it nor its parent is known", foreign(3000-chainOps-1))
	g.refuse("the newest still", foreign(3000))
	g.pass("the log goes on", chained(7, 3001, identity(log[2999]), 0))
}

// Old ops do not push out new ones that lie in the same slot.
func TestChainOldOpsPushOutNothing(t *testing.T) {
	g := newGate(t)
	log := run(7, 1, wire.U128{}, 2*chainOps)
	g.pass("log", log...)
	g.pass("retransmits of long ago", log[:chainOps]...)
	for _, op := range []uint64{2 * chainOps, 2*chainOps - 500, chainOps + 1} {
		g.refuse("a foreign one", chained(7, op, identity(log[op-2]), 9))
	}
}

// Views that only peers claim never push out the one that the local replica last
// spoke in; among the others the lowest goes.
func TestChainViews(t *testing.T) {
	g := newGate(t)
	log := run(3, 1, wire.U128{}, 3)
	g.pass("view 3", log...)
	g.acknowledge(3, log[2])
	for view := uint32(10); view < 60; view++ {
		g.pass("a claimed view", chained(view, 1, wire.U128{}, 0))
		g.refuse("a foreign one in the claimed view", chained(view, 2, wire.U128{Lo: 0xBAD}, 0))
		g.refuse("a foreign one in view 3", chained(3, 3, wire.U128{Lo: 0xBAD}, 0))
	}
	for view := uint32(60 - (chainViews - 1)); view < 60; view++ {
		g.refuse("the newest views are remembered", chained(view, 2, wire.U128{Lo: 0xBAD}, 0))
	}
	g.pass("the one before is not", chained(60-chainViews, 2, wire.U128{Lo: 0xBAD}, 0))
	g.refuse("view 3 is", chained(3, 3, wire.U128{Lo: 0xBAD}, 0))
}

// The same for what the local replica sent itself, and when it moves on.
func TestChainConfirmedViewMoves(t *testing.T) {
	g := newGate(t)
	wantForward(t, "out", look(g.out, chained(3, 1, wire.U128{}, 0)))
	wantForward(t, "out", look(g.out, chained(4, 2, wire.U128{Lo: 5}, 0)))
	wantForward(t, "out, a late one", look(g.out, chained(3, 1, wire.U128{}, 0)))
	for view := uint32(10); view < 20; view++ {
		g.pass("a claimed view", chained(view, 1, wire.U128{}, 0))
		g.refuse("a foreign one in view 4", chained(4, 2, wire.U128{Lo: 0xBAD}, 0))
	}
	g.pass("view 3 is past", chained(3, 1, wire.U128{}, 7))
}

// A prepare that comes under several views is the replica's in the last of them
// that is not above its own: views before are past, views above only claimed.
func TestChainConfirmsTheNewestView(t *testing.T) {
	for _, views := range [][]uint32{{3, 4}, {4, 3}, {3, 4, 1000}, {1000, 4, 3}} { // a late retransmit of the old view, too
		g := newGate(t)
		log := run(3, 1, wire.U128{}, 2)
		for _, view := range views {
			g.pass("the same prepares", restamped(log[0], view), restamped(log[1], view))
		}
		g.acknowledge(4, log[1])
		for view := uint32(10); view < 20; view++ {
			g.pass("a claimed view", chained(view, 1, wire.U128{}, 0))
		}
		g.refuse("a foreign one in view 4", chained(4, 3, wire.U128{Lo: 0xBAD}, 0))
	}
}

// The same for what was set aside: a gap under a view that the replica is not in.
func TestChainConfirmsNoClaimedGap(t *testing.T) {
	g := newGate(t)
	log := run(4, 1, wire.U128{}, 5)
	g.pass("claimed", restamped(log[0], 1000), restamped(log[4], 1000))
	g.pass("view 4", log...)
	g.acknowledge(4, log[4])
	for view := uint32(10); view < 20; view++ {
		g.pass("a claimed view", chained(view, 1, wire.U128{}, 0))
	}
	g.refuse("a foreign one in view 4", chained(4, 6, wire.U128{Lo: 0xBAD}, 0))
}

// A peer that claims an op far above, first of its view, must not take the
// replica's own log out of the memory: what the replica acknowledges is judged.
func TestChainSurvivesAFarOp(t *testing.T) {
	for _, far := range []uint64{5000, 1 << 60, 1<<64 - 2, 1<<64 - 1} {
		g := newGate(t)
		log := run(7, 1, wire.U128{}, 8)
		g.pass("far above", chained(7, far, wire.U128{Lo: 0xBAD}, 0))
		for _, f := range log[:6] {
			g.pass("the honest log", f)
			g.acknowledge(7, f)
		}
		g.refuse("a foreign parent", chained(7, 7, wire.U128{Lo: 0xBAD}, 0))
		g.pass("what follows", log[6])
		g.refuse("a foreign parent, before that is acknowledged", chained(7, 8, wire.U128{Lo: 0xBAD}, 0))
		g.pass("what follows", log[7])
	}
}

// The same where the local replica sends its log on.
func TestChainSurvivesAFarOpOfAPrimary(t *testing.T) {
	g := newGate(t)
	g.pass("far above", chained(7, 1<<60, wire.U128{Lo: 0xBAD}, 0))
	log := run(7, 1, wire.U128{}, 3)
	for _, f := range log {
		wantForward(t, "out", look(g.out, f))
	}
	g.refuse("a foreign parent", chained(7, 4, wire.U128{Lo: 0xBAD}, 0))
	g.refuse("another", chained(7, 2, wire.U128{Lo: 0xBAD}, 0))
}

// The first token of a group is never judged, 10,000 above the last is the most
// that passes in silence, and a smaller one is no jump (a new primary counts from
// its own small number).
func TestTokens(t *testing.T) {
	j := newJudge(t, "token_jump", "drop")
	for _, step := range []struct {
		group, token uint64
		passes       bool
	}{
		{3, 1 << 63, true}, {3, 5, true}, {3, 10_005, true}, {3, 20_006, false}, {3, 20_005, true}, {3, 20_005, true},
		{4, 1, true}, {4, 10_002, false}, {3, 30_005, true},
		{wire.MetadataGroup, 1 << 40, true}, {wire.MetadataGroup, 0, true}, {wire.MetadataGroup, 1 << 40, false},
		{0, 1<<64 - 1, true}, {0, 0, true}, {0, 1<<64 - 1, false}, {0, 10_000, true},
	} {
		if v := look(j, token(step.group, step.token)); (v.Action == policy.Forward) != step.passes {
			t.Errorf("group %d token %d: got %v by %v", step.group, step.token, v.Action, v.Rule)
		}
	}
}

// Each link and direction has tokens of its own.
func TestTokensOfALink(t *testing.T) {
	g := newGate(t, "token_jump", "drop")
	wantForward(t, "one link", look(g.in, token(3, 1)))
	wantForward(t, "the other", look(g.other, with(token(3, 1_000_000), setByte(61, 2))))
	wantForward(t, "the other direction", look(g.out, with(token(3, 2_000_000), setByte(61, 1))))
	wantRefused(t, "one link", look(g.in, token(3, 1_000_000)), policy.Drop, "token_jump")
}

// 1024 groups of a link are remembered; further ones are not judged, and push out
// none.
func TestTokenGroupsAreBounded(t *testing.T) {
	j := newJudge(t, "token_jump", "drop")
	for group := range uint64(2 * tokenGroups) {
		wantForward(t, "first", look(j, token(group, 1)))
	}
	for group := range uint64(2 * tokenGroups) {
		v := look(j, token(group, 1_000_000))
		if known := group < tokenGroups; (v.Rule == policy.TokenJump) != known {
			t.Fatalf("group %d: got %v by %v", group, v.Action, v.Rule)
		}
	}
}

// One chain, many pumps (run with -race): honest logs under many views pass
// whatever the others do, and at the end the memory stands.
func TestChainIsShared(t *testing.T) {
	var chain policy.Chain
	var pumps sync.WaitGroup
	rules, log := table(t), run(1, 1, wire.U128{}, 300)
	errs := make(chan policy.Verdict, 8*len(log))
	for pump := range 8 {
		l := leg()
		l.Inward = pump%2 == 0
		pumps.Go(func() {
			j := policy.NewJudge(rules, l, &chain)
			for i, f := range log {
				for _, frame := range [][]byte{f, restamped(f, uint32(2+(i+pump)%3)), prepareOk(0, 1, f)} {
					if v := look(j, frame); v.Action != policy.Forward || v.Observed != 0 {
						errs <- v
					}
				}
			}
		})
	}
	pumps.Wait()
	close(errs)
	for v := range errs {
		t.Errorf("got %v by %v", v.Action, v.Rule)
	}
	foreign := chained(1, 300, wire.U128{Lo: 0xBAD}, 0)
	wantRefused(t, "foreign", look(policy.NewJudge(rules, leg(), &chain), foreign), policy.Drop, "metadata_chain")
	chain.Reset()
	wantForward(t, "after Reset", look(policy.NewJudge(rules, leg(), &chain), foreign))
}
