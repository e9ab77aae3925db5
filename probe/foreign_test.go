package probe_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/replgate/replgate/probe"
	"github.com/replgate/replgate/wire"
)

// silence is how long these tests let a silent port be silent.
const silence = 200 * time.Millisecond

func TestRefused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	r := check(t, options(t, ln.Addr().String()), probe.WhatRefused, probe.KindUnknown, "tcp=fault")
	if got := finding(t, r, probe.CodeTCP); got.Ending != "dial_refused" || r.Reached() {
		t.Errorf("got %+v, reached %v", got, r.Reached())
	}
}

// A port whose SYNs are thrown away, as a filter does: the kernel does so when
// the queue of a listener that accepts nobody is full.
func TestFiltered(t *testing.T) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	in := name.(*syscall.SockaddrInet4)
	address := netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)).String()
	for full := false; !full; {
		c, err := net.DialTimeout("tcp", address, silence)
		timeout, ok := errors.AsType[net.Error](err)
		if full = ok && timeout.Timeout(); !full {
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
	}
	o := options(t, address)
	o.Timeout = silence
	r := check(t, o, probe.WhatFiltered, probe.KindUnknown, "tcp=fault")
	if got := finding(t, r, probe.CodeTCP); got.Ending != "dial_timeout" || r.Reached() {
		t.Errorf("got %+v, reached %v", got, r.Reached())
	}
}

func TestNames(t *testing.T) {
	n := newNative(1, keyring(t, secretOne), nil)
	at := netip.MustParseAddrPort(n.listen(t))
	o := options(t, net.JoinHostPort("replica.test", "1"))
	o.Lookup = func(context.Context, string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "no such host", Name: "replica.test", IsNotFound: true}
	}
	r := check(t, o, probe.WhatNoName, probe.KindUnknown, "dns=fault")
	if got := finding(t, r, probe.CodeDNS); got.Ending != "dns_failed" {
		t.Errorf("got %+v", got)
	}
	// The first address of a name may refuse where another does not.
	_, port, _ := net.SplitHostPort(at.String())
	o.Address = net.JoinHostPort("replica.test", port)
	o.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		if host != "replica.test" {
			t.Errorf("got a look-up of %q", host)
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.2"), at.Addr()}, nil
	}
	check(t, o, probe.WhatPSKAcceptor, probe.KindUnknown, "kind=unknown")
	for _, address := range []string{"", "host", "host:", ":9090", "host:0", "host:x", "[::1", "a:b:c"} {
		o.Address = address
		check(t, o, probe.WhatNoName, probe.KindUnknown, "dns=fault")
	}
	n.unharmed(t)
}

// quiet is an HTTP server that logs nothing.
func quiet() *http.Server {
	return &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.NotFoundHandler()}
}

func TestHTTP(t *testing.T) {
	now := time.Now()
	authority := newPKI(t, now.Add(-time.Hour), now.Add(24*time.Hour))
	config := authority.server(now.Add(-time.Hour), now.Add(time.Hour), serverName)
	config.NextProtos, config.MinVersion = []string{"http/1.1"}, 0
	plain, secured := quiet(), quiet()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tlsIn, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- plain.Serve(in) }()
	go func() { ended <- secured.Serve(tlsIn) }()
	t.Cleanup(func() {
		plain.Close()
		secured.Close()
		<-ended
		<-ended
	})
	for expected, want := range map[string]string{"": "acceptor=fault", probe.Plaintext: "acceptor=fault", probe.PSK: "acceptor=fault",
		probe.TLS: "tls=fault acceptor=fault"} {
		o := options(t, in.Addr().String())
		o.Expected = expected
		began := time.Now()
		check(t, o, probe.WhatHTTP, probe.KindUnknown, want)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("expected %q: got an answer after %v, want it at once: the first bytes end a request", expected, took)
		}
		o = options(t, tlsIn.Addr().String())
		o.Expected = expected
		r := check(t, o, probe.WhatTLS, probe.KindUnknown, "tls_alpn=fault acceptor=fault")
		if got := finding(t, r, probe.CodeTLSALPN); got.Ending != "tls_alpn" {
			t.Errorf("got %+v", got)
		}
	}
}

// An HTTP server that reads a Hello without having seen a ClientHello.
func TestHelloEndsAnHTTPRequest(t *testing.T) {
	var opened atomic.Int64
	address := serve(t, func(c *net.TCPConn) {
		if opened.Add(1) == 1 {
			return // the TLS attempt
		}
		one := &oneConn{conns: make(chan net.Conn, 1)}
		one.conns <- c
		closed := make(chan struct{})
		plain := quiet()
		plain.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				close(closed)
			}
		}
		plain.Serve(one)
		<-closed
	})
	o := options(t, address)
	o.Expected = probe.PSK
	check(t, o, probe.WhatHTTP, probe.KindUnknown, "acceptor=fault")
}

// oneConn is a listener with one connection.
type oneConn struct{ conns chan net.Conn }

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	default:
		return nil, net.ErrClosed
	}
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

