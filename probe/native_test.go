package probe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/probe"
	"github.com/replgate/replgate/wire"
)

// An acceptor in psk and in tls, and everything that can be wrong with it.
func TestNativeAcceptors(t *testing.T) {
	now := time.Now()
	authority := newPKI(t, now.Add(-time.Hour), now.Add(24*time.Hour))
	config := authority.server(now.Add(-time.Hour), now.Add(240*time.Hour), serverName)
	for _, c := range []struct {
		name   string
		adjust func(*native, *probe.Options)
		want   string // what is not ok, besides kind over psk
		secret string
	}{
		{"all well", func(*native, *probe.Options) {}, "", "the current one"},
		{"it has our previous secret", func(n *native, o *probe.Options) {
			n.keys, o.Keys = keyring(t, secretTwo), keyring(t, secretOne, secretTwo)
		}, "", "the previous one"},
		{"it is ahead in a rotation", func(n *native, o *probe.Options) {
			n.keys = keyring(t, secretTwo, secretOne)
		}, "secret=fault", "one of neither"},
		{"another secret", func(n *native, o *probe.Options) { n.keys = keyring(t, secretTwo) }, "secret=fault", "one of neither"},
		{"no secret given", func(n *native, o *probe.Options) { o.Keys = nil }, "secret=unknown", "a proof that was not verified"},
		{"another cluster", func(n *native, o *probe.Options) { n.cluster = wire.ClusterIDOf("other") },
			"cluster=fault direction=unknown secret=unknown", "not knowable"},
		{"no cluster given", func(n *native, o *probe.Options) { o.Cluster, o.ClusterName = wire.ClusterID{}, "" },
			"cluster=unknown", "the current one"},
		{"another replica", func(n *native, o *probe.Options) { n.self = 2 }, "replica=fault", "the current one"},
		{"replica 0 by mistake", func(n *native, o *probe.Options) { n.self = 0 }, "replica=fault direction=unknown secret=unknown", "not knowable"},
		{"replica 0", func(n *native, o *probe.Options) { n.self, o.Target = 0, id(0) }, "direction=unknown secret=unknown", "not knowable"},
		{"any replica", func(n *native, o *probe.Options) { n.self, o.Target = 2, nil }, "", "the current one"},
		{"a dialer that is above", func(n *native, o *probe.Options) { o.Dialer = 2 }, "", "the current one"},
		{"a dialer that is the same", func(n *native, o *probe.Options) { o.Dialer = 1 }, "", "the current one"},
		{"an acceptor that knows no Hello", func(n *native, o *probe.Options) { n.knows = wire.RequestPrepares },
			"cluster=unknown direction=unknown secret=unknown", "not knowable"},
		{"and no cluster given", func(n *native, o *probe.Options) { n.knows, o.Cluster = wire.RequestPrepares, wire.ClusterID{} },
			"cluster=unknown direction=unknown secret=unknown", "not knowable"},
		{"a dialer that its roster lacks", func(n *native, o *probe.Options) {
			n.self, n.count, o.Target, o.Dialer = 9, 3, id(9), 5
		}, "direction=fault secret=unknown", "not knowable"},
		{"any security", func(n *native, o *probe.Options) { o.Expected = "" }, "", "the current one"},
		{"plaintext expected", func(n *native, o *probe.Options) { o.Expected = probe.Plaintext }, "security=fault", "the current one"},
	} {
		for _, security := range []string{probe.PSK, probe.TLS} {
			t.Run(c.name+"/"+security, func(t *testing.T) {
				n := newNative(1, keyring(t, secretOne), nil)
				what, kind, suffix := probe.WhatPSKAcceptor, probe.KindUnknown, "kind=unknown"
				if security == probe.TLS {
					n.tls = config
					what, kind, suffix = probe.WhatTLSAcceptor, probe.KindNative, ""
				}
				o := options(t, n.listen(t))
				o.Expected, o.TLS = security, authority.trust()
				c.adjust(n, &o)
				r := check(t, o, what, kind, strings.TrimSpace(c.want+" "+suffix))
				if got := finding(t, r, probe.CodeSecret).Found; got != c.secret {
					t.Errorf("got secret %q, want %q", got, c.secret)
				}
				n.unharmed(t)
			})
		}
	}
}

