package proxy_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// channel is a connection to a gate before its Hello.
type channel struct {
	net.Conn
	tcp     *net.TCPConn
	binding mac.Binding
}

// knock connects to an entrance in its security and says nothing.
func (g *gate) knock(direction string) channel {
	g.t.Helper()
	addr, security := g.ingress, g.far
	if direction == "egress" {
		addr, security = g.egress, g.near
	}
	c := raw(g.t, addr())
	if security != proxy.TLS {
		return channel{Conn: c, tcp: c}
	}
	t := tls.Client(c, g.certs.Client("127.0.0.1"))
	if err := t.HandshakeContext(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
	return channel{Conn: t, tcp: c, binding: exported(g.t, t.ConnectionState())}
}

func exported(t testing.TB, state tls.ConnectionState) mac.Binding {
	t.Helper()
	b, err := state.ExportKeyingMaterial(mac.ExporterLabel, nil, mac.ExporterSize)
	if err != nil {
		t.Fatal(err)
	}
	return mac.TLS([mac.ExporterSize]byte(b))
}

// hello is what a stand-in would say at an entrance, then changed.
func hello(id uint8, change func(h *wire.Header)) []byte {
	n := nonce(7)
	h := wire.NewHello(cluster, id, n[:])
	if change != nil {
		change(&h)
	}
	return h[:]
}

func withoutNonce(h *wire.Header) { clear(h.Nonce()) }

// knocker is one wrong Hello. Ids are those of the ingress entrance of replica 1:
// the dialer should be 0.
type knocker struct {
	name   string
	id     uint8
	change func(h *wire.Header)
	ending string
	status wire.Status // what Iggy answers with, StatusOk for silence
}

func both(changes ...func(h *wire.Header)) func(h *wire.Header) {
	return func(h *wire.Header) {
		for _, c := range changes {
			c(h)
		}
	}
}

func command(c wire.Command) func(h *wire.Header) {
	return func(h *wire.Header) { h.SetCommand(c) }
}

func ofCluster(h *wire.Header) { h.SetClusterID(foreign) }

// lastNonceByte leaves one bit of the nonce: enough to be one (§7.1).
func lastNonceByte(h *wire.Header) {
	clear(h.Nonce())
	h.Nonce()[wire.NonceSize-1] = 1
}

var knockers = []knocker{
	{"foreign cluster", 0, ofCluster, "cluster_mismatch", wire.StatusClusterMismatch},
	{"foreign cluster, smallest nonce", 0, both(ofCluster, lastNonceByte), "cluster_mismatch", wire.StatusClusterMismatch},
	{"foreign cluster, no nonce", 0, both(ofCluster, withoutNonce), "cluster_mismatch", wire.StatusOk},
	{"wrong direction", 2, nil, "directional_rule", wire.StatusDirectionalRule},
	{"wrong direction, no nonce", 2, withoutNonce, "directional_rule", wire.StatusOk},
	{"own id", 1, nil, "directional_rule", wire.StatusDirectionalRule},
	{"own id, no nonce", 1, withoutNonce, "directional_rule", wire.StatusOk},
	{"unknown replica", 3, nil, "unknown_replica", wire.StatusDirectionalRule},
	{"unknown replica 255", 255, nil, "unknown_replica", wire.StatusDirectionalRule},
	{"unknown replica, no nonce", 3, withoutNonce, "unknown_replica", wire.StatusOk},
	{"foreign cluster comes before unknown replica", 3, ofCluster, "cluster_mismatch", wire.StatusClusterMismatch},
	{"no nonce", 0, withoutNonce, "auth_required", wire.StatusOk},
	{"finish first", 0, command(wire.ReplicaFinish), "hello_command", wire.StatusUnknownCommand},
	{"challenge first", 0, command(wire.ReplicaChallenge), "hello_command", wire.StatusUnknownCommand},
	{"ping first, of a foreign cluster", 0, both(command(wire.Ping), ofCluster), "hello_command", wire.StatusUnknownCommand},
	{"finish first, no nonce", 0, both(command(wire.ReplicaFinish), withoutNonce), "hello_command", wire.StatusOk},
	{"a commit first", 0, func(h *wire.Header) { copy(h[:], commit(0, 1)) }, "hello_command", wire.StatusUnknownCommand},
	{"a request with a client id", 0, command(wire.Request), "client_frame", wire.StatusUnknownCommand},
	{"a request without", 0, both(command(wire.Request), withoutNonce), "client_frame", wire.StatusOk},
	{"command 30", 0, command(30), "not_a_frame", wire.StatusOk},
}

// Whoever knocks wrongly gets byte for byte what a native Iggy would send, and
// nothing behind it: a Challenge with status 1, 2 or 3 where the first frame had a
// nonce, else nothing; then the end.
func TestBadHelloIngress(t *testing.T) {
	for _, security := range []proxy.Security{proxy.PSK, proxy.TLS} {
		for _, k := range knockers {
			t.Run(fmt.Sprintf("%s/%s", security, k.name), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{far: security})
				c := g.knock("ingress")
				send(t, c, hello(k.id, k.change))
				wantAnswer(t, c, 1, k.status)
				g.wantRefused("ingress", k.ending)
				nobody(t, g.upstream, 20*time.Millisecond, "nobody unproven reaches the local replica")
			})
		}
	}
}

