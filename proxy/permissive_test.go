package proxy_test

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/state"
	"github.com/replgate/replgate/wire"
)

var every = []proxy.Security{proxy.Plaintext, proxy.PSK, proxy.TLS}

// One gate, one port: native peers of every security, in both directions.
func TestPermissiveTakesEverySecurity(t *testing.T) {
	for _, s := range every {
		t.Run("ingress-"+string(s), func(t *testing.T) {
			t.Parallel()
			g := permissive(t)
			e := g.ingressIn(s)
			g.wantFar(s)
			g.carries(e, g.lower())
		})
		t.Run("egress-"+string(s), func(t *testing.T) {
			t.Parallel()
			g := permissive(t, hasty)
			e := g.native(g.only(s)).link()
			g.wantFar(s)
			g.carries(e, g.higher())
		})
	}
}

// ingressIn makes a link that a lower peer dials in a security.
func (g *gate) ingressIn(s proxy.Security) ends {
	g.t.Helper()
	far, near := g.open(func(ctx context.Context) (*replica.Conn, error) {
		return g.dialing(g.inPair(), s).Dial(ctx, g.ingress())
	}, g.upstream, g.accepting(g.inPair(), g.near))
	return ends{near: near, far: far}
}

// A peer that is asked for less in strict mode is asked for no more here: nobody
// tries TLS on a psk peer, and plaintext peers see nothing new at all.
func TestPermissiveAsksForNoMoreThanStrict(t *testing.T) {
	for _, row := range []struct {
		strict, native proxy.Security
		heard          string
	}{
		{proxy.PSK, proxy.PSK, "nonce"},
		{proxy.PSK, proxy.Plaintext, "nonce"},
		{proxy.Plaintext, proxy.Plaintext, "plain"},
	} {
		t.Run(string(row.strict)+"-"+string(row.native), func(t *testing.T) {
			t.Parallel()
			g := start(t, spec{far: row.strict, change: func(s *proxy.Settings) { s.Mode = proxy.Permissive; hasty(s) }})
			n := g.native(g.only(row.native))
			g.carries(n.link(), g.higher())
			g.wantFar(row.native)
			if got := n.heard(); !slices.Equal(got, []string{row.heard}) {
				t.Errorf("the peer was spoken to in %q, want %q", got, row.heard)
			}
			g.carries(g.ingressIn(row.native), g.lower())
			g.wantFar(row.native)
			c := raw(t, g.ingress())
			send(t, c, []byte{0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0})
			ended(t, c)
			g.await("a refusal", func() bool { return slices.Contains(g.refused, "ingress plaintext_refused") })
		})
	}
}

// patienceOfNear is how long a near leg waits at most.
const patienceOfNear = 2500 * time.Millisecond

// A plaintext Iggy may take a ClientHello for part of a frame and wait for the
// rest, 10 s (Appendix B), and it says nothing to a nonce.
func TestPermissiveSilentAcceptor(t *testing.T) {
	t.Parallel()
	g := permissive(t)
	n := g.native(tongue{plain: proxy.Plaintext, silent: true})
	began := time.Now()
	e := n.link()
	if took := time.Since(began); took > patienceOfNear {
		t.Errorf("the first link took %v, want less than %v", took, patienceOfNear)
	}
	g.carries(e, g.higher())
	if got := n.heard(); !slices.Equal(got, []string{"tls", "nonce"}) {
		t.Errorf("the peer was spoken to in %q, want TLS first, then one connection that stays", got)
	}
	g.over(e)

	// What was found is known now.
	began = time.Now()
	e = n.link()
	if took := time.Since(began); took > time.Second {
		t.Errorf("the second link took %v, want no step of it", took)
	}
	g.carries(e, g.higher())
	if got := n.heard(); !slices.Equal(got, []string{"nonce"}) {
		t.Errorf("the peer was spoken to in %q, want one connection", got)
	}
	g.over(e)

	// Something stronger is tried again one day.
	g.server.AgeFindings(proxy.FindingTime)
	n.turn(g.only(proxy.TLS))
	g.carries(n.link(), g.higher())
	g.wantFar(proxy.TLS)
	if got := n.heard(); !slices.Equal(got, []string{"tls"}) {
		t.Errorf("the peer was spoken to in %q, want TLS", got)
	}
}

