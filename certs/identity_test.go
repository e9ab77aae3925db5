package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
)

// world is a cluster's authority and what its members are given.
type world struct {
	ca, other, middle *pair
	template          *certs.Template
	crl               string // revokes gone and, of the intermediates, middle
	good, bare, gone  *pair
	under             *pair // issued by middle
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{ca: newCA(t, "our ca"), other: newCA(t, "other ca"),
		template: must[*certs.Template](t)(certs.NewTemplate(usualIdentity, "td", "prod"))}
	w.middle = sign(t, w.ca, ecdsaKey(t), func(c *x509.Certificate) { c.IsCA = true; c.Subject.CommonName = "middle" })
	w.good, w.gone = w.leaf(t, "spiffe://td/iggy/prod/1"), w.leaf(t, "spiffe://td/iggy/prod/1")
	w.bare = w.leaf(t)
	w.under = sign(t, w.middle, ecdsaKey(t), named("spiffe://td/iggy/prod/1"))
	w.crl = crlPEM(revoking(t, w.ca, nil, w.gone, w.middle))
	return w
}

func (w *world) leaf(t *testing.T, names ...string) *pair {
	t.Helper()
	return sign(t, w.ca, ecdsaKey(t), named(names...))
}

// set is replica 0's, with the lists.
func (w *world) set(t *testing.T, mode certs.ClientAuth) *certs.Set {
	t.Helper()
	own := w.leaf(t, "spiffe://td/iggy/prod/0")
	return loadCRL(t, w.crl, []*pair{own}, w.ca).With(certs.Options{ClientAuth: mode, Identity: w.template})
}

// offering is a client that gives a chain, whatever it is, and trusts anybody.
func offering(chain ...*pair) *tls.Config {
	cfg := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{certs.ALPN}}
	if len(chain) > 0 {
		own := presenting(chain...)
		// crypto/tls would choose by the CAs that the server names.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	return cfg
}

func presenting(chain ...*pair) tls.Certificate {
	own := tls.Certificate{PrivateKey: chain[0].key}
	for _, p := range chain {
		own.Certificate = append(own.Certificate, p.cert.Raw)
	}
	return own
}

// expected is how a peer's certificate is taken: refused with a word, in the
// handshake where the alert is not 0, or a level.
type expected struct {
	word    string
	alert   uint8
	level   string
	ignored string
}

var (
	member    = expected{level: certs.LevelMembership}
	certified = expected{level: certs.LevelCertificate}
	revoked   = expected{word: certs.FaultRevoked, alert: 42}
	mismatch  = expected{word: certs.FaultIdentity}
)

// passedOver is membership, with a certificate that counts as none.
func passedOver(word string) expected {
	return expected{level: certs.LevelMembership, ignored: word}
}

// judge holds a verdict on an established peer against what was expected.
func (e expected) judge(t *testing.T, identity certs.Identity, fault *certs.Fault, leaf *pair) {
	t.Helper()
	if e.word != "" {
		if fault == nil {
			t.Fatalf("got %+v, want %s", identity, e.word)
		}
		wantWord(t, *fault, e.word)
		if identity != (certs.Identity{}) {
			t.Errorf("got %+v beside a fault, want nothing", identity)
		}
		return
	}
	if fault != nil || identity.Level != e.level {
		t.Fatalf("got %+v, %v, want %s", identity, fault, e.level)
	}
	if (e.level == certs.LevelCertificate) != (identity.Name == "spiffe://td/iggy/prod/1") {
		t.Errorf("got the name %q at level %s", identity.Name, identity.Level)
	}
	ignored := ""
	if identity.Ignored != nil {
		ignored = identity.Ignored.Word
		wantWord(t, *identity.Ignored, e.ignored)
	}
	if ignored != e.ignored {
		t.Errorf("got ignored for %q, want for %q", ignored, e.ignored)
	}
	if leaf != nil && !identity.NotAfter.Equal(leaf.cert.NotAfter) || leaf == nil && !identity.NotAfter.IsZero() {
		t.Errorf("got NotAfter %v, want that of a verified leaf and zero elsewhere", identity.NotAfter)
	}
}