// wantAnswer holds everything that comes against the reject frame, or nothing.
func wantAnswer(t *testing.T, c channel, acceptor uint8, status wire.Status) {
	t.Helper()
	got, err := rest(c)
	var want []byte
	if status != wire.StatusOk {
		reject := wire.NewReject(cluster, acceptor, status)
		want = reject[:]
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %d bytes % x, want %d % x", len(got), got, len(want), want)
	}
	if status != wire.StatusOk && err != nil {
		t.Errorf("got an end by %v, want a FIN behind the reject frame", err)
	}
}

// The entrance of the local replica refuses in the name of the peer that it
// stands for.
func TestBadHelloEgress(t *testing.T) {
	for _, security := range []proxy.Security{proxy.PSK, proxy.TLS} {
		for _, k := range []knocker{
			{"foreign cluster", 1, ofCluster, "cluster_mismatch", wire.StatusClusterMismatch},
			{"another replica", 0, nil, "unknown_replica", wire.StatusDirectionalRule},
			{"the peer's own id", 2, nil, "directional_rule", wire.StatusDirectionalRule},
			{"no nonce", 1, withoutNonce, "auth_required", wire.StatusOk},
			{"finish first", 1, command(wire.ReplicaFinish), "hello_command", wire.StatusUnknownCommand},
		} {
			t.Run(fmt.Sprintf("%s/%s", security, k.name), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{near: security})
				c := g.knock("egress")
				send(t, c, hello(k.id, k.change))
				wantAnswer(t, c, 2, k.status)
				g.wantRefused("egress", k.ending)
				nobody(t, g.peers, 20*time.Millisecond, "nobody unadmitted makes the gate dial")
			})
		}
	}
}

// With authentication off nobody gets an answer, nonce or not (§7.1).
func TestBadHelloPlaintextSilence(t *testing.T) {
	for _, k := range knockers {
		if k.ending == "auth_required" || k.ending == "unknown_replica" {
			continue // admitted; held to the strongest security that this gate has
		}
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			g := start(t, spec{change: func(s *proxy.Settings) { s.Keys = nil }})
			c := g.knock("ingress")
			send(t, c, hello(k.id, k.change))
			wantAnswer(t, c, 1, wire.StatusOk)
			g.wantRefused("ingress", k.ending)
		})
	}
}

// A nonce does not hurt on a plaintext entrance: Iggy ignores it (§7.1).
func TestBadHelloPlaintextIgnoresNonce(t *testing.T) {
	g := start(t, spec{})
	c := g.knock("ingress")
	send(t, c, hello(0, nil), commit(0, 1))
	near := accept(t, g.upstream)
	want := wire.NewHello(cluster, 0, nil)
	receive(t, near, want[:], commit(0, 1))
}

// A Finish with a wrong proof ends in silence: the dialer reads no handshake
// frames any more. Status 5 is a word for logs.
func TestBadFinish(t *testing.T) {
	for _, security := range []proxy.Security{proxy.PSK, proxy.TLS} {
		for name, row := range map[string]struct {
			keys   *mac.Keyring
			change func(h *wire.Header)
			ending string
		}{
			"wrong secret":   {stranger, nil, "mac_mismatch"},
			"one bit":        {secret, func(h *wire.Header) { h.MAC()[31] ^= 1 }, "mac_mismatch"},
			"another id":     {secret, func(h *wire.Header) { wire.Replica.Set(h, 2); h.MAC()[0] ^= 1 }, "mac_mismatch"},
			"another frame":  {secret, func(h *wire.Header) { copy(h[:], commit(0, 1)) }, "hello_command"},
			"command 31":     {secret, command(31), "frame_command"},
			"size 255":       {secret, func(h *wire.Header) { wire.Size.Set(h, 255) }, "frame_size"},
			"a second Hello": {secret, func(h *wire.Header) { copy(h[:], hello(0, nil)) }, "hello_command"},
		} {
			t.Run(fmt.Sprintf("%s/%s", security, name), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{far: security})
				c := g.knock("ingress")
				finish := g.challenged(c, row.keys)
				if row.change != nil {
					row.change(&finish)
				}
				send(t, c, finish[:])
				ended(t, c)
				g.wantRefused("ingress", row.ending)
				nobody(t, g.upstream, 20*time.Millisecond, "nobody unproven reaches the local replica")
			})
		}
	}
}