// A psk peer that sends something else than its Challenge does not become a
// plaintext one.
func TestPermissiveFrameInPlaceOfProof(t *testing.T) {
	t.Parallel()
	g := permissive(t, hasty)
	n := g.native(g.only(proxy.PSK))
	g.over(n.link())
	n.turn(tongue{plain: proxy.Plaintext, speaks: func(c *replica.Conn) { c.Write(commit(2, 1)) }})
	n.refused("hello_command", "nonce", "tls", "nonce")
}

// Where neither TLS nor a Challenge comes from a peer that has proved its MAC, the
// near leg is told no within its time.
func TestPermissiveSilentToTheEnd(t *testing.T) {
	t.Parallel()
	g := permissive(t)
	n := g.native(tongue{plain: proxy.PSK})
	g.over(n.link())
	n.turn(tongue{plain: proxy.Plaintext, silent: true})
	g.server.AgeFindings(proxy.FindingTime)
	began := time.Now()
	n.refused("handshake_timeout", "tls", "nonce")
	if took := time.Since(began); took > patienceOfNear {
		t.Errorf("the refusal took %v, want less than %v", took, patienceOfNear)
	}
}

// A frame in place of a Challenge says that this is plaintext, at once, and is
// forwarded like any other; so is a part of one.
func TestPermissiveAnotherFrameFirst(t *testing.T) {
	frame := commit(2, 77)
	for _, row := range []struct {
		name  string
		first []byte // right behind the peer's accept
		soon  bool   // a whole frame ends the wait
	}{
		{"a frame", frame, true},
		{"many", slices.Concat(frame, metadata(1, noise(3000, 1)), commit(2, 78)), true},
		{"part of a frame", frame[:100], false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := permissive(t)
			n := g.native(tongue{plain: proxy.Plaintext, speaks: func(c *replica.Conn) { c.Write(row.first) }})
			began := time.Now()
			e := n.link()
			if took := time.Since(began); row.soon && took > 900*time.Millisecond {
				t.Errorf("the link took %v, want no wait for a Challenge", took)
			}
			g.wantFar(proxy.Plaintext)
			whole := slices.Concat(row.first, commit(2, 79))
			if !row.soon {
				whole = frame
			}
			send(t, e.far, whole[len(row.first):])
			receive(t, e.near, whole)
			g.carries(e, g.higher())
		})
	}
}

// A Challenge within a second makes it psk, however late.
func TestPermissiveLateChallenge(t *testing.T) {
	t.Parallel()
	g := permissive(t)
	voice := g.accepting(g.outPair(), proxy.PSK)
	slow := make(chan *replica.Conn, 1)
	go func() {
		for {
			c, err := g.peers.AcceptTCP()
			if err != nil {
				return
			}
			bound(t, c)
			if hello := peekHello(c); hello == nil || hello[0] == 0x16 {
				c.Close()
				continue
			}
			// real time: how long the gate waits is what is tested
			time.Sleep(700 * time.Millisecond)
			if conn, err := voice.Accept(context.Background(), c); err == nil {
				slow <- conn
			}
		}
	}()
	near, err := g.dialing(g.outPair(), g.near).Dial(t.Context(), g.egress())
	if err != nil {
		t.Fatal(err)
	}
	bound(t, near.TCP)
	g.await("an opened link", func() bool { return len(g.opened) == 1 })
	g.wantFar(proxy.PSK)
	g.carries(ends{near, <-slow}, g.higher())
}

