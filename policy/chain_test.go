package policy_test

import (
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// metadata_chain, the plain way (§2.6 c): with an empty memory the first frame is
// forwarded and remembered; then parents and identities must agree.
func TestChainWithinAView(t *testing.T) {
	g := newGate(t)
	log := run(7, 50, wire.U128{Lo: 0xFEED}, 5)
	g.pass("the first, whatever its parent", log[0])
	g.refuse("another in its place", chained(7, 50, wire.U128{Lo: 0xFEED}, 1))
	g.refuse("a foreign parent", chained(7, 51, wire.U128{Lo: 0xBAD}, 0))
	g.refuse("no parent at all", chained(7, 51, wire.U128{}, 0))
	g.pass("what follows", log[1:]...)
	g.pass("retransmits, byte-identical", log...)
	g.refuse("another in the middle", chained(7, 52, identity(log[1]), 9))
	g.pass("an older one whose neighbours are unknown", chained(7, 48, wire.U128{Lo: 1}, 0))
	g.pass("op 1: there is no op 0 to be its parent", chained(7, 1, wire.U128{Lo: 1}, 0))
}

// Upper half included: a parent is sixteen bytes (§1.2).
func TestChainComparesWholeIdentities(t *testing.T) {
	g := newGate(t)
	first := chained(7, 1, wire.U128{}, 0)
	g.pass("first", first)
	parent := identity(first)
	parent.Hi = 1
	g.refuse("an upper half set", chained(7, 2, parent, 0))
}

// Views are judged apart: a retransmit under a new view is the same prepare
// (§3.3), and another log under a view of which nothing is remembered may be the
// honest one.
func TestChainAcrossViews(t *testing.T) {
	g := newGate(t)
	log := run(7, 1, wire.U128{}, 3)
	g.pass("view 7", log...)
	g.pass("retransmitted under view 8", restamped(log[1], 8), restamped(log[2], 8))
	fourth := chained(8, 4, identity(log[2]), 0)
	g.refuse("a foreign parent in view 8", chained(8, 4, wire.U128{Lo: 0xBAD}, 0))
	g.pass("view 8", fourth)
	g.pass("view 9 begins, with another op 3", chained(9, 3, wire.U128{Lo: 0x77}, 3))
	g.refuse("a foreign parent in view 9", chained(9, 4, identity(log[2]), 0))
	g.pass("a late one of view 7", log[2])
	g.refuse("a foreign one of view 7", chained(7, 3, wire.U128{Lo: 0xBAD}, 0))
}

// §1.15: the replica drops what leaves a gap, so it is not remembered, and the
// honest prepare of that op passes later.
func TestChainGap(t *testing.T) {
	g := newGate(t)
	log := run(7, 1, wire.U128{}, 6)
	g.pass("first", log[0])
	g.pass("a gap, not of this log", chained(7, 3, wire.U128{Lo: 0xBAD}, 3), chained(7, 5, wire.U128{Lo: 0xBAD}, 5), chained(7, 6, wire.U128{Lo: 0xBAD}, 6))
	g.pass("the honest ones", log[1:]...)
	g.refuse("the one of before, now known to be foreign", chained(7, 5, wire.U128{Lo: 0xBAD}, 5))
}

// A frame that left a gap is remembered once the local replica acknowledges it.
func TestChainGapAcknowledged(t *testing.T) {
	g := newGate(t)
	log := run(7, 1, wire.U128{}, 7)
	g.pass("first, then a gap", log[0], log[4])
	g.pass("nothing is known of op 5", chained(7, 6, wire.U128{Lo: 0xBAD}, 0))
	g.acknowledge(9, log[4]) // under whatever view the replica is in
	g.refuse("a foreign parent", chained(7, 6, wire.U128{Lo: 0xBAD}, 0))
	g.pass("what follows", log[5:]...)
}

// Only the local replica's word counts: a peer's PrepareOk names nothing, nor does
// one of a prepare that never came.
func TestChainIgnoresOtherPrepareOks(t *testing.T) {
	g := newGate(t)
	log := run(7, 1, wire.U128{}, 6)
	g.pass("first, then a gap", log[0], log[4])
	wantForward(t, "a peer's PrepareOk", look(g.in, prepareOk(0, 7, log[4])))
	g.acknowledge(7, chained(7, 5, wire.U128{Lo: 0xBAD}, 5))
	g.acknowledge(7, chained(7, 0, wire.U128{}, 0))
	g.pass("nothing is known of op 5", chained(7, 6, wire.U128{Lo: 0xBAD}, 0))
}

// A PrepareOk of op 0, of zeros, is of no prepare that was set aside.
func TestChainPrepareOkOfNothing(t *testing.T) {
	g := newGate(t)
	nothing := make([]byte, wire.HeaderSize)
	g.acknowledge(0, nothing)
	g.pass("the first of view 0", chained(0, 50, wire.U128{Lo: 1}, 0))
	g.refuse("another", chained(0, 50, wire.U128{Lo: 1}, 1))
}

// What the local replica sends on is its own log; it feeds and is not judged.
func TestChainOfTheLocalReplica(t *testing.T) {
	g := newGate(t)
	log := run(7, 40, wire.U128{Lo: 4}, 4)
	for _, f := range log[:3] {
		wantForward(t, "out", look(g.out, with(f, setByte(61, 1))))
	}
	own := identity(with(log[2], setByte(61, 1)))
	g.refuse("a foreign parent", chained(7, 43, wire.U128{Lo: 0xBAD}, 0))
	g.pass("its child", chained(7, 43, own, 0))
	wantForward(t, "out, with a foreign parent", look(g.out, chained(7, 43, wire.U128{Lo: 0xBAD}, 2)))
	wantForward(t, "out, far above", look(g.out, chained(7, 90, wire.U128{Lo: 0xBAD}, 2)))
	g.refuse("a foreign child of that", chained(7, 91, wire.U128{Lo: 0xBAD}, 0))
}

// 19 neither reads nor feeds; nor do partition prepares.
func TestChainIsOfMetadataPreparesAlone(t *testing.T) {
	g := newGate(t)
	log := run(7, 1, wire.U128{}, 2)
	repair := func(f []byte) []byte { f = with(f, setByte(60, 19)); return f }
	wantForward(t, "a repair", look(g.in, repair(log[0])))
	g.pass("nothing was remembered", chained(7, 2, wire.U128{Lo: 0xBAD}, 0))
	g = newGate(t)
	g.pass("first", log[0])
	wantForward(t, "a repair with a foreign parent", look(g.in, repair(chained(7, 2, wire.U128{Lo: 0xBAD}, 0))))
	wantForward(t, "a repair in place of another", look(g.in, repair(chained(7, 1, wire.U128{}, 8))))
	for op := range uint64(5) {
		g.pass("partition", sendMessages(op, "a"), sendMessages(op, "b"))
	}
	g.pass("the log goes on", log[1])
}

// A refused frame leaves no trace, and one that is only observed is remembered.
func TestChainObserving(t *testing.T) {
	log := run(7, 1, wire.U128{}, 3)
	foreign := chained(7, 2, wire.U128{Lo: 0xBAD}, 0)
	g := newGate(t)
	g.pass("first", log[0])
	g.refuse("foreign", foreign)
	g.pass("honest", log[1:]...)
	g = newGate(t, "metadata_chain", "observe")
	g.pass("first", log[0])
	if v := look(g.in, foreign); v.Action != policy.Forward || !v.Observed.Has(policy.MetadataChain) {
		t.Errorf("got %+v, want it observed", v)
	}
	if v := look(g.in, log[1]); v.Action != policy.Forward || !v.Observed.Has(policy.MetadataChain) {
		t.Errorf("got %+v for the honest one in its place, want it observed", v)
	}
}

// Emptied when the local replica's last leg ends: what comes next may have another
// log.
func TestChainReset(t *testing.T) {
	g := newGate(t)
	log, other := run(7, 1, wire.U128{}, 3), run(7, 1, wire.U128{Lo: 1}, 3)
	g.pass("a gap is set aside", log[0], log[2])
	g.refuse("another cluster's", other[0])
	g.chain.Reset()
	g.pass("another cluster's", other[:2]...)
	g.acknowledge(7, log[2]) // set aside before: forgotten
	g.pass("another cluster's", other[2:]...)
	g.refuse("the first cluster's", log[1])
}
