package probe_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/probe"
)

// Every fault of a certificate is a finding of its own, and no fault keeps the
// rest from being found.
func TestCertificates(t *testing.T) {
	now := time.Now()
	hour := time.Hour
	good, foreign := newPKI(t, now.Add(-240*hour), now.Add(240*hour)), newPKI(t, now.Add(-240*hour), now.Add(240*hour))
	expiredCA := newPKI(t, now.Add(-48*hour), now.Add(-24*hour))
	futureCA := newPKI(t, now.Add(24*hour), now.Add(48*hour))
	for _, c := range []struct {
		name    string
		server  *tls.Config
		trust   *tls.Config
		want    string
		endings string
		says    string // somewhere in the findings
	}{
		{"all well", good.server(now.Add(-hour), now.Add(240*hour+time.Minute), serverName), good.trust(), "", "", "expires in 10 days"},
		{"expired", good.server(now.Add(-50*hour), now.Add(-49*hour), serverName), good.trust(), "tls_dates=fault", "tls_expired", "2d1h before the local time"},
		{"not yet valid", good.server(now.Add(3*hour+30*time.Second), now.Add(9*hour), serverName), good.trust(), "tls_dates=fault", "tls_not_yet_valid", "ours is behind by 3h0m"},
		{"another name", good.server(now.Add(-hour), now.Add(hour), "other.test"), good.trust(), "tls_name=fault", "tls_name_mismatch", `one for "other.test"`},
		{"no name", good.server(now.Add(-hour), now.Add(hour)), good.trust(), "tls_name=fault", "tls_name_mismatch", "no IP address and no DNS name"},
		{"untrusted", foreign.server(now.Add(-hour), now.Add(hour), serverName), good.trust(), "tls_chain=fault", "tls_unknown_ca", "add its CA"},
		{"untrusted, expired, another name", foreign.server(now.Add(-50*hour), now.Add(-49*hour), "other.test"), good.trust(),
			"tls_chain=fault tls_name=fault tls_dates=fault", "tls_unknown_ca tls_name_mismatch tls_expired", ""},
		{"never valid together", expiredCA.server(now.Add(-hour), now.Add(hour), serverName), expiredCA.trust(), "tls_chain=fault", "tls_expired", "never valid at the same time"},
		{"both have expired", expiredCA.server(now.Add(-40*hour), now.Add(-30*hour), serverName), expiredCA.trust(),
			"tls_dates=fault tls_dates=fault", "tls_expired tls_expired", "probe CA"},
		{"the CA has expired, the leaf has not", expiredCA.server(now.Add(-40*hour), now.Add(hour), serverName), expiredCA.trust(),
			"tls_dates=fault", "tls_expired", "probe CA"},
		{"the CA is not valid yet", futureCA.server(now.Add(-hour), now.Add(30*hour), serverName), futureCA.trust(), "tls_dates=fault", "tls_not_yet_valid", "probe CA"},
		{"nobody to trust", good.server(now.Add(-hour), now.Add(hour), serverName), &tls.Config{RootCAs: x509.NewCertPool()}, "tls_chain=fault", "tls_unknown_ca", ""},
		{"no CA given", good.server(now.Add(-hour), now.Add(hour), serverName), nil, "tls_chain=unknown", "", "no CA was given"},
		{"self-signed mode", foreign.server(now.Add(-50*hour), now.Add(-49*hour), "other.test"), &tls.Config{InsecureSkipVerify: true}, "", "", "any certificate is accepted"},
		{"rcgen's year 4096", good.server(time.Date(1975, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(4096, 1, 1, 0, 0, 0, 0, time.UTC), serverName), good.trust(), "", "", "4096-01-01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNative(1, keyring(t, secretOne), c.server)
			o := options(t, n.listen(t))
			o.Expected, o.TLS = probe.TLS, c.trust
			r := check(t, o, probe.WhatTLSAcceptor, probe.KindNative, c.want)
			var endings []string
			for _, f := range r.Findings {
				if f.Ending != "" {
					endings = append(endings, f.Ending)
				}
			}
			if got := strings.Join(endings, " "); got != c.endings {
				t.Errorf("got endings %q, want %q", got, c.endings)
			}
			if !strings.Contains(show(r), c.says) {
				t.Errorf("got no %q in\n%s", c.says, show(r))
			}
			n.unharmed(t)
		})
	}
}

// An intermediate that the server presents is part of the chain and of the dates.
func TestIntermediates(t *testing.T) {
	now := time.Now()
	root := newPKI(t, now.Add(-time.Hour), now.Add(240*time.Hour))
	for _, c := range []struct {
		to   time.Time
		want string
	}{{now.Add(time.Hour), ""}, {now.Add(-time.Minute), "tls_dates=fault"}} {
		middle := &pki{t: t, key: newKey(t)}
		middle.cert = sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "probe middle"}, NotBefore: now.Add(-time.Hour), NotAfter: c.to,
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, root.cert, middle.key, root.key)
		config := middle.server(now.Add(-time.Hour), now.Add(time.Hour), serverName)
		config.Certificates[0].Certificate = append(config.Certificates[0].Certificate, middle.cert.Raw)
		n := newNative(1, keyring(t, secretOne), config)
		o := options(t, n.listen(t))
		o.Expected, o.TLS = probe.TLS, root.trust()
		r := check(t, o, probe.WhatTLSAcceptor, probe.KindNative, c.want)
		if c.want != "" && !strings.Contains(finding(t, r, probe.CodeTLSDates).Found, "probe middle") {
			t.Errorf("got %s", show(r))
		}
	}
}

// Gate or native by the group, and by nothing else.
func TestKinds(t *testing.T) {
	now := time.Now()
	authority := newPKI(t, now.Add(-time.Hour), now.Add(240*time.Hour))
	for group, want := range map[tls.CurveID]probe.Kind{
		tls.X25519MLKEM768: probe.KindGate, tls.X25519: probe.KindNative, tls.CurveP256: probe.KindUnknown, tls.CurveP384: probe.KindUnknown,
	} {
		config := authority.server(now.Add(-time.Hour), now.Add(time.Hour), serverName)
		config.CurvePreferences = []tls.CurveID{group}
		n := newNative(1, keyring(t, secretOne), config)
		o := options(t, n.listen(t))
		o.TLS = authority.trust()
		unknown := ""
		if want == probe.KindUnknown {
			unknown = "kind=unknown"
		}
		check(t, o, probe.WhatTLSAcceptor, want, unknown)
		n.unharmed(t)
	}
	// An HTTPS server of Go takes the group of gates, and is none.
	config := authority.server(now.Add(-time.Hour), now.Add(time.Hour), serverName)
	config.CurvePreferences, config.NextProtos = nil, []string{certs.ALPN, "h2"}
	n := newNative(1, nil, config)
	o := options(t, n.listen(t))
	o.TLS = authority.trust()
	check(t, o, probe.WhatUnknown, probe.KindUnknown, "acceptor=fault")
	n.unharmed(t)
}
