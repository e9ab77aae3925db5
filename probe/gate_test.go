package probe_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"io"
	"log/slog"
	"maps"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/probe"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// counts are a gate's metrics.
type counts struct {
	mu      sync.Mutex
	refused map[string]int
	opened  int
	// otherwise counts the ends of all kinds but probes.
	otherwise int
	closed    int
	proofs    int
	results   map[string]int
	warnings  []string
}

func (c *counts) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *counts) LinkOpened(_, _, _ string) { c.add(func() { c.opened++ }) }
func (c *counts) LinkClosed(_, _, _, ending string) {
	c.add(func() { c.closed++; c.other(ending) })
}
func (c *counts) Refused(_, ending string) { c.add(func() { c.refused[ending]++; c.other(ending) }) }
func (c *counts) other(ending string) {
	if ending != "probe" {
		c.otherwise++
	}
}
func (c *counts) Unauthenticated(int) {}
func (c *counts) Handshake(role, result string, _ time.Duration) {
	c.add(func() { c.results[role+" "+result]++ })
}
func (c *counts) SecretProof(_, _ string)                  { c.add(func() { c.proofs++ }) }
func (c *counts) PlaintextLink(string)                     {}
func (c *counts) WriteBlocked(time.Duration)               {}
func (c *counts) Frames(_, _ string) proxy.FrameCounter    { return noFrames{} }
func (c *counts) Enabled(context.Context, slog.Level) bool { return true }
func (c *counts) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *counts) WithGroup(string) slog.Handler            { return c }

// Handle takes the log: what an operator would see of a connection.
func (c *counts) Handle(_ context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug && r.Message != "listening" && r.Message != "link opened" {
		c.add(func() { c.warnings = append(c.warnings, r.Message) })
	}
	return nil
}

type noFrames struct{}

func (noFrames) Add(proxy.Result, uint8, uint64, uint64) {}
func (noFrames) Rejected(_, _ string)                    {}

type credentials struct {
	server *tls.Config
	client *tls.Config
}

func (c credentials) Server() (*tls.Config, func(error) proxy.TLSFault) {
	return c.server.Clone(), tlsFault
}
func (c credentials) Client(string) (*tls.Config, func(error) proxy.TLSFault) {
	return c.client.Clone(), tlsFault
}
func (c credentials) Identify(tls.ConnectionState, uint8) (proxy.Identity, *proxy.TLSFault) {
	return proxy.Identity{Level: proxy.ByMembership}, nil
}
func tlsFault(err error) proxy.TLSFault {
	return proxy.TLSFault{Ending: proxy.TLSAlert, Detail: err.Error()}
}

// gate is a running one, in front of replica 2 of 4, whose upstream and whose
// peer 3 are stand-ins that must not be dialed by a probe.
type gate struct {
	*counts
	server   *proxy.Server
	upstream *net.TCPListener
	far      *net.TCPListener
	trust    *tls.Config
	client   *tls.Config
}

// startGate starts one whose peers 0 and 1 speak what is given, whose local
// replica speaks near to it, and near is spoken to it.
func startGate(t *testing.T, zero, one, near proxy.Security) *gate {
	t.Helper()
	now := time.Now()
	set, err := certs.SelfSigned([]string{serverName}, now)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{counts: &counts{refused: map[string]int{}, results: map[string]int{}}, upstream: listener(t), far: listener(t),
		trust: &tls.Config{InsecureSkipVerify: true}, client: set.Client(serverName)}
	g.server, err = proxy.New(proxy.Settings{
		Cluster: wire.ClusterIDOf(clusterName), Local: 2, Replicas: 4, Listen: "127.0.0.1:0",
		Upstream: g.upstream.Addr().String(), UpstreamSecurity: near, EgressSecurity: near,
		Peers: []proxy.Peer{{ID: 0, Security: zero}, {ID: 1, Security: one},
			{ID: 3, Security: proxy.PSK, Listen: "127.0.0.1:0", Address: g.far.Addr().String()}},
		Keys: keyring(t, secretOne), Credentials: credentials{set.Server(), set.Client(serverName)},
		MaxFrame: maxFrame, StoreLimit: 256 << 10, Metrics: g, Log: slog.New(g),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.server.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := g.server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return g
}

func listener(t *testing.T) *net.TCPListener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.(*net.TCPListener)
}

// untouched checks that nobody has dialed a stand-in.
func untouched(t *testing.T, ln *net.TCPListener) {
	t.Helper()
	// The gate has counted the end of every connection: a dial would be here.
	ln.SetDeadline(time.Now().Add(20 * time.Millisecond))
	if c, err := ln.Accept(); err == nil {
		c.Close()
		t.Error("got a connection to a replica, want a probe to end at the gate")
	}
}

// probed waits until the gate has counted so many connections, all as probes, and
// checks that nothing else was counted or logged.
func (g *gate) probed(t *testing.T, n int) {
	t.Helper()
	want := map[string]int{"probe": n}
	got := g.refusals()
	for deadline := time.Now().Add(10 * time.Second); sum(got) < n && time.Now().Before(deadline); got = g.refusals() {
		time.Sleep(time.Millisecond) // real time: the gate's goroutines are watched
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !maps.Equal(got, want) || g.opened != 0 || g.closed != 0 || g.proofs != 0 || len(g.warnings) != 0 {
		t.Errorf("got endings %v, %d links opened, %d closed, %d proofs, log %q, want %v and nothing else",
			got, g.opened, g.closed, g.proofs, g.warnings, want)
	}
	for result := range g.results {
		if result != "acceptor probe" {
			t.Errorf("got handshake %q, want only those of probes", result)
		}
	}
}

func (g *gate) refusals() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.refused)
}

