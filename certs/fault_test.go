package certs_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
)

// wantWord checks the word, and that the sentence is one.
func wantWord(t *testing.T, fault certs.Fault, word string) {
	t.Helper()
	if fault.Word != word {
		t.Errorf("got %q (%s), want %q", fault.Word, fault.Detail, word)
	}
	if !strings.HasPrefix(fault.Detail, "expected ") || !strings.Contains(fault.Detail, "found ") || strings.ContainsAny(fault.Detail, "\r\n") {
		t.Errorf("got the sentence %q, want expected, found, what to do, on one line", fault.Detail)
	}
}

// wantIn checks that the sentence holds what the reader needs.
func wantIn(t *testing.T, fault certs.Fault, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(fault.Detail, part) {
			t.Errorf("got the sentence %q, want %q in it", fault.Detail, part)
		}
	}
}

func TestFaultVersion(t *testing.T) {
	set := minted(t, "127.0.0.1")
	old := set.Client("127.0.0.1")
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	out := handshake(t, old, set.Server())
	fault := certs.ClassifyServer(out.serverErr, out.hello, time.Now())
	wantWord(t, fault, certs.FaultVersion)
	wantIn(t, fault, "TLS 1.2")
	if versions := out.hello.Versions(); len(versions) != 1 || versions[0] != tls.VersionTLS12 || !out.hello.Seen() {
		t.Errorf("got the note %x, want TLS 1.2", versions)
	}

	server := set.Server()
	server.MinVersion, server.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	out = handshake(t, set.Client("127.0.0.1"), server)
	fault = certs.ClassifyClient(out.clientErr, time.Now())
	wantWord(t, fault, certs.FaultVersion)
	if fault.Alert != 70 {
		t.Errorf("got alert %d, want 70", fault.Alert)
	}
}

// A server so old that it does not read supported_versions answers with a TLS
// 1.2 ServerHello. crypto/tls refuses it with an untyped error and leaves no
// hook before it, so this one stays tls_alert; its text is in the sentence.
func TestFaultVersionUntyped(t *testing.T) {
	client, server := link(t)
	answered := make(chan error, 1)
	go func() { answered <- oldServerHello(server) }()
	err := tls.Client(client, minted(t, "127.0.0.1").Client("127.0.0.1")).HandshakeContext(context.Background())
	if sent := <-answered; sent != nil {
		t.Fatal(sent)
	}
	fault := certs.ClassifyClient(err, time.Now())
	wantWord(t, fault, certs.FaultAlert)
	wantIn(t, fault, "version")
}

// oldServerHello reads one record and answers as TLS 1.2.
func oldServerHello(conn net.Conn) error {
	head := make([]byte, 5)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	hello := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(conn, hello); err != nil {
		return err
	}
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, hello[38:39+int(hello[38])]...) // the session id, echoed
	body = append(body, 0xc0, 0x2f, 0)                  // a suite of TLS 1.2, no compression
	message := append([]byte{2, 0, 0, byte(len(body))}, body...)
	_, err := conn.Write(append([]byte{22, 3, 3, 0, byte(len(message))}, message...))
	return err
}

func TestFaultALPN(t *testing.T) {
	set := minted(t, "127.0.0.1")
	foreign := set.Client("127.0.0.1")
	foreign.NextProtos = []string{"h2", "http/1.1\n"}
	out := handshake(t, foreign, set.Server())
	fault := certs.ClassifyServer(out.serverErr, out.hello, time.Now())
	wantWord(t, fault, certs.FaultALPN)
	wantIn(t, fault, `"iggy-replica"`, `"h2"`, `"http/1.1\n"`)
	if protos := out.hello.Protocols(); len(protos) != 2 || protos[0] != "h2" {
		t.Errorf("got the note %q, want what was offered", protos)
	}

	server := set.Server()
	server.NextProtos = []string{"h3"}
	out = handshake(t, set.Client("127.0.0.1"), server)
	fault = certs.ClassifyClient(out.clientErr, time.Now())
	wantWord(t, fault, certs.FaultALPN)
	if fault.Alert != 120 { // no_application_protocol
		t.Errorf("got alert %d, want 120", fault.Alert)
	}
}

