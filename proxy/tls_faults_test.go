package proxy_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// The outer types of TLS records. In TLS 1.3 everything that is encrypted has the
// type of application data, the rest of a handshake and its alerts too.
const (
	recordCCS       = 20
	recordAlert     = 21
	recordHandshake = 22
	recordProtected = 23
)

// record is one TLS record as it lies on the wire.
type record struct {
	kind byte
	size int
}

// tap notes the records that are read from a connection.
type tap struct {
	net.Conn
	got []byte
}

func (c *tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.got = append(c.got, p[:n]...)
	return n, err
}

// records cuts what came into records; what is none fails the test.
func records(t *testing.T, b []byte) (all []record) {
	t.Helper()
	for len(b) > 0 {
		if len(b) < 5 || b[0] < recordCCS || b[0] > recordProtected || b[1] != 3 {
			t.Fatalf("got bytes that are no TLS record: % x", b[:min(len(b), 16)])
		}
		size := int(b[3])<<8 | int(b[4])
		if len(b) < 5+size {
			t.Fatalf("got a record of %d bytes cut at %d", size, len(b)-5)
		}
		all = append(all, record{b[0], size})
		b = b[5+size:]
	}
	return all
}

// protectedAlert is the size of an encrypted alert: level, description, the inner
// type and a tag of 16 bytes. A Hello in a record has 273 bytes.
const protectedAlert = 2 + 1 + 16

// wantNoApplication holds that a gate that accepts said nothing but a handshake and
// an alert. alone says that not even the ServerHello was due.
func wantNoApplication(t *testing.T, got []byte, alone bool) {
	t.Helper()
	for _, r := range records(t, got) {
		if r.kind == recordProtected && alone || r.kind == recordHandshake && alone {
			t.Errorf("got a record of type %d and %d bytes, want at most an alert", r.kind, r.size)
		}
	}
}

// What is no acceptable ClientHello gets a fatal alert, or nothing but the end.
func TestTLSFaultsOfDialer(t *testing.T) {
	for _, row := range []struct {
		name   string
		config func(c *tls.Config)
		ending string
		alert  tls.AlertError
	}{
		{"TLS 1.2", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }, "tls_version", 70},
		{"foreign ALPN", func(c *tls.Config) { c.NextProtos = []string{"h2"} }, "tls_alpn", 120},
		{"no group in common", func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} }, "tls_alert", 40},
	} {
		for _, direction := range []string{"ingress", "egress"} {
			t.Run(row.name+"/"+direction, func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{near: proxy.TLS, far: proxy.TLS})
				config := g.certs.Client("127.0.0.1")
				row.config(config)
				c := &tap{Conn: raw(t, g.entrance(direction))}
				err := tls.Client(c, config).HandshakeContext(t.Context())
				if err == nil {
					t.Fatal("got a handshake, want none")
				}
				io.Copy(io.Discard, c)
				all := records(t, c.got)
				if len(all) != 1 || all[0] != (record{recordAlert, 2}) || c.got[5] != 2 || c.got[6] != byte(row.alert) {
					t.Errorf("got records %v % x (%v), want one fatal alert %d", all, c.got, err, row.alert)
				}
				g.wantRefused(direction, row.ending)
			})
		}
	}
}

// A client that refuses our certificate ends the handshake; we have said no more
// than a server's flight, and the line has its alert.
func TestTLSDistrusted(t *testing.T) {
	for _, direction := range []string{"ingress", "egress"} {
		t.Run(direction, func(t *testing.T) {
			g := start(t, spec{near: proxy.TLS, far: proxy.TLS})
			_, strangers := minted(t, "127.0.0.1")
			c := &tap{Conn: raw(t, g.entrance(direction))}
			err := tls.Client(c, strangers.Client("127.0.0.1")).HandshakeContext(t.Context())
			if unknown := (x509.UnknownAuthorityError{}); !errors.As(err, &unknown) {
				t.Fatalf("got %v, want an unknown authority", err)
			}
			c.Conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c)
			// EncryptedExtensions, CertificateRequest, Certificate, CertificateVerify, Finished.
			flight := append([]byte{recordHandshake, recordCCS}, bytes.Repeat([]byte{recordProtected}, 5)...)
			var kinds []byte
			for _, r := range records(t, c.got) {
				kinds = append(kinds, r.kind)
			}
			if !slices.Equal(kinds, flight) {
				t.Errorf("got records %v, want a server's flight %v and nothing behind it", kinds, flight)
			}
			g.wantRefused(direction, "tls_alert")
		})
	}
}

