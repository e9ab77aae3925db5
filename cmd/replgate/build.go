package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/mac"
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
	registry *metrics.Registry
	certs    *certs.Set // nil where no leg speaks TLS
	server   atomic.Pointer[proxy.Server]
}

// load reads and checks a configuration file.
func load(path string) (*configs.Loaded, error) {
	return configs.Load(path, configs.Options{Env: os.Environ(), Rules: ruleSpecs()})
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

// build makes the parts of a gate. It opens no socket.
func build(loaded *configs.Loaded, log *slog.Logger) (*gate, error) {
	g := &gate{config: &loaded.Config, loaded: loaded}
	c := g.config
	table, err := policy.NewTable(c.Frames.Rules)
	if err != nil {
		return nil, &configError{err}
	}
	g.registry = newRegistry(c, g.buffered)
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
		Log: log, Metrics: counts{g.registry},
	}
	if g.settings.Keys, err = keyring(c); err != nil {
		return nil, &configError{err}
	}
	if c.UsesTLS() {
		if g.certs, err = certificates(loaded); err != nil {
			return nil, &configError{err}
		}
		g.settings.Credentials = credentials{g.certs}
		g.registry.CertNotAfter("leaf", g.certs.Leaf().NotAfter)
		for _, ca := range g.certs.CAs() {
			g.registry.CertNotAfter("ca", ca.NotAfter)
		}
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

// keyring is nil where no secret is configured; Settings say whether one is
// needed.
func keyring(c *configs.Config) (*mac.Keyring, error) {
	if !c.Cluster.Auth.SharedSecret.IsSet() {
		return nil, nil
	}
	var previous []byte
	if c.Cluster.Auth.PreviousSharedSecret.IsSet() {
		previous = c.Cluster.Auth.PreviousSharedSecret.Reveal()
	}
	return mac.NewKeyring(c.Cluster.Auth.SharedSecret.Reveal(), previous)
}

func certificates(loaded *configs.Loaded) (*certs.Set, error) {
	c := &loaded.Config
	t := c.Cluster.TLS
	if !t.SelfSigned {
		set, err := certs.Load(certs.Files{Cert: t.CertFile, Key: t.KeyFile, CA: t.CAFile}, nil)
		return set, located(loaded, err)
	}
	node, ok := c.Node(c.Gate.ReplicaID)
	if !ok {
		return nil, fmt.Errorf("got replica %d, want one of the roster", c.Gate.ReplicaID)
	}
	return certs.SelfSigned([]string{node.IP}, time.Now())
}

// located puts the faults of certificate files where their keys stand.
func located(loaded *configs.Loaded, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var faults configs.Faults
	for _, each := range joined.Unwrap() {
		file, ok := errors.AsType[*certs.FileError](each)
		if !ok {
			return err
		}
		faults = append(faults, loaded.Fault("cluster.tls."+file.Key, fmt.Sprintf("%q: %v", file.Path, file.Err)))
	}
	return faults
}

// host is an address without its port.
func host(address string) string {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return name
}

// credentials lend certificates to the road, with the reading of their faults.
type credentials struct{ set *certs.Set }

func (c credentials) Server() (*tls.Config, func(error) proxy.TLSFault) {
	hello := new(certs.Hello)
	return hello.Watch(c.set.Server()), func(err error) proxy.TLSFault {
		return fault(certs.ClassifyServer(err, hello, time.Now()))
	}
}

func (c credentials) Client(name string) (*tls.Config, func(error) proxy.TLSFault) {
	return c.set.Client(name), func(err error) proxy.TLSFault {
		return fault(certs.ClassifyClient(err, time.Now()))
	}
}

// Identify asks for no name in a certificate: it says how long the one that was
// shown lives.
func (c credentials) Identify(state tls.ConnectionState, _ uint8) (proxy.Identity, *proxy.TLSFault) {
	identity := proxy.Identity{Level: proxy.ByMembership}
	if len(state.PeerCertificates) > 0 {
		identity.NotAfter = state.PeerCertificates[0].NotAfter
	}
	return identity, nil
}

func fault(f certs.Fault) proxy.TLSFault {
	return proxy.TLSFault{Ending: proxy.Ending(f.Word), Detail: f.Detail}
}

// buffered is asked at a scrape; before the gate runs it holds nothing.
func (g *gate) buffered() int64 {
	if s := g.server.Load(); s != nil {
		return s.Buffered()
	}
	return 0
}

// newRegistry hands the closed sets to metrics.
func newRegistry(c *configs.Config, buffered func() int64) *metrics.Registry {
	labels := metrics.Labels{Version: buildVersion(), GoVersion: goVersion(), BufferedBytes: buffered}
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