func TestFaultCertificate(t *testing.T) {
	ca, other := newCA(t, "our ca"), newCA(t, "other ca")
	dated := func(from, to time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			forHosts("127.0.0.1")(c)
			c.NotBefore, c.NotAfter = time.Now().Add(from), time.Now().Add(to)
		}
	}
	trusting := loadPair(t, sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1")), ca)
	for name, row := range map[string]struct {
		own  *pair
		dial string
		word string
		in   []string
	}{
		"untrusted":     {sign(t, other, ecdsaKey(t), forHosts("127.0.0.1")), "127.0.0.1", certs.FaultUnknownCA, []string{"other ca", "ca_file"}},
		"self-signed":   {sign(t, nil, ecdsaKey(t), forHosts("127.0.0.1")), "127.0.0.1", certs.FaultUnknownCA, []string{"ca_file"}},
		"expired":       {sign(t, ca, ecdsaKey(t), dated(-2*time.Hour, -time.Hour)), "127.0.0.1", certs.FaultExpired, []string{"expired since 1h", "NotAfter 20", "local time 20"}},
		"not yet valid": {sign(t, ca, ecdsaKey(t), dated(50*time.Hour, 60*time.Hour)), "127.0.0.1", certs.FaultNotYetValid, []string{"not valid yet for ", "NotBefore 20", "local time 20", "clocks"}},
		"wrong ip":      {sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1", "iggy-0")), "127.0.0.9", certs.FaultNameMismatch, []string{`"127.0.0.9"`, "127.0.0.1", "iggy-0", "SAN"}},
		"wrong name":    {sign(t, ca, ecdsaKey(t), forHosts("iggy-0")), "iggy-1", certs.FaultNameMismatch, []string{`"iggy-1"`, `"iggy-0"`}},
		"name only":     {sign(t, ca, ecdsaKey(t), func(c *x509.Certificate) { c.Subject.CommonName = "iggy-1" }), "iggy-1", certs.FaultNameMismatch, []string{"no IP address and no DNS name"}},
		"client usage":  {sign(t, ca, ecdsaKey(t), usage(x509.ExtKeyUsageClientAuth)), "127.0.0.1", certs.FaultAlert, []string{"replace it"}},
	} {
		out := handshake(t, trusting.Client(row.dial), stock(row.own))
		fault := certs.ClassifyClient(out.clientErr, time.Now())
		t.Run(name, func(t *testing.T) {
			wantWord(t, fault, row.word)
			wantIn(t, fault, row.in...)
			seen := certs.ClassifyServer(out.serverErr, out.hello, time.Now())
			wantWord(t, seen, certs.FaultAlert)
			if seen.Alert != 42 && seen.Alert != 48 { // what Go clients send for it
				t.Errorf("server: got alert %d, want bad_certificate or unknown_ca", seen.Alert)
			}
		})
	}
}

// usage makes an edit that limits the extended key usage.
func usage(only x509.ExtKeyUsage) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		forHosts("127.0.0.1")(c)
		c.ExtKeyUsage = []x509.ExtKeyUsage{only}
	}
}

