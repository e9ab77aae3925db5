package probe_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/probe"
	"github.com/replgate/replgate/wire"
)

const (
	clusterName = "iggy-cluster"
	secretOne   = "the one secret of these tests, 32+ bytes"
	secretTwo   = "the two secret of these tests, 32+ bytes"
	serverName  = "replica.test"
	maxFrame    = 64 << 20
)

// ringGroups is the group order of rustls with ring (§7.8).
func ringGroups() []tls.CurveID { return []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384} }

func keyring(t *testing.T, current string, previous ...string) *mac.Keyring {
	t.Helper()
	var second []byte
	if len(previous) > 0 {
		second = []byte(previous[0])
	}
	k, err := mac.NewKeyring([]byte(current), second)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// pki is an authority of its own and what it signs.
type pki struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newPKI(t *testing.T, from, to time.Time) *pki {
	t.Helper()
	p := &pki{t: t, key: newKey(t)}
	p.cert = sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "probe CA"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, p.key, p.key)
	return p
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t *testing.T, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	if parent == nil {
		parent = template
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// server is a native replica's TLS with a leaf for the given names.
func (p *pki) server(from, to time.Time, names ...string) *tls.Config {
	p.t.Helper()
	key := newKey(p.t)
	leaf := sign(p.t, &x509.Certificate{Subject: pkix.Name{CommonName: "probe leaf"}, NotBefore: from, NotAfter: to, DNSNames: names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, p.cert, key, p.key)
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{certs.ALPN}, CurvePreferences: ringGroups(),
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw}, PrivateKey: key}}}
}

// trust is what a dialer in CA mode knows.
func (p *pki) trust() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(p.cert)
	return &tls.Config{RootCAs: pool}
}

func explain(err error) (string, string) {
	f := certs.ClassifyClient(err, time.Now())
	return f.Word, f.Detail
}

// native is a stand-in for Iggy's acceptor: it reads, judges and answers in its
// order (§2.1, §7.1), and remembers what came.
type native struct {
	cluster     wire.ClusterID
	self, count uint8
	keys        *mac.Keyring // nil: authentication off
	tls         *tls.Config
	knows       wire.Command // the first frame it knows

	mu        sync.Mutex
	hellos    []wire.Header
	installed []uint8 // who became a replica here
	finished  int     // frames that came after a Challenge
	busy      int     // connections being served
}

func newNative(self uint8, keys *mac.Keyring, config *tls.Config) *native {
	return &native{cluster: wire.ClusterIDOf(clusterName), self: self, count: 3, keys: keys, tls: config, knows: wire.ReplicaHello}
}

// serve listens until the test ends; handle is given each connection.
func serve(t *testing.T, handle func(c *net.TCPConn)) string {
	t.Helper()
	s := &server{handle: handle, open: map[net.Conn]struct{}{}}
	var err error
	if s.ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.work.Go(s.accept)
	t.Cleanup(s.cut)
	return s.ln.Addr().String()
}

// server hands its connections out and waits for all of them.
type server struct {
	ln     net.Listener
	handle func(c *net.TCPConn)
	work   sync.WaitGroup

	mu    sync.Mutex
	open  map[net.Conn]struct{}
	ended bool
}

func (s *server) accept() {
	for {
		c, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.open[c] = struct{}{}
		if s.ended {
			c.Close()
		}
		s.mu.Unlock()
		s.work.Go(func() {
			s.handle(c.(*net.TCPConn))
			c.Close()
		})
	}
}

// cut ends what is still going on.
func (s *server) cut() {
	s.ln.Close()
	s.mu.Lock()
	s.ended = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

func (n *native) listen(t *testing.T) string {
	return serve(t, func(c *net.TCPConn) {
		n.mu.Lock()
		n.busy++
		n.mu.Unlock()
		n.handle(c)
		n.mu.Lock()
		n.busy--
		n.mu.Unlock()
	})
}

// idle reports whether every connection has been served to its end.
func (n *native) idle() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.busy == 0
}

func (n *native) handle(tcp *net.TCPConn) {
	var c net.Conn = tcp
	binding := mac.Binding{}
	if n.tls != nil {
		s := tls.Server(tcp, n.tls)
		if s.Handshake() != nil {
			return
		}
		state := s.ConnectionState()
		exporter, err := state.ExportKeyingMaterial(mac.ExporterLabel, nil, mac.ExporterSize)
		if err != nil {
			return
		}
		c, binding = s, mac.TLS([mac.ExporterSize]byte(exporter))
	}
	hello, err := n.read(c)
	if err != nil {
		return
	}
	a := mac.NewAcceptor(n.self, mac.Options{Cluster: n.cluster, Keys: n.keys, Binding: binding})
	status := n.judge(hello, a)
	if status != wire.StatusOk {
		if reject, readable := a.Reject(status); readable {
			c.Write(reject[:])
			if s, ok := c.(*tls.Conn); ok {
				s.CloseWrite()
			}
		}
		return
	}
	if n.keys == nil {
		n.install(hello)
		io.Copy(io.Discard, c)
		return
	}
	challenge := a.Challenge([wire.NonceSize]byte{1, 2, 3})
	c.Write(challenge[:])
	if _, err := n.read(c); err == nil {
		n.mu.Lock()
		n.finished++
		n.mu.Unlock()
	}
}

