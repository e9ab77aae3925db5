package policy

import (
	"fmt"

	"github.com/replgate/replgate/wire"
)

// Entrance is a place where Hellos arrive: which cluster, which acceptor, who may
// come.
type Entrance struct {
	Cluster wire.ClusterID
	// Replicas is the roster's length: ids are 0..Replicas-1.
	Replicas int
	// Acceptor is the id the dialer means to reach.
	Acceptor uint8
	// Only is the one replica this entrance is for, where there is just one: the
	// local replica on its way out. Nil admits every lower id.
	Only *uint8
}

// A Refusal is why a Hello is not admitted.
type Refusal struct {
	// Reason is the ending: cluster_mismatch, unknown_replica, directional_rule.
	Reason string
	// Status is what Iggy would put on the wire for it.
	Status wire.Status
	// Got and Want are for the log line.
	Got, Want string
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("policy: %s: got %s, want %s", r.Reason, r.Got, r.Want)
}

// The reasons of Admit.
const (
	ReasonCluster     = "cluster_mismatch"
	ReasonUnknown     = "unknown_replica"
	ReasonDirectional = "directional_rule"
)

// Admit judges a Hello in Iggy's order: cluster, roster, direction (§7.1). It
// returns nil or a *Refusal.
func (e Entrance) Admit(h *wire.Header) error {
	id := wire.Replica.Get(h)
	switch {
	case h.ClusterID() != e.Cluster:
		return &Refusal{ReasonCluster, wire.StatusClusterMismatch,
			fmt.Sprintf("cluster id %x", h.ClusterID()), fmt.Sprintf("%x: the dialer is of another cluster", e.Cluster)}
	case int(id) >= e.Replicas:
		return &Refusal{ReasonUnknown, wire.StatusDirectionalRule,
			fmt.Sprintf("replica %d", id), fmt.Sprintf("an id below %d", e.Replicas)}
	case id >= e.Acceptor:
		return &Refusal{ReasonDirectional, wire.StatusDirectionalRule,
			fmt.Sprintf("replica %d dialing replica %d", id, e.Acceptor), "the lower id to dial the higher"}
	case e.Only != nil && id != *e.Only:
		return &Refusal{ReasonUnknown, wire.StatusDirectionalRule,
			fmt.Sprintf("replica %d", id), fmt.Sprintf("the local replica %d: this listener is for it alone", *e.Only)}
	}
	return nil
}