// deadlinePassed is an end whose time is over.
func deadlinePassed(t *testing.T, conn net.Conn) net.Conn {
	t.Helper()
	if err := conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestFaultTimeout(t *testing.T) {
	set, now := minted(t, "127.0.0.1"), time.Now()
	client, server := link(t)
	err := tls.Client(deadlinePassed(t, client), set.Client("127.0.0.1")).HandshakeContext(context.Background())
	wantWord(t, certs.ClassifyClient(err, now), certs.FaultTimeout)

	hello := new(certs.Hello)
	err = tls.Server(deadlinePassed(t, server), hello.Watch(set.Server())).HandshakeContext(context.Background())
	wantWord(t, certs.ClassifyServer(err, hello, now), certs.FaultTimeout)
	if hello.Seen() {
		t.Error("got a note of a ClientHello that was never read, want none")
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, server = link(t)
	err = tls.Server(server, set.Server()).HandshakeContext(ctx)
	wantWord(t, certs.ClassifyServer(err, nil, now), certs.FaultTimeout)
}

// After a whole ClientHello the same silence is hello_timeout.
func TestFaultHelloTimeout(t *testing.T) {
	set := minted(t, "127.0.0.1")
	client, server := link(t)
	cfg := set.Server()
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		deadlinePassed(t, server) // the client falls silent here
		return nil, nil
	}
	if err := tls.Client(halfDeaf{client}, set.Client("127.0.0.1")).HandshakeContext(context.Background()); err == nil {
		t.Fatal("got a handshake without an answer, want an error")
	}
	hello := new(certs.Hello)
	err := tls.Server(server, hello.Watch(cfg)).HandshakeContext(context.Background())
	wantWord(t, certs.ClassifyServer(err, hello, time.Now()), certs.FaultHelloTimeout)
}

// halfDeaf writes its ClientHello and never hears the answer.
type halfDeaf struct{ net.Conn }

func (h halfDeaf) Read([]byte) (int, error) { return 0, io.EOF }

func TestFaultPlaintext(t *testing.T) {
	set := minted(t, "127.0.0.1")
	for text, header := range map[string][5]byte{
		strings.Repeat("\x00", 256): {}, // a replica's Hello begins with zeros (Appendix B)
		"GET / HTTP/1.1\r\n\r\n":    {'G', 'E', 'T', ' ', '/'},
	} {
		client, server := link(t)
		for _, conn := range []net.Conn{client, server} {
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
		}
		hello := new(certs.Hello)
		err := tls.Server(server, hello.Watch(set.Server())).HandshakeContext(context.Background())
		fault := certs.ClassifyServer(err, hello, time.Now())
		wantWord(t, fault, certs.FaultPlaintext)
		if fault.Header != header {
			t.Errorf("server: got header % x, want % x", fault.Header, header)
		}
		err = tls.Client(client, set.Client("127.0.0.1")).HandshakeContext(context.Background())
		fault = certs.ClassifyClient(err, time.Now())
		wantWord(t, fault, certs.FaultPlaintext)
		if fault.Header != header {
			t.Errorf("client: got header % x, want % x", fault.Header, header)
		}
	}
}

// Goldens: error in, word out. A peer's alert over TCP is a value of an
// unexported uint8; any uint8 kind stands in for it here, the real one is in
// the handshakes above.
func TestClassifyGoldens(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	alert := func(n uint8) error {
		return fmt.Errorf("wrapped: %w", &net.OpError{Op: "remote error", Err: tls.AlertError(n)})
	}
	early := &x509.Certificate{NotBefore: now.Add(26*time.Hour + 3*time.Minute), NotAfter: now.AddDate(2070, 0, 0)}
	late := &x509.Certificate{NotBefore: now.AddDate(-2000, 0, 0), NotAfter: now.AddDate(-1000, 0, 0)}
	refused := func(err error) error {
		return &tls.CertificateVerificationError{UnverifiedCertificates: []*x509.Certificate{early}, Err: err}
	}
	for _, row := range []struct {
		err            error
		client, server string
		detail         string
	}{
		{alert(40), certs.FaultAlert, certs.FaultAlert, "handshake failure"},
		{alert(42), certs.FaultAlert, certs.FaultAlert, "bad certificate"},
		{alert(45), certs.FaultExpired, certs.FaultAlert, "expired certificate"},
		{alert(48), certs.FaultUnknownCA, certs.FaultAlert, "unknown certificate authority"},
		{alert(70), certs.FaultVersion, certs.FaultAlert, "protocol version not supported"},
		{alert(120), certs.FaultALPN, certs.FaultAlert, "no application protocol"},
		{alert(199), certs.FaultAlert, certs.FaultAlert, "alert 199"},
		{&net.OpError{Op: "remote error", Err: errors.New("x")}, certs.FaultAlert, certs.FaultAlert, "broken"},
		{&net.OpError{Op: "remote error"}, certs.FaultAlert, certs.FaultAlert, "broken"},
		{&net.OpError{Op: "local error", Err: tls.AlertError(48)}, certs.FaultAlert, certs.FaultAlert, "broken"},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, certs.FaultTimeout, certs.FaultTimeout, "silence"},
		{context.DeadlineExceeded, certs.FaultTimeout, certs.FaultTimeout, "silence"},
		{context.Canceled, certs.FaultAlert, certs.FaultAlert, "our side"},
		{io.EOF, certs.FaultAlert, certs.FaultAlert, "closed by the other side"},
		{io.ErrUnexpectedEOF, certs.FaultAlert, certs.FaultAlert, "closed by the other side"},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, certs.FaultAlert, certs.FaultAlert, "reset"},
		{tls.RecordHeaderError{Msg: "late", RecordHeader: [5]byte{1}}, certs.FaultAlert, certs.FaultAlert, "broken"},
		{refused(x509.CertificateInvalidError{Cert: early, Reason: x509.Expired}), certs.FaultNotYetValid, certs.FaultNotYetValid,
			"not valid yet for 1d2h3m: NotBefore 2026-01-03T05:07:05Z, NotAfter 4096-01-02T03:04:05Z, local time 2026-01-02T03:04:05Z"},
		{refused(x509.CertificateInvalidError{Cert: late, Reason: x509.Expired}), certs.FaultExpired, certs.FaultExpired, "expired since 365243d"},
		{refused(x509.CertificateInvalidError{Cert: early, Reason: x509.NotAuthorizedToSign}), certs.FaultAlert, certs.FaultAlert, "not authorized to sign"},
		{refused(x509.UnknownAuthorityError{}), certs.FaultUnknownCA, certs.FaultUnknownCA, "ca_file"},
		{refused(x509.HostnameError{Host: "a\nb"}), certs.FaultNameMismatch, certs.FaultNameMismatch, `"a\nb"`},
		{errors.New("tls: something"), certs.FaultAlert, certs.FaultAlert, "tls: something"},
	} {
		client, server := certs.ClassifyClient(row.err, now), certs.ClassifyServer(row.err, nil, now)
		wantWord(t, client, row.client)
		wantWord(t, server, row.server)
		wantIn(t, client, row.detail)
		wantIn(t, server, row.detail)
	}
}