func (n *native) judge(hello *wire.Header, a *mac.Acceptor) wire.Status {
	n.mu.Lock()
	n.hellos = append(n.hellos, *hello)
	n.mu.Unlock()
	id := wire.Replica.Get(hello)
	switch {
	case a.Hello(hello) != nil || hello.Command() != n.knows:
		return wire.StatusUnknownCommand
	case hello.ClusterID() != n.cluster:
		return wire.StatusClusterMismatch
	case id >= n.count || id >= n.self:
		return wire.StatusDirectionalRule
	case a.Accept() != nil:
		return wire.StatusAuthRequired
	}
	return wire.StatusOk
}

func (n *native) install(hello *wire.Header) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.installed = append(n.installed, wire.Replica.Get(hello))
}

// read is Iggy's transport: a size outside the limits ends it, a body is waited
// for.
func (n *native) read(c io.Reader) (*wire.Header, error) {
	h := new(wire.Header)
	if _, err := io.ReadFull(c, h[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(h[48:])
	if size < wire.HeaderSize || size > maxFrame {
		return nil, fmt.Errorf("size %d", size)
	}
	_, err := io.CopyN(io.Discard, c, int64(size)-wire.HeaderSize)
	return h, err
}

// unharmed checks that nobody became a replica and nobody's secret was proven.
func (n *native) unharmed(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !n.idle() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // real time: the probe has closed all of them
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.installed) != 0 || n.finished != 0 {
		t.Errorf("got replicas %v installed and %d frames after a Challenge, want none", n.installed, n.finished)
	}
	for _, h := range n.hellos {
		if h.Command() == wire.ReplicaHello && !h.IsProbe() {
			t.Errorf("got a Hello without the mark: %x", h.Nonce())
		}
	}
}

func id(n uint8) *uint8 { return &n }

// options are a probe of replica 1 that knows everything.
func options(t *testing.T, address string) probe.Options {
	return probe.Options{Address: address, Target: id(1), Cluster: wire.ClusterIDOf(clusterName), ClusterName: clusterName,
		Keys: keyring(t, secretOne), ServerName: serverName, Explain: explain, Timeout: 3 * time.Second}
}

// verdicts is a report as "code=verdict" in order, those that are ok left out.
func verdicts(r probe.Report) string {
	var all []string
	for _, f := range r.Findings {
		if f.Verdict != probe.OK {
			all = append(all, f.Code+"="+string(f.Verdict))
		}
	}
	return strings.Join(all, " ")
}

func show(r probe.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s [%s] %s\n", f.Verdict, f.Code, f.Ending, f)
	}
	return b.String() + r.Summary()
}

// check runs a probe and holds what, kind and everything that is not ok against
// what is expected.
func check(t *testing.T, o probe.Options, what string, kind probe.Kind, want string) probe.Report {
	t.Helper()
	r := probe.Run(context.Background(), o)
	if got := verdicts(r); r.What != what || r.Kind != kind || got != want {
		t.Errorf("got %q, %q, %q, want %q, %q, %q:\n%s", r.What, r.Kind, got, what, kind, want, show(r))
	}
	for _, f := range r.Findings {
		if f.Found == "" || f.Verdict == probe.Fault && (f.Expected == "" && f.Code != probe.CodeTLS || f.Do == "" && f.Code != probe.CodeTLS) {
			t.Errorf("got a finding without found, expected or do: %+v", f)
		}
	}
	return r
}

// finding returns the findings of a code.
func finding(t *testing.T, r probe.Report, code string) probe.Finding {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f probe.Finding) bool { return f.Code == code })
	if i < 0 {
		t.Fatalf("got no finding %s:\n%s", code, show(r))
	}
	return r.Findings[i]
}

// relayTLS ends TLS and makes it anew toward another address.
func relayTLS(t *testing.T, config *tls.Config, to string) string {
	return serve(t, func(tcp *net.TCPConn) {
		in := tls.Server(tcp, config)
		if in.Handshake() != nil {
			return
		}
		out, err := tls.Dial("tcp", to, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{certs.ALPN}})
		if err != nil {
			return
		}
		defer out.Close()
		go func() {
			io.Copy(in, out)
			in.CloseWrite()
		}()
		io.Copy(out, in)
	})
}
