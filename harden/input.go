package harden

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Cluster is a plaintext cluster that runs.
type Cluster struct {
	Name           string
	Heartbeat      time.Duration // cluster.heartbeat_timeout
	Handshake      time.Duration // message_bus.handshake_grace
	Reconnect      time.Duration // message_bus.reconnect_period
	MaxMessageSize string        // as a configuration has it
	HTTPForwards   bool          // followers forward HTTP requests to the primary
	Nodes          []Node        // by id, without a gap
	// Move returns the edits that give replicas other addresses in Iggy's own file.
	Move func(to map[int]netip.AddrPort) ([]Edit, error)
}

// Node is an entry of the roster.
type Node struct {
	Name    string
	Address netip.AddrPort
}

// Options say where things are on the nodes. In each path and unit {replica} stands
// for the node's id. What is empty has the default named behind it; the second
// one is for a cluster of which nodes share an ip, and so a host.
type Options struct {
	Etc   string // folder of the gate's files: /etc/replgate, /etc/replgate/{replica}
	Run   string // of its admin socket: /run/replgate, /run/replgate-{replica}
	State string // of its memory of proofs: /var/lib/replgate, /var/lib/replgate-{replica}
	Iggy  string // Iggy's configuration: /etc/iggy/config.toml, /etc/iggy/config-{replica}.toml
	// IggyUnit and GateUnit are of systemd: iggy-server and replgate, or
	// iggy-server@{replica} and replgate@{replica}.
	IggyUnit, GateUnit string
	// Metrics is where a gate shows them: 127.0.0.1:9464, or port 9464 of the
	// loopback address of its Iggy.
	Metrics string
	// Loopback is the /16 of loopback addresses that a plan draws from:
	// 127.50.0.0/16. Replica j stands at 127.50.i.(j+1) for node i.
	Loopback netip.Prefix
	// Hold is how long links must have been up before the next node, 10s. Within
	// bounds each wait, 2m. StrictReadyAfter is the gates' own, 10m.
	Hold, Within, StrictReadyAfter time.Duration
}

// placeholder stands for a replica's id.
const placeholder = "{replica}"

// defaultLoopback is the net that nobody else draws from by default.
const defaultLoopback = "127.50.0.0/16"

// withDefaults fills in what is empty.
func (o Options) withDefaults(shared bool) Options {
	for _, d := range []struct {
		at              *string
		apart, together string
	}{
		{&o.Etc, "/etc/replgate", "/etc/replgate/" + placeholder},
		{&o.Run, "/run/replgate", "/run/replgate-" + placeholder},
		{&o.State, "/var/lib/replgate", "/var/lib/replgate-" + placeholder},
		{&o.Iggy, "/etc/iggy/config.toml", "/etc/iggy/config-" + placeholder + ".toml"},
		{&o.IggyUnit, "iggy-server", "iggy-server@" + placeholder},
		{&o.GateUnit, "replgate", "replgate@" + placeholder},
	} {
		if shared {
			d.apart = d.together
		}
		*d.at = cmp.Or(*d.at, d.apart)
	}
	if !o.Loopback.IsValid() {
		o.Loopback = netip.MustParsePrefix(defaultLoopback)
	}
	o.Hold = cmp.Or(o.Hold, 10*time.Second)
	o.Within = cmp.Or(o.Within, 2*time.Minute)
	o.StrictReadyAfter = cmp.Or(o.StrictReadyAfter, strictReadyAfter)
	return o
}

// strictReadyAfter is what a gate has without the key.
const strictReadyAfter = 10 * time.Minute