// A replica that was found in plaintext may get a gate, or lose one: what is found
// in its place is used in the same near leg.
func TestPermissivePeerChanges(t *testing.T) {
	g := permissive(t, hasty)
	tls := g.only(proxy.TLS)
	both := tls
	both.plain = proxy.PSK
	n := g.native(g.only(proxy.Plaintext))
	for _, row := range []struct {
		name   string
		speaks tongue
		want   proxy.Security
		heard  []string
	}{
		{"as it was", g.only(proxy.Plaintext), proxy.Plaintext, []string{"nonce"}},
		{"auth is on", g.only(proxy.PSK), proxy.PSK, []string{"nonce", "tls", "nonce"}},
		{"as it was, psk", g.only(proxy.PSK), proxy.PSK, []string{"nonce"}},
		{"a gate in strict mode", tls, proxy.TLS, []string{"nonce", "tls"}},
		{"as it was, TLS", tls, proxy.TLS, []string{"tls"}},
	} {
		g.over(n.link())
		n.turn(row.speaks)
		n.heard()
		e := n.link()
		g.carries(e, g.higher())
		g.wantFar(row.want)
		if got := n.heard(); !slices.Equal(got, row.heard) {
			t.Errorf("%s: the peer was spoken to in %q, want %q", row.name, got, row.heard)
		}
		g.over(e)
	}
	n.turn(g.only(proxy.Plaintext))
	n.heard()
	for range 2 { // the second time, what the first has found is forgotten
		if err := g.server.ResetPeer(g.higher()); err != nil {
			t.Fatal(err)
		}
		g.over(n.link())
		g.wantFar(proxy.Plaintext)
		if got, want := n.heard(), []string{"tls", "nonce"}; !slices.Equal(got, want) {
			t.Errorf("after a reset: spoken to in %q, want %q", got, want)
		}
	}
	n.turn(both)
	n.heard()
	g.over(n.link())
	g.wantFar(proxy.TLS)
	if got, want := n.heard(), []string{"nonce", "tls"}; !slices.Equal(got, want) {
		t.Errorf("a gate in permissive mode: spoken to in %q, want %q: its Challenge is not taken where TLS may be had", got, want)
	}
}

// Who comes back where nobody answered may be another, and is asked from the top:
// nothing else would show that a psk peer has a gate with TLS now.
func TestPermissivePeerComesBack(t *testing.T) {
	t.Parallel()
	g := permissive(t, hasty)
	n := g.native(g.only(proxy.PSK))
	g.over(n.link())
	address := g.peers.Addr().(*net.TCPAddr)
	g.peers.Close()
	n.refused("dial_refused")
	var err error
	if g.peers, err = net.ListenTCP("tcp", address); err != nil {
		t.Fatal(err)
	}
	both := g.only(proxy.TLS)
	both.plain = proxy.PSK
	n = g.native(both)
	g.carries(n.link(), g.higher())
	g.wantFar(proxy.TLS)
}

// What answers a Hello with a nonce and is neither a Challenge that holds nor a
// frame makes no link.
func TestPermissiveBadAnswer(t *testing.T) {
	command, dirty := commit(2, 1), bytesOf(wire.NewChallenge(cluster, 2, noise(wire.NonceSize, 1), noise(wire.MACSize, 2)))
	command[60], dirty[250] = 200, 1
	for ending, answer := range map[string][]byte{
		"frame_size":      resized(commit(2, 1), maxFrame+1),
		"frame_command":   command,
		"hello_malformed": dirty,
		"mac_mismatch":    bytesOf(wire.NewChallenge(cluster, 2, noise(wire.NonceSize, 1), noise(wire.MACSize, 2))),
		"rejected":        bytesOf(wire.NewReject(cluster, 2, wire.StatusClusterMismatch)),
		"peer_eof":        nil,
	} {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			g := permissive(t, hasty)
			n := g.native(tongue{plain: proxy.Plaintext, speaks: func(c *replica.Conn) { c.Write(answer); c.TCP.CloseWrite() }})
			n.refused(ending, "tls", "nonce")
			n.refused(ending, "tls", "nonce")
		})
	}
}

