package proxy_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// impatient gives a handshake, and a far leg's proof, a quarter of a second.
func impatient(s *proxy.Settings) {
	s.HandshakeTimeout, s.ProveTimeout = quarter, quarter
}

const quarter = 250 * time.Millisecond

// wantTimely holds that something happened neither before its time nor long after.
func wantTimely(t *testing.T, began time.Time, least time.Duration) {
	t.Helper()
	if took := time.Since(began); took < least || took > least+3*time.Second {
		t.Errorf("got an end after %v, want one after %v and soon", took, least)
	}
}

// Silence has a name for each place where it falls, and nothing is ever said into
// it.
func TestBadSilence(t *testing.T) {
	half := func(t *testing.T, g *gate, d string) net.Conn {
		c := g.knock(d)
		send(t, c, hello(0, nil)[:100])
		return c
	}
	for _, row := range []struct {
		name     string
		security proxy.Security
		say      func(t *testing.T, g *gate, direction string) net.Conn
		ending   string
	}{
		{"no Hello", proxy.Plaintext, nil, "hello_timeout"},
		{"no Hello", proxy.PSK, nil, "hello_timeout"},
		{"half a Hello", proxy.Plaintext, half, "hello_timeout"},
		{"half a Hello", proxy.PSK, half, "hello_timeout"},
		{"half a Hello", proxy.TLS, half, "hello_timeout"},
		{"TLS and no Hello", proxy.TLS, func(_ *testing.T, g *gate, d string) net.Conn { return g.knock(d) }, "hello_timeout"},
		{"no ClientHello", proxy.TLS, nil, "tls_timeout"},
		{"half a ClientHello", proxy.TLS, func(t *testing.T, g *gate, d string) net.Conn {
			c := raw(t, g.entrance(d))
			send(t, c, clientHello(t, g)[:60])
			return c
		}, "tls_timeout"},
		{"two bytes of a ClientHello", proxy.TLS, func(t *testing.T, g *gate, d string) net.Conn {
			c := raw(t, g.entrance(d))
			send(t, c, []byte{0x16, 0x03})
			return c
		}, "tls_timeout"},
	} {
		for _, direction := range []string{"ingress", "egress"} {
			t.Run(fmt.Sprintf("%s/%s/%s", row.security, row.name, direction), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{near: row.security, far: row.security, change: impatient})
				began := time.Now()
				var c net.Conn
				if row.say == nil {
					c = raw(t, g.entrance(direction))
				} else {
					c = row.say(t, g, direction)
				}
				ended(t, c)
				wantTimely(t, began, quarter)
				g.wantRefused(direction, row.ending)
			})
		}
	}
}

// clientHello is the first flight of a real client, as bytes.
func clientHello(t *testing.T, g *gate) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer theirs.Close()
	failed := make(chan error, 1)
	go func() { failed <- tls.Client(ours, g.certs.Client("127.0.0.1")).Handshake() }()
	first := make([]byte, 4096)
	n, err := theirs.Read(first)
	ours.Close()
	if <-failed == nil || err != nil || n < 100 {
		t.Fatalf("got %d bytes of a ClientHello (%v), want one", n, err)
	}
	return first[:n]
}

// A whole ClientHello and then nothing: the server's flight goes out, the dialer
// is blamed for its Hello.
func TestBadSilenceBehindClientHello(t *testing.T) {
	for _, direction := range []string{"ingress", "egress"} {
		t.Run(direction, func(t *testing.T) {
			g := start(t, spec{near: proxy.TLS, far: proxy.TLS, change: impatient})
			began := time.Now()
			c := raw(t, g.entrance(direction))
			send(t, c, clientHello(t, g))
			if got, _ := rest(c); len(got) == 0 || got[0] != 22 {
				t.Errorf("got %d bytes, want a server's flight", len(got))
			}
			wantTimely(t, began, quarter)
			g.wantRefused(direction, "hello_timeout")
		})
	}
}

// No Finish behind a Challenge, none or half of one.
func TestBadSilenceBehindChallenge(t *testing.T) {
	for _, s := range []proxy.Security{proxy.PSK, proxy.TLS} {
		for _, part := range []int{0, 255} {
			t.Run(fmt.Sprintf("%s/%d", s, part), func(t *testing.T) {
				g := start(t, spec{far: s, change: impatient})
				began := time.Now()
				c := g.knock("ingress")
				finish := g.challenged(c, secret)
				send(t, c, finish[:part])
				ended(t, c)
				wantTimely(t, began, quarter)
				g.wantRefused("ingress", "handshake_timeout")
				nobody(t, g.upstream, 20*time.Millisecond, "nobody unproven reaches the local replica")
			})
		}
	}
}

