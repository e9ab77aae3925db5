package proxy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// authority signs certificates of replicas.
type authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func found(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.issue(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue signs a template, itself where it has no certificate yet.
func (a *authority) issue(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.Subject = serial, pkix.Name{CommonName: "test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour).Truncate(time.Second)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// nameOf is the name in the certificate of a replica.
func nameOf(id uint8) string { return "replica-" + string('0'+rune(id)) + ".iggy" }

// leaf is a certificate of a replica, for both roles.
func (a *authority) leaf(id uint8) tls.Certificate {
	a.t.Helper()
	cert, key := a.issue(&x509.Certificate{DNSNames: []string{nameOf(id)}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func (a *authority) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// identities are credentials that bind a certificate to its replica by a DNS name,
// as the program does with its template.
type identities struct {
	own     tls.Certificate
	roots   *x509.CertPool
	revoked []*x509.Certificate
	// require refuses who shows none; expired has everybody's certificate expire;
	// lenient passes over a certificate that nobody vouches for.
	require, expired, lenient bool
}

func (c identities) Server() (*tls.Config, func(error) proxy.TLSFault) {
	config := speaking(c.own)
	config.ClientAuth = tls.RequestClientCert
	return config, tlsAlert
}

func (c identities) Client(name string) (*tls.Config, func(error) proxy.TLSFault) {
	config := speaking(c.own)
	config.RootCAs, config.ServerName = c.roots, name
	return config, tlsAlert
}

func tlsAlert(err error) proxy.TLSFault {
	return proxy.TLSFault{Ending: proxy.TLSAlert, Detail: err.Error()}
}

// speaking is TLS as the replica plane has it, with a certificate or none.
func speaking(own ...tls.Certificate) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"iggy-replica"}, SessionTicketsDisabled: true, Certificates: own}
}

func (c identities) Identify(state tls.ConnectionState, id uint8) (proxy.Identity, *proxy.TLSFault) {
	fault := func(e proxy.Ending, detail string) (proxy.Identity, *proxy.TLSFault) {
		return proxy.Identity{}, &proxy.TLSFault{Ending: e, Detail: detail}
	}
	if len(state.PeerCertificates) == 0 {
		if c.require {
			return fault(proxy.TLSNoClientCert, "no certificate")
		}
		return proxy.Identity{Level: proxy.ByMembership}, nil
	}
	leaf := state.PeerCertificates[0]
	_, err := leaf.Verify(x509.VerifyOptions{Roots: c.roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	switch {
	case err != nil && c.lenient:
		return proxy.Identity{Level: proxy.ByMembership, Ignored: &proxy.TLSFault{Ending: proxy.TLSUnknownCA, Detail: err.Error()}}, nil
	case err != nil:
		return fault(proxy.TLSUnknownCA, err.Error())
	case slices.ContainsFunc(c.revoked, leaf.Equal):
		return fault(proxy.PeerCertRevoked, "serial number "+leaf.SerialNumber.String())
	case c.expired:
		return fault(proxy.TLSExpired, "expired by now")
	case leaf.VerifyHostname(nameOf(id)) != nil:
		return fault(proxy.IdentityMismatch, "a certificate for "+leaf.DNSNames[0])
	}
	return proxy.Identity{Level: proxy.ByCertificate, Name: nameOf(id), NotAfter: leaf.NotAfter}, nil
}

// known is a gate with identities, and what its surroundings show.
type known struct {
	*gate
	ca          *authority
	credentials identities
	// shows are the certificates of the stand-ins, by id; none is shown by whom is
	// not in it.
	shows map[uint8]tls.Certificate
}

func startKnown(t *testing.T, s spec) *known {
	t.Helper()
	k := &known{ca: found(t), shows: map[uint8]tls.Certificate{}}
	k.credentials = identities{own: k.ca.leaf(1), roots: k.ca.roots()}
	for id := range uint8(3) {
		k.shows[id] = k.ca.leaf(id)
	}
	change := s.change
	s.change = func(set *proxy.Settings) {
		if change != nil {
			change(set)
		}
		set.Credentials = k.credentials
	}
	k.gate = start(t, s)
	return k
}

// voice is a stand-in that shows its certificate, or none.
func (k *known) voice(id uint8, pair mac.Pair, s proxy.Security) replica.Voice {
	v := k.gate.accepting(pair, proxy.Plaintext)
	if s != proxy.Plaintext {
		v.Keys = k.keys
	}
	if s != proxy.TLS {
		return v
	}
	v.TLS = speaking()
	if own, ok := k.shows[id]; ok {
		v.TLS = speaking(own)
	}
	v.TLS.InsecureSkipVerify = true // a stand-in asks nobody who he is
	return v
}

// makeIngress and makeEgress make a link between the stand-ins.
func (k *known) makeIngress() ends {
	k.t.Helper()
	far, near := k.open(k.peerDials, k.upstream, k.voice(1, k.inPair(), k.near))
	return ends{near, far}
}

func (k *known) makeEgress() ends {
	k.t.Helper()
	near, far := k.open(k.localDials, k.peers, k.voice(2, k.outPair(), k.far))
	return ends{near, far}
}

func (k *known) peerDials(ctx context.Context) (*replica.Conn, error) {
	return k.voice(0, k.inPair(), k.far).Dial(ctx, k.ingress())
}

func (k *known) localDials(ctx context.Context) (*replica.Conn, error) {
	return k.voice(1, k.outPair(), k.near).Dial(ctx, k.egress())
}

// answer is the stand-in of an address that takes whoever comes, until the test
// ends.
func (k *known) answer(ln *net.TCPListener, v replica.Voice) {
	var answering sync.WaitGroup
	answering.Go(func() {
		for {
			c, err := ln.AcceptTCP()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(patience))
			if _, err := v.Accept(context.Background(), c); err != nil {
				c.Close()
			}
			k.t.Cleanup(func() { c.Close() })
		}
	})
	k.t.Cleanup(func() { ln.Close(); answering.Wait() })
}

// status is what the gate says of its one link with a peer.
func (k *known) status(peer int) proxy.LinkStatus {
	k.t.Helper()
	for _, p := range k.server.Status().Peers {
		if p.Peer == peer && len(p.Links) == 1 {
			return p.Links[0]
		}
	}
	k.t.Fatalf("got no one link with replica %d", peer)
	return proxy.LinkStatus{}
}

// A certificate of another replica ends the handshake on every leg that speaks TLS,
// whoever dials, before that side is told yes.
func TestIdentityMismatch(t *testing.T) {
	for name, row := range map[string]struct {
		spec   spec
		liar   uint8
		egress bool
		refuse string // or, where the peer was proven, how its connection is counted
	}{
		"the peer dials":            {spec{far: proxy.TLS}, 0, false, "ingress identity_mismatch"},
		"the peer is dialed":        {spec{far: proxy.TLS}, 2, true, "egress identity_mismatch"},
		"the local replica dials":   {spec{near: proxy.TLS}, 1, true, "egress identity_mismatch"},
		"the local replica answers": {spec{near: proxy.TLS, far: proxy.PSK}, 1, false, "0 ingress psk identity_mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			k := startKnown(t, row.spec)
			k.shows[row.liar] = k.ca.leaf((row.liar + 1) % 3)
			dial := k.peerDials
			if row.egress {
				dial = k.localDials
			}
			k.answer(k.upstream, k.voice(1, k.inPair(), k.near))
			k.answer(k.peers, k.voice(2, k.outPair(), k.far))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if c, err := dial(ctx); err == nil {
				ended(t, c)
				c.TCP.Close()
			}
			k.await("the end", func() bool { return slices.Contains(slices.Concat(k.refused, k.closed), row.refuse) })
			if !strings.Contains(k.text(), "a certificate for "+nameOf((row.liar+1)%3)) {
				t.Errorf("got no line that names the certificate; log:\n%s", k.text())
			}
		})
	}
}

// The status says of each link who is at the far end: a replica with a certificate,
// until when it is good, or a member of the cluster, as a native replica is that
// shows none.
func TestIdentityInStatus(t *testing.T) {
	k := startKnown(t, spec{far: proxy.TLS})
	delete(k.shows, 0)
	in, out := k.makeIngress(), k.makeEgress()
	if l := k.status(0); l.Identity != "membership" || l.Name != "" || l.PeerNotAfter != nil {
		t.Errorf("got %+v of a peer without a certificate", l)
	}
	want := k.shows[2].Leaf.NotAfter
	if l := k.status(2); l.Identity != "certificate" || l.Name != nameOf(2) || l.PeerNotAfter == nil || !l.PeerNotAfter.Equal(want) {
		t.Errorf("got %+v, want replica 2 by its certificate until %v", l, want)
	}
	hangUp(in.far, in.near, out.near, out.far)
}

// Where a certificate is required, whoever shows none is refused by that word; a
// probe, which never shows one, is a probe all the same.
func TestCertificateRequired(t *testing.T) {
	for name, row := range map[string]struct {
		marked bool
		ending string
	}{"a replica": {false, "tls_no_client_cert"}, "a probe": {true, "probe"}} {
		t.Run(name, func(t *testing.T) {
			k := startKnown(t, spec{far: proxy.TLS})
			k.credentials.require = true
			k.apply(func(s *proxy.Settings) { s.Credentials = k.credentials })
			config := speaking()
			config.InsecureSkipVerify = true
			c := tls.Client(raw(t, k.ingress()), config)
			n := nonce(7)
			if row.marked {
				copy(n[:], wire.ProbeMark)
			}
			first := wire.NewHello(cluster, 0, n[:])
			send(t, c, first[:])
			ended(t, c)
			k.wantRefused("ingress", row.ending)
		})
	}
}

// T9: when a CA is removed, the links of its certificates are made anew, whoever
// dialed; one of the new CA is let in, one of the old is not.
func TestRemovedCA(t *testing.T) {
	k := startKnown(t, spec{far: proxy.TLS, change: func(s *proxy.Settings) { s.ReauthWindow = time.Second }})
	in, out := k.makeIngress(), k.makeEgress()
	next := found(t)
	k.credentials.roots = next.roots()
	k.apply(func(s *proxy.Settings) { s.Credentials = k.credentials })
	for _, e := range []ends{in, out} {
		ended(t, e.far)
		ended(t, e.near)
		hangUp(e.near, e.far)
	}
	k.await("both ends", func() bool { return len(k.closed) == 2 })
	if n := endedBy(k.closedNow(), "reauth"); n != 2 {
		t.Errorf("got links closed %q, want two by reauth", k.closed)
	}
	if c, err := k.peerDials(t.Context()); err == nil {
		ended(t, c)
	}
	k.await("the refusal", func() bool { return slices.Contains(k.refused, "ingress tls_unknown_ca") })
	k.shows[0], k.shows[2] = next.leaf(0), next.leaf(2)
	k.makeIngress()
	k.makeEgress()
}

// Where a certificate may count as none, a link loses with its CA what it was known
// by, and is made anew; one that had nothing to lose is left alone.
func TestRemovedCAWhereNoneIsRequired(t *testing.T) {
	k := startKnown(t, spec{far: proxy.TLS, change: func(s *proxy.Settings) { s.ReauthWindow = time.Second }})
	stranger := found(t)
	k.credentials.lenient = true
	k.apply(func(s *proxy.Settings) { s.Credentials = k.credentials })
	k.shows[0] = stranger.leaf(0) // passed over from the beginning
	in, out := k.makeIngress(), k.makeEgress()
	k.credentials.roots = found(t).roots()
	k.apply(func(s *proxy.Settings) { s.Credentials = k.credentials })
	ended(t, out.far)
	hangUp(out.far, out.near)
	k.wantClosed("reauth")
	silent(t, in.far.TCP, 1200*time.Millisecond, "it is known by its secret, as before")
	if closed := k.closedNow(); len(closed) != 1 || closed[0] != "2 egress tls reauth" {
		t.Errorf("got links closed %q, want the one that had a certificate", closed)
	}
}

// T11: a revoked certificate's link is closed within five seconds, in the middle of
// a frame if need be, and the redial is refused with the same word. Nobody waits
// for anybody, and other links are not touched.
func TestRevokedCertificate(t *testing.T) {
	for _, egress := range []bool{false, true} {
		t.Run(map[bool]string{false: "the peer dials", true: "the peer is dialed"}[egress], func(t *testing.T) {
			k := startKnown(t, spec{far: proxy.TLS})
			in, out := k.makeIngress(), k.makeEgress()
			link, other, id, dial := in, out, uint8(0), k.peerDials
			if egress {
				link, other, id, dial = out, in, 2, k.localDials
				k.answer(k.peers, k.voice(2, k.outPair(), k.far))
			}
			frame := chunk(id, noise(200<<10, 1))
			send(t, link.far, frame[:len(frame)/2]) // and the rest never
			receive(t, link.near, frame[:1000])
			began := time.Now()
			k.credentials.revoked = []*x509.Certificate{k.shows[id].Leaf}
			k.apply(func(s *proxy.Settings) { s.Credentials = k.credentials })
			rest(link.far)
			rest(link.near)
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("got the link closed after %v, want within 5s", took)
			}
			hangUp(link.far, link.near)
			k.wantClosed("peer_cert_revoked")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if c, err := dial(ctx); err == nil {
				rest(c)
				c.TCP.Close()
			}
			k.await("the redial refused", func() bool { return len(k.refused) > 0 })
			if n := k.refusals("peer_cert_revoked"); n != 1 {
				t.Errorf("got refused %q, want one peer_cert_revoked", k.refused)
			}
			send(t, other.near, commit(1, 9))
			receive(t, other.far, commit(1, 9))
		})
	}
}

// A revocation waits for nobody: not for a peer that is being waited for.
func TestRevokedWhileAnotherIsAwaited(t *testing.T) {
	k := startKnown(t, spec{far: proxy.TLS})
	in, out := k.makeIngress(), k.makeEgress()
	remove := func(s *proxy.Settings) { s.Keys, s.Credentials = stranger, k.credentials }
	k.apply(remove)
	ended(t, in.far)
	hangUp(in.far, in.near) // and it does not come back, for which it has ten seconds
	k.await("the first end", func() bool { return len(k.closed) == 1 })
	began := time.Now()
	k.credentials.revoked = []*x509.Certificate{k.shows[2].Leaf}
	k.apply(remove)
	ended(t, out.near)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("got the link closed after %v, want within 5s", took)
	}
	hangUp(out.far, out.near)
	k.await("the second end", func() bool { return len(k.closed) == 2 })
	if closed := k.closedNow(); closed[1] != "2 egress tls peer_cert_revoked" {
		t.Errorf("got links closed %q", closed)
	}
}

// Time alone ends no link, when other settings are applied after a peer's
// certificate has expired; nor does a gate that goes back to plaintext end what is
// stronger.
func TestWhatEndsNoLink(t *testing.T) {
	k := startKnown(t, spec{far: proxy.TLS, change: func(s *proxy.Settings) { s.ReauthWindow = 300 * time.Millisecond }})
	in, out := k.makeIngress(), k.makeEgress()
	k.credentials.expired = true
	k.apply(func(s *proxy.Settings) { s.Credentials = k.credentials })
	silent(t, in.far.TCP, 400*time.Millisecond, "its certificate was good when it was made")
	k.apply(func(s *proxy.Settings) {
		s.Credentials, s.Keys = nil, nil
		for i := range s.Peers {
			s.Peers[i].Security = proxy.Plaintext
		}
	})
	silent(t, out.near.TCP, 400*time.Millisecond, "it is stronger than what is asked for")
	if closed := k.closedNow(); len(closed) != 0 {
		t.Errorf("got links closed %q, want none", closed)
	}
}