// Whatever shows that TLS is there is final, and so is a wrong secret.
func TestPermissiveFaultsDoNotFallBack(t *testing.T) {
	for _, row := range []struct {
		name   string
		speaks func(g *gate) tongue
		ending string
		heard  []string
	}{
		{"an unknown CA", func(g *gate) tongue { return g.certified(minted(g.t, "127.0.0.1")) }, "tls_unknown_ca", []string{"tls"}},
		{"another secret over TLS", func(g *gate) tongue {
			n := g.only(proxy.TLS)
			n.tls.Keys = stranger
			return n
		}, "mac_mismatch", []string{"tls"}},
		{"no Challenge over TLS", func(g *gate) tongue {
			n := g.only(proxy.TLS)
			n.tls.Keys = nil
			return n
		}, "handshake_timeout", []string{"tls"}},
		{"no ALPN of ours", func(g *gate) tongue {
			n := g.only(proxy.TLS)
			n.tls.TLS = n.tls.TLS.Clone()
			n.tls.TLS.NextProtos = []string{"h2"}
			return n
		}, "tls_alpn", []string{"tls"}},
		{"an end behind the beginning of a record", func(g *gate) tongue {
			return tongue{plain: proxy.Plaintext, rude: func(c *replica.Conn) { c.TCP.Write([]byte{0x16, 3, 3, 0, 122}); c.TCP.CloseWrite() }}
		}, "tls_alert", []string{"tls"}},
		{"silence behind the beginning of a record", func(g *gate) tongue {
			return tongue{plain: proxy.Plaintext, rude: func(c *replica.Conn) { c.TCP.Write([]byte{0x16, 3, 3, 0, 122}); rest(c) }}
		}, "tls_timeout", []string{"tls"}},
		{"another secret without TLS", func(g *gate) tongue { return tongue{plain: "stranger"} }, "mac_mismatch", []string{"tls", "nonce"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := permissive(t, hasty)
			n := g.native(row.speaks(g))
			n.refused(row.ending, row.heard...)
			n.refused(row.ending, row.heard...) // nothing was remembered that leads to less
		})
	}
	for _, row := range []struct {
		name, ending, host string
		from, to           time.Duration
	}{
		{"an expired certificate", "tls_expired", "127.0.0.1", -2 * time.Hour, -time.Hour},
		{"a certificate of tomorrow", "tls_not_yet_valid", "127.0.0.1", time.Hour, 2 * time.Hour},
		{"a certificate for another name", "tls_name_mismatch", "127.0.0.9", -time.Hour, time.Hour},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			files, set := mintedFor(t, now.Add(row.from), now.Add(row.to), row.host)
			g := permissive(t, hasty, func(s *proxy.Settings) { s.Credentials = credentials{set} })
			g.native(g.certified(files, set)).refused(row.ending, "tls")
		})
	}
}

// certified is a TLS peer with credentials of its own.
func (g *gate) certified(_ replica.PKI, set *certs.Set) tongue {
	n := g.only(proxy.TLS)
	n.tls.TLS = set.Server()
	return n
}

// What never was TLS is no fault of it: an end, a reset, another protocol.
func TestPermissiveNoTLSThere(t *testing.T) {
	for _, row := range []struct {
		name   string
		answer func(c *replica.Conn)
	}{
		{"an end", func(c *replica.Conn) { c.TCP.Close() }},
		{"a reset", func(c *replica.Conn) { reset(c.TCP) }},
		{"text", func(c *replica.Conn) { c.TCP.Write([]byte("what is this?\r\n")); c.TCP.Close() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := permissive(t, hasty)
			n := g.native(tongue{plain: proxy.Plaintext, rude: row.answer})
			g.carries(n.link(), g.higher())
			g.wantFar(proxy.Plaintext)
			if got := n.heard(); !slices.Equal(got, []string{"tls", "nonce"}) {
				t.Errorf("the peer was spoken to in %q, want TLS first", got)
			}
		})
	}
}

