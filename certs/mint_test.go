package certs_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
)

// guard ends a test that hangs; no result depends on it.
const guard = 20 * time.Second

// must ends the test on an error.
func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// pair is a certificate, its key, and who signed it.
type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// ecdsaKey makes the key of most tests.
func ecdsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	return must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
}

// sign makes a certificate for key; by nil makes it sign itself.
func sign(t *testing.T, by *pair, key crypto.Signer, edit func(*x509.Certificate)) *pair {
	t.Helper()
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "test"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(time.Hour),
		BasicConstraintsValid: true,
	}
	if edit != nil {
		edit(template)
	}
	signer := &pair{template, key}
	if by != nil {
		signer = by
	}
	der := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, signer.cert, key.Public(), signer.key))
	return &pair{must[*x509.Certificate](t)(x509.ParseCertificate(der)), key}
}

// newCA makes a root.
func newCA(t *testing.T, name string) *pair {
	t.Helper()
	return sign(t, nil, ecdsaKey(t), func(c *x509.Certificate) {
		c.Subject.CommonName = name
		c.IsCA = true
		c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	})
}

// forHosts makes an edit that names SANs.
func forHosts(hosts ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		for _, host := range hosts {
			if ip := net.ParseIP(host); ip != nil {
				c.IPAddresses = append(c.IPAddresses, ip)
			} else {
				c.DNSNames = append(c.DNSNames, host)
			}
		}
	}
}

// named makes an edit for 127.0.0.1 and the names of replicas, URIs where they
// have a scheme.
func named(names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		forHosts("127.0.0.1")(c)
		for _, name := range names {
			if !strings.Contains(name, "://") {
				c.DNSNames = append(c.DNSNames, name)
				continue
			}
			uri, err := url.Parse(name)
			if err != nil {
				panic(err) // a name of the test's own making
			}
			c.URIs = append(c.URIs, uri)
		}
	}
}

// lasting makes an edit for 127.0.0.1 and a validity around now.
func lasting(from, to time.Duration, names ...string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		named(names...)(c)
		c.NotBefore, c.NotAfter = time.Now().Add(from), time.Now().Add(to)
	}
}

// revoking is a list of by's that revokes what was signed.
func revoking(t *testing.T, by *pair, edit func(*x509.RevocationList), signed ...*pair) []byte {
	t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour)}
	for _, one := range signed {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: one.cert.SerialNumber, RevocationTime: list.ThisUpdate})
	}
	if edit != nil {
		edit(list)
	}
	return must[[]byte](t)(x509.CreateRevocationList(rand.Reader, list, by.cert, by.key))
}

// crlPEM is a file of lists.
func crlPEM(lists ...[]byte) string {
	var text strings.Builder
	for _, list := range lists {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: list}))
	}
	return text.String()
}

// year4096 is what rcgen puts into Iggy's own certificates (Appendix B).
func year4096(c *x509.Certificate) {
	c.Subject = pkix.Name{CommonName: "rcgen self signed cert"}
	c.NotBefore = time.Date(1975, 1, 1, 0, 0, 0, 0, time.UTC)
	c.NotAfter = time.Date(4096, 1, 1, 0, 0, 0, 0, time.UTC)
}

// certPEM is the CERTIFICATE blocks of a chain.
func certPEM(chain ...*pair) string {
	var text strings.Builder
	for _, p := range chain {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.cert.Raw}))
	}
	return text.String()
}

// keyPEM is a PKCS #8 key.
func keyPEM(t *testing.T, key crypto.Signer) string {
	t.Helper()
	der := must[[]byte](t)(x509.MarshalPKCS8PrivateKey(key))
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// files is a directory in memory.
type files map[string]string

func (f files) read(path string) ([]byte, error) {
	if text, ok := f[path]; ok {
		return []byte(text), nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// names are the paths of a whole set.
var names = certs.Files{Cert: "tls.crt", Key: "tls.key", CA: "ca.crt"}

// loadPair loads what own presents and what trusts in CA mode.
func loadPair(t *testing.T, own *pair, trusts ...*pair) *certs.Set {
	t.Helper()
	dir := files{"tls.crt": certPEM(own), "tls.key": keyPEM(t, own.key), "ca.crt": certPEM(trusts...)}
	return must[*certs.Set](t)(certs.Load(names, dir.read))
}

// loadCRL loads the same with a file of revocation lists.
func loadCRL(t *testing.T, crl string, own []*pair, trusts ...*pair) *certs.Set {
	t.Helper()
	dir := files{"tls.crt": certPEM(own...), "tls.key": keyPEM(t, own[0].key), "ca.crt": certPEM(trusts...), "crl.pem": crl}
	with := names
	with.CRL = "crl.pem"
	return must[*certs.Set](t)(certs.Load(with, dir.read))
}

// minted is a self-signed set.
func minted(t *testing.T, hosts ...string) *certs.Set {
	t.Helper()
	return must[*certs.Set](t)(certs.SelfSigned(hosts, time.Now()))
}

// stock is a TLS 1.3 server of somebody else that presents own.
func stock(own *pair) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{own.cert.Raw}, PrivateKey: own.key}},
		NextProtos:   []string{certs.ALPN},
	}
}

// link is two ends of one loopback connection.
func link(t *testing.T) (client, server net.Conn) {
	t.Helper()
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	client = must[net.Conn](t)(net.Dial("tcp", listener.Addr().String()))
	server = must[net.Conn](t)(listener.Accept())
	deadline := time.Now().Add(guard)
	for _, conn := range []net.Conn{client, server} {
		if err := conn.SetDeadline(deadline); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	return client, server
}

// outcome is how a handshake ended on both sides.
type outcome struct {
	client, server       *tls.Conn
	clientErr, serverErr error
	hello                *certs.Hello
}

// handshake runs one over loopback, with a note taken on the server's side.
// Both ends stay open until both have a result: a close with unread bytes makes
// the kernel reset, and the alert under test may be what it cuts.
func handshake(t *testing.T, client, server *tls.Config) outcome {
	t.Helper()
	clientRaw, serverRaw := link(t)
	out := outcome{hello: new(certs.Hello)}
	out.client = tls.Client(clientRaw, client)
	out.server = tls.Server(serverRaw, out.hello.Watch(server))
	done := make(chan error, 1)
	go func() { done <- out.server.HandshakeContext(context.Background()) }()
	out.clientErr = out.client.HandshakeContext(context.Background())
	if out.clientErr == nil {
		// A TLS 1.3 client is done before the server has judged it.
		if _, err := out.client.Write([]byte("x")); err != nil {
			out.clientErr = fmt.Errorf("first write: %w", err)
		}
	}
	out.serverErr = <-done
	return out
}

// succeed runs a handshake that must work.
func succeed(t *testing.T, client, server *tls.Config) outcome {
	t.Helper()
	out := handshake(t, client, server)
	if out.clientErr != nil || out.serverErr != nil {
		t.Fatalf("handshake: client got %v, server got %v, want none", out.clientErr, out.serverErr)
	}
	return out
}
