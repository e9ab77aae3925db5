package policy_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

func ptr(id uint8) *uint8 { return &id }

// outcomes are what a Hello leads to, by its dialer's id; what is not listed is
// unknown_replica.
type outcomes map[uint8]string

// entrances are written out by hand; "" admits.
var entrances = []struct {
	what     string
	entrance policy.Entrance
	want     outcomes
}{
	{"acceptor 1 of 3", policy.Entrance{Cluster: cluster, Replicas: 3, Acceptor: 1},
		outcomes{0: "", 1: "directional_rule", 2: "directional_rule"}},
	{"acceptor 2 of 3", policy.Entrance{Cluster: cluster, Replicas: 3, Acceptor: 2},
		outcomes{0: "", 1: "", 2: "directional_rule"}},
	{"acceptor 0 of 3", policy.Entrance{Cluster: cluster, Replicas: 3, Acceptor: 0},
		outcomes{0: "directional_rule", 1: "directional_rule", 2: "directional_rule"}},
	{"acceptor 3 of 5", policy.Entrance{Cluster: cluster, Replicas: 5, Acceptor: 3},
		outcomes{0: "", 1: "", 2: "", 3: "directional_rule", 4: "directional_rule"}},
	{"one alone", policy.Entrance{Cluster: cluster, Replicas: 1, Acceptor: 0},
		outcomes{0: "directional_rule"}},
	{"only 1, acceptor 3 of 5", policy.Entrance{Cluster: cluster, Replicas: 5, Acceptor: 3, Only: ptr(1)},
		outcomes{1: "", 3: "directional_rule", 4: "directional_rule"}},
	{"only 0, acceptor 1 of 3", policy.Entrance{Cluster: cluster, Replicas: 3, Acceptor: 1, Only: ptr(0)},
		outcomes{0: "", 1: "directional_rule", 2: "directional_rule"}},
}

// statuses are Iggy's for the reasons (§7.1).
var statuses = map[string]byte{"cluster_mismatch": 2, "unknown_replica": 3, "directional_rule": 3}

func checkAdmit(t *testing.T, what string, err error, reason string) {
	t.Helper()
	if reason == "" {
		if err != nil {
			t.Errorf("%s: got %v, want admission", what, err)
		}
		return
	}
	r, ok := errors.AsType[*policy.Refusal](err)
	if !ok || r.Reason != reason || byte(r.Status) != statuses[reason] {
		t.Errorf("%s: got %#v, want %s with status %d", what, err, reason, statuses[reason])
		return
	}
	if r.Got == "" || r.Want == "" || err.Error() != fmt.Sprintf("policy: %s: got %s, want %s", reason, r.Got, r.Want) {
		t.Errorf("%s: got %q, want got and want in it", what, err)
	}
}

// §7.1, the acceptor's order: cluster, then roster, then direction; all 256 ids.
func TestAdmit(t *testing.T) {
	for _, e := range entrances {
		for id := range 256 {
			what := fmt.Sprintf("%s, replica %d", e.what, id)
			reason, listed := e.want[uint8(id)]
			if !listed {
				reason = "unknown_replica"
			}
			hello := wire.NewHello(cluster, uint8(id), nil)
			checkAdmit(t, what, e.entrance.Admit(&hello), reason)
			foreign := wire.NewHello(wire.ClusterIDOf("test-cluster"), uint8(id), nil)
			checkAdmit(t, what+" of another cluster", e.entrance.Admit(&foreign), "cluster_mismatch")
		}
	}
}

// Sixteen bytes make a cluster's id.
func TestAdmitComparesTheWholeCluster(t *testing.T) {
	e := policy.Entrance{Cluster: cluster, Replicas: 3, Acceptor: 1}
	for at := 32; at < 48; at++ {
		hello := wire.NewHello(cluster, 0, nil)
		hello[at] ^= 1
		checkAdmit(t, fmt.Sprintf("byte %d", at), e.Admit(&hello), "cluster_mismatch")
	}
}

// Only cluster and replica are looked at: the rest is for package mac.
func TestAdmitLooksAtNothingElse(t *testing.T) {
	e := policy.Entrance{Cluster: cluster, Replicas: 3, Acceptor: 1}
	for at := range 256 {
		if at >= 32 && at < 48 || at == 61 {
			continue
		}
		hello := wire.NewHello(cluster, 0, nil)
		hello[at] ^= 0xFF
		checkAdmit(t, fmt.Sprintf("byte %d", at), e.Admit(&hello), "")
	}
}