// challenged says an honest Hello, takes the Challenge and makes the Finish with
// the given keys. The gate's proof is checked against its secret.
func (g *gate) challenged(c channel, keys *mac.Keyring) wire.Header {
	g.t.Helper()
	d := mac.NewDialer(g.inPair(), mac.Options{Cluster: cluster, Keys: secret, Binding: c.binding, Strict: true})
	n := nonce(7)
	first := d.Hello(n)
	send(g.t, c, first[:])
	challenge := readHeader(g.t, c)
	finish, _, err := d.Challenge(challenge)
	if err != nil {
		g.t.Fatal(err)
	}
	if keys == secret {
		return finish
	}
	// The same transcript under another secret: an acceptor of that secret makes
	// the Challenge that this dialer can answer.
	other := mac.NewDialer(g.inPair(), mac.Options{Cluster: cluster, Keys: keys, Binding: c.binding})
	first = other.Hello(n)
	a := mac.NewAcceptor(g.inPair().Acceptor, mac.Options{Cluster: cluster, Keys: keys, Binding: c.binding})
	if err := a.Hello(&first); err != nil {
		g.t.Fatal(err)
	}
	forged := a.Challenge([wire.NonceSize]byte(challenge.Nonce()))
	if finish, _, err = other.Challenge(&forged); err != nil {
		g.t.Fatal(err)
	}
	return finish
}

// A proof that is bound to another channel is none: the exporter of one session
// on another, and a plaintext proof inside TLS.
func TestBadFinishOfAnotherChannel(t *testing.T) {
	g := start(t, spec{far: proxy.TLS})
	c := g.knock("ingress")
	c.binding = mac.Binding{}
	d := mac.NewDialer(g.inPair(), mac.Options{Cluster: cluster, Keys: secret, Binding: c.binding})
	first := d.Hello(nonce(7))
	send(t, c, first[:])
	challenge := readHeader(t, c)
	if _, _, err := d.Challenge(challenge); err == nil {
		t.Fatal("got a Challenge that holds on a plaintext channel, want one bound to this session")
	}
	forged := wire.NewFinish(cluster, 0, challenge.MAC())
	send(t, c, forged[:])
	ended(t, c)
	g.wantRefused("ingress", "mac_mismatch")
}

// Text is no frame. Nobody waits for 256 bytes of it, and nobody is answered.
func TestBadText(t *testing.T) {
	for name, text := range map[string]string{
		"http":      "GET / HTTP/1.1\r\nHost: iggy\r\n\r\n",
		"ssh":       "SSH-2.0-OpenSSH_9.9\r\n",
		"long http": "POST / HTTP/1.1\r\n" + strings.Repeat("X-Header: long\r\n", 100),
	} {
		for _, s := range []proxy.Security{proxy.Plaintext, proxy.PSK, proxy.TLS} {
			for _, direction := range []string{"ingress", "egress"} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, s, direction), func(t *testing.T) {
					t.Parallel()
					g := start(t, spec{near: s, far: s})
					c := raw(t, g.entrance(direction))
					began := time.Now()
					send(t, c, []byte(text))
					ended(t, c)
					if took := time.Since(began); took > time.Second {
						t.Errorf("got an end after %v, want one at once", took)
					}
					line := g.wantRefused(direction, "not_a_frame")
					if line["level"] != "DEBUG" {
						t.Errorf("got level %v, want DEBUG: scanners come all day", line["level"])
					}
				})
			}
		}
	}
}

func (g *gate) entrance(direction string) string {
	if direction == "egress" {
		return g.egress()
	}
	return g.ingress()
}

// hello_strict: a handshake frame with a body or dirty zeros ends the handshake,
// in silence, or with its switch on observe is taken, its body thrown away, and
// counted.
var dirt = []struct {
	name   string
	change func(h *wire.Header)
	body   int
}{
	{"one byte of body", nil, 1},
	{"body of 64 KiB", nil, 64 << 10},
	{"checksum", func(h *wire.Header) { h[0] = 1 }, 0},
	{"checksum_body", func(h *wire.Header) { h[31] = 1 }, 0},
	{"view", func(h *wire.Header) { wire.View.Set(h, 1) }, 0},
	{"release", func(h *wire.Header) { wire.Release.Set(h, 1) }, 0},
	{"reserved_frame", func(h *wire.Header) { h[127] = 1 }, 0},
	{"tail", func(h *wire.Header) { h[255] = 1 }, 0},
	{"status", func(h *wire.Header) { h[wire.HelloStatus] = 1 }, 0},
}

