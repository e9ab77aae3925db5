package proxy_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// two is the harness's secret with another one behind it.
func two() *mac.Keyring { return rolled("capture secret one, 32+ bytes long!", newSecret) }

// asked takes a gate's showing as a native replica does: it answers the Hello, and
// gets no Finish.
func (g *gate) asked() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	if _, err := acceptOn(ctx, g.peers, g.accepting(g.outPair(), g.far)); err == nil || !strings.HasPrefix(err.Error(), "replica: finish: ") {
		g.t.Fatalf("got a handshake that ended by %v, want no Finish", err)
	}
}

// rotationOf is a replica's line in what the gate says of the rotation.
func (g *gate) rotationOf(replica int) proxy.PeerRotation {
	r := g.server.Rotation()
	if i := slices.IndexFunc(r.Peers, func(p proxy.PeerRotation) bool { return p.Peer == replica }); i >= 0 {
		return r.Peers[i]
	}
	return proxy.PeerRotation{}
}

// A native peer proves only what it signs with. It is asked once for each of its
// links, and named as one that cannot show the rest.
func TestShowingToANativePeer(t *testing.T) {
	for _, far := range []proxy.Security{proxy.PSK, proxy.TLS} {
		t.Run(string(far), func(t *testing.T) {
			g := start(t, spec{far: far, change: func(s *proxy.Settings) { s.VisitEvery = 50 * time.Millisecond }})
			link := g.openEgress()
			g.apply(func(s *proxy.Settings) { s.Keys, s.VisitEvery = two(), 50*time.Millisecond })
			g.asked()
			nobody(t, g.peers, 300*time.Millisecond, "it is native and has the same link")
			r := g.server.Rotation()
			i := slices.IndexFunc(r.Awaited, func(a proxy.Awaited) bool { return a.Peer == 2 })
			if r.Safe || i < 0 || !r.Awaited[i].CannotShow || !strings.Contains(r.Awaited[i].For, "cannot show") {
				t.Errorf("got %+v, want replica 2 awaited as one that cannot show", r)
			}
			if p := g.rotationOf(2); p.Kind != proxy.KindNative || p.Signs != "old" || len(p.Holds) != 1 {
				t.Errorf("got %+v, want a native replica that signs with the old secret", p)
			}
			hangUp(link.near, link.far)
			g.await("the link's end", func() bool { return len(g.closed) == 1 })
			g.openEgress() // which may be a gate by now
			g.asked()
		})
	}
}

// A gate whose peers are all plaintext shows nobody anything, nor does one with one
// secret, nor one that is only dialed.
func TestNothingIsShown(t *testing.T) {
	for name, s := range map[string]spec{
		"plaintext":  {change: func(s *proxy.Settings) { s.Keys = two() }},
		"one secret": {far: proxy.PSK},
	} {
		t.Run(name, func(t *testing.T) {
			change := s.change
			s.change = func(set *proxy.Settings) {
				set.VisitEvery = 20 * time.Millisecond
				if change != nil {
					change(set)
				}
			}
			g := start(t, s)
			g.apply(func(*proxy.Settings) {})
			nobody(t, g.peers, 200*time.Millisecond, name)
		})
	}
}

// A peer that takes the connection and says nothing holds up one showing, for two
// seconds; those to the other peers go on.
func TestShowingIsBounded(t *testing.T) {
	g := start(t, spec{first: true, far: proxy.PSK, change: func(s *proxy.Settings) {
		s.Keys, s.VisitEvery = two(), 20*time.Millisecond
		s.Peers = s.Peers[:1]
		s.Replicas = 2
	}})
	c := accept(t, g.peers)
	began := time.Now()
	readHeader(t, c)
	g.peers.SetDeadline(time.Now().Add(time.Second))
	if second, err := g.peers.AcceptTCP(); err == nil {
		second.Close()
		t.Error("got a second showing beside the first, want one at a time")
	}
	ended(t, c)
	if took := time.Since(began); took < time.Second || took > 3*time.Second {
		t.Errorf("got the end of a silent showing after %v, want about 2s", took)
	}
	c.Close()
	readHeader(t, accept(t, g.peers)) // the other secret
}

// shower comes to the gate's ingress as the gate of replica 0 does.
type shower struct {
	channel
	*mac.Showing
}

func (g *gate) shower(keys *mac.Keyring, which mac.Slot) shower {
	g.t.Helper()
	c := g.knock("ingress")
	s := shower{c, mac.NewShowing(g.inPair(), mac.Options{Cluster: cluster, Keys: keys, Binding: c.binding, Strict: true}, which)}
	hello := s.Hello([mac.ShowRandom]byte{1, 2, 3})
	send(g.t, s, hello[:])
	return s
}

// goOn takes the Challenge and sends the Finish.
func (s shower) goOn(t *testing.T, bend func(*wire.Header)) {
	t.Helper()
	finish, _, err := s.Challenge(readHeader(t, s), mac.Session{})
	if err != nil {
		t.Fatal(err)
	}
	bend(&finish)
	send(t, s, finish[:])
}

