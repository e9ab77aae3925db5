package proxy_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
)

// apply gives a gate its own settings with a change.
func (g *gate) apply(change func(*proxy.Settings)) {
	g.t.Helper()
	next := g.settings()
	change(&next)
	if err := g.server.Apply(next); err != nil {
		g.t.Fatal(err)
	}
}

// closedNow are the links that have ended.
func (g *gate) closedNow() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.closed)
}

// T9: a secret is replaced on all gates without a rotation, under traffic. Every
// link is made anew in the window, between frames: no gate loses a frame, no
// replica gets part of one, and the cluster goes on.
func TestRemovedSecretUnderTraffic(t *testing.T) {
	for _, far := range []proxy.Security{proxy.PSK, proxy.TLS} {
		t.Run(string(far), func(t *testing.T) {
			c := startTrio(t, far, func(s *proxy.Settings) { s.Keys = rolled(oldSecret) })
			c.progress()
			began := time.Now()
			for id := range 3 {
				c.roll(id, rolled(newSecret))
			}
			c.until("all links to be made anew", func() bool {
				for _, g := range c.gates {
					for _, p := range g.server.Rotation().Peers {
						if !p.LinkProven {
							return false
						}
					}
				}
				return c.up() == 6
			})
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("got new links after %v, want them in a window of 1s and a redial", took)
			}
			c.progress()
			for _, e := range c.closedLinks() {
				if by := e[strings.LastIndexByte(e, ' ')+1:]; !slices.Contains([]string{"reauth", "peer_eof", "local_eof"}, by) {
					t.Errorf("got %q closed, want orderly ends only", e)
				}
			}
			c.whole()
		})
	}
}

// The links of a gate are made anew one peer at a time, by id: the next waits until
// the one before is back.
func TestRemakeOnePeerAtATime(t *testing.T) {
	g := start(t, spec{near: proxy.Plaintext, far: proxy.PSK, change: func(s *proxy.Settings) { s.ReauthWindow = time.Minute }})
	in, out := g.openIngress(), g.openEgress()
	g.apply(func(s *proxy.Settings) { s.Keys = stranger })
	g.keys = stranger
	ended(t, in.far)
	hangUp(in.near, in.far)
	g.wantClosed("reauth")
	silent(t, out.far.TCP, 300*time.Millisecond, "replica 0 is not back yet")
	g.openIngress()
	ended(t, out.near)
	hangUp(out.near, out.far)
	g.await("the second link's end", func() bool { return len(g.closed) == 2 })
	if closed := g.closedNow(); closed[0] != "0 ingress psk reauth" || closed[1] != "2 egress psk reauth" {
		t.Errorf("got links closed %q", closed)
	}
	g.openEgress()
}

// A peer that does not come back is waited for a sixth of the window and no longer;
// so everything is done within it.
func TestRemakeGoesOnWithoutAPeer(t *testing.T) {
	g := start(t, spec{far: proxy.PSK, change: func(s *proxy.Settings) { s.ReauthWindow = 3 * time.Second }})
	in, out := g.openIngress(), g.openEgress()
	began := time.Now()
	g.apply(func(s *proxy.Settings) { s.Keys = stranger })
	ended(t, in.far)
	ended(t, out.far)
	if took := time.Since(began); took < 500*time.Millisecond || took > 3*time.Second {
		t.Errorf("got the second link ended after %v, want after a sixth of 3s and within it", took)
	}
	hangUp(in.near, in.far, out.near, out.far)
}

// The link is ended between frames: one under way is written to its end first.
func TestRemakeAtAFramesEnd(t *testing.T) {
	g := start(t, spec{far: proxy.PSK})
	e := g.openIngress()
	frame := chunk(0, noise(200<<10, 1)) // above the store limit: its first part has left already
	half := len(frame) / 2
	send(t, e.far, commit(0, 1), frame[:half])
	receive(t, e.near, commit(0, 1), frame[:1000])
	g.apply(func(s *proxy.Settings) { s.Keys = stranger })
	g.await("the order", func() bool { return strings.Contains(g.log.String(), "link not supported any more") })
	silent(t, e.far.TCP, 600*time.Millisecond, "the frame has not come to its end")
	send(t, e.far, frame[half:])
	receive(t, e.near, frame[1000:])
	ended(t, e.near)
	ended(t, e.far)
	hangUp(e.near, e.far)
	g.wantClosed("reauth")
}