// An acceptor that is dialed and says nothing, or half of something.
func TestBadSilenceOfAcceptor(t *testing.T) {
	n := nonce(9)
	challenge := wire.NewChallenge(cluster, 2, n[:], n[:])
	for _, row := range []struct {
		name   string
		far    proxy.Security
		say    []byte
		ending string
	}{
		{"no Challenge", proxy.PSK, nil, "handshake_timeout"},
		{"half a Challenge", proxy.PSK, challenge[:255], "handshake_timeout"},
		{"no ServerHello", proxy.TLS, nil, "tls_timeout"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := start(t, spec{far: row.far, change: func(s *proxy.Settings) { s.ProveTimeout = quarter }})
			near := raw(t, g.egress())
			send(t, near, hello(1, withoutNonce))
			began := time.Now()
			far := accept(t, g.peers)
			send(t, far, row.say)
			_, err := rest(near)
			if !isReset(err) {
				t.Errorf("got an end by %v, want a reset", err)
			}
			wantTimely(t, began, quarter-50*time.Millisecond)
			g.wantRefused("egress", row.ending)
			if got, err := rest(far); len(got) == 0 || errors.Is(err, net.ErrClosed) {
				t.Errorf("got %d bytes and %v, want the gate's first words and an end", len(got), err)
			}
		})
	}
}

// The same at the local replica, which is dialed last: the proven peer's leg ends.
func TestBadSilenceOfLocal(t *testing.T) {
	for s, ending := range map[proxy.Security]string{proxy.PSK: "handshake_timeout", proxy.TLS: "tls_timeout"} {
		t.Run(string(s), func(t *testing.T) {
			g := start(t, spec{near: s, far: proxy.PSK, change: func(s *proxy.Settings) { s.ProveTimeout = quarter }})
			far, err := g.dialing(g.inPair(), g.far).Dial(t.Context(), g.ingress())
			if err != nil {
				t.Fatal(err)
			}
			bound(t, far.TCP)
			accept(t, g.upstream)
			began := time.Now()
			ended(t, far)
			wantTimely(t, began, quarter-50*time.Millisecond)
			g.wantClosed(ending) // the peer was proven: the ending is counted as its
		})
	}
}

// Who connects and closes, or resets, without a byte was a probe: a health check
// comes every few seconds and is worth a debug line.
func TestBadProbe(t *testing.T) {
	for _, s := range []proxy.Security{proxy.Plaintext, proxy.PSK, proxy.TLS} {
		for name, end := range map[string]func(c *net.TCPConn){
			"close":      func(c *net.TCPConn) { c.Close() },
			"half-close": func(c *net.TCPConn) { c.CloseWrite() },
			"reset":      reset,
		} {
			for _, direction := range []string{"ingress", "egress"} {
				t.Run(fmt.Sprintf("%s/%s/%s", s, name, direction), func(t *testing.T) {
					t.Parallel()
					g := start(t, spec{near: s, far: s})
					end(raw(t, g.entrance(direction)))
					if line := g.wantRefused(direction, "probe"); line["level"] != "DEBUG" {
						t.Errorf("got level %v, want DEBUG", line["level"])
					}
				})
			}
		}
	}
}

// Who goes in the middle of a handshake is named by side and by what it did.
func TestBadGone(t *testing.T) {
	for name, row := range map[string]struct {
		say    func(g *gate, c channel) []byte
		end    func(c *net.TCPConn)
		ending string
	}{
		"half a Hello, FIN": {func(*gate, channel) []byte { return hello(0, nil)[:255] }, func(c *net.TCPConn) { c.CloseWrite() }, "peer_eof_mid_frame"},
		"Challenge, FIN": {func(g *gate, c channel) []byte { g.challenged(c, secret); return nil },
			func(c *net.TCPConn) { c.CloseWrite() }, "peer_eof"},
		"Challenge, half a Finish, FIN": {func(g *gate, c channel) []byte { f := g.challenged(c, secret); return f[:1] },
			func(c *net.TCPConn) { c.CloseWrite() }, "peer_eof_mid_frame"},
		"Challenge, reset": {func(g *gate, c channel) []byte { g.challenged(c, secret); return nil }, reset, "peer_reset"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, spec{far: proxy.PSK})
			c := g.knock("ingress")
			send(t, c, row.say(g, c))
			row.end(c.tcp)
			g.wantRefused("ingress", row.ending)
		})
	}
}