// Every certificate that a dialer may come with, under each client_auth.
func TestDialers(t *testing.T) {
	w := newWorld(t)
	clock := func(from, to time.Duration) *pair {
		return sign(t, w.ca, ecdsaKey(t), lasting(from, to, "spiffe://td/iggy/prod/1"))
	}
	serverOnly := sign(t, w.ca, ecdsaKey(t), func(c *x509.Certificate) {
		named("spiffe://td/iggy/prod/1")(c)
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	})
	for name, row := range map[string]struct {
		chain            []*pair
		request, require expected
	}{
		"none":            {nil, member, expected{word: certs.FaultNoClientCert, alert: 42}},
		"its own":         {[]*pair{w.good}, certified, certified},
		"no name":         {[]*pair{w.bare}, member, mismatch},
		"another replica": {[]*pair{w.leaf(t, "spiffe://td/iggy/prod/2")}, mismatch, mismatch},
		"another cluster": {[]*pair{w.leaf(t, "spiffe://td/iggy/stage/1")}, mismatch, mismatch},
		"another domain":  {[]*pair{w.leaf(t, "spiffe://else/iggy/prod/1")}, mismatch, mismatch},
		"shared":          {[]*pair{w.leaf(t, "spiffe://td/iggy/prod/1", "spiffe://td/iggy/prod/2")}, member, mismatch},
		"unknown CA": {[]*pair{sign(t, w.other, ecdsaKey(t), named("spiffe://td/iggy/prod/1"))},
			passedOver(certs.FaultUnknownCA), expected{word: certs.FaultUnknownCA, alert: 48}},
		"self-made": {[]*pair{sign(t, nil, ecdsaKey(t), named("spiffe://td/iggy/prod/1"))},
			passedOver(certs.FaultUnknownCA), expected{word: certs.FaultUnknownCA, alert: 48}},
		"no intermediate": {[]*pair{w.under}, passedOver(certs.FaultUnknownCA), expected{word: certs.FaultUnknownCA, alert: 48}},
		"expired":         {[]*pair{clock(-3*time.Hour, -2*time.Hour)}, passedOver(certs.FaultExpired), expected{word: certs.FaultExpired, alert: 45}},
		"not yet valid":   {[]*pair{clock(2*time.Hour, 3*time.Hour)}, passedOver(certs.FaultNotYetValid), expected{word: certs.FaultNotYetValid, alert: 45}},
		"server usage":    {[]*pair{serverOnly}, passedOver(certs.FaultAlert), expected{word: certs.FaultAlert, alert: 42}},
		"revoked":         {[]*pair{w.gone}, revoked, revoked},
		"revoked above":   {[]*pair{w.under, w.middle}, revoked, revoked},
	} {
		for mode, want := range map[certs.ClientAuth]expected{certs.Off: member, certs.Request: row.request, certs.Require: row.require} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				set := w.set(t, mode)
				out := handshake(t, offering(row.chain...), set.Server())
				if want.alert != 0 {
					wantRefusedDialer(t, out, want)
					return
				}
				if out.serverErr != nil {
					t.Fatal(out.serverErr)
				}
				identity, fault := set.IdentifyDialer(out.server.ConnectionState(), 1, time.Now())
				var leaf *pair
				if mode != certs.Off && len(row.chain) > 0 && want.ignored == "" {
					leaf = row.chain[0]
				}
				want.judge(t, identity, fault, leaf)
			})
		}
	}
}

