package configs

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

const (
	minMessageSize = 256 // a header alone
	minStoreLimit  = Size(64 << 10)
	maxNodes       = 255
	maxConnections = 1_000_000
	minFrameRate   = 1 << 10
	maxFrameRate   = 1 << 30
	maxHandshakes  = 65_535
	maxUnixPath    = 107 // sun_path, less its terminator
	permissive     = "permissive"

	minReadings, maxReadings = second / 100, 3600 * second // between two readings of the files
	maxReauthWindow          = 600 * second
	maxStrictReady           = 24 * 3600 * second
)

// Validate checks everything that one key alone does not show, and returns c
// with every default that derives from the roster filled in. The error is of
// type Faults. Load calls it; it is exported for a Config built in code.
func Validate(c Config, rules []RuleSpec) (Config, error) {
	rep := &report{}
	out := validate(c, rules, rep)
	return out, rep.err()
}

func validate(c Config, rules []RuleSpec, rep *report) Config {
	// Peers and rules are built anew; the roster is not, and must not stay the caller's.
	c.Cluster.Nodes = slices.Clone(c.Cluster.Nodes)
	k := &checker{c: &c, rep: rep}
	k.cluster()
	k.securities()
	if k.gate(k.roster()) {
		k.ingress()
		k.peers()
	} else {
		k.spellings()
	}
	k.endpoints()
	k.secrets()
	k.tls()
	k.identities()
	k.rotation()
	k.timeouts()
	k.sizes()
	k.limits()
	k.verdicts(rules)
	k.words()
	k.admin()
	return c
}

// checker is one call of validate.
type checker struct {
	c       *Config
	rep     *report
	listens []endpoint // what the gate listens on
	dials   []endpoint // what it dials
}

func (k *checker) cluster() {
	if k.c.Cluster.Name == "" {
		k.rep.add("cluster.name", "expected the name of the cluster, found an empty one; write the name that Iggy has")
	}
}

// roster reports whether the ids are usable: exactly 0 to count-1.
func (k *checker) roster() bool {
	nodes := k.c.Cluster.Nodes
	if len(nodes) < 2 || len(nodes) > maxNodes {
		k.rep.add("cluster.nodes", "expected 2 to %d nodes, found %d; list every replica, the local one too", maxNodes, len(nodes))
	}
	ok := len(nodes) >= 2
	ids, names, addrs := map[int]int{}, map[string]int{}, map[netip.AddrPort]int{}
	for i, n := range nodes {
		at := "cluster.nodes" + index(i)
		first, dup := ids[n.ReplicaID]
		switch {
		case n.ReplicaID == Unset && !k.rep.given(at+".replica_id"):
			k.rep.add(at+".replica_id", "expected an id from 0 to %d, found none; write replica_id = N", len(nodes)-1)
			ok = false
		case n.ReplicaID < 0 || n.ReplicaID >= len(nodes):
			k.rep.add(at+".replica_id", "expected an id from 0 to %d, found %d; ids count from 0 without a gap", len(nodes)-1, n.ReplicaID)
			ok = false
		case dup:
			k.rep.add(at+".replica_id", "expected an id of its own, found %d as in cluster.nodes[%d]; give every node another one", n.ReplicaID, first)
			ok = false
		default:
			ids[n.ReplicaID] = i
		}
		if first, dup := names[n.Name]; dup && n.Name != "" {
			k.rep.add(at+".name", "expected a name of its own, found %q as in cluster.nodes[%d]; give every node another one", n.Name, first)
		}
		names[n.Name] = i
		if addr, fine := k.node(at, n); fine {
			if first, dup := addrs[addr]; dup {
				k.rep.add(at+".ports.tcp_replica", "expected ip and port of its own, found %s as in cluster.nodes[%d]; give every node another one", addr, first)
			}
			addrs[addr] = i
		} else {
			ok = false
		}
	}
	return ok
}