// Newer settings are judged anew: what they support again is left alone.
func TestRemakeStopsWhereItIsSupportedAgain(t *testing.T) {
	g := start(t, spec{far: proxy.PSK, change: func(s *proxy.Settings) { s.ReauthWindow = 1200 * time.Millisecond }})
	in, out := g.openIngress(), g.openEgress()
	g.apply(func(s *proxy.Settings) { s.Keys = stranger })
	ended(t, in.far)
	hangUp(in.near, in.far)
	g.apply(func(*proxy.Settings) {})
	silent(t, out.far.TCP, 1500*time.Millisecond, "its secret is trusted again")
	g.wantClosed("reauth")
}

// A link that was being made while its secret was removed is made anew too.
func TestRemakeOfALinkUnderOldSettings(t *testing.T) {
	g := start(t, spec{far: proxy.PSK})
	far := g.knock("ingress")
	n := nonce(7)
	d := mac.NewDialer(g.inPair(), mac.Options{Cluster: cluster, Keys: secret, Strict: true})
	first := d.Hello(n)
	send(t, far, first[:])
	challenge := readHeader(t, far)
	g.apply(func(s *proxy.Settings) { s.Keys = stranger })
	finish, _, err := d.Challenge(challenge)
	if err != nil {
		t.Fatal(err)
	}
	send(t, far, finish[:])
	near := accept(t, g.upstream)
	ended(t, far)
	far.tcp.Close()
	near.Close()
	g.wantClosed("reauth")
}

// A leg that is weaker than what is asked for now is made anew; a stronger one
// stays.
func TestRemakeOfAWeakerLeg(t *testing.T) {
	g := start(t, spec{near: proxy.PSK, far: proxy.PSK, change: func(s *proxy.Settings) {
		_, set := minted(t, "127.0.0.1")
		s.Credentials, s.ReauthWindow = credentials{set}, time.Second
	}})
	in, out := g.openIngress(), g.openEgress()
	g.apply(func(s *proxy.Settings) {
		s.EgressSecurity, s.Peers[0].Security = proxy.Plaintext, proxy.TLS
	})
	ended(t, in.far)
	hangUp(in.near, in.far)
	silent(t, out.near.TCP, 1200*time.Millisecond, "it is stronger than what is asked for")
	if closed := g.closedNow(); len(closed) != 1 || closed[0] != "0 ingress psk reauth" {
		t.Errorf("got links closed %q, want the weaker one", closed)
	}
}

// The near leg is judged as the far one is: the local replica's old secret ends the
// link.
func TestRemakeForTheNearLeg(t *testing.T) {
	g := start(t, spec{near: proxy.PSK, far: proxy.Plaintext})
	e := g.openIngress()
	g.apply(func(s *proxy.Settings) { s.Keys = stranger })
	ended(t, e.near)
	ended(t, e.far)
	hangUp(e.near, e.far)
	g.wantClosed("reauth")
}

// A shutdown does not wait for peers that links are made anew for.
func TestShutdownWhileLinksAreMadeAnew(t *testing.T) {
	g := start(t, spec{far: proxy.PSK})
	in, out := g.openIngress(), g.openEgress()
	g.apply(func(s *proxy.Settings) { s.Keys = stranger })
	ended(t, in.far)
	hangUp(in.near, in.far)
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- g.server.Shutdown(ctx)
	}()
	ended(t, out.far)
	hangUp(out.near, out.far)
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("got %v, want nil", err)
		}
	case <-time.After(3 * time.Second):
		t.Error("got no end of the shutdown in 3s, want one as soon as the links are gone")
	}
	g.down = true
	g.await("both ends", func() bool { return len(g.closed) == 2 })
	if closed := g.closedNow(); closed[1] != "2 egress psk drain" {
		t.Errorf("got links closed %q, want the second one drained", closed)
	}
}