// wantRefusedDialer checks a refusal in the handshake: our word, and the alert
// that the dialer reads in place of the first answer.
func wantRefusedDialer(t *testing.T, out outcome, want expected) {
	t.Helper()
	if out.serverErr == nil {
		t.Fatalf("got a handshake, want %s", want.word)
	}
	now := time.Now()
	fault := certs.ClassifyServer(out.serverErr, out.hello, now)
	wantWord(t, fault, want.word)
	if want.word == certs.FaultNotYetValid {
		wantIn(t, fault, "not valid yet for ", "NotBefore 20", "local time 20") // T46
	}
	_, err := out.client.Read(make([]byte, 1))
	if seen := certs.ClassifyClient(err, now); seen.Alert != want.alert {
		t.Errorf("client: got %v, want alert %d", err, want.alert)
	}
}

// A dialer that asks nobody for its certificate: self-signed mode proves nothing,
// in either role.
func TestSelfSignedIsMembership(t *testing.T) {
	ours, theirs := minted(t, "127.0.0.1"), minted(t, "127.0.0.1")
	template := must[*certs.Template](t)(certs.NewTemplate("iggy-{replica}", "", ""))
	ours = ours.With(certs.Options{ClientAuth: certs.Require, Identity: template})
	out := succeed(t, theirs.Client("127.0.0.1"), ours.Server())
	wantMembership(t, ours.IdentifyDialer, out.server.ConnectionState())
	out = succeed(t, ours.Client("127.0.0.1"), theirs.Server())
	wantMembership(t, ours.IdentifyAcceptor, out.client.ConnectionState())
}

// A self-signed peer has nothing to give to one that requires it.
func TestSelfSignedDialerOfRequire(t *testing.T) {
	w := newWorld(t)
	out := handshake(t, minted(t, "127.0.0.1").Client("127.0.0.1"), w.set(t, certs.Require).Server())
	wantRefusedDialer(t, out, expected{word: certs.FaultNoClientCert, alert: 42})
}

// Without a template no name means a replica: a verified certificate is
// membership, under require too.
func TestNoTemplateIsMembership(t *testing.T) {
	w := newWorld(t)
	for _, mode := range []certs.ClientAuth{certs.Request, certs.Require} {
		set := w.set(t, mode).With(certs.Options{ClientAuth: mode})
		out := succeed(t, offering(w.good), set.Server())
		identity, fault := set.IdentifyDialer(out.server.ConnectionState(), 2, time.Now())
		member.judge(t, identity, fault, w.good)
		out = succeed(t, set.Client("127.0.0.1"), stock(w.good))
		identity, fault = set.IdentifyAcceptor(out.client.ConnectionState(), 2, time.Now())
		member.judge(t, identity, fault, w.good)
	}
}

