package proxy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/proxy"
)

// T55 on links: nobody is ready before it has proved itself, a plaintext link is
// one too many for a while, and who would be cut is named.
func TestStrictReady(t *testing.T) {
	g := permissive(t, hasty, func(s *proxy.Settings) { s.StrictReadyAfter = time.Hour })
	n := g.native(g.only(proxy.Plaintext))
	asks := proxy.Settings{Peers: []proxy.Peer{{ID: 0, Security: proxy.TLS}, {ID: 2, Security: proxy.TLS}}}
	g.wantAwaited("peer 0: never proved tls", "peer 2: never proved tls")
	g.wantCut(asks, "peer 0 has no link and has never proved tls", "peer 2 has no link and has never proved tls")

	higher := n.link()
	lower := g.ingressIn(proxy.TLS)
	g.wantAwaited("peer 2: never proved tls")
	g.wantCut(asks, "peer 2 has a plaintext link, strict asks for tls")
	asks.Peers[1].Security = proxy.Plaintext
	g.wantCut(asks)
	asks.Peers[1].Security = proxy.TLS

	// Its next link is a better one, but the last plaintext one is not long ago.
	g.over(higher)
	n.turn(g.only(proxy.TLS))
	g.server.AgeFindings(proxy.FindingTime)
	higher = n.link()
	g.wantAwaited("peer 2: got a plaintext link at 2")
	g.wantCut(asks)

	// A proof is no reason to believe that a link which is weaker has gone.
	if err := g.server.ResetPeer(2); err != nil {
		t.Fatal(err)
	}
	g.wantAwaited("peer 2: never proved tls")
	g.wantCut(asks)
	g.over(higher)
	g.over(lower)
	g.wantCut(asks, "peer 2 has no link and has never proved tls")
}

// A gate whose peers have all proved themselves, and got no plaintext link, is
// ready; in strict mode, and where it asks for plaintext, it is too.
func TestStrictReadyYes(t *testing.T) {
	for _, mode := range []proxy.Mode{proxy.Strict, proxy.Permissive} {
		g := start(t, spec{far: proxy.TLS, change: func(s *proxy.Settings) { s.Mode = mode; s.Peers[0].Security = proxy.PSK }})
		n := g.native(g.only(proxy.TLS))
		g.wantAwaited("peer 0: never proved psk", "peer 2: never proved tls")
		n.link()
		g.ingressIn(proxy.PSK)
		g.wantAwaited()
		st := g.server.Status()
		if !st.StrictReady || st.Mode != mode || st.Peers[0].Proved != proxy.PSK || st.Peers[1].Proved != proxy.TLS {
			t.Errorf("%s: got status %+v, want ready by psk and tls", mode, st)
		}
	}
	g := start(t, spec{far: proxy.Plaintext})
	g.native(g.only(proxy.Plaintext)).link()
	g.wantAwaited()
}

// wantAwaited holds who is awaited before strict mode, each by the beginning of
// what is said of it.
func (g *gate) wantAwaited(want ...string) {
	g.t.Helper()
	r := g.server.StrictReady()
	got := make([]string, 0, len(r.NotReady))
	for _, a := range r.NotReady {
		got = append(got, a.String())
	}
	if r.Ready != (len(want) == 0) || !slices.EqualFunc(got, want, strings.HasPrefix) {
		g.t.Errorf("got ready %v, awaited %q, want %q", r.Ready, got, want)
	}
}

func (g *gate) wantCut(asks proxy.Settings, want ...string) {
	g.t.Helper()
	var got []string
	for _, c := range g.server.WouldCut(asks) {
		got = append(got, c.String())
	}
	if !slices.Equal(got, want) {
		g.t.Errorf("strict mode would cut %q, want %q", got, want)
	}
}

// Nobody who has no place in the roster is reset.
func TestResetPeerUnknown(t *testing.T) {
	g := permissive(t)
	for _, id := range []uint8{1, 3, 255} { // 1 is the gate's own replica
		if err := g.server.ResetPeer(id); err == nil {
			t.Errorf("peer %d: got no error, want one", id)
		}
	}
	if _, err := proxy.New(proxy.Settings{Mode: "lenient"}); err == nil || !strings.Contains(err.Error(), "lenient") {
		t.Errorf("mode lenient: got %v, want an error that names it", err)
	}
}