// ends counts the connections that ended otherwise than as probes.
func (g *gate) ends() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.otherwise
}

// links is how many links were opened.
func (g *gate) links() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opened
}

func sum(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// gateOptions are a probe of an entrance of the gate.
func (g *gate) options(t *testing.T, address net.Addr, target, dialer uint8, expected proxy.Security) probe.Options {
	o := options(t, address.String())
	o.Target, o.Dialer, o.Expected, o.TLS = id(target), dialer, string(expected), g.trust
	return o
}

// What a probe finds at a gate, and what the gate makes of it: a probe, whatever
// security was expected.
func TestGates(t *testing.T) {
	for security, c := range map[proxy.Security]struct {
		what        string
		kind        probe.Kind
		want        string
		connections int
	}{
		proxy.Plaintext: {probe.WhatCloses, probe.KindUnknown, "acceptor=unknown " + plaintextUnknowns, 2},
		proxy.PSK:       {probe.WhatPSKAcceptor, probe.KindUnknown, "kind=unknown", 3},
		proxy.TLS:       {probe.WhatTLSAcceptor, probe.KindGate, "", 2},
	} {
		for _, expected := range []proxy.Security{security, ""} {
			t.Run(string(security)+"/expected="+string(expected), func(t *testing.T) {
				g := startGate(t, security, security, security)
				check(t, g.options(t, g.server.Addr(nil), 2, 1, expected), c.what, c.kind, c.want)
				g.probed(t, c.connections)
				// The entrance of the local replica on its way to peer 3.
				check(t, g.options(t, g.server.Addr(id(3)), 3, 2, expected), c.what, c.kind, c.want)
				g.probed(t, 2*c.connections)
				untouched(t, g.upstream)
				untouched(t, g.far)
			})
		}
	}
}

// What is wrong, from outside, is a probe to the gate all the same.
func TestGateFaults(t *testing.T) {
	for _, c := range []struct {
		name        string
		security    proxy.Security
		adjust      func(*probe.Options)
		what        string
		want        string
		connections int
	}{
		{"another cluster", proxy.PSK, func(o *probe.Options) { o.Cluster = wire.ClusterIDOf("other") }, probe.WhatPSKAcceptor,
			"cluster=fault direction=unknown secret=unknown kind=unknown", 2},
		{"another secret", proxy.PSK, func(o *probe.Options) { o.Keys = keyring(t, secretTwo) }, probe.WhatPSKAcceptor, "secret=fault kind=unknown", 3},
		{"another replica", proxy.PSK, func(o *probe.Options) { o.Target = id(1) }, probe.WhatPSKAcceptor, "replica=fault kind=unknown", 3},
		{"tls expected at psk", proxy.PSK, func(o *probe.Options) { o.Expected = probe.TLS }, probe.WhatPSKAcceptor, "security=fault kind=unknown", 3},
		{"psk expected at tls", proxy.TLS, func(o *probe.Options) { o.Expected = probe.PSK }, probe.WhatTLSAcceptor, "security=fault", 3},
		{"psk expected at plaintext", proxy.Plaintext, func(o *probe.Options) { o.Expected = probe.PSK }, probe.WhatCloses, "security=fault " + plaintextUnknowns, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := startGate(t, c.security, c.security, proxy.Plaintext)
			o := g.options(t, g.server.Addr(nil), 2, 0, c.security)
			c.adjust(&o)
			kind := probe.KindUnknown
			if c.security == proxy.TLS {
				kind = probe.KindGate
			}
			check(t, o, c.what, kind, c.want)
			g.probed(t, c.connections)
			untouched(t, g.upstream)
		})
	}
}

// In the middle of a rollout a gate takes both from its peers. A Hello that only
// asks is no plaintext dialer's, also where the id it names is one's.
func TestMixedGate(t *testing.T) {
	g := startGate(t, proxy.PSK, proxy.Plaintext, proxy.Plaintext)
	r := check(t, g.options(t, g.server.Addr(nil), 2, 1, ""), probe.WhatPSKAcceptor, probe.KindUnknown,
		"direction=fault secret=unknown kind=unknown")
	if got := finding(t, r, probe.CodeDirection); got.Ending != "peer_eof" {
		t.Errorf("got %+v", got)
	}
	g.probed(t, 3)
	check(t, g.options(t, g.server.Addr(nil), 2, 0, proxy.PSK), probe.WhatPSKAcceptor, probe.KindUnknown, "kind=unknown")
	g.probed(t, 6)
	untouched(t, g.upstream)

	g = startGate(t, proxy.PSK, proxy.TLS, proxy.Plaintext)
	check(t, g.options(t, g.server.Addr(nil), 2, 0, proxy.PSK), probe.WhatPSKAcceptor, probe.KindUnknown, "kind=unknown")
	g.probed(t, 3)
	check(t, g.options(t, g.server.Addr(nil), 2, 1, proxy.TLS), probe.WhatTLSAcceptor, probe.KindGate, "")
	g.probed(t, 5)
	check(t, g.options(t, g.server.Addr(nil), 2, 0, proxy.Plaintext), probe.WhatPSKAcceptor, probe.KindUnknown, "security=fault kind=unknown")
	g.probed(t, 8)
	untouched(t, g.upstream)
}