// Every certificate that an acceptor may come with. Its CA, dates, name and
// revocation are judged in the handshake whatever client_auth is.
func TestAcceptors(t *testing.T) {
	w := newWorld(t)
	clientOnly := sign(t, w.ca, ecdsaKey(t), usage(x509.ExtKeyUsageClientAuth))
	for name, row := range map[string]struct {
		chain            []*pair
		request, require expected
	}{
		"its own":         {[]*pair{w.good}, certified, certified},
		"a native one":    {[]*pair{w.bare}, member, mismatch},
		"another replica": {[]*pair{w.leaf(t, "spiffe://td/iggy/prod/2")}, mismatch, mismatch},
		"another cluster": {[]*pair{w.leaf(t, "spiffe://td/iggy/stage/1")}, mismatch, mismatch},
		"shared":          {[]*pair{w.leaf(t, "spiffe://td/iggy/prod/1", "spiffe://td/iggy/prod/2")}, member, mismatch},
		"client usage":    {[]*pair{clientOnly}, expected{word: certs.FaultAlert, alert: 42}, expected{word: certs.FaultAlert, alert: 42}},
		"unknown CA": {[]*pair{sign(t, w.other, ecdsaKey(t), named("spiffe://td/iggy/prod/1"))},
			expected{word: certs.FaultUnknownCA, alert: 42}, expected{word: certs.FaultUnknownCA, alert: 42}},
		"wrong address": {[]*pair{sign(t, w.ca, ecdsaKey(t), forHosts("127.0.0.9"))},
			expected{word: certs.FaultNameMismatch, alert: 42}, expected{word: certs.FaultNameMismatch, alert: 42}},
		"revoked":       {[]*pair{w.gone}, revoked, revoked},
		"revoked above": {[]*pair{w.under, w.middle}, revoked, revoked},
	} {
		for mode, want := range map[certs.ClientAuth]expected{certs.Off: row.request, certs.Request: row.request, certs.Require: row.require} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				set, server := w.set(t, mode), stock(row.chain[0])
				server.Certificates[0] = presenting(row.chain...)
				out := handshake(t, set.Client("127.0.0.1"), server)
				if want.alert != 0 {
					wantWord(t, certs.ClassifyClient(out.clientErr, time.Now()), want.word)
					if seen := certs.ClassifyServer(out.serverErr, out.hello, time.Now()); seen.Alert != want.alert && seen.Alert != 48 {
						t.Errorf("server: got %v, want alert %d or unknown_ca", out.serverErr, want.alert)
					}
					return
				}
				if out.clientErr != nil {
					t.Fatal(out.clientErr)
				}
				identity, fault := set.IdentifyAcceptor(out.client.ConnectionState(), 1, time.Now())
				want.judge(t, identity, fault, row.chain[0])
			})
		}
	}
}

// A live leg is checked again against a newer set: what it was authenticated by
// may be gone.
func TestLiveLegs(t *testing.T) { // T9, T11
	w := newWorld(t)
	first := w.set(t, certs.Request)
	dialed := succeed(t, first.Client("127.0.0.1"), stock(w.good)).client.ConnectionState()
	arrived := succeed(t, offering(w.good), first.Server()).server.ConnectionState()
	blank := succeed(t, offering(), first.Server()).server.ConnectionState()
	own := w.leaf(t, "spiffe://td/iggy/prod/0")
	with := func(set *certs.Set, mode certs.ClientAuth) *certs.Set {
		return set.With(certs.Options{ClientAuth: mode, Identity: w.template})
	}
	moved := loadPair(t, sign(t, w.other, ecdsaKey(t), nil), w.other)
	gone := loadCRL(t, crlPEM(revoking(t, w.ca, nil, w.good)), []*pair{own}, w.ca)
	renewed := loadPair(t, w.leaf(t, "spiffe://td/iggy/prod/0"), w.other, w.ca)
	fault := func(word string) expected { return expected{word: word} }
	for name, row := range map[string]struct {
		set      *certs.Set
		later    time.Duration
		acceptor expected
		dialer   expected
		none     expected // a dialer that came without a certificate
	}{
		"the same":             {first, 0, certified, certified, member},
		"own leaf renewed":     {with(renewed, certs.Request), 0, certified, certified, member},
		"CA removed":           {with(moved, certs.Request), 0, fault(certs.FaultUnknownCA), passedOver(certs.FaultUnknownCA), member},
		"CA removed, required": {with(moved, certs.Require), 0, fault(certs.FaultUnknownCA), fault(certs.FaultUnknownCA), fault(certs.FaultNoClientCert)},
		"now required":         {with(renewed, certs.Require), 0, certified, certified, fault(certs.FaultNoClientCert)},
		"now off":              {with(renewed, certs.Off), 0, certified, member, member},
		"leaf revoked":         {with(gone, certs.Request), 0, fault(certs.FaultRevoked), fault(certs.FaultRevoked), member},
		"leaf expired":         {first, 2 * time.Hour, fault(certs.FaultExpired), passedOver(certs.FaultExpired), member},
		"clock set back":       {first, -2 * time.Hour, fault(certs.FaultNotYetValid), passedOver(certs.FaultNotYetValid), member},
		"now self-signed":      {minted(t, "127.0.0.1"), 0, member, member, member},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now().Add(row.later)
			leaf := func(e expected, mode bool) *pair {
				if mode && e.word == "" && e.ignored == "" {
					return w.good
				}
				return nil
			}
			ca := !row.set.SelfSigned()
			identity, fault := row.set.IdentifyAcceptor(dialed, 1, now)
			row.acceptor.judge(t, identity, fault, leaf(row.acceptor, ca))
			identity, fault = row.set.IdentifyDialer(arrived, 1, now)
			row.dialer.judge(t, identity, fault, leaf(row.dialer, ca && name != "now off"))
			identity, fault = row.set.IdentifyDialer(blank, 1, now)
			row.none.judge(t, identity, fault, nil)
		})
	}
}