// node checks one entry's address.
func (k *checker) node(at string, n Node) (netip.AddrPort, bool) {
	ip, err := netip.ParseAddr(n.IP)
	if err != nil {
		k.rep.add(at+".ip", "expected a literal IP address, found %q; a roster takes no names, write for example 10.0.1.5", n.IP)
	}
	port := n.Ports.TCPReplica
	if port < 1 || port > math.MaxUint16 {
		k.rep.add(at+".ports.tcp_replica", "expected a port from 1 to 65535, found %s; write ports = { tcp_replica = 9090 }", orNone(port))
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(port)), err == nil
}

func orNone(n int) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// gate reports whether the local replica is known.
func (k *checker) gate(rosterOK bool) bool {
	id := k.c.Gate.ReplicaID
	if id == Unset && !k.rep.given("gate.replica_id") {
		k.rep.add("gate.replica_id", "expected the id of the replica behind this gate, found none; write replica_id = N under [gate]")
		return false
	}
	if !rosterOK || k.rep.faulty("gate.replica_id") {
		return false // what follows from a wrong id is noise
	}
	if _, ok := k.c.Node(id); !ok {
		k.rep.add("gate.replica_id", "expected an id of the roster, 0 to %d, found %d; write the local replica's id", len(k.c.Cluster.Nodes)-1, id)
		return false
	}
	return true
}

func (k *checker) timeouts() {
	t, heartbeat := &k.c.Timeouts, k.c.Cluster.HeartbeatTimeout
	if heartbeat < 2*second {
		k.rep.add("cluster.heartbeat_timeout", "expected at least 2s, found %s; write the value that Iggy has", heartbeat)
	}
	if t.Handshake <= 0 || t.Handshake > 60*second {
		k.rep.add("timeouts.handshake", "expected more than 0s and at most 1m, found %s; 10s is Iggy's own", t.Handshake)
	}
	if t.Prove <= 0 || t.Prove >= heartbeat/2 && heartbeat >= 2*second {
		k.rep.add("timeouts.prove", "expected more than 0s and less than half of cluster.heartbeat_timeout (%s), found %s; a replica that waits longer for a peer elects", heartbeat, t.Prove)
	}
	if t.WriteStall < second {
		k.rep.add("timeouts.write_stall", "expected at least 1s, found %s; a shorter stall is ordinary backpressure", t.WriteStall)
	}
	if t.Drain <= 0 {
		k.rep.add("timeouts.drain", "expected more than 0s, found %s; links end between frames only if they have time to", t.Drain)
	} else if t.DrainMinDelay >= t.Drain {
		k.rep.add("timeouts.drain_min_delay", "expected less than timeouts.drain (%s), found %s; the deadline would hit before the drain begins", t.Drain, t.DrainMinDelay)
	}
}

// rotation checks the times of what changes while the gate runs.
func (k *checker) rotation() {
	s, r := &k.c.Security, &k.c.Reload
	if s.StrictReadyAfter <= 0 || s.StrictReadyAfter > maxStrictReady {
		k.rep.add("security.strict_ready_after", "expected more than 0s and at most 24h, found %s; 10m is the default", s.StrictReadyAfter)
	}
	if s.ReauthWindow < second || s.ReauthWindow > maxReauthWindow {
		k.rep.add("security.reauth_window", "expected 1s to 10m, found %s; 1m is the default", s.ReauthWindow)
	}
	if r.Interval < minReadings || r.Interval > maxReadings {
		k.rep.add("reload.interval", "expected 10ms to 1h, found %s; 10s is the default", r.Interval)
	}
}

func (k *checker) sizes() {
	size, store := k.c.MessageBus.MaxMessageSize, &k.c.Frames.StoreLimit
	if size <= minMessageSize || size > math.MaxUint32 {
		k.rep.add("message_bus.max_message_size", "expected more than %d bytes and less than 4GiB, found %s; write the value that Iggy has", minMessageSize, size)
		return
	}
	if !k.rep.given("frames.store_limit") {
		*store = min(*store, size) // the default follows a small message size
	}
	if least := min(minStoreLimit, size); *store < least || *store > size {
		k.rep.add("frames.store_limit", "expected %s to %s (message_bus.max_message_size), found %s; write a size between them", least, size, *store)
	}
}

