package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/metrics"
	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// gate is everything that a configuration becomes. This file is the only place
// that names every room.
type gate struct {
	config   *configs.Config
	loaded   *configs.Loaded
	settings proxy.Settings
	certs    *certs.Set // nil where no leg speaks TLS
}

// parts are what outlives a configuration, and what a gate is made with besides.
// The zero value makes a gate that is only looked at.
type parts struct {
	log      *slog.Logger
	registry *metrics.Registry
	memory   proxy.Memory
	read     func(string) ([]byte, error) // the way to certificate files; nil: the disk
	before   *gate                        // that this one takes the place of
}

// load reads and checks a configuration file.
func load(path string) (*configs.Loaded, error) { return loadFor(path, false) }

// loadFor may do without secrets that are not there yet.
func loadFor(path string, later bool) (*configs.Loaded, error) {
	return configs.Load(path, configs.Options{Env: os.Environ(), Rules: ruleSpecs(), Later: later})
}

// ruleSpecs tells configs which rules there are.
func ruleSpecs() []configs.RuleSpec {
	var specs []configs.RuleSpec
	for _, r := range policy.Rules() {
		spec := configs.RuleSpec{Name: r.Name, Default: r.Default.String(), Stricter: r.Stricter, Note: r.Refuses}
		for _, a := range r.Allowed {
			spec.Allowed = append(spec.Allowed, a.String())
		}
		specs = append(specs, spec)
	}
	return specs
}

// build makes the parts of a gate. It opens no socket. A credential that is not
// there, or faulty, is an error of type configs.Faults.
func build(loaded *configs.Loaded, p parts) (*gate, error) {
	g := &gate{config: &loaded.Config, loaded: loaded}
	c := g.config
	table, err := policy.NewTable(c.Frames.Rules)
	if err != nil {
		return nil, &configError{err}
	}
	g.settings = proxy.Settings{
		Cluster: wire.ClusterIDOf(c.Cluster.Name), Local: uint8(c.Gate.ReplicaID), Replicas: len(c.Cluster.Nodes),
		Listen: c.Ingress.Listen, Upstream: c.Ingress.Upstream,
		UpstreamSecurity: proxy.Security(c.Ingress.UpstreamSecurity), UpstreamName: host(c.Ingress.Upstream),
		EgressSecurity: proxy.Security(c.Egress.Security), Peers: peers(c),
		Rules: table, Observe: c.Frames.Validation == "observe",
		MaxFrame: uint32(c.MessageBus.MaxMessageSize), StoreLimit: int(c.Frames.StoreLimit),
		HandshakeTimeout: c.Timeouts.Handshake.Std(), ProveTimeout: c.Timeouts.Prove.Std(),
		HeartbeatTimeout: c.Cluster.HeartbeatTimeout.Std(), WriteStall: c.Timeouts.WriteStall.Std(),
		DrainMinDelay: c.Timeouts.DrainMinDelay.Std(), FrameRate: int64(c.Limits.FrameMinRate),
		Handshakes: c.Limits.Handshakes, PerSource: c.Limits.HandshakesPerSource, Connections: c.Limits.Connections,
		Mode: proxy.Mode(c.Security.Mode), Memory: p.memory, StrictReadyAfter: c.Security.StrictReadyAfter.Std(),
		ReauthWindow: c.Security.ReauthWindow.Std(), Log: p.log,
	}
	if p.registry != nil {
		g.settings.Metrics = counts{p.registry}
	}
	if err := g.credentials(p); err != nil {
		return nil, err
	}
	return g, nil
}

func peers(c *configs.Config) []proxy.Peer {
	var all []proxy.Peer
	for _, p := range c.Peers {
		all = append(all, proxy.Peer{ID: uint8(p.ReplicaID), Security: proxy.Security(p.Security),
			Listen: p.Listen, Address: p.Address, Name: p.ServerName})
	}
	return all
}

// host is an address without its port.
func host(address string) string {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return name
}

// newRegistry hands the closed sets to metrics, and the questions of labels.
func newRegistry(c *configs.Config, labels metrics.Labels) *metrics.Registry {
	labels.Version, labels.GoVersion = buildVersion(), goVersion()
	for _, p := range c.Peers {
		labels.Peers = append(labels.Peers, fmt.Sprint(p.ReplicaID))
	}
	for i := range wire.Commands {
		labels.Commands = append(labels.Commands, wire.Command(i).String())
	}
	for _, e := range proxy.Endings() {
		labels.Endings = append(labels.Endings, string(e.Name))
	}
	for _, r := range policy.Rules() {
		labels.Rules = append(labels.Rules, r.Name)
		labels.Endings = append(labels.Endings, r.Name)
	}
	return metrics.New(labels)
}

// counts is the registry as the road sees it.
type counts struct{ *metrics.Registry }

func (c counts) Frames(peer, way string) proxy.FrameCounter {
	return frames{c.Registry.Frames(peer, way)}
}

type frames struct{ *metrics.FrameCounters }

func (f frames) Add(r proxy.Result, command uint8, n, bytes uint64) {
	f.FrameCounters.Add(metrics.Result(r), command, n, bytes)
}