// TLS knocking on a plaintext entrance gets silence: not a byte, and no waiting
// for the rest of a frame.
func TestTLSToPlaintext(t *testing.T) {
	for _, s := range []proxy.Security{proxy.Plaintext, proxy.PSK} {
		for _, direction := range []string{"ingress", "egress"} {
			t.Run(fmt.Sprintf("%s/%s", s, direction), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{near: s, far: s})
				_, set := minted(t, "127.0.0.1")
				c := &tap{Conn: raw(t, g.entrance(direction))}
				if err := tls.Client(c, set.Client("127.0.0.1")).HandshakeContext(t.Context()); err == nil {
					t.Fatal("got a handshake, want none")
				}
				if len(c.got) != 0 {
					t.Errorf("got % x, want silence", c.got)
				}
				g.wantRefused(direction, "plaintext_refused")
			})
		}
	}
}

// Plaintext knocking on a TLS entrance, in all the forms that might slip through:
// with and without a nonce, honest otherwise.
func TestTLSFromPlaintext(t *testing.T) {
	for name, say := range map[string][]byte{
		"Hello":                  hello(0, nil),
		"Hello without nonce":    hello(0, withoutNonce),
		"Hello, frames":          slices.Concat(hello(0, withoutNonce), commit(0, 1)),
		"Hello of a foreign one": hello(0, ofCluster),
	} {
		for _, direction := range []string{"ingress", "egress"} {
			t.Run(name+"/"+direction, func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{near: proxy.TLS, far: proxy.TLS})
				c := raw(t, g.entrance(direction))
				send(t, c, say)
				got, _ := rest(c)
				wantNoApplication(t, got, true)
				g.wantRefused(direction, "tls_plaintext")
				nobody(t, g.upstream, 20*time.Millisecond, "plaintext reaches nobody")
			})
		}
	}
}

// Bytes that begin like a record and are none.
func TestTLSGarbage(t *testing.T) {
	for name, say := range map[string][]byte{
		"record too long":  slices.Concat([]byte{0x16, 3, 1, 0xff, 0xff}, noise(300, 1)),
		"no ClientHello":   slices.Concat([]byte{0x16, 3, 1, 0, 100}, noise(100, 1)),
		"empty records":    {0x16, 3, 1, 0, 0, 0x16, 3, 1, 0, 0},
		"one empty record": {0x16, 3, 1, 0, 0},
		"alert in a shell": {0x16, 3, 1, 0, 2, 2, 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, spec{far: proxy.TLS, change: impatient})
			c := raw(t, g.ingress())
			send(t, c, say)
			c.CloseWrite()
			got, _ := rest(c)
			wantNoApplication(t, got, true)
			g.wantRefused("ingress", "tls_alert")
		})
	}
}

// Records without content, and then nothing: that is silence too, it ends in time
// and costs no more than any other.
func TestTLSEmptyRecords(t *testing.T) {
	for name, say := range map[string][]byte{
		"header alone":  {0x16, 3, 1, 0, 0},
		"two headers":   {0x16, 3, 1, 0, 0, 0x16, 3, 1, 0, 0},
		"half a header": {0x16, 3, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, spec{far: proxy.TLS, change: impatient})
			began := time.Now()
			c := raw(t, g.ingress())
			send(t, c, say)
			got, _ := rest(c)
			if took := time.Since(began); took > quarter+3*time.Second {
				t.Errorf("got an end after %v, want one by %v", took, quarter)
			}
			wantNoApplication(t, got, true)
			g.await("refusal", func() bool { return len(g.refused) == 1 })
			g.mu.Lock()
			defer g.mu.Unlock()
			if r := g.refused[0]; r != "ingress tls_timeout" && r != "ingress tls_alert" {
				t.Errorf("got %q, want a tls_timeout, or a tls_alert at once", r)
			}
		})
	}
}

// wantClientFault holds that the gate, dialing a server of the given
// configuration, sends no more than a ClientHello and an alert.
func wantClientFault(t *testing.T, g *gate, server *tls.Config, ending string) {
	t.Helper()
	near := raw(t, g.egress())
	send(t, near, hello(1, withoutNonce))
	c := &tap{Conn: accept(t, g.peers)}
	err := tls.Server(c, server).HandshakeContext(t.Context())
	if err == nil {
		t.Fatal("got a handshake, want none")
	}
	io.Copy(io.Discard, c)
	for i, r := range records(t, c.got) {
		switch {
		case i == 0 && r.kind == recordHandshake:
		case i > 0 && (r.kind == recordCCS || r == record{recordAlert, 2} || r == record{recordProtected, protectedAlert}):
		default:
			t.Errorf("got record %d of type %d and %d bytes, want a ClientHello and an alert", i, r.kind, r.size)
		}
	}
	if got, err := rest(near); len(got) != 0 || !isReset(err) {
		t.Errorf("near: got %d bytes and %v, want none and a reset", len(got), err)
	}
	g.wantRefused("egress", ending)
}

