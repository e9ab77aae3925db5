package harden_test

import (
	"testing"

	"github.com/replgate/replgate/harden"
)

// A plan is carried out as printed, there and back, under traffic. Before each
// step the next one is tried: it must be refused. So is a plan in which the step is
// missing, or has changed places with the next.
func TestPlan(t *testing.T) {
	for name, c := range map[string]struct {
		replicas int
		shared   bool
	}{"three": {3, false}, "five": {5, false}, "one ip": {3, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, c.replicas, c.shared)
			for _, phase := range s.plan.Phases {
				walk(t, s, phase)
				for _, n := range s.nodes {
					restarts := map[string]uint32{harden.PhaseBack: 2}[phase.Name]
					if n.life != 1+max(1, restarts) {
						t.Errorf("got replica %d started %d times after %s, want the one restart of each way", n.id, n.life, phase.Name)
					}
				}
			}
			acked, err := s.audit()
			if err != nil || acked == 0 {
				t.Fatalf("got %d operations acknowledged, %v", acked, err)
			}
			t.Logf("%d operations acknowledged, longest gap %v", acked, s.traffic.gap)
		})
	}
}

func start(t *testing.T, replicas int, shared bool) *site {
	t.Helper()
	s, err := newSite(replicas, shared)
	t.Cleanup(func() {
		if s == nil {
			return
		}
		if err := s.close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// walk carries out a phase, and tries each step before its turn.
func walk(t *testing.T, s *site, phase harden.Phase) {
	t.Helper()
	for i, step := range phase.Steps {
		if i+1 < len(phase.Steps) {
			if err := s.premature(phase.Steps[i+1]); err != nil {
				t.Error(err)
			}
		} else if s.hold(phase.Goal) == nil {
			t.Errorf("got the goal of %s before step %d, its last", phase.Name, step.Number)
		}
		if err := s.carry(step); err != nil {
			t.Fatalf("%v\n%s", err, s.logs())
		}
	}
	if err := s.hold(phase.Goal); err != nil {
		t.Errorf("got another end of %s than its goal: %v", phase.Name, err)
	}
}

// logs are those of the gates that run.
func (s *site) logs() (text string) {
	for _, n := range s.nodes {
		if n.gate != nil {
			text += n.gate.Log() + "\n"
		}
	}
	return text
}