// A probe in a live peer's name leaves its link alone, in every security.
func TestProbeLeavesLinksAlone(t *testing.T) {
	for _, security := range []proxy.Security{proxy.Plaintext, proxy.PSK, proxy.TLS} {
		t.Run(string(security), func(t *testing.T) {
			g := startGate(t, proxy.PSK, security, proxy.Plaintext)
			v := g.voice(t, security)
			dialer, err := v.Dial(t.Context(), g.server.Addr(nil).String())
			if err != nil {
				t.Fatal(err)
			}
			defer dialer.Close()
			g.upstream.SetDeadline(time.Now().Add(10 * time.Second))
			near, err := g.upstream.AcceptTCP()
			if err != nil {
				t.Fatal(err)
			}
			defer near.Close()
			for deadline := time.Now().Add(10 * time.Second); g.links() == 0 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond) // real time: the gate's goroutines are watched
			}
			r := probe.Run(t.Context(), g.options(t, g.server.Addr(nil), 2, 1, ""))
			if r.What != probe.WhatPSKAcceptor && r.What != probe.WhatTLSAcceptor {
				t.Errorf("got\n%s", show(r))
			}
			untouched(t, g.upstream)
			near.SetDeadline(time.Now().Add(20 * time.Millisecond))
			if n, err := io.Copy(io.Discard, near); n != wire.HeaderSize || err == nil {
				t.Errorf("got %d bytes and %v at the replica, want its Hello and no end", n, err)
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.opened != 1 || g.closed != 0 {
				t.Errorf("got %d links opened and %d closed, want one that lives", g.opened, g.closed)
			}
		})
	}
}

// voice is replica 1's.
func (g *gate) voice(t *testing.T, security proxy.Security) replica.Voice {
	v := replica.Voice{Cluster: wire.ClusterIDOf(clusterName), Pair: mac.Pair{Dialer: 1, Acceptor: 2}}
	if security != proxy.Plaintext {
		v.Keys = keyring(t, secretOne)
	}
	if security == proxy.TLS {
		v.TLS = g.client
	}
	return v
}

// Whoever goes on after a marked Hello is judged as anybody else.
func TestMarkHidesNothing(t *testing.T) {
	for _, c := range []struct{ secret, ending string }{{secretTwo, "mac_mismatch"}, {secretOne, ""}} {
		g := startGate(t, proxy.PSK, proxy.PSK, proxy.Plaintext)
		conn, err := net.Dial("tcp", g.server.Addr(nil).String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		var nonce [wire.NonceSize]byte
		rand.Read(nonce[copy(nonce[:], wire.ProbeMark):])
		asGate := mac.Options{Cluster: wire.ClusterIDOf(clusterName), Keys: keyring(t, secretOne)}
		d := mac.NewDialer(mac.Pair{Dialer: 1, Acceptor: 2}, asGate)
		hello := d.Hello(nonce)
		if _, err := conn.Write(hello[:]); err != nil {
			t.Fatal(err)
		}
		var challenge wire.Header
		if _, err := io.ReadFull(conn, challenge[:]); err != nil {
			t.Fatal(err)
		}
		finish, _, err := d.Challenge(&challenge)
		if err != nil {
			t.Fatal(err)
		}
		if c.secret != secretOne {
			finish.MAC()[0] ^= 1
		}
		if _, err := conn.Write(finish[:]); err != nil {
			t.Fatal(err)
		}
		if c.ending == "" {
			g.upstream.SetDeadline(time.Now().Add(10 * time.Second))
			near, err := g.upstream.AcceptTCP()
			if err != nil {
				t.Fatalf("got no link, want one: %v", err)
			}
			near.Close() // what comes of it is no probe's doing
			for deadline := time.Now().Add(10 * time.Second); g.ends() == 0 && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond) // real time: the gate's goroutines are watched
			}
			if got := g.refusals(); got["probe"] != 0 || g.ends() != 1 {
				t.Errorf("got endings %v and %d others, want one other than probe", got, g.ends())
			}
			continue
		}
		if n, err := io.Copy(io.Discard, conn); n != 0 || err != nil {
			t.Errorf("got %d bytes and %v, want an end", n, err)
		}
		if got := g.refusals(); !maps.Equal(got, map[string]int{c.ending: 1}) {
			t.Errorf("got endings %v, want %s", got, c.ending)
		}
	}
}