// The usages that a leaf has must allow its role, also when it is looked at later.
func TestIdentifyUsages(t *testing.T) {
	w := newWorld(t)
	set := w.set(t, certs.Require)
	limited := func(only x509.ExtKeyUsage) tls.ConnectionState {
		leaf := sign(t, w.ca, ecdsaKey(t), func(c *x509.Certificate) {
			named("spiffe://td/iggy/prod/1")(c)
			c.ExtKeyUsage = []x509.ExtKeyUsage{only}
		})
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf.cert}}
	}
	for name, row := range map[string]struct {
		usage            x509.ExtKeyUsage
		acceptor, dialer expected
	}{
		"server": {x509.ExtKeyUsageServerAuth, certified, expected{word: certs.FaultAlert}},
		"client": {x509.ExtKeyUsageClientAuth, expected{word: certs.FaultAlert}, certified},
		"any":    {x509.ExtKeyUsageAny, certified, certified},
	} {
		t.Run(name, func(t *testing.T) {
			state := limited(row.usage)
			leaf := &pair{cert: state.PeerCertificates[0]}
			identity, fault := set.IdentifyAcceptor(state, 1, time.Now())
			row.acceptor.judge(t, identity, fault, leaf)
			identity, fault = set.IdentifyDialer(state, 1, time.Now())
			row.dialer.judge(t, identity, fault, leaf)
		})
	}
}

// A certificate for one replica is no other's, whichever way the leg was dialed.
func TestIdentityIsTheReplicas(t *testing.T) {
	w := newWorld(t)
	set := w.set(t, certs.Request)
	dialed := succeed(t, set.Client("127.0.0.1"), stock(w.good)).client.ConnectionState()
	arrived := succeed(t, offering(w.good), set.Server()).server.ConnectionState()
	for replica := range uint8(5) {
		for _, check := range []func() (certs.Identity, *certs.Fault){
			func() (certs.Identity, *certs.Fault) { return set.IdentifyAcceptor(dialed, replica, time.Now()) },
			func() (certs.Identity, *certs.Fault) { return set.IdentifyDialer(arrived, replica, time.Now()) },
		} {
			identity, fault := check()
			if replica == 1 {
				certified.judge(t, identity, fault, w.good)
				continue
			}
			mismatch.judge(t, identity, fault, nil)
			wantIn(t, *fault, `"spiffe://td/iggy/prod/1"`, w.template.Name(replica), "replica_id")
		}
	}
}

// The alert of a server that takes nobody without a certificate has our word.
func TestAlertCertificateRequired(t *testing.T) {
	server := stock(newWorld(t).good)
	server.ClientAuth = tls.RequireAnyClientCert
	out := handshake(t, minted(t, "127.0.0.1").Client("127.0.0.1"), server)
	if out.serverErr == nil {
		t.Fatal("got a handshake, want a refusal")
	}
	_, err := out.client.Read(make([]byte, 1))
	fault := certs.ClassifyClient(err, time.Now())
	wantWord(t, fault, certs.FaultNoClientCert)
	wantIn(t, fault, "alert 116", "cert_file")
}
