package proxy_test

import (
	"errors"
	"testing"
	"time"

	"github.com/replgate/replgate/proxy"
)

// What sockets, memory and consensus rest on is not changed under a running gate.
// The error names it, and nothing else of the same settings is taken either.
func TestApplyNamesWhatNeedsARestart(t *testing.T) {
	for field, change := range map[string]func(*proxy.Settings){
		"cluster.name":                 func(s *proxy.Settings) { s.Cluster = foreign },
		"gate.replica_id":              func(s *proxy.Settings) { s.Local, s.Peers[0].ID, s.Upstream = 0, 1, "" },
		"length of the roster":         func(s *proxy.Settings) { s.Replicas = 2; s.Peers = s.Peers[:1] },
		"set of peers":                 func(s *proxy.Settings) { s.Peers[0].ID = 7 },
		"ingress.listen":               func(s *proxy.Settings) { s.Listen = "127.0.0.1:1" },
		"peers.listen of replica 2":    func(s *proxy.Settings) { s.Peers[1].Listen = "127.0.0.1:1" },
		"message_bus.max_message_size": func(s *proxy.Settings) { s.MaxFrame /= 2 },
		"frames.store_limit":           func(s *proxy.Settings) { s.StoreLimit *= 2 },
		"limits.handshakes":            func(s *proxy.Settings) { s.Handshakes = 7 },
		"limits.handshakes_per_source": func(s *proxy.Settings) { s.PerSource = 7 },
		"limits.connections":           func(s *proxy.Settings) { s.Connections = 7 },
	} {
		t.Run(field, func(t *testing.T) {
			g := start(t, spec{near: proxy.PSK, far: proxy.PSK})
			next := g.settings()
			next.Keys = stranger
			change(&next)
			err := g.server.Apply(next)
			if restart, ok := errors.AsType[*proxy.RestartError](err); !ok || restart.Field != field {
				t.Fatalf("got %v, want a *RestartError for %q", err, field)
			}
			g.openIngress() // under the secret that it was started with
		})
	}
}

// Settings that New would refuse are refused by Apply in the same words.
func TestApplyChecksAsNewDoes(t *testing.T) {
	g := start(t, spec{far: proxy.PSK})
	next := g.settings()
	next.Keys = nil
	_, want := proxy.New(next)
	if err := g.server.Apply(next); want == nil || err == nil || err.Error() != want.Error() {
		t.Errorf("got %v, want %v", err, want)
	}
}

// Whoever comes after an Apply is admitted under it, at both entrances: another
// secret, and another address of a peer.
func TestApplyIsForWhoeverComesNext(t *testing.T) {
	g := start(t, spec{near: proxy.PSK, far: proxy.PSK})
	next := g.settings()
	next.Keys = stranger
	elsewhere := listen(t)
	next.Peers[1].Address = elsewhere.Addr().String()
	if err := g.server.Apply(next); err != nil {
		t.Fatal(err)
	}
	g.keys, g.peers = stranger, elsewhere
	g.openIngress()
	g.openEgress()
}

// T10: settings that are equal touch nothing.
func TestApplyOfEqualSettingsTouchesNothing(t *testing.T) {
	g := start(t, spec{near: proxy.TLS, far: proxy.TLS, change: func(s *proxy.Settings) { s.ReauthWindow = 200 * time.Millisecond }})
	in, out := g.openIngress(), g.openEgress()
	for range 3 {
		if err := g.server.Apply(g.settings()); err != nil {
			t.Fatal(err)
		}
	}
	silent(t, in.far.TCP, 400*time.Millisecond, "nothing changed") // twice the window
	for _, e := range []ends{in, out} {
		frame := commit(g.local, 7)
		send(t, e.near, frame)
		receive(t, e.far, frame)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.closed) != 0 || len(g.refused) != 0 {
		t.Errorf("got links closed %q and refused %q, want none", g.closed, g.refused)
	}
}