func TestTLSServers(t *testing.T) {
	now := time.Now()
	authority := newPKI(t, now.Add(-time.Hour), now.Add(24*time.Hour))
	for _, c := range []struct {
		name   string
		adjust func(*tls.Config)
		want   string
		what   string
	}{
		{"TLS 1.2", func(c *tls.Config) { c.MinVersion, c.MaxVersion = 0, tls.VersionTLS12 }, "tls_version=fault acceptor=fault", probe.WhatTLS},
		{"another ALPN", func(c *tls.Config) { c.NextProtos = []string{"h2"} }, "tls_alpn=fault acceptor=fault", probe.WhatTLS},
		{"no ALPN", func(c *tls.Config) { c.NextProtos = nil }, "tls_alpn=fault acceptor=fault", probe.WhatTLS},
		{"a client certificate required", func(c *tls.Config) { c.ClientAuth = tls.RequireAnyClientCert }, "acceptor=fault", probe.WhatUnknown},
		{"ours, and closes", func(*tls.Config) {}, "acceptor=fault", probe.WhatUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := authority.server(now.Add(-time.Hour), now.Add(time.Hour), serverName)
			c.adjust(config)
			address := serve(t, func(tcp *net.TCPConn) {
				s := tls.Server(tcp, config)
				if s.Handshake() == nil {
					io.ReadFull(s, make([]byte, wire.HeaderSize))
				}
			})
			for _, expected := range []string{"", probe.TLS} {
				o := options(t, address)
				o.Expected, o.TLS = expected, authority.trust()
				check(t, o, c.what, probe.KindUnknown, c.want)
			}
		})
	}
}

// An Iggy's client port ignores a Hello and waits; it answers a ping before any
// sign-in. Another one closes on everything that is no Request.
func TestClientPort(t *testing.T) {
	for _, ignores := range []bool{true, false} {
		address := serve(t, func(c *net.TCPConn) {
			n := newNative(0, nil, nil)
			for {
				h, err := n.read(c)
				switch {
				case err != nil:
					return
				case h.Command() == wire.Request && wire.ValidateRequest(h) == nil:
					wire.ReplyClient.Set(h, wire.RequestClient.Get(h))
					h.SetCommand(wire.Reply)
					c.Write(h[:])
				case !ignores:
					h.SetCommand(wire.Eviction)
					c.Write(h[:])
				}
			}
		})
		o := options(t, address)
		o.Timeout = silence
		check(t, o, probe.WhatClientPort, probe.KindUnknown, "acceptor=fault")
	}
}

func TestSilence(t *testing.T) {
	address := serve(t, func(c *net.TCPConn) { io.Copy(io.Discard, c) })
	for expected, want := range map[string]string{"": "acceptor=unknown", probe.Plaintext: "acceptor=fault",
		probe.PSK: "acceptor=fault", probe.TLS: "tls=fault acceptor=fault"} {
		o := options(t, address)
		o.Timeout, o.Expected = silence, expected
		r := check(t, o, probe.WhatUnknown, probe.KindUnknown, want)
		if expected == probe.TLS {
			if got := finding(t, r, probe.CodeTLS); got.Ending != "tls_timeout" {
				t.Errorf("got %+v", got)
			}
		}
	}
}

// Bytes of other protocols, in strangers' words that are safe to print.
func TestOtherWords(t *testing.T) {
	for _, words := range []string{"SSH-2.0-OpenSSH_9.9\r\n", "220 mail ready\r\n", "\x1b[31mred\x1b[0m and more of it", "\xff\xfd\x18"} {
		address := serve(t, func(c *net.TCPConn) {
			c.Write([]byte(words))
			io.Copy(io.Discard, c)
		})
		o := options(t, address)
		o.Timeout = silence
		r := check(t, o, probe.WhatUnknown, probe.KindUnknown, "acceptor=fault")
		for _, b := range finding(t, r, probe.CodeAcceptor).String() {
			if b < ' ' {
				t.Errorf("got the byte %#x in a finding", b)
			}
		}
	}
}

// A probe that is ended says so, and ends.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	address := serve(t, func(c *net.TCPConn) {
		io.ReadFull(c, make([]byte, 1))
		cancel()
		io.Copy(io.Discard, c)
	})
	o := options(t, address)
	o.Timeout = time.Minute
	began := time.Now()
	r := probe.Run(ctx, o)
	if got := verdicts(r); got != "acceptor=unknown" || time.Since(began) > 10*time.Second {
		t.Errorf("got %q after %v, want acceptor=unknown at once", got, time.Since(began))
	}
}

// The names in the JSON are a contract.
func TestJSON(t *testing.T) {
	r := probe.Report{Address: "a:1", What: probe.WhatPSKAcceptor, Kind: probe.KindUnknown, Findings: []probe.Finding{
		{Code: probe.CodeSecret, Verdict: probe.Fault, Ending: "mac_mismatch", Expected: "e", Found: "f", Do: "d"},
		{Code: probe.CodeTCP, Verdict: probe.OK, Found: "f"},
	}}
	got, err := json.Marshal(r)
	want := `{"address":"a:1","what":"replica acceptor, psk","kind":"unknown","findings":[` +
		`{"code":"secret","verdict":"fault","ending":"mac_mismatch","expected":"e","found":"f","do":"d"},` +
		`{"code":"tcp","verdict":"ok","found":"f"}]}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if got, want := r.Findings[0].String(), "expected e, found f: d"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := r.Summary(), "a:1: replica acceptor, psk, gate or native unknown: 1 ok, 0 not knowable, 1 fault"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
