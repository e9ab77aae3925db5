package standin

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/replgate/replgate/wire"
)

var testCluster = wire.ClusterIDOf("stand-in")

// sim is a network of cores in virtual time: each direction of each pair is a
// queue with seeded delays, so order is kept, and seeded drops.
type sim struct {
	t        testing.TB
	cfg      Config
	now      time.Time
	random   *rand.Rand
	cores    []*Core // nil while killed
	lives    []uint32
	epoch    [][]int // of the connection of a pair, to forget what is under way
	last     [][]time.Time
	events   events
	seq      int
	drop     float64
	blocked  map[[2]uint8]bool // from, to: frames are lost, the connection stands
	delayMax time.Duration
	trace    uint64
	seen     [][wire.Commands]int // received, by replica
	acked    []Ack
	fault    error
	arrived  int
	arrive   func(n int, e event) []byte // looks at the frame that arrives, may give another
}

type event struct {
	at       time.Time
	seq      int
	from, to uint8
	epoch    int
	frame    []byte
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

func newSim(t testing.TB, replicas, groups int, seed uint64) *sim {
	s := &sim{
		t: t, now: time.Unix(1_700_000_000, 0), random: rand.New(rand.NewPCG(seed, 99)), delayMax: 5 * time.Millisecond,
		cfg:   Config{Replicas: uint8(replicas), Cluster: testCluster, Seed: seed, Groups: groups},
		cores: make([]*Core, replicas), lives: make([]uint32, replicas), seen: make([][wire.Commands]int, replicas),
	}
	for range replicas {
		s.epoch = append(s.epoch, make([]int, replicas))
		s.last = append(s.last, make([]time.Time, replicas))
	}
	for id := range replicas {
		s.start(uint8(id))
	}
	return s
}

func (s *sim) start(id uint8) {
	cfg := s.cfg
	cfg.ID, cfg.Life = id, s.lives[id]
	s.lives[id]++
	c, err := New(cfg, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	s.cores[id] = c
	s.seen[id] = [wire.Commands]int{}
	for peer, other := range s.cores {
		if other != nil && uint8(peer) != id {
			s.epoch[id][peer]++
			s.epoch[peer][id]++
			c.Connected(uint8(peer), s.now)
			other.Connected(id, s.now)
		}
	}
}

func (s *sim) kill(id uint8) {
	s.collect()
	s.cores[id] = nil
	for peer, other := range s.cores {
		if other != nil {
			s.epoch[id][peer]++
			s.epoch[peer][id]++
			other.Disconnected(id, s.now)
		}
	}
}

// collect moves what the cores say onto the network.
func (s *sim) collect() {
	for id, c := range s.cores {
		if c == nil {
			continue
		}
		s.acked = append(s.acked, c.TakeAcks()...)
		for _, m := range c.Drain() {
			s.note(uint8(id), m.To, m.Frame)
			if s.random.Float64() < s.drop || s.blocked[[2]uint8{uint8(id), m.To}] {
				continue
			}
			frame := append([]byte(nil), m.Frame...)
			at := s.now.Add(time.Duration(s.random.Int64N(int64(s.delayMax) + 1)))
			if last := s.last[id][m.To]; at.Before(last) {
				at = last
			}
			s.last[id][m.To] = at
			s.seq++
			heap.Push(&s.events, event{at, s.seq, uint8(id), m.To, s.epoch[id][m.To], frame})
		}
	}
}

func (s *sim) note(from, to uint8, frame []byte) {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[0:], s.trace)
	binary.LittleEndian.PutUint64(b[8:], wire.Hash(frame))
	binary.LittleEndian.PutUint64(b[16:], uint64(s.now.UnixNano()))
	b[24], b[25] = from, to
	s.trace = wire.Hash(b[:])
}

// run lets time pass; work is called every 10 ms. It stops at the first fault.
func (s *sim) run(d time.Duration, work func()) {
	for end := s.now.Add(d); s.now.Before(end) && s.fault == nil; {
		next := s.now.Add(10 * time.Millisecond)
		for len(s.events) > 0 && !s.events[0].at.After(next) && s.fault == nil {
			e := heap.Pop(&s.events).(event)
			s.now = e.at
			c := s.cores[e.to]
			if c == nil || e.epoch != s.epoch[e.from][e.to] {
				continue
			}
			s.seen[e.to][(*wire.Header)(e.frame).Command()]++
			if s.arrived++; s.arrive != nil {
				e.frame = s.arrive(s.arrived, e)
			}
			if err := c.Receive(e.from, e.frame, s.now); err != nil {
				s.fault = err
				return
			}
			s.collect()
		}
		s.now = next
		for _, c := range s.cores {
			if c != nil {
				c.Tick(s.now)
			}
		}
		if work != nil {
			work()
		}
		s.collect()
	}
}

// work submits one op per tick: everywhere, so that whoever leads takes it.
func (s *sim) work() {
	i := s.random.IntN(s.cfg.Groups + 1)
	for id, c := range s.cores {
		if c == nil {
			continue
		}
		op := Op{Group: wire.MetadataGroup, Operation: 128, Client: wire.Wide(7), Request: 1, Body: []byte("x" + fmt.Sprint(s.seq))}
		if i > 0 {
			op = Op{Group: GroupKey(i - 1), Operation: wire.OpSendMessages, Client: wire.Wide(8), Request: 1, Body: Batch(1+i%3, 40, s.random)}
			if s.random.IntN(4) == 0 {
				op.Operation, op.Body = wire.OpStoreConsumerOffset, []byte("a consumer offset, without any seal")
			}
		}
		if _, err := c.Submit(op, s.now); err != nil && !errors.Is(err, ErrNotPrimary) && !errors.Is(err, ErrBusy) {
			s.t.Fatal(err)
		}
		for _, r := range c.TakeResults() {
			if !r.Out && r.Outcome == outcomeOk {
				_ = c.SignOut(r.Client, r.Session, 1, s.now)
			}
		}
		if s.random.IntN(10) == 0 && !c.groups[0].leads() {
			_ = c.SignIn(wire.Wide(s.random.Uint64()|1), uint32(id), s.now)
		}
	}
}

// settled fails unless all living replicas agree on every group and hold every
// acknowledged op.
func (s *sim) settled() {
	s.t.Helper()
	if s.fault != nil {
		s.t.Fatal(s.fault)
	}
	if err := s.disagreement(); err != nil {
		s.t.Fatal(err)
	}
	if len(s.acked) == 0 {
		s.t.Fatal("got no acknowledged op: the test shows nothing")
	}
	for id, c := range s.cores {
		for _, a := range s.acked {
			if c == nil {
				continue
			}
			if got, ok := c.Identity(a.Group, a.Op); !ok || got != a.Identity {
				s.t.Fatalf("replica %d has lost op %d of group %x", id, a.Op, a.Group)
			}
		}
	}
}

func (s *sim) disagreement() error {
	var first []GroupStatus
	for id, c := range s.cores {
		if c == nil {
			continue
		}
		got := c.Groups()
		if first == nil {
			first = got
		}
		for i, g := range got {
			if !g.Normal || g != first[i] || g.Op != g.Commit {
				return fmt.Errorf("replica %d: got %+v, want %+v, normal and all committed", id, g, first[i])
			}
		}
	}
	return nil
}