// soiled applies one kind of dirt to a clean frame.
func soiled(clean wire.Header, change func(h *wire.Header), body int) []byte {
	if change != nil {
		change(&clean)
	}
	wire.Size.Set(&clean, uint32(wire.HeaderSize+body))
	return slices.Concat(clean[:], noise(body, 5))
}

func TestBadStrictHello(t *testing.T) {
	for _, s := range []proxy.Security{proxy.Plaintext, proxy.PSK, proxy.TLS} {
		for _, d := range dirt {
			t.Run(fmt.Sprintf("%s/%s", s, d.name), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{far: s})
				c := g.knock("ingress")
				send(t, c, soiled(g.cleanHello(s), d.change, d.body))
				ended(t, c)
				g.wantRefused("ingress", "hello_malformed")
			})
		}
	}
}

// cleanHello is the Hello of the ingress dialer.
func (g *gate) cleanHello(s proxy.Security) wire.Header {
	o := mac.Options{Cluster: cluster}
	if s != proxy.Plaintext {
		o.Keys = secret
	}
	return mac.NewDialer(g.inPair(), o).Hello(nonce(7))
}

func TestBadStrictHelloObserved(t *testing.T) {
	for _, s := range []proxy.Security{proxy.Plaintext, proxy.PSK, proxy.TLS} {
		for _, d := range dirt {
			t.Run(fmt.Sprintf("%s/%s", s, d.name), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{far: s, rules: map[string]string{"hello_strict": "observe"}})
				g.looseHello(s, soiled(g.cleanHello(s), d.change, d.body))
				g.wantRejected("in hello_strict observe")
			})
		}
	}
}

// looseHello completes an ingress handshake that begins with the given bytes, and
// holds that what is pipelined behind them arrives.
func (g *gate) looseHello(s proxy.Security, first []byte) {
	t := g.t
	t.Helper()
	c := g.knock("ingress")
	if s == proxy.Plaintext {
		send(t, c, first, commit(0, 3))
	} else {
		send(t, c, first)
		d := mac.NewDialer(g.inPair(), mac.Options{Cluster: cluster, Keys: secret, Binding: c.binding, Strict: true})
		d.Hello(nonce(7))
		finish, _, err := d.Challenge(readHeader(t, c))
		if err != nil {
			t.Fatal(err)
		}
		send(t, c, finish[:], commit(0, 3))
	}
	near := accept(t, g.upstream)
	want := wire.NewHello(cluster, 0, nil)
	receive(t, near, want[:], commit(0, 3))
	g.await("an opened link", func() bool { return len(g.opened) == 1 })
}

// Under validation = "observe" what would have closed is counted so.
func TestBadStrictHelloObserveMode(t *testing.T) {
	g := start(t, spec{observe: true})
	g.looseHello(proxy.Plaintext, soiled(g.cleanHello(proxy.Plaintext), nil, 100))
	g.wantRejected("in hello_strict would_close")
}

func TestBadStrictFinish(t *testing.T) {
	for _, s := range []proxy.Security{proxy.PSK, proxy.TLS} {
		for _, d := range dirt {
			t.Run(fmt.Sprintf("%s/%s", s, d.name), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{far: s})
				c := g.knock("ingress")
				send(t, c, soiled(g.challenged(c, secret), d.change, d.body))
				ended(t, c)
				g.wantRefused("ingress", "hello_malformed")
			})
		}
	}
}

func TestBadStrictFinishObserved(t *testing.T) {
	for _, s := range []proxy.Security{proxy.PSK, proxy.TLS} {
		for _, d := range dirt {
			t.Run(fmt.Sprintf("%s/%s", s, d.name), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{far: s, rules: map[string]string{"hello_strict": "observe"}})
				c := g.knock("ingress")
				send(t, c, soiled(g.challenged(c, secret), d.change, d.body), commit(0, 3))
				near := accept(t, g.upstream)
				want := wire.NewHello(cluster, 0, nil)
				receive(t, near, want[:], commit(0, 3))
				g.await("an opened link", func() bool { return len(g.opened) == 1 })
				g.wantRejected("in hello_strict observe")
			})
		}
	}
}
