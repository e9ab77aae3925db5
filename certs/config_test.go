package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
)

func TestConfigIsWhatIggySpeaks(t *testing.T) { // §7.8
	set := minted(t, "127.0.0.1")
	for name, cfg := range map[string]*tls.Config{"server": set.Server(), "client": set.Client("127.0.0.1")} {
		if cfg.MinVersion != tls.VersionTLS13 || cfg.MaxVersion != tls.VersionTLS13 {
			t.Errorf("%s: got versions %x to %x, want TLS 1.3 only", name, cfg.MinVersion, cfg.MaxVersion)
		}
		if len(cfg.NextProtos) != 1 || cfg.NextProtos[0] != "iggy-replica" {
			t.Errorf("%s: got ALPN %q, want iggy-replica alone", name, cfg.NextProtos)
		}
		if !cfg.SessionTicketsDisabled || cfg.ClientSessionCache != nil || cfg.ClientAuth != tls.NoClientCert || !cfg.DynamicRecordSizingDisabled {
			t.Errorf("%s: got tickets, a session cache, client certificates or small records, want none", name)
		}
	}
	a, b := set.Server(), set.Server()
	a.NextProtos[0] = "changed"
	if b.NextProtos[0] != certs.ALPN || set.Server().NextProtos[0] != certs.ALPN {
		t.Error("got a configuration shared between two calls, want one for each")
	}
}

func TestZeroSetTrustsNobody(t *testing.T) {
	var zero certs.Set
	if zero.Client("h").InsecureSkipVerify || zero.Client("h").RootCAs == nil {
		t.Error("got a zero set that trusts any certificate or the system's roots, want nobody")
	}
	if zero.Leaf() != nil || zero.NotAfter() != 0 || zero.NotBefore() != 0 || len(zero.Notes(time.Now())) != 0 || zero.SelfSigned() {
		t.Error("got a zero set with something in it, want nothing")
	}
	out := handshake(t, zero.Client("127.0.0.1"), minted(t, "127.0.0.1").Server())
	wantWord(t, certs.ClassifyClient(out.clientErr, time.Now()), certs.FaultUnknownCA)
}

func TestSelfSignedBothWays(t *testing.T) {
	ours, theirs := minted(t, "127.0.0.1", "::1", "iggy-0.iggy"), minted(t, "10.0.0.1")
	out := succeed(t, ours.Client("10.9.9.9"), theirs.Server())
	state := out.client.ConnectionState()
	if state.NegotiatedProtocol != certs.ALPN || state.Version != tls.VersionTLS13 {
		t.Errorf("got %x %q, want TLS 1.3 and %q", state.Version, state.NegotiatedProtocol, certs.ALPN)
	}
	leaf := ours.Leaf()
	if leaf.Version != 3 || leaf.IsCA || len(leaf.IPAddresses) != 2 || len(leaf.DNSNames) != 1 {
		t.Errorf("got version %d, CA %v, SANs %v %v, want v3, no CA, all three hosts", leaf.Version, leaf.IsCA, leaf.IPAddresses, leaf.DNSNames)
	}
	if !ours.SelfSigned() || len(ours.CAs()) != 0 {
		t.Error("got a minted set in CA mode, want self-signed")
	}
}

func TestSelfSignedRefusesHosts(t *testing.T) {
	for _, hosts := range [][]string{nil, {""}, {"a b"}, {"[::1]"}, {"host:9090"}, {"ok", "nül"}} {
		if set, err := certs.SelfSigned(hosts, time.Now()); err == nil {
			t.Errorf("hosts %q: got %v, want an error", hosts, set.Leaf().DNSNames)
		}
	}
	leaf := minted(t, "fe80::1%eth0", "::ffff:10.0.0.1", "name.").Leaf()
	if len(leaf.IPAddresses) != 2 || len(leaf.IPAddresses[1]) != 4 || leaf.DNSNames[0] != "name" {
		t.Errorf("got %v %q, want both addresses without zone or mapping and the name without its dot", leaf.IPAddresses, leaf.DNSNames)
	}
}

// In self-signed mode any certificate will do, but not without its key (§7.8).
func TestSelfSignedVerifiesSignature(t *testing.T) {
	own := sign(t, nil, ecdsaKey(t), forHosts("127.0.0.1"))
	own.key = ecdsaKey(t)
	out := handshake(t, minted(t, "127.0.0.1").Client("127.0.0.1"), stock(own))
	if out.clientErr == nil {
		t.Fatal("got a handshake with a certificate whose key the peer does not hold, want a refusal")
	}
	wantWord(t, certs.ClassifyClient(out.clientErr, time.Now()), certs.FaultAlert)
	fault := certs.ClassifyServer(out.serverErr, out.hello, time.Now())
	wantWord(t, fault, certs.FaultAlert)
	if fault.Alert != 51 { // decrypt_error
		t.Errorf("got alert %d, want 51", fault.Alert)
	}
}

func TestNames(t *testing.T) {
	ca := newCA(t, "ca")
	own := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1", "::1", "iggy-0.iggy", "*.pods"))
	set := loadPair(t, own, ca)
	for _, row := range []struct{ name, sni string }{
		{"127.0.0.1", ""}, {"::1", ""}, // an IP address is matched, and never sent
		{"iggy-0.iggy", "iggy-0.iggy"}, {"a.pods", "a.pods"},
	} {
		var sni atomic.Value
		server := set.Server()
		server.GetConfigForClient = func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			sni.Store(info.ServerName)
			return nil, nil
		}
		succeed(t, set.Client(row.name), server)
		if sni.Load() != row.sni {
			t.Errorf("name %q: got SNI %q, want %q", row.name, sni.Load(), row.sni)
		}
	}
}