// An acceptor that answers wrongly: the gate says no more than its Hello, and the
// near replica is reset without having heard anything.
func TestBadAnswer(t *testing.T) {
	for _, far := range []proxy.Security{proxy.PSK, proxy.TLS} {
		for _, row := range badAnswers {
			t.Run(fmt.Sprintf("%s/%s", far, row.name), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{near: proxy.PSK, far: far})
				near := raw(t, g.egress())
				send(t, near, hello(1, nil))
				c := g.dialed()
				first := readHeader(t, c)
				if !wire.HandshakeClean(first) || first.Command() != wire.ReplicaHello || wire.Replica.Get(first) != 1 || !first.HasNonce() {
					t.Errorf("got a first frame % x, want a clean Hello of replica 1 with a nonce", first[:])
				}
				send(t, c, row.answer(t, first, c.binding))
				if got, err := rest(c); len(got) != 0 {
					t.Errorf("got %d bytes and %v behind a wrong answer, want no Finish", len(got), err)
				}
				if got, err := rest(near); len(got) != 0 || !isReset(err) {
					t.Errorf("near: got %d bytes and %v, want none and a reset", len(got), err)
				}
				line := g.wantRefused("egress", row.ending)
				if row.status != "" && line["got"] != "status "+row.status {
					t.Errorf("got %q in the line, want status %s", line["got"], row.status)
				}
			})
		}
	}
}

// dialed takes the gate's connection to a peer, up to the Hello.
func (g *gate) dialed() channel {
	g.t.Helper()
	c := accept(g.t, g.peers)
	if g.far != proxy.TLS {
		return channel{Conn: c, tcp: c}
	}
	t := tls.Server(c, g.certs.Server())
	if err := t.HandshakeContext(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
	return channel{Conn: t, tcp: c, binding: exported(g.t, t.ConnectionState())}
}

type answer func(t *testing.T, hello *wire.Header, binding mac.Binding) []byte

// answering makes a Challenge of the given id and secret, then changes it.
func answering(id uint8, keys *mac.Keyring, change func(h *wire.Header)) answer {
	return func(t *testing.T, hello *wire.Header, binding mac.Binding) []byte {
		a := mac.NewAcceptor(id, mac.Options{Cluster: cluster, Keys: keys, Binding: binding})
		if err := a.Hello(hello); err != nil {
			t.Fatal(err)
		}
		c := a.Challenge(nonce(9))
		if change != nil {
			change(&c)
		}
		return c[:]
	}
}

// rejecting makes a reject frame with any status byte.
func rejecting(status byte) answer {
	return func(*testing.T, *wire.Header, mac.Binding) []byte {
		r := wire.NewReject(cluster, 2, wire.Status(status))
		return r[:]
	}
}

var badAnswers = []struct {
	name   string
	answer answer
	ending string
	status string
}{
	{"wrong secret", answering(2, stranger, nil), "mac_mismatch", ""},
	{"another replica's proof", answering(1, secret, nil), "mac_mismatch", ""},
	{"one bit", answering(2, secret, func(h *wire.Header) { h.MAC()[7] ^= 1 }), "mac_mismatch", ""},
	{"our own frame back", func(_ *testing.T, h *wire.Header, _ mac.Binding) []byte { return h[:] }, "hello_command", ""},
	{"a commit", func(*testing.T, *wire.Header, mac.Binding) []byte { return commit(2, 1) }, "hello_command", ""},
	{"command 31", answering(2, secret, command(31)), "frame_command", ""},
	{"dirty", answering(2, secret, func(h *wire.Header) { wire.View.Set(h, 1) }), "hello_malformed", ""},
	{"status 1", rejecting(1), "rejected", "UnknownCommand"},
	{"status 2", rejecting(2), "rejected", "ClusterMismatch"},
	{"status 3", rejecting(3), "rejected", "DirectionalRule"},
	{"status 4", rejecting(4), "rejected", "AuthRequired"},
	{"status 5", rejecting(5), "rejected", "MacMismatch"},
	{"status 200", rejecting(200), "rejected", "UnknownCommand (200)"},
}

// An acceptor that goes instead of answering: Iggy does so on a secret it does not
// know.
func TestBadAnswerNothing(t *testing.T) {
	for name, row := range map[string]struct {
		end    func(c *net.TCPConn)
		ending string
	}{
		"FIN":   {func(c *net.TCPConn) { c.CloseWrite() }, "peer_eof"},
		"reset": {reset, "peer_reset"},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, spec{near: proxy.PSK, far: proxy.PSK})
			near := raw(t, g.egress())
			send(t, near, hello(1, nil))
			c := g.dialed()
			readHeader(t, c)
			row.end(c.tcp)
			if got, err := rest(near); len(got) != 0 || !isReset(err) {
				t.Errorf("near: got %d bytes and %v, want none and a reset", len(got), err)
			}
			g.wantRefused("egress", row.ending)
		})
	}
}
