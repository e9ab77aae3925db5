package standin

import (
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/replgate/replgate/wire"
)

var moreSeeds = flag.Uint64("seeds", 1, "multiply the seeds of the simulations")

func seeds(n uint64) uint64 { return n * *moreSeeds }

func TestReplicates(t *testing.T) {
	t.Parallel()
	for _, shape := range []struct{ replicas, groups int }{{2, 1}, {3, 0}, {3, 4}, {4, 2}, {5, 3}, {3, 50}} {
		s := newSim(t, shape.replicas, shape.groups, 1)
		s.run(5*time.Second, s.work)
		s.run(2*time.Second, nil)
		s.settled()
		if got := s.cores[0].Groups()[0]; got.View != 0 || got.Primary != 0 {
			t.Errorf("%+v: got %+v, want view 0", shape, got)
		}
		for _, c := range []wire.Command{wire.StartViewChange, wire.RequestPrepares, wire.RequestStartView} {
			if s.seen[1][c] != 0 {
				t.Errorf("%+v: got %d %v in peace", shape, s.seen[1][c], c)
			}
		}
		for _, c := range []wire.Command{wire.ForwardRegister, wire.ForwardLogout} {
			if s.seen[0][c] == 0 {
				t.Errorf("%+v: got no %v", shape, c)
			}
		}
	}
}

func TestElectsAndKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{3, 5} {
		for seed := range seeds(3) {
			s := newSim(t, replicas, 3, seed)
			s.run(3*time.Second, s.work)
			s.kill(0)
			s.run(15*time.Second, s.work)
			s.run(3*time.Second, nil)
			s.settled()
			if got := s.cores[1].Groups()[0]; got.View == 0 || got.Primary == 0 {
				t.Fatalf("seed %d: got %+v, want another primary", seed, got)
			}
			s.start(0)
			s.run(10*time.Second, s.work)
			s.run(3*time.Second, nil)
			s.settled()
		}
	}
}

// A backup that is killed and starts empty catches up through StartView and
// repair alone (12, 17..20), here without other traffic than heartbeats.
func TestEmptyRestartCatchesUpThroughRepairAlone(t *testing.T) {
	t.Parallel()
	for _, groups := range []int{3, 50} {
		s := newSim(t, 3, groups, 3)
		s.run(20*time.Second, s.work)
		s.run(time.Second, nil)
		s.settled()
		s.kill(2)
		s.run(time.Second, nil)
		s.start(2)
		s.run(3*time.Second, nil)
		s.settled()
		for c, n := range s.seen[2] {
			switch wire.Command(c) {
			case wire.StartView, wire.RepairPrepare, wire.RepairDone:
				if n == 0 {
					t.Errorf("%d groups: got no %v", groups, wire.Command(c))
				}
			case wire.Commit:
			default:
				if n != 0 {
					t.Errorf("%d groups: got %d %v, want 12, 19 and 20 beside heartbeats", groups, n, wire.Command(c))
				}
			}
		}
		for c, n := range s.cores[2].sent {
			if asks := wire.Command(c) == wire.RequestStartView || wire.Command(c) == wire.RequestPrepares; asks != (n > 0) {
				t.Errorf("%d groups: sent %d %v, want 17 and 18 only", groups, n, wire.Command(c))
			}
		}
	}
}

func TestEmptyRestartUnderLoad(t *testing.T) {
	t.Parallel()
	for seed := range seeds(3) {
		s := newSim(t, 3, 3, seed)
		s.run(10*time.Second, s.work)
		s.kill(1)
		s.run(time.Second, s.work)
		s.start(1)
		s.run(5*time.Second, s.work)
		s.run(2*time.Second, nil)
		s.settled()
	}
}

func TestLossAndDelay(t *testing.T) {
	t.Parallel()
	for seed := range seeds(2) {
		s := newSim(t, 3+2*int(seed%2), 3, seed)
		s.drop, s.delayMax = 0.05, 50*time.Millisecond
		s.run(20*time.Second, s.work)
		s.kill(uint8(seed % 3))
		s.run(12*time.Second, s.work)
		s.start(uint8(seed % 3))
		s.run(20*time.Second, s.work)
		s.drop = 0
		s.run(20*time.Second, nil)
		if s.fault != nil || s.disagreement() != nil {
			t.Fatalf("seed %d: %v, %v", seed, s.fault, s.disagreement())
		}
		s.settled()
	}
}

func TestKillsOneAfterTheOther(t *testing.T) {
	t.Parallel()
	for seed := range seeds(1) {
		s := newSim(t, 3, 2, seed)
		for range 6 {
			s.run(2*time.Second, s.work)
			victim := uint8(s.random.IntN(3))
			s.kill(victim)
			s.run(time.Duration(s.random.IntN(15))*time.Second, s.work)
			s.start(victim)
			s.run(15*time.Second, s.work)
		}
		s.run(5*time.Second, nil)
		if s.fault != nil || s.disagreement() != nil {
			t.Fatalf("seed %d: %v, %v", seed, s.fault, s.disagreement())
		}
		s.settled()
	}
}