// check refuses what no plan can be made for. Roster and names are as a
// configuration's own checks let them through.
func (o Options) check(c Cluster, shared bool) error {
	l := o.Loopback
	if !l.Addr().Is4() || !l.Addr().IsLoopback() || l.Bits() != 16 || l != l.Masked() {
		return fmt.Errorf("harden: got the loopback net %v, want a /16 below 127.0.0.0/8, such as %s", l, defaultLoopback)
	}
	if o.Hold <= 0 || o.Within <= o.Hold || o.StrictReadyAfter <= 0 {
		return fmt.Errorf("harden: got hold %v, within %v and strict ready after %v, want all above 0s and a wait longer than hold", o.Hold, o.Within, o.StrictReadyAfter)
	}
	for id, n := range c.Nodes {
		a := n.Address.Addr()
		switch {
		case a.IsUnspecified() || a.IsMulticast():
			return fmt.Errorf("harden: got %v for replica %d, want an address that the other nodes can dial", a, id)
		case l.Contains(a.Unmap()):
			return fmt.Errorf("harden: got %v for replica %d, want a roster outside of %v, where the plan puts Iggy behind its gates; name another net", a, id, l)
		}
	}
	for flag, text := range map[string]string{"etc": o.Etc, "run": o.Run, "state": o.State, "iggy": o.Iggy, "iggy-unit": o.IggyUnit, "gate-unit": o.GateUnit, "metrics": cmp.Or(o.Metrics, placeholder)} {
		if shared && !strings.Contains(text, placeholder) {
			return fmt.Errorf("harden: got %s %q, want %s in it: replicas share a host, and each needs its own", flag, text, placeholder)
		}
	}
	return nil
}

// shareHost tells whether any two nodes have one ip.
func shareHost(nodes []Node) bool {
	seen := map[netip.Addr]bool{}
	for _, n := range nodes {
		if seen[n.Address.Addr().Unmap()] {
			return true
		}
		seen[n.Address.Addr().Unmap()] = true
	}
	return false
}

// places lays the cluster out. On the host of node i everything new is at an
// address below 127.50.i and the port of i's own entry: nobody has a wildcard
// listener on that port, since Iggy is bound to it.
func places(c Cluster, o Options, shared bool) []Place {
	base := o.Loopback.Addr().As4()
	all := make([]Place, len(c.Nodes))
	for i, n := range c.Nodes {
		at := func(j int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{base[0], base[1], byte(i), byte(j + 1)}), n.Address.Port())
		}
		here := func(template string) string { return strings.ReplaceAll(template, placeholder, strconv.Itoa(i)) }
		etc := here(o.Etc)
		p := Place{ID: i, Name: cmp.Or(n.Name, "replica-"+strconv.Itoa(i)), Address: n.Address, Behind: at(i), Egress: map[int]netip.AddrPort{},
			Gate: etc + "/replgate.toml", Iggy: here(o.Iggy), Socket: here(o.Run) + "/admin.sock", SecretFile: etc + "/secret", PreviousFile: etc + "/previous",
			CertFile: etc + "/tls/tls.crt", KeyFile: etc + "/tls/tls.key", CAFile: etc + "/tls/ca.crt", StateDir: here(o.State),
			Metrics: here(o.Metrics), iggyUnit: here(o.IggyUnit), gateUnit: here(o.GateUnit)}
		for j := i + 1; j < len(c.Nodes); j++ {
			p.Egress[j] = at(j)
		}
		if p.Metrics == "" {
			host := netip.AddrFrom4([4]byte{127, 0, 0, 1})
			if shared {
				host = p.Behind.Addr()
			}
			p.Metrics = netip.AddrPortFrom(host, metricsPort).String()
		}
		all[i] = p
	}
	return all
}

// metricsPort is the gates' default.
const metricsPort = 9464

// New makes the plan.
func New(c Cluster, o Options) (*Plan, error) {
	if len(c.Nodes) < 2 {
		return nil, errors.New("harden: got a roster of fewer than 2 nodes, want a cluster")
	}
	shared := shareHost(c.Nodes)
	o = o.withDefaults(shared)
	if err := o.check(c, shared); err != nil {
		return nil, err
	}
	m := &maker{cluster: c, options: o, places: places(c, o, shared), gated: make([]bool, len(c.Nodes)), mode: make([]string, len(c.Nodes))}
	p := &Plan{Cluster: c.Name, Notes: notes(c, o, shared)}
	for _, phase := range []func() (Phase, error){m.harden, m.strict, m.permissive, m.back} {
		made, err := phase()
		if err != nil {
			return nil, err
		}
		p.Phases = append(p.Phases, made)
	}
	p.Nodes = m.places
	return p, nil
}