// A certificate that became valid between refusal and report was too early.
func TestClassifyEdge(t *testing.T) {
	now := time.Now()
	cert := &x509.Certificate{NotBefore: now, NotAfter: now.Add(time.Hour)}
	fault := certs.ClassifyClient(x509.CertificateInvalidError{Cert: cert, Reason: x509.Expired}, now)
	wantWord(t, fault, certs.FaultNotYetValid)
	wantIn(t, fault, "edge")
}

// A note must not let a stranger fill the log or the memory.
func TestHelloIsBounded(t *testing.T) {
	set := minted(t, "127.0.0.1")
	client := set.Client("127.0.0.1")
	client.NextProtos = nil
	for range 200 {
		client.NextProtos = append(client.NextProtos, strings.Repeat("\x1b", 250))
	}
	out := handshake(t, client, set.Server())
	fault := certs.ClassifyServer(out.serverErr, out.hello, time.Now())
	wantWord(t, fault, certs.FaultALPN)
	if len(fault.Detail) > 4096 || strings.Contains(fault.Detail, "\x1b") {
		t.Errorf("got a sentence of %d bytes, want a short one, quoted", len(fault.Detail))
	}
	client.NextProtos = append(client.NextProtos, certs.ALPN) // ours comes last, and counts
	succeed(t, client, set.Server())
}