// Links that stand and carry nothing, in one direction or both: primaries that
// do not know they are deposed, ops that nobody else has and that must go.
func TestPartitions(t *testing.T) {
	t.Parallel()
	for seed := range seeds(2) {
		s := newSim(t, 3+2*int(seed%2), 2, seed)
		for range 5 {
			s.run(time.Second, s.work)
			s.blocked = map[[2]uint8]bool{}
			for range 1 + s.random.IntN(2*len(s.cores)) {
				from, to := uint8(s.random.IntN(len(s.cores))), uint8(s.random.IntN(len(s.cores)))
				s.blocked[[2]uint8{from, to}] = true
				if s.random.IntN(2) == 0 {
					s.blocked[[2]uint8{to, from}] = true
				}
			}
			s.run(time.Duration(s.random.IntN(20))*time.Second, s.work)
			s.blocked = nil
			s.run(time.Duration(s.random.IntN(10))*time.Second, s.work)
		}
		s.run(15*time.Second, nil)
		if s.fault != nil || s.disagreement() != nil {
			t.Fatalf("seed %d: %v, %v", seed, s.fault, s.disagreement())
		}
		s.settled()
	}
}

// A primary that lost its memory cannot lead on, and says so by asking: the
// others elect at once (§13, 10). One that missed it all asks for the view.
func TestPrimaryThatComesBackEmptyIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	s := newSim(t, 5, 2, 4)
	s.run(3*time.Second, s.work)
	s.kill(0)
	s.blocked = map[[2]uint8]bool{}
	for from := range uint8(5) {
		s.blocked[[2]uint8{from, 4}] = true
	}
	s.start(0)
	s.run(500*time.Millisecond, s.work)
	if got := s.cores[1].Groups()[0]; got.View != 1 || !got.Normal {
		t.Fatalf("got %+v after half a second, want view 1", got)
	}
	s.blocked = nil
	s.run(1500*time.Millisecond, nil)
	s.settled()
	if s.cores[4].sent[wire.RequestStartView] == 0 {
		t.Error("got no question for the view from the replica that missed it")
	}
}

// A replica without memory has no vote: an op that it acknowledged before might
// be voted away. Two losses of three stall the cluster for good.
func TestNoVoteWithoutMemory(t *testing.T) {
	t.Parallel()
	s := newSim(t, 3, 2, 4)
	s.run(3*time.Second, s.work)
	s.blocked = map[[2]uint8]bool{{0, 1}: true, {2, 1}: true}
	acked := len(s.acked)
	s.run(2*time.Second, s.work)
	if len(s.acked) == acked {
		t.Fatal("got no op that replica 1 has not")
	}
	s.kill(2)
	s.blocked = map[[2]uint8]bool{{0, 1}: true, {0, 2}: true}
	s.start(2)
	s.run(50*time.Millisecond, nil)
	s.kill(0)
	s.run(30*time.Second, nil)
	for id := range uint8(3) {
		if s.cores[id] == nil {
			continue
		}
		for _, g := range s.cores[id].Groups() {
			if g.Normal && g.View > 0 {
				t.Errorf("replica %d: got %+v, want no view without what was acknowledged", id, g)
			}
		}
	}
}

// While it recovers, a replica believes no StartView but the answer to its own
// question (§1.7).
func TestRecoversByTheAnswerToItsOwnQuestion(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	primary, err := New(Config{ID: 0, Replicas: 3, Cluster: testCluster}, now)
	if err != nil {
		t.Fatal(err)
	}
	back, err := New(Config{ID: 2, Replicas: 3, Cluster: testCluster, Life: 1}, now)
	if err != nil {
		t.Fatal(err)
	}
	primary.Connected(2, now)
	back.Connected(0, now)
	for _, answer := range []struct {
		incarnation wire.U128
		normal      bool
	}{{wire.U128{}, false}, {wire.Wide(5), false}, {back.incarnation, true}} {
		primary.groups[0].startView(2, answer.incarnation)
		for _, m := range primary.Drain() {
			if err := back.Receive(0, m.Frame, now); err != nil {
				t.Fatal(err)
			}
		}
		if got := back.Groups()[0].Normal; got != answer.normal {
			t.Errorf("incarnation %x: got normal %v, want %v", answer.incarnation, got, answer.normal)
		}
	}
}

// A frame that comes twice on one connection is a fault where honest replicas
// never say it twice; a Prepare may come again.
func TestReplayIsAFault(t *testing.T) {
	t.Parallel()
	want := map[wire.Command]error{
		wire.Prepare: nil, wire.PrepareOk: nil, wire.Commit: errToken, wire.RepairPrepare: errUnasked, wire.RepairDone: errUnasked,
		wire.ForwardRegisterResult: errUnasked, wire.ForwardLogoutResult: errUnasked,
	}
	for command, fault := range want {
		s := newSim(t, 3, 2, 5)
		again := 0
		s.arrive = func(_ int, e event) []byte {
			if again == 0 && (*wire.Header)(e.frame).Command() == command {
				again++
				if err := s.cores[e.to].Receive(e.from, e.frame, s.now); err != nil {
					t.Fatal(err)
				}
			}
			return e.frame
		}
		everything(s)
		if again == 0 || !errors.Is(s.fault, fault) {
			t.Errorf("%v: got %v after %d replays, want %v", command, s.fault, again, fault)
		}
	}
}

func TestSameSeedSameFrames(t *testing.T) {
	t.Parallel()
	trace := func(seed uint64) uint64 {
		s := newSim(t, 3, 3, seed)
		s.drop = 0.01
		s.run(3*time.Second, s.work)
		s.kill(0)
		s.run(10*time.Second, s.work)
		s.start(0)
		s.run(5*time.Second, s.work)
		if s.fault != nil {
			t.Fatal(s.fault)
		}
		return s.trace
	}
	if a, b := trace(1), trace(1); a != b {
		t.Errorf("got traces %x and %x from one seed", a, b)
	}
	if a, b := trace(1), trace(2); a == b {
		t.Errorf("got trace %x from two seeds", a)
	}
}
