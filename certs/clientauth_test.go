package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
)

func TestParseClientAuth(t *testing.T) {
	for text, want := range map[string]certs.ClientAuth{
		"": certs.Request, "off": certs.Off, "request": certs.Request, "require": certs.Require,
	} {
		got, err := certs.ParseClientAuth(text)
		if err != nil || got != want || text != "" && got.String() != text {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"Off", "required", " request"} {
		if got, err := certs.ParseClientAuth(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
	if (certs.Options{}).ClientAuth != certs.Request {
		t.Error("got another default, want request")
	}
}

// asked dials a server and tells whether it asked for a certificate, and which
// CAs it named.
func asked(t *testing.T, server *tls.Config) (bool, int) {
	t.Helper()
	was, cas := false, 0
	client := minted(t, "127.0.0.1").Client("127.0.0.1")
	client.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		was, cas = true, len(request.AcceptableCAs)
		return new(tls.Certificate), nil
	}
	handshake(t, client, server)
	return was, cas
}

// A native replica as dialer offers nothing and answers a request for a
// certificate with an empty one, which rustls and crypto/tls do alike; as an
// acceptor it never asks (§7.8).
func TestClientAuthAsks(t *testing.T) {
	ca := newCA(t, "ca")
	set := loadPair(t, sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1")), ca)
	for name, row := range map[string]struct {
		set  *certs.Set
		asks bool
		cas  int
	}{
		"default":              {set, true, 0},
		"off":                  {set.With(certs.Options{ClientAuth: certs.Off}), false, 0},
		"request":              {set.With(certs.Options{ClientAuth: certs.Request}), true, 0},
		"require":              {set.With(certs.Options{ClientAuth: certs.Require}), true, 1},
		"no value of the list": {set.With(certs.Options{ClientAuth: 7}), true, 1},
		"self-signed":          {minted(t, "127.0.0.1").With(certs.Options{ClientAuth: certs.Require}), false, 0},
	} {
		if asks, cas := asked(t, row.set.Server()); asks != row.asks || cas != row.cas {
			t.Errorf("%s: got asked %v with %d CAs, want %v with %d", name, asks, cas, row.asks, row.cas)
		}
	}
}

func TestNativeBothRoles(t *testing.T) { // §7.8
	ca := newCA(t, "ca")
	own := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1"))
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	native := &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", NextProtos: []string{certs.ALPN}, MinVersion: tls.VersionTLS13}
	for _, mode := range []certs.ClientAuth{certs.Off, certs.Request} {
		set := loadPair(t, own, ca).With(certs.Options{ClientAuth: mode})
		out := succeed(t, native, set.Server())
		wantMembership(t, set.IdentifyDialer, out.server.ConnectionState())
		out = succeed(t, set.Client("127.0.0.1"), stock(own))
		wantMembership(t, set.IdentifyAcceptor, out.client.ConnectionState())
		if n := len(out.server.ConnectionState().PeerCertificates); n != 0 {
			t.Errorf("%v: got %d certificates at a server that did not ask, want none", mode, n)
		}
	}
}

// identify is [certs.Set.IdentifyDialer] or [certs.Set.IdentifyAcceptor].
type identify func(tls.ConnectionState, uint8, time.Time) (certs.Identity, *certs.Fault)

func wantMembership(t *testing.T, by identify, state tls.ConnectionState) {
	t.Helper()
	identity, fault := by(state, 1, time.Now())
	if fault != nil || identity.Level != certs.LevelMembership || identity.Name != "" || identity.Ignored != nil {
		t.Errorf("got %+v, %v, want membership", identity, fault)
	}
}

// What a server names in its request may lag behind what it accepts.
func TestPresentsWhateverCAsAreNamed(t *testing.T) {
	ca, other := newCA(t, "ca"), newCA(t, "other ca")
	own := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1"))
	pool := x509.NewCertPool()
	pool.AddCert(other.cert)
	server := stock(own)
	server.ClientAuth, server.ClientCAs = tls.RequestClientCert, pool
	out := succeed(t, loadPair(t, own, ca).Client("127.0.0.1"), server)
	if got := out.server.ConnectionState().PeerCertificates; len(got) != 1 || !got[0].Equal(own.cert) {
		t.Errorf("got %d certificates, want ours", len(got))
	}
}

// Ours cannot be verified by a peer that knows Ed25519 alone; a handshake without
// a certificate may go through, one with it cannot.
func TestPresentsNothingThatCannotBeVerified(t *testing.T) {
	ca := newCA(t, "ca")
	client := loadPair(t, sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1")), ca).Client("127.0.0.1")
	for scheme, want := range map[tls.SignatureScheme]int{tls.Ed25519: 0, tls.ECDSAWithP256AndSHA256: 1} {
		request := &tls.CertificateRequestInfo{Version: tls.VersionTLS13, SignatureSchemes: []tls.SignatureScheme{scheme}}
		own := must[*tls.Certificate](t)(client.GetClientCertificate(request))
		if len(own.Certificate) != want {
			t.Errorf("%v: got %d certificates, want %d", scheme, len(own.Certificate), want)
		}
	}
	if minted(t, "127.0.0.1").Client("127.0.0.1").GetClientCertificate != nil {
		t.Error("got a self-made certificate for those who ask, want none: it proves nothing")
	}
}

// A set built wrongly trusts nobody; the system's roots are never asked.
func TestZeroSetRequires(t *testing.T) {
	var zero certs.Set
	server := zero.With(certs.Options{ClientAuth: certs.Require}).Server()
	if server.ClientCAs == nil || server.ClientAuth != tls.VerifyClientCertIfGiven {
		t.Error("got the system's roots for clients, want none")
	}
	ca := newCA(t, "ca")
	own := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1"))
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{own.cert}}
	if _, fault := zero.IdentifyAcceptor(state, 1, time.Now()); fault == nil || fault.Word != certs.FaultUnknownCA {
		t.Errorf("got %v, want %s", fault, certs.FaultUnknownCA)
	}
	if _, fault := zero.IdentifyAcceptor(tls.ConnectionState{}, 1, time.Now()); fault == nil || fault.Word != certs.FaultUnknownCA {
		t.Errorf("no certificate: got %v, want %s", fault, certs.FaultUnknownCA)
	}
}

// Tickets leave a server at another place once it asks for a certificate.
func TestNoTicketWithClientAuth(t *testing.T) { // T12
	ca := newCA(t, "ca")
	own := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1"))
	for _, mode := range []certs.ClientAuth{certs.Off, certs.Request, certs.Require} {
		set := loadPair(t, own, ca).With(certs.Options{ClientAuth: mode})
		cache := &countingCache{ClientSessionCache: tls.NewLRUClientSessionCache(4)}
		client := set.Client("127.0.0.1")
		client.ClientSessionCache, client.SessionTicketsDisabled = cache, false
		for range 2 {
			out := succeed(t, client, set.Server())
			exchange(t, out)
			if out.client.ConnectionState().DidResume || cache.puts.Load() != 0 {
				t.Errorf("%v: got a resumed session or %d tickets, want none", mode, cache.puts.Load())
			}
		}
	}
}

// Our client offers nothing to resume and says that it could not, and from a
// server that sends tickets all the same it keeps none.
func TestClientTakesNoTicket(t *testing.T) { // T12
	ca := newCA(t, "ca")
	own := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1"))
	client := loadPair(t, own, ca).Client("127.0.0.1")
	issuer := stock(own)
	var offers []uint16
	issuer.GetConfigForClient = func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		offers = append(offers, info.Extensions...)
		return nil, nil
	}
	for range 2 {
		out := succeed(t, client, issuer)
		exchange(t, out)
		if out.server.ConnectionState().DidResume || out.client.ConnectionState().DidResume {
			t.Error("got a resumed session, want a full handshake")
		}
	}
	// RFC 8446 §4.2: session_ticket, pre_shared_key, early_data, psk_key_exchange_modes.
	for _, extension := range []uint16{35, 41, 42, 45} {
		if slices.Contains(offers, extension) {
			t.Errorf("got extension %d on the wire, want none that leads to a resumption", extension)
		}
	}
	if !slices.Contains(offers, 43) { // supported_versions: the list is a real one
		t.Errorf("got the extensions %v, want those of a TLS 1.3 client", offers)
	}
}