// A gate that dials names what is wrong with the other side's certificate, by
// which nobody else is told a byte.
func TestTLSFaultsOfAcceptor(t *testing.T) {
	now := time.Now()
	for _, row := range []struct {
		name     string
		from, to time.Time
		host     string
		own      bool // signed by the CA that the gate trusts
		change   func(c *tls.Config)
		ending   string
	}{
		{"untrusted", now.Add(-time.Hour), now.Add(time.Hour), "127.0.0.1", false, nil, "tls_unknown_ca"},
		{"expired", now.Add(-2 * time.Hour), now.Add(-time.Hour), "127.0.0.1", true, nil, "tls_expired"},
		{"not yet valid", now.Add(time.Hour), now.Add(2 * time.Hour), "127.0.0.1", true, nil, "tls_not_yet_valid"},
		{"wrong address", now.Add(-time.Hour), now.Add(time.Hour), "127.0.0.2", true, nil, "tls_name_mismatch"},
		{"wrong name", now.Add(-time.Hour), now.Add(time.Hour), "iggy-2.iggy", true, nil, "tls_name_mismatch"},
		{"TLS 1.2", now.Add(-time.Hour), now.Add(time.Hour), "127.0.0.1", true,
			func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }, "tls_version"},
		{"foreign ALPN", now.Add(-time.Hour), now.Add(time.Hour), "127.0.0.1", true,
			func(c *tls.Config) { c.NextProtos = []string{"h2"} }, "tls_alpn"},
	} {
		t.Run(row.name, func(t *testing.T) {
			files, set := mintedFor(t, row.from, row.to, row.host)
			g := start(t, spec{far: proxy.TLS, change: func(s *proxy.Settings) {
				if row.own {
					s.Credentials = trusting(t, files.CA)
				}
			}})
			server := set.Server()
			if row.change != nil {
				row.change(server)
			}
			wantClientFault(t, g, server, row.ending)
		})
	}
}

// trust is a client that knows one CA and nothing of dates but the clock's. The CA
// that is minted with a leaf is valid as long as the leaf is, so the roots are put
// in without them: what is judged is the leaf.
type trust struct {
	credentials
	roots *x509.CertPool
}

func trusting(t *testing.T, ca string) proxy.Credentials {
	t.Helper()
	_, own := minted(t, "127.0.0.1")
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatal("got no CA in the minted file")
	}
	return trust{credentials{own}, roots}
}

func (c trust) Client(name string) (*tls.Config, func(error) proxy.TLSFault) {
	config, explain := c.credentials.Client(name)
	config.RootCAs = c.roots
	return config, explain
}

// A plaintext acceptor where TLS is expected: the gate's ClientHello is answered
// with a frame.
func TestTLSDialsPlaintext(t *testing.T) {
	for name, row := range map[string]struct {
		say    []byte
		ending string
	}{
		"a frame": {commit(2, 1), "tls_plaintext"},
		"an end":  {nil, "tls_alert"},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, spec{far: proxy.TLS})
			near := raw(t, g.egress())
			send(t, near, hello(1, withoutNonce))
			c := accept(t, g.peers)
			send(t, c, row.say)
			c.CloseWrite()
			got, _ := rest(c)
			for i, r := range records(t, got) {
				if i == 0 && r.kind != recordHandshake || i > 0 && r.kind != recordAlert {
					t.Errorf("got record %d of type %d, want a ClientHello and an alert", i, r.kind)
				}
			}
			if got, err := rest(near); len(got) != 0 || !isReset(err) {
				t.Errorf("near: got %d bytes and %v, want none and a reset", len(got), err)
			}
			g.wantRefused("egress", row.ending)
		})
	}
}

// A gate that dials psk and finds a TLS server: the alert for our Hello is seven
// bytes of no frame.
func TestTLSWherePSKIsDialed(t *testing.T) {
	g := start(t, spec{far: proxy.PSK})
	near := raw(t, g.egress())
	send(t, near, hello(1, withoutNonce))
	c := accept(t, g.peers)
	readHeader(t, c)
	send(t, c, []byte{recordAlert, 3, 3, 0, 2, 2, 50})
	c.CloseWrite()
	if got, err := rest(near); len(got) != 0 || !isReset(err) {
		t.Errorf("near: got %d bytes and %v, want none and a reset", len(got), err)
	}
	g.wantRefused("egress", "peer_eof_mid_frame")
}

// Inside TLS nothing is believed sooner than outside: an exporter of its own for
// every session, so that a proof from one is worth nothing on another.
func TestTLSProofIsBound(t *testing.T) {
	g := start(t, spec{far: proxy.TLS})
	one, other := g.knock("ingress"), g.knock("ingress")
	one.binding, other.binding = other.binding, one.binding
	n := nonce(7)
	first := wire.NewHello(cluster, 0, n[:])
	send(t, one, first[:])
	answer := readHeader(t, one)
	forged := wire.NewFinish(cluster, 0, answer.MAC())
	send(t, one, forged[:])
	ended(t, one)
	other.tcp.Close()
	g.await("two refusals", func() bool { return len(g.refused) == 2 })
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.refused, "ingress mac_mismatch") {
		t.Errorf("got %q, want a mac_mismatch", g.refused)
	}
}