// T54's rule: who has proved itself is never again accepted or dialed weaker, also
// by the next process, until an operator says so.
func TestPermissiveNoDowngrade(t *testing.T) {
	for _, row := range []struct {
		proved proxy.Security
		after  map[proxy.Security][2]string // what comes later: the endings on ingress and egress, empty: a link
	}{
		{proxy.TLS, map[proxy.Security][2]string{
			proxy.Plaintext: {"tls_plaintext", "tls_alert"}, proxy.PSK: {"tls_plaintext", "tls_alert"}, proxy.TLS: {}}},
		{proxy.PSK, map[proxy.Security][2]string{
			proxy.Plaintext: {"auth_required", "handshake_timeout"}, proxy.PSK: {}, proxy.TLS: {}}},
	} {
		t.Run(string(row.proved), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			g := permissive(t, hasty, remembering(t, dir))
			n := g.native(g.only(row.proved))
			g.over(n.link())
			g.over(g.ingressIn(row.proved))
			for _, s := range every {
				g.wantAfter(n, s, row.after[s])
			}
		})
		t.Run(string(row.proved)+"-restarted", func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first := permissive(t, hasty, remembering(t, dir))
			n := first.native(first.only(row.proved))
			first.over(n.link())
			first.over(first.ingressIn(row.proved))
			if err := first.shutdown(patience); err != nil {
				t.Fatal(err)
			}

			g := permissive(t, hasty, remembering(t, dir))
			n = g.native(g.only(proxy.Plaintext))
			g.wantAfter(n, proxy.Plaintext, row.after[proxy.Plaintext])
			if row.proved == proxy.TLS {
				g.wantAfter(n, proxy.PSK, row.after[proxy.PSK])
			}
			for _, id := range []uint8{g.lower(), g.higher()} {
				if err := g.server.ResetPeer(id); err != nil {
					t.Fatal(err)
				}
			}
			g.wantAfter(n, proxy.Plaintext, [2]string{})
		})
	}
}

// Strict mode remembers too, and only peers: what the local replica proves says
// nothing about them.
func TestProofsAreOfPeers(t *testing.T) {
	dir := t.TempDir()
	g := start(t, spec{near: proxy.TLS, far: proxy.PSK, change: remembering(t, dir)})
	for _, e := range []ends{g.openIngress(), g.openEgress()} {
		g.over(e)
	}
	if err := g.shutdown(patience); err != nil {
		t.Fatal(err)
	}
	memory, _, err := state.Open(dir, proxy.PSK, proxy.TLS)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range []proxy.Security{proxy.PSK, "", proxy.PSK} {
		if got := memory.Proved(uint8(id)); got != want {
			t.Errorf("replica %d: got %q kept, want %q", id, got, want)
		}
	}
}

// remembering gives a gate a memory in a file.
func remembering(t *testing.T, dir string) func(*proxy.Settings) {
	return func(s *proxy.Settings) {
		memory, found, err := state.Open(dir, proxy.PSK, proxy.TLS)
		if err != nil || found.Broken != nil {
			t.Fatal(err, found)
		}
		s.Memory = memory
	}
}

// wantAfter lets both peers come in a security, and holds the endings.
func (g *gate) wantAfter(n *native, s proxy.Security, endings [2]string) {
	g.t.Helper()
	n.turn(g.only(s))
	if endings[1] == "" {
		g.over(n.link())
		g.over(g.ingressIn(s))
		return
	}
	heard := []string{"tls"}
	if endings[1] == "handshake_timeout" {
		heard = []string{"nonce", "tls", "nonce"} // psk was found just before
		if len(g.opened) == 0 {
			heard = heard[1:] // not by this process
		}
	}
	n.refused(endings[1], heard...)
	g.mu.Lock()
	before := len(g.refused)
	g.mu.Unlock()
	c := raw(g.t, g.ingress())
	first := wire.NewHello(cluster, g.lower(), nil)
	if s == proxy.PSK {
		first = wire.NewHello(cluster, g.lower(), noise(wire.NonceSize, 3))
	}
	send(g.t, c, first[:])
	ended(g.t, c)
	g.await("a refusal", func() bool { return len(g.refused) > before })
	g.mu.Lock()
	defer g.mu.Unlock()
	if got := g.refused[before:]; len(got) != 1 || got[0] != "ingress "+endings[0] {
		g.t.Errorf("%s after more: got refusals %q, want ingress %s", s, got, endings[0])
	}
}

func bytesOf(h wire.Header) []byte { return h[:] }