// At the acceptor a showing is a probe, whatever it shows: no link, no word to the
// local replica, no end of the link that there is. A secret that is shown as the
// dialer's own and is none of ours is a mismatch like any other.
func TestShowingAtTheAcceptor(t *testing.T) {
	for name, row := range map[string]struct {
		keys    *mac.Keyring
		which   mac.Slot
		bend    func(*wire.Header)
		ending  string
		receipt bool
		signs   string
	}{
		"its own":             {two(), mac.SlotCurrent, func(*wire.Header) {}, "probe", true, "current"},
		"one we do not hold":  {two(), mac.SlotPrevious, func(*wire.Header) {}, "probe", false, "current"},
		"forged, as its own":  {two(), mac.SlotCurrent, func(h *wire.Header) { h.MAC()[3] ^= 1 }, "mac_mismatch", false, "current"},
		"forged, as another":  {two(), mac.SlotPrevious, func(h *wire.Header) { h.MAC()[3] ^= 1 }, "probe", false, "current"},
		"no Finish but frame": {two(), mac.SlotCurrent, func(h *wire.Header) { h.SetCommand(wire.Commit) }, "hello_command", false, "current"},
	} {
		for _, far := range []proxy.Security{proxy.PSK, proxy.TLS} {
			t.Run(name+" "+string(far), func(t *testing.T) {
				g := start(t, spec{far: far})
				link := g.openIngress()
				s := g.shower(row.keys, row.which)
				s.goOn(t, row.bend)
				if row.receipt {
					if _, err := s.Receipt(readHeader(t, s), mac.Session{}); err != nil {
						t.Error(err)
					}
				}
				ended(t, s)
				s.tcp.Close()
				g.await("refusal", func() bool { return len(g.refused) > 0 })
				if g.refusals(row.ending) != 1 || len(g.closedNow()) != 0 {
					t.Errorf("got refused %q and closed %q, want one %s", g.refused, g.closed, row.ending)
				}
				nobody(t, g.upstream, 50*time.Millisecond, "a showing is not the local replica's business")
				send(t, link.far, commit(0, 3))
				receive(t, link.near, commit(0, 3))
				if p := g.rotationOf(0); p.Signs != row.signs || row.receipt != (p.Kind == proxy.KindGate) {
					t.Errorf("got %+v", p)
				}
			})
		}
	}
}

// A plaintext entrance has nothing to show a secret to.
func TestShowingAtAPlaintextEntrance(t *testing.T) {
	g := start(t, spec{})
	s := g.shower(two(), mac.SlotCurrent)
	ended(t, s)
	g.wantRefused("ingress", "probe")
}

// What the local replica proves is part of the rotation, where it proves anything:
// its old secret is waited for before it is removed.
func TestRotationKnowsTheLocalReplica(t *testing.T) {
	g := start(t, spec{near: proxy.PSK, far: proxy.Plaintext})
	g.openIngress()
	g.apply(func(s *proxy.Settings) { s.Keys = rolled(newSecret, "capture secret one, 32+ bytes long!") })
	p, r := g.rotationOf(1), g.server.Rotation()
	if !p.Local || p.Signs != "old" || p.LinkProven || r.Safe || len(r.Awaited) != 1 || r.Awaited[0].Peer != 1 || len(r.Peers) != 1 {
		t.Errorf("got %+v, want the local replica alone, awaited", r)
	}
}

// A peer that signs with the new secret may still have a link that the old one made:
// the removal of that one would have it made anew, so it is not safe.
func TestRotationAwaitsALink(t *testing.T) {
	g := start(t, spec{far: proxy.PSK})
	g.openIngress()
	g.apply(func(s *proxy.Settings) { s.Keys = rolled(newSecret, "capture secret one, 32+ bytes long!") })
	s := g.shower(rolled(newSecret), mac.SlotCurrent)
	s.goOn(t, func(*wire.Header) {})
	if _, err := s.Receipt(readHeader(t, s), mac.Session{}); err != nil {
		t.Fatal(err)
	}
	r := g.server.Rotation()
	if i := slices.IndexFunc(r.Awaited, func(a proxy.Awaited) bool { return a.Peer == 0 }); i < 0 || !strings.HasPrefix(r.Awaited[i].For, "a link that the new secret proves") || r.Safe {
		t.Errorf("got %+v, want replica 0 awaited for its link", r)
	}
	if p := g.rotationOf(0); p.Signs != "new" || !p.Linked || p.LinkProven {
		t.Errorf("got %+v, want one that signs with the new secret on another connection than its link", p)
	}
}

// What a peer shows as its other secret it holds, and does not sign with.
func TestShownIsNotSignedWith(t *testing.T) {
	g := start(t, spec{far: proxy.PSK})
	g.apply(func(s *proxy.Settings) { s.Keys = two() })
	s := g.shower(two(), mac.SlotPrevious)
	s.goOn(t, func(*wire.Header) {})
	if _, err := s.Receipt(readHeader(t, s), mac.Session{}); err != nil {
		t.Fatal(err)
	}
	if p := g.rotationOf(0); p.SignsWith != "" || len(p.Holds) != 1 || p.Holds[0].Name != "new" {
		t.Errorf("got %+v, want one that holds the new secret and was not seen to sign", p)
	}
}

// The status has the secret that each peer last proved, and what is known of who
// it is.
func TestStatusOfASecret(t *testing.T) {
	g := start(t, spec{far: proxy.TLS})
	g.openEgress()
	for _, p := range g.server.Status().Peers {
		if p.Peer != 2 {
			if p.Secret != "" || p.SecretProved != nil {
				t.Errorf("got %+v of a peer that never came", p)
			}
			continue
		}
		if p.Secret != "current" || p.Fingerprint != secret.Fingerprint(mac.SlotCurrent) || p.SecretProved == nil || len(p.Links) != 1 || p.Links[0].Identity != "membership" {
			t.Errorf("got %+v", p)
		}
	}
}
