package harden

import (
	"fmt"
	"time"
)

// notes say what else is true of a cluster and would surprise whoever hardens it.
func notes(c Cluster, o Options, shared bool) []string {
	all := []string{
		"Nodes go one at a time, the highest id first: no gate has to try TLS on a replica that knows none, and no group elects more than " +
			"twice, since its lead moves to the next id, which has had its restart. On the way back, in reverse, it may elect at each node.",
		"What the environment of an Iggy sets is not in its file: a roster in IGGY_CLUSTER_NODES_… wins, and the plan's has to go there instead.",
		"Every moved entry gets an advertised_address where it has none, so that clients are told what they were told before.",
	}
	if len(c.Nodes) == 2 {
		all = append(all, "Two replicas need each other: the cluster stands still for the length of each restart.")
	}
	if c.Reconnect > time.Second {
		all = append(all, fmt.Sprintf("message_bus.reconnect_period is %s: a link that is away so long may cost an election. "+
			"Write \"1s\" into each Iggy's file before its restart.", short(c.Reconnect)))
	}
	if c.HTTPForwards {
		all = append(all, fmt.Sprintf("Followers forward HTTP requests to the primary's ip, and for higher ids that is an address of %v now, where nobody "+
			"answers HTTP. Send such requests to the primary, or take 127.x.y.z and the HTTP port to the real node with a TCP forwarder on each host.", o.Loopback))
	}
	if shared {
		all = append(all, "Replicas share a host here. Each needs an Iggy file of its own: where they start from one, copy it first. "+
			"The gates need an instance of their unit each, with "+placeholder+" in the paths as above; the packaged unit is for one gate.")
	}
	return all
}
