package standin

import (
	"errors"
	"fmt"
	"time"

	"github.com/replgate/replgate/wire"
)

// Config is one stand-in's place in its cluster.
type Config struct {
	// ID is the replica's id, below Replicas; Replicas is 2..32.
	ID, Replicas uint8
	Cluster      wire.ClusterID
	// Seed makes jitter, nonces and incarnations. Replicas of one cluster may
	// share it.
	Seed uint64
	// Life counts this replica's starts. In life 0 it takes part at once, in view
	// 0; in a later one it has lost its memory, so it asks for the view and votes
	// for nothing until it has the whole log again.
	Life uint32
	// Groups is the number of partition groups beside the metadata group.
	Groups int
	Timers Timers
}

// Timers are the intervals of §9. Zero means Iggy's default, named behind each.
type Timers struct {
	Commit     time.Duration // between two heartbeats, 500ms
	Heartbeat  time.Duration // without one a backup votes, 5s and up to a quarter more
	Prepare    time.Duration // until an op is sent again, 250ms, doubling up to 4s
	ViewChange time.Duration // between two votes, 500ms
	ViewStatus time.Duration // until the next view is tried, 5s
	Probe      time.Duration // between two RequestStartView, 1s
	Repair     time.Duration // until a repair is asked for again, 1s
}

func (t Timers) withDefaults() Timers {
	for _, d := range []struct {
		at    *time.Duration
		value time.Duration
	}{
		{&t.Commit, 500 * time.Millisecond}, {&t.Heartbeat, 5 * time.Second},
		{&t.Prepare, 250 * time.Millisecond}, {&t.ViewChange, 500 * time.Millisecond},
		{&t.ViewStatus, 5 * time.Second}, {&t.Probe, time.Second}, {&t.Repair, time.Second},
	} {
		if *d.at == 0 {
			*d.at = d.value
		}
	}
	return t
}

func (c Config) validate() error {
	switch {
	case c.Replicas < 2 || c.Replicas > replicasMax:
		return fmt.Errorf("standin: got %d replicas, want 2..%d", c.Replicas, replicasMax)
	case c.ID >= c.Replicas:
		return fmt.Errorf("standin: got id %d, want below %d", c.ID, c.Replicas)
	case c.Groups < 0 || c.Groups > groupsMax:
		return fmt.Errorf("standin: got %d partition groups, want 0..%d", c.Groups, groupsMax)
	}
	return nil
}

// The limits of §9 that a stand-in keeps, and its own.
const (
	replicasMax   = 32
	groupsMax     = 1 << 16
	pipelineDepth = 32 // uncommitted ops per group
	stashMax      = 128
	asksMax       = 3  // repairs under way at once: their answers fit the 256-frame queue of a peer
	askChunk      = 64 // prepares asked for at once
	serveMax      = 128
)

// quorums returns how many replicas must hold an op, and how many must agree on
// a view (§9).
func quorums(n uint8) (replication, viewChange int) {
	if n == 2 {
		return 2, 2
	}
	replication = min((int(n)+1)/2, 3)
	return replication, int(n) - replication + 1
}

// GroupKey returns the packed key of partition group i: streams of two topics of
// four partitions. Group 0 has key 0.
func GroupKey(i int) uint64 {
	return uint64(i/8)<<32 | uint64(i/4%2)<<20 | uint64(i%4)
}

// Why an operation is not taken.
var (
	ErrNotPrimary = errors.New("standin: this replica does not lead the group")
	ErrBusy       = errors.New("standin: the group's pipeline is full")
)

// Fault is why a stand-in ends: what it got from a peer that an honest one on a
// faithful link cannot have sent.
type Fault struct {
	Replica, Peer uint8
	// Head is the frame's header, zero when there was no whole one.
	Head wire.Header
	// Err is a Reason, or an error of package wire.
	Err error
}

func (f *Fault) Error() string {
	group, _ := f.Head.Group()
	return fmt.Sprintf("standin: replica %d got %v from replica %d (group %x, view %d, size %d): %v",
		f.Replica, f.Head.Command(), f.Peer, group, wire.View.Get(&f.Head), wire.Size.Get(&f.Head), f.Err)
}

func (f *Fault) Unwrap() error { return f.Err }

// Reason is a fault that package wire has no word for. They are constants.
type Reason string

func (r Reason) Error() string { return string(r) }