func (k *checker) limits() {
	l := &k.c.Limits
	if perSource := Default().Limits.HandshakesPerSource; l.HandshakesPerSource == perSource && !k.rep.given("limits.handshakes_per_source") {
		l.HandshakesPerSource = min(perSource, max(l.Handshakes, 1)) // the default follows a small limit
	}
	if l.Handshakes < 1 || l.Handshakes > maxHandshakes {
		k.rep.add("limits.handshakes", "expected 1 to %d, found %d; 64 is the default", maxHandshakes, l.Handshakes)
	} else if l.HandshakesPerSource < 1 || l.HandshakesPerSource > l.Handshakes {
		k.rep.add("limits.handshakes_per_source", "expected 1 to limits.handshakes (%d), found %d; 8 is the default", l.Handshakes, l.HandshakesPerSource)
	}
	if l.FrameMinRate < minFrameRate || l.FrameMinRate > maxFrameRate {
		k.rep.add("limits.frame_min_rate", "expected %s to %s, found %s; 64KiB is the default", Size(minFrameRate), Size(maxFrameRate), l.FrameMinRate)
	}
	if l.Connections < 0 || l.Connections > maxConnections {
		k.rep.add("limits.connections", "expected 0 (no limit) to %d, found %d; 0 is the default", maxConnections, l.Connections)
	}
}

// verdicts checks [frames.rules] against the rules there are, and fills in the
// verdicts that nobody wrote.
func (k *checker) verdicts(rules []RuleSpec) {
	out := map[string]string{}
	var switches []string
	specs := map[string]RuleSpec{}
	for _, r := range rules {
		specs[r.Name] = r
		if len(r.Allowed) > 0 {
			out[r.Name] = r.Default
			switches = append(switches, r.Name)
		}
	}
	for _, name := range sortedKeys(k.c.Frames.Rules) {
		verdict, at := k.c.Frames.Rules[name], join("frames.rules", name)
		spec, known := specs[name]
		switch {
		case !known:
			k.rep.add(at, "expected the name of a rule, found %q; %s", name, advice(name, switches))
		case len(spec.Allowed) == 0:
			k.rep.add(at, "expected a rule that has a switch, found %s, which is always %s; remove it", name, spec.Default)
		case !slices.Contains(spec.Allowed, verdict):
			k.rep.add(at, "expected one of %s, found %q; write one of them, %s is the default", strings.Join(spec.Allowed, " "), verdict, spec.Default)
		default:
			out[name] = verdict
		}
	}
	k.c.Frames.Rules = out
}

// word checks a value against a closed list.
func (k *checker) word(key, found string, allowed ...string) {
	if !slices.Contains(allowed, found) {
		k.rep.add(key, "expected one of %s, found %q; write one of them", strings.Join(allowed, " "), found)
	}
}

func (k *checker) words() {
	k.word("security.mode", k.c.Security.Mode, "strict", permissive)
	k.word("frames.validation", k.c.Frames.Validation, "enforce", "observe")
	k.word("log.level", k.c.Log.Level, "debug", "info", "warn", "error")
	k.word("log.format", k.c.Log.Format, "json", "text")
	if k.c.Chaos.Enabled {
		k.rep.add("chaos.enabled", "expected false, found true; chaos is not available in this version, remove it")
	}
}

func (k *checker) admin() {
	listen := k.c.Admin.Listen
	path, ok := strings.CutPrefix(listen, "unix:")
	if listen != "" && (!ok || path == "" || len(path) > maxUnixPath) {
		k.rep.add("admin.listen", `expected unix:PATH with at most %d bytes of path, found %q; write for example "unix:/run/replgate/admin.sock", or "" for none`, maxUnixPath, listen)
	}
}
