package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/internal/replica/standin"
	"github.com/replgate/replgate/wire"
)

// Replica is a stand-in in this process, in the place of an Iggy that is told by a
// configuration of its own where it listens and where the others are. It can be
// stopped and started again, with another one. Its methods are safe for concurrent
// use, but Start and Stop are for one caller.
type Replica struct {
	ID   uint8
	Load standin.Load // of each life

	mu    sync.Mutex
	node  *standin.Node // nil while it is stopped
	peers int
	stop  context.CancelFunc
	ended chan error
	lives uint32
	acks  []standin.Ack // of the lives that are over
	gap   time.Duration
}

// redial is the pause between two dials of a Replica.
const redial = 50 * time.Millisecond

// Start starts it as the Iggy configuration at path says: addresses and the
// heartbeat timeout, of which the other timers are parts. After its first life it
// has lost its memory. An address that is taken is an error.
func (r *Replica) Start(path string) error {
	if r.Running() {
		return fmt.Errorf("lab: got replica %d started twice, want it stopped before", r.ID)
	}
	iggy, err := configs.LoadIggy(path, configs.Options{})
	if err != nil {
		return err
	}
	nodes, beat := iggy.Cluster.Nodes, iggy.Cluster.HeartbeatTimeout.Std()
	c := standin.NodeConfig{Peers: map[uint8]string{}, Load: r.Load, Redial: redial,
		Config: standin.Config{ID: r.ID, Replicas: uint8(len(nodes)), Cluster: wire.ClusterIDOf(iggy.Cluster.Name), Seed: 1, Life: r.lives, Groups: 3,
			Timers: standin.Timers{Heartbeat: beat, Commit: beat / 10, ViewChange: beat / 10, ViewStatus: beat, Probe: beat / 10, Repair: beat / 5}}}
	for _, n := range nodes {
		address := net.JoinHostPort(n.IP, strconv.Itoa(n.Ports.TCPReplica))
		switch id := uint8(n.ReplicaID); {
		case id > r.ID:
			c.Peers[id] = address
		case id == r.ID:
			if c.Listener, err = net.Listen("tcp", address); err != nil {
				return err
			}
		}
	}
	node, err := standin.NewNode(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.node, r.peers, r.stop, r.ended = node, len(nodes)-1, cancel, ended
	r.lives++
	return nil
}

// Stop ends it; one that has found a fault returns it. What its clients were told
// is done stays known. To stop one that is stopped is no error.
func (r *Replica) Stop() error {
	if !r.Running() {
		return nil
	}
	r.stop()
	err := <-r.ended
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acks = append(r.acks, r.node.Acked()...)
	r.gap = max(r.gap, r.node.Status().HeartbeatGap)
	r.node = nil
	return err
}

// Node is the stand-in of its present life, nil while it is stopped.
func (r *Replica) Node() *standin.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.node
}

// Running reports whether it has been started and not stopped.
func (r *Replica) Running() bool { return r.Node() != nil }

// Starts is how often it was started.
func (r *Replica) Starts() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.lives)
}

// Whole returns nil when it has a link to every other replica and has caught up:
// none of its groups is in a view change or recovers.
func (r *Replica) Whole() error {
	node := r.Node()
	if node == nil {
		return errors.New("lab: got a replica that is stopped, want one that runs")
	}
	status := node.Status()
	if len(status.Links) != r.peers {
		return fmt.Errorf("lab: got links to %d, want %d of them", status.Links, r.peers)
	}
	for _, g := range status.Groups {
		if !g.Normal {
			return fmt.Errorf("lab: got group %x in a view change or recovering, want it normal", g.Group)
		}
	}
	return nil
}

// Told is what its clients were told is done, and the longest time between two
// heartbeats that it took as a backup, over all its lives.
func (r *Replica) Told() ([]standin.Ack, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.node == nil {
		return r.acks, r.gap
	}
	return append(append([]standin.Ack(nil), r.acks...), r.node.Acked()...), max(r.gap, r.node.Status().HeartbeatGap)
}
