package policy_test

import (
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// train is what the wire carries, mixed as it came: tour-psk on all its
// connections, votes and repairs of election behind it, all of it inward.
func train(t testing.TB) (frames [][]byte, judges []*policy.Judge) {
	rules := table(t)
	for _, scenario := range []string{"tour-psk", "election"} {
		bySender, chain := map[uint8]*policy.Judge{}, new(policy.Chain)
		for _, e := range events(t, scenario) {
			if e.frame == nil {
				continue
			}
			if bySender[e.from] == nil {
				l := leg()
				l.Sender = e.from
				bySender[e.from] = policy.NewJudge(rules, l, chain)
			}
			frames, judges = append(frames, e.frame), append(judges, bySender[e.from])
		}
	}
	return frames, judges
}

// Rule 2 of the house: zero allocations on the path of a frame. The first round
// makes the memories (a view of the chain, a token map, a verifier); from then on
// nothing is made, whatever the verdict.
func TestJudgingDoesNotAllocate(t *testing.T) {
	frames, judges := train(t)
	commands := map[wire.Command]bool{}
	for i, f := range frames {
		look(judges[i], f)
		commands[(*wire.Header)(f).Command()] = true
	}
	if len(commands) < len(replicaPlane())-1 {
		t.Fatalf("got %d commands in the train, want nearly all", len(commands))
	}
	refused := 0
	allocs := testing.AllocsPerRun(20, func() {
		for i, f := range frames {
			if v := look(judges[i], f); v.Action != policy.Forward {
				refused++
			}
		}
	})
	if allocs != 0 || refused != 0 {
		t.Errorf("got %v allocations and %d refusals for %d frames, want none", allocs, refused, len(frames))
	}
}

// Nor do refusals allocate: a flood of them must not.
func TestRefusingDoesNotAllocate(t *testing.T) {
	j := newJudge(t)
	var frames [][]byte
	for _, f := range faults() {
		if f.before == nil {
			frames = append(frames, f.frame)
			look(j, f.frame)
		}
	}
	if allocs := testing.AllocsPerRun(5, func() {
		for _, f := range frames {
			look(j, f)
		}
	}); allocs != 0 {
		t.Errorf("got %v allocations for %d refused frames, want none", allocs, len(frames))
	}
}

// Nor does a flood of claimed views, each of which pushes out another.
func TestClaimedViewsDoNotAllocate(t *testing.T) {
	j := newJudge(t)
	var frames [][]byte
	for view := range uint32(50) {
		frames = append(frames, chained(view, 1, wire.U128{}, 0))
		look(j, frames[view])
	}
	if allocs := testing.AllocsPerRun(5, func() {
		for _, f := range frames {
			look(j, f)
		}
	}); allocs != 0 {
		t.Errorf("got %v allocations for %d views, want none", allocs, len(frames))
	}
}

func BenchmarkJudge(b *testing.B) {
	frames, judges := train(b)
	size := 0
	for _, f := range frames {
		size += len(f)
	}
	b.SetBytes(int64(size / len(frames)))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		at := i % len(frames)
		look(judges[at], frames[at])
	}
}

func BenchmarkJudgeCommit(b *testing.B) {
	j, frame := newJudge(b), honest(wire.Commit)
	b.ReportAllocs()
	for b.Loop() {
		look(j, frame)
	}
}
