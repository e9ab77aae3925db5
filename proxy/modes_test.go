package proxy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// Strict mode, applied, ends in order what is weaker than it asks for, and nothing
// else: whom WouldCut has named. Permissive mode ends nobody.
func TestApplyModes(t *testing.T) {
	g := permissive(t, hasty, func(s *proxy.Settings) { s.ReauthWindow = time.Second })
	n := g.native(g.only(proxy.Plaintext))
	plaintext := n.link()
	psk := g.ingressIn(proxy.PSK)
	strict := g.settings()
	strict.Mode = proxy.Strict
	g.wantCut(strict, "peer 0 has a psk link, strict asks for tls", "peer 2 has a plaintext link, strict asks for tls")
	g.apply(func(s *proxy.Settings) {}) // still permissive
	g.carries(plaintext, 2)
	g.carries(psk, 0)

	g.apply(func(s *proxy.Settings) { s.Mode = proxy.Strict })
	for _, e := range []ends{psk, plaintext} {
		ended(t, e.near)
		ended(t, e.far)
		hangUp(e.near, e.far)
	}
	g.await("both links to be ended", func() bool { return len(g.closed) == 2 })
	if got := g.closedNow(); !slices.Equal(got, []string{"0 ingress psk reauth", "2 egress plaintext reauth"}) {
		t.Errorf("got links closed %q, want both by reauth, one peer at a time", got)
	}
	n.refused("tls_alert", "tls")
	c := raw(t, g.ingress())
	send(t, c, bytesOf(wire.NewHello(cluster, 0, nil)))
	ended(t, c)
	g.await("a refusal", func() bool { return slices.Contains(g.refused, "ingress tls_plaintext") })

	// Who speaks TLS is not touched by either mode, but by the memory.
	n.turn(g.only(proxy.TLS))
	tls := n.link()
	g.apply(func(s *proxy.Settings) { s.Mode = proxy.Permissive })
	psk = g.ingressIn(proxy.PSK)
	g.carries(psk, 0)
	g.wantCut(strict, "peer 0 has a psk link, strict asks for tls")
	g.apply(func(s *proxy.Settings) { s.Mode = proxy.Strict })
	ended(t, psk.far)
	hangUp(psk.near, psk.far)
	g.await("the psk link to be ended", func() bool { return len(g.closed) == 3 })
	g.carries(tls, 2)
	g.over(tls)
	g.apply(func(s *proxy.Settings) { s.Mode = proxy.Permissive })
	n.turn(g.only(proxy.Plaintext))
	n.refused("tls_alert", "tls")
}

// What strict mode has proved counts in permissive mode, and what a peer may speak
// is never more than its settings ask for, whatever it has proved.
func TestPermissiveAfterLess(t *testing.T) {
	g := start(t, spec{far: proxy.TLS, change: hasty})
	n := g.native(g.only(proxy.TLS))
	g.over(n.link())
	g.apply(func(s *proxy.Settings) { s.Mode = proxy.Permissive })
	n.turn(g.only(proxy.PSK))
	n.refused("tls_alert", "tls")
	g.apply(func(s *proxy.Settings) { s.Mode, s.Peers[1].Security = proxy.Permissive, proxy.PSK })
	g.carries(n.link(), 2)
	g.wantFar(proxy.PSK)
	if cut := g.server.WouldCut(g.settings()); len(cut) != 2 || !strings.Contains(cut[1].String(), "psk link") {
		t.Errorf("got %v, want peer 2 named for its psk link", cut)
	}
}