// The other of the two than expected is a fault, once.
func TestSecurityMismatch(t *testing.T) {
	now := time.Now()
	authority := newPKI(t, now.Add(-time.Hour), now.Add(24*time.Hour))
	psk := newNative(1, keyring(t, secretOne), nil)
	o := options(t, psk.listen(t))
	o.Expected, o.TLS = probe.TLS, authority.trust()
	r := check(t, o, probe.WhatPSKAcceptor, probe.KindUnknown, "security=fault kind=unknown")
	if got := finding(t, r, probe.CodeSecurity); got.Ending != "tls_alert" || got.Expected != "tls" || got.Found != "psk" {
		t.Errorf("got %+v", got)
	}
	psk.unharmed(t)

	secured := newNative(1, keyring(t, secretOne), authority.server(now.Add(-time.Hour), now.Add(time.Hour), serverName))
	o = options(t, secured.listen(t))
	o.Expected, o.TLS = probe.PSK, authority.trust()
	check(t, o, probe.WhatTLSAcceptor, probe.KindNative, "security=fault")
	secured.unharmed(t)
}

const plaintextUnknowns = "cluster=unknown replica=unknown direction=unknown secret=unknown"

// A plaintext acceptor tells nothing, and must take nobody for a replica: also
// where the address is another replica's than was said, of any id.
func TestPlaintextAcceptor(t *testing.T) {
	for self := range uint8(5) {
		n := newNative(self, nil, nil)
		n.count = 5
		address := n.listen(t)
		for _, expected := range []string{"", probe.Plaintext} {
			for target := range uint8(5) {
				o := options(t, address)
				o.Expected, o.Target = expected, id(target)
				check(t, o, probe.WhatCloses, probe.KindUnknown, "acceptor=unknown "+plaintextUnknowns)
			}
		}
		for _, expected := range []string{probe.PSK, probe.TLS} {
			o := options(t, address)
			o.Expected = expected
			check(t, o, probe.WhatCloses, probe.KindUnknown, "security=fault "+plaintextUnknowns)
		}
		n.unharmed(t)
	}
}

// The roster may have any length, and the acceptor be anyone of it.
func TestNobodyIsNobody(t *testing.T) {
	n := newNative(254, nil, nil)
	n.count = 255
	o := options(t, n.listen(t))
	check(t, o, probe.WhatCloses, probe.KindUnknown, "acceptor=unknown "+plaintextUnknowns)
	n.unharmed(t)
	if got := wire.Replica.Get(&n.hellos[0]); got != 255 {
		t.Errorf("got a Hello of replica %d, want 255", got)
	}
}

// A relay that ends TLS on both sides breaks the binding of the MAC (§7.2).
func TestTLSEndedBetween(t *testing.T) {
	now := time.Now()
	authority := newPKI(t, now.Add(-time.Hour), now.Add(24*time.Hour))
	n := newNative(1, keyring(t, secretOne), authority.server(now.Add(-time.Hour), now.Add(time.Hour), serverName))
	relay := relayTLS(t, authority.server(now.Add(-time.Hour), now.Add(time.Hour), serverName), n.listen(t))
	o := options(t, relay)
	o.Expected, o.TLS = probe.TLS, authority.trust()
	r := check(t, o, probe.WhatTLSAcceptor, probe.KindNative, "secret=fault")
	if got := finding(t, r, probe.CodeSecret); got.Ending != "mac_mismatch" || !strings.Contains(got.Do, "ends TLS between") {
		t.Errorf("got %+v", got)
	}
	n.unharmed(t)
}

// Only a marked Hello that carries a nonce is ever sent, and each with another.
func TestHellosSent(t *testing.T) {
	n := newNative(1, keyring(t, secretOne), nil)
	o := options(t, n.listen(t))
	check(t, o, probe.WhatPSKAcceptor, probe.KindUnknown, "kind=unknown")
	n.unharmed(t)
	if len(n.hellos) != 2 {
		t.Fatalf("got %d Hellos, want two", len(n.hellos))
	}
	if a, b := wire.Replica.Get(&n.hellos[0]), wire.Replica.Get(&n.hellos[1]); a != 255 || b != 0 {
		t.Errorf("got Hellos of %d and %d, want 255 and 0", a, b)
	}
	if n.hellos[0].Nonce() == nil || string(n.hellos[0].Nonce()) == string(n.hellos[1].Nonce()) {
		t.Error("got the same nonce twice")
	}
	for i := range n.hellos {
		if !wire.HandshakeClean(&n.hellos[i]) {
			t.Errorf("got a Hello that builders would not write: %x", n.hellos[i])
		}
	}
}
