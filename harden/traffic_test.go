package harden_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/replgate/replgate/internal/replica/standin"
)

// traffic watches what clients get while a plan is carried out.
type traffic struct {
	nodes []*node
	end   context.CancelFunc
	done  chan struct{}

	mu  sync.Mutex
	gap time.Duration // longest time in which nothing new was committed
}

// gapMax is what no client may wait: below it the commits of a group go on.
const gapMax = 5 * time.Second

func watch(nodes []*node) *traffic {
	ctx, cancel := context.WithCancel(context.Background())
	t := &traffic{nodes: nodes, end: cancel, done: make(chan struct{})}
	go t.run(ctx)
	return t
}

func (t *traffic) stop() {
	t.end()
	<-t.done
}

// run takes the time between two commits, of all groups: the highest one of each
// counts, so that a replica that comes back without memory is no step back.
func (t *traffic) run(ctx context.Context) {
	defer close(t.done)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	peak, last := map[uint64]uint64{}, map[uint64]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, n := range t.nodes {
				for _, g := range n.groups() {
					if at, known := last[g.Group]; !known || g.Commit > peak[g.Group] {
						if known {
							t.note(now.Sub(at))
						}
						peak[g.Group], last[g.Group] = g.Commit, now
					}
				}
			}
			for _, at := range last {
				t.note(now.Sub(at))
			}
		}
	}
}

func (n *node) groups() []standin.GroupStatus {
	if node := n.replica.Node(); node != nil {
		return node.Status().Groups
	}
	return nil
}

func (t *traffic) note(gap time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gap = max(t.gap, gap)
}

// audit stops the clients and holds what they were told against every replica's
// log. It returns how many operations were acknowledged.
func (s *site) audit() (acked int, err error) {
	s.traffic.stop()
	s.traffic.mu.Lock()
	gap := s.traffic.gap
	s.traffic.mu.Unlock()
	for _, n := range s.nodes {
		n.replica.Node().SetLoad(standin.Load{})
	}
	if err := s.agree(); err != nil {
		return 0, err
	}
	var acks []standin.Ack
	for _, n := range s.nodes {
		told, own := n.replica.Told()
		acks, gap = append(acks, told...), max(gap, own)
		if n.rejected != 0 {
			err = errors.Join(err, fmt.Errorf("got %v frames rejected by gate %d, want none of honest replicas", n.rejected, n.place.ID))
		}
	}
	for _, a := range acks {
		for _, n := range s.nodes {
			if id, ok := n.replica.Node().Identity(a.Group, a.Op); !ok || id != a.Identity {
				return 0, fmt.Errorf("got another op %d of group %x at replica %d than clients were told", a.Op, a.Group, n.place.ID)
			}
		}
	}
	if gap >= gapMax {
		err = errors.Join(err, fmt.Errorf("got a gap of %v, want less than %v", gap, gapMax))
	}
	return len(acks), err
}

// agree waits until all logs are equal.
func (s *site) agree() error {
	deadline := time.Now().Add(startTime)
	for {
		first, equal := s.nodes[0].groups(), true
		for _, n := range s.nodes[1:] {
			for i, g := range n.groups() {
				equal = equal && g.Normal && g.Commit == first[i].Commit && g.LogHash == first[i].LogHash && g.Op == g.Commit
			}
		}
		if equal {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("got logs that differ, want equal ones once clients are quiet")
		}
		time.Sleep(20 * time.Millisecond) // real time: sockets carry the rest
	}
}