func TestYear4096(t *testing.T) { // Appendix B
	hosted := func(c *x509.Certificate) { year4096(c); forHosts("127.0.0.1")(c) }
	lone := sign(t, nil, ecdsaKey(t), hosted)
	succeed(t, minted(t, "127.0.0.1").Client("127.0.0.1"), stock(lone))

	ca := sign(t, nil, ecdsaKey(t), func(c *x509.Certificate) { year4096(c); c.IsCA = true; c.KeyUsage = x509.KeyUsageCertSign })
	set := loadPair(t, sign(t, ca, ecdsaKey(t), hosted), ca)
	succeed(t, set.Client("127.0.0.1"), set.Server())
	if notes := set.Notes(time.Now()); len(notes) != 0 {
		t.Errorf("got notes %q, want none", notes)
	}
	want := float64(time.Date(4096, 1, 1, 0, 0, 0, 0, time.UTC).Unix())
	if got := set.NotAfter(); got != want || got < 0 {
		t.Errorf("got NotAfter %f, want %f", got, want)
	}
	if got := certs.UnixSeconds(set.CAs()[0], true); got != set.NotBefore() {
		t.Errorf("got NotBefore %f of the CA, want %f", got, set.NotBefore())
	}
}

func TestALPNAbsent(t *testing.T) { // §7.8: none offered and none selected are both fine
	set := minted(t, "127.0.0.1")
	client := set.Client("127.0.0.1")
	client.NextProtos = nil
	succeed(t, client, set.Server())

	server := set.Server()
	server.NextProtos = nil
	succeed(t, set.Client("127.0.0.1"), server)

	several := set.Client("127.0.0.1")
	several.NextProtos = []string{"h2", certs.ALPN}
	succeed(t, several, set.Server())
}

func TestGroups(t *testing.T) { // §7.8
	set := minted(t, "127.0.0.1")
	for name, row := range map[string]struct {
		theirs []tls.CurveID
		want   tls.CurveID
	}{
		"a gate":       {nil, tls.X25519MLKEM768},
		"rustls, ring": {[]tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384}, tls.X25519},
		"X25519 only":  {[]tls.CurveID{tls.X25519}, tls.X25519},
		"P-256 only":   {[]tls.CurveID{tls.CurveP256}, tls.CurveP256},
		"hybrid only":  {[]tls.CurveID{tls.X25519MLKEM768}, tls.X25519MLKEM768},
	} {
		client, server := set.Client("127.0.0.1"), set.Server()
		if row.theirs != nil {
			client.CurvePreferences = row.theirs
		}
		if got := succeed(t, client, set.Server()).server.ConnectionState().CurveID; got != row.want {
			t.Errorf("%s dials: got %v, want %v", name, got, row.want)
		}
		if row.theirs != nil {
			server.CurvePreferences = row.theirs
		}
		if got := succeed(t, set.Client("127.0.0.1"), server).client.ConnectionState().CurveID; got != row.want {
			t.Errorf("%s accepts: got %v, want %v", name, got, row.want)
		}
	}
	p384 := set.Client("127.0.0.1")
	p384.CurvePreferences = []tls.CurveID{tls.CurveP384}
	out := handshake(t, p384, set.Server())
	wantWord(t, certs.ClassifyServer(out.serverErr, out.hello, time.Now()), certs.FaultAlert)
}

// countingCache is a session cache that counts what it is given.
type countingCache struct {
	tls.ClientSessionCache
	puts atomic.Int32
}

func (c *countingCache) Put(key string, state *tls.ClientSessionState) {
	if state != nil {
		c.puts.Add(1)
	}
	c.ClientSessionCache.Put(key, state)
}

// exchange lets the server speak, so that the client reads what came before.
func exchange(t *testing.T, out outcome) {
	t.Helper()
	if _, err := out.server.Write([]byte("y")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out.client, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestNoTicketIssuedOrAccepted(t *testing.T) { // T12
	set := minted(t, "127.0.0.1")
	cache := &countingCache{ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	client := set.Client("127.0.0.1") // somebody else's, who would take a ticket
	client.ClientSessionCache, client.SessionTicketsDisabled = cache, false

	exchange(t, succeed(t, client, set.Server()))
	if n := cache.puts.Load(); n != 0 {
		t.Fatalf("got %d tickets, want none", n)
	}
	// A ticket that our server could even decrypt is not taken: the same keys,
	// issued by a server that has tickets on.
	issuer, ours := set.Server(), set.Server()
	issuer.SessionTicketsDisabled = false
	issuer.SetSessionTicketKeys([][32]byte{{1}})
	ours.SetSessionTicketKeys([][32]byte{{1}})
	exchange(t, succeed(t, client, issuer))
	resumed := succeed(t, client, issuer)
	exchange(t, resumed)
	if !resumed.server.ConnectionState().DidResume {
		t.Fatal("got a full handshake from the issuer, want a resumed one: the test shows nothing")
	}
	if succeed(t, client, ours).server.ConnectionState().DidResume {
		t.Error("got a resumed session, want a full handshake")
	}
}
