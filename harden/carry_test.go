package harden_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

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
				starts := 2
				if phase.Name == harden.PhaseBack {
					starts = 3
				}
				for _, n := range s.nodes {
					if n.replica.Starts() != starts || n.gates != 1 {
						t.Errorf("got replica %d started %d times and its gate %d times after %s, want one restart for each way", n.place.ID, n.replica.Starts(), n.gates, phase.Name)
					}
				}
			}
			returned(t, s)
		})
	}
}

// returned holds that the cluster is what it was, and that its clients have lost
// nothing.
func returned(t *testing.T, s *site) {
	t.Helper()
	for _, n := range s.nodes {
		if text, err := os.ReadFile(n.place.Iggy); err != nil || string(text) != s.iggy {
			t.Errorf("got another configuration of replica %d than at first (%v):\n%s", n.place.ID, err, text)
		}
	}
	acked, err := s.audit()
	if err != nil || acked == 0 {
		t.Fatalf("got %d operations acknowledged, %v", acked, err)
	}
	t.Logf("%d operations acknowledged, longest gap %v", acked, s.traffic.gap)
}

func start(t *testing.T, replicas int, shared bool) *site {
	t.Helper()
	s, err := newSite(replicas, shared, 30*time.Second)
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

// Who has come half way goes back from there: with every node that has its gate,
// also with one whose turn has failed in the middle, which is left as it was.
func TestBackHalfWay(t *testing.T) {
	t.Parallel()
	s := start(t, 3, false)
	var failing int // the node whose Iggy does not come up behind its gate
	for _, step := range s.plan.Phases[0].Steps {
		failing = step.Node
		if failing == 1 && step.Kind == harden.Start && step.Service.Name == harden.Iggy {
			break
		}
		if err := s.carry(step); err != nil {
			t.Fatalf("%v\n%s", err, s.logs())
		}
	}
	first := s.plan.Nodes[failing].Back
	for _, phase := range s.plan.Phases {
		for _, step := range phase.Steps {
			var err error
			switch {
			case step.Number == first:
				err = s.act(step)
			case step.Number > first && step.Node == failing && step.Edits != nil:
				step.Edits = nil // the roster was never another
				err = s.carry(step)
			case step.Number > first:
				err = s.carry(step)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, s.logs())
			}
		}
	}
	if err := s.hold(s.plan.Phases[3].Goal); err != nil {
		t.Error(err)
	}
	returned(t, s)
}

// mutant is a plan with something wrong.
type mutant struct {
	name   string
	change func(p *harden.Plan)
}

// mutants are all plans in which one step is missing, or two neighbours have
// changed places, up to a number.
func mutants(p *harden.Plan, last int) (all []mutant) {
	at := func(p *harden.Plan, number int) (*harden.Phase, int) {
		for i := range p.Phases {
			phase := &p.Phases[i]
			if k := slices.IndexFunc(phase.Steps, func(s harden.Step) bool { return s.Number == number }); k >= 0 {
				return phase, k
			}
		}
		panic("no such step")
	}
	end := p.Phases[len(p.Phases)-1].Steps
	for n := 1; n <= min(last, end[len(end)-1].Number); n++ {
		all = append(all, mutant{fmt.Sprintf("without step %d", n), func(p *harden.Plan) {
			phase, k := at(p, n)
			phase.Steps = slices.Delete(phase.Steps, k, k+1)
		}})
		if n > 1 {
			all = append(all, mutant{fmt.Sprintf("step %d before step %d", n, n-1), func(p *harden.Plan) {
				phase, k := at(p, n)
				before, j := at(p, n-1)
				phase.Steps[k], before.Steps[j] = before.Steps[j], phase.Steps[k]
			}})
		}
	}
	return all
}

// A plan with a step missing or in another's place fails, in fact and not only by
// what each step asks for. Without REPLGATE_SOAK only those of the first node are
// tried, and of one ip none.
func TestMutants(t *testing.T) {
	t.Parallel()
	const atOnce = 6
	last := 7
	if soak {
		last = 1000
	}
	all := mutants(&start(t, 3, false).plan, last)
	turn := make(chan struct{}, atOnce)
	var group sync.WaitGroup
	for _, m := range all {
		group.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			if err := fails(m); err != nil {
				t.Errorf("%s: %v", m.name, err)
			}
		})
	}
	group.Wait()
	t.Logf("%d mutants", len(all))
}

// fails carries a mutant out; that it comes through is an error.
func fails(m mutant) error {
	s, err := newSite(3, false, 6*time.Second)
	if s != nil {
		defer s.close() // what was left in the middle may end badly
	}
	if err != nil {
		return err
	}
	m.change(&s.plan)
	for _, phase := range s.plan.Phases {
		for _, step := range phase.Steps {
			if s.carry(step) != nil {
				return nil
			}
		}
		if s.hold(phase.Goal) != nil {
			return nil
		}
	}
	return fmt.Errorf("got a plan that comes through")
}
