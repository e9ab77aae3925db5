package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
)

// usualIdentity is the template that a configuration with a trust domain gets.
const usualIdentity = "spiffe://{trust_domain}/iggy/{cluster}/{replica}"

func TestTemplateNames(t *testing.T) {
	for _, row := range []struct{ text, domain, cluster, want string }{
		{usualIdentity, "example.org", "prod", "spiffe://example.org/iggy/prod/7"},
		{usualIdentity, "td_1", "Prod.EU-1", "spiffe://td_1/iggy/Prod.EU-1/7"},
		{"spiffe://td/ns/iggy/sa/iggy-{replica}", "", "any name at all", "spiffe://td/ns/iggy/sa/iggy-7"},
		{"iggy-{replica}.iggy.{cluster}.svc", "", "Prod", "iggy-7.iggy.prod.svc"},
		{"{replica}.{cluster}.{trust_domain}", "Example.org", "a.b", "7.a.b.example.org"},
		{"{replica}-{replica}", "", "", "7-7"},
	} {
		template, err := certs.NewTemplate(row.text, row.domain, row.cluster)
		if err != nil || template.Name(7) != row.want {
			t.Errorf("%q: got %v, want %q", row.text, err, row.want)
		}
	}
}

func TestTemplateRefuses(t *testing.T) {
	long := strings.Repeat("a", 61)
	for _, row := range []struct{ text, domain, cluster, want string }{
		{"", "td", "c", "{replica}"},
		{"spiffe://td/iggy", "td", "c", "{replica}"},
		{"spiffe://{trust_domain}/{cluster}", "td", "c", "{replica}"},
		{"spiffe://td/{node}/{replica}", "td", "c", `"{node}"`},
		{"spiffe://td/{Replica}", "td", "c", `"{Replica}"`},
		{"spiffe://td/{}/{replica}", "td", "c", `"{}"`},
		{"spiffe://td/{replica}/{", "td", "c", `"{"`},
		{"spiffe://td/}{replica}", "td", "c", `"}255"`},
		{usualIdentity, "", "c", "{trust_domain}"},
		{usualIdentity, "td", "", "{cluster}"},
		{usualIdentity, "td", "two words", `"two words"`},
		{usualIdentity, "td", "a/b", `"a/b"`},
		{usualIdentity, "td", "{replica}", `"{replica}"`},
		{usualIdentity, "td", "..", "path segment"},
		{usualIdentity, "TD", "c", "lower-case"},
		{"spiffe:///{replica}", "td", "c", "trust domain"},
		{"spiffe://td:8443/{replica}", "td", "c", "trust domain"},
		{"spiffe://user@td/{replica}", "td", "c", "trust domain"},
		{"spiffe://td-{replica}", "td", "c", "path"},
		{"spiffe://td/{replica}/", "td", "c", "path segment"},
		{"spiffe://td//{replica}", "td", "c", "path segment"},
		{"spiffe://td/{replica}?x", "td", "c", "path segment"},
		{"spiffe://td/%7B{replica}", "td", "c", "path segment"},
		{"spiffe://td/" + strings.Repeat("a/", 1100) + "{replica}", "td", "c", "2048"},
		{"https://td/{replica}", "td", "c", "spiffe://"},
		{"*.{replica}", "td", "c", `"*"`},
		{"iggy-{replica}.", "td", "c", `label ""`},
		{"-{replica}", "td", "c", "label"},
		{"{replica} ", "td", "c", "label"},
		{long + "{replica}", "td", "c", "label"},
		{strings.Repeat(long+".", 4) + "{replica}-aa", "td", "c", "253"},
	} {
		template, err := certs.NewTemplate(row.text, row.domain, row.cluster)
		if err == nil {
			t.Errorf("%q: got names like %q, want an error", row.text, template.Name(1))
			continue
		}
		text := err.Error()
		if !strings.HasPrefix(text, "certs: ") || !strings.Contains(text, "got ") || !strings.Contains(text, "want ") || !strings.Contains(text, row.want) {
			t.Errorf("%q: got %q, want got, want and %q", row.text, text, row.want)
		}
	}
}

// FuzzTemplate: what a template calls a replica is found again in a certificate,
// and is nobody else's.
func FuzzTemplate(f *testing.F) {
	f.Add(usualIdentity, "example.org", "prod", uint8(1))
	f.Add("iggy-{replica}.{cluster}.svc", "", "a.b", uint8(255))
	f.Add("{replica}{replica}", "", "", uint8(0))
	f.Fuzz(func(t *testing.T, text, domain, cluster string, replica uint8) {
		template, err := certs.NewTemplate(text, domain, cluster)
		if err != nil {
			return
		}
		ca := newCA(t, "ca")
		leaf := sign(t, ca, ecdsaKey(t), named(template.Name(replica)))
		set := loadPair(t, leaf, ca).With(certs.Options{Identity: template})
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf.cert}}
		identity, fault := set.IdentifyDialer(state, replica, time.Now())
		if fault != nil || identity.Name != template.Name(replica) {
			t.Errorf("%q: got %+v, %v, want replica %d", text, identity, fault, replica)
		}
		if identity, fault := set.IdentifyDialer(state, replica+1, time.Now()); fault == nil {
			t.Errorf("%q: got %+v for replica %d with a certificate for %d, want a refusal", text, identity, replica+1, replica)
		}
	})
}

// The names in a certificate, and what they make of its holder. 127.0.0.1 is a
// SAN of all, as native certificates have it.
func TestTemplateAgainstCertificates(t *testing.T) {
	const uri, dns = usualIdentity, "iggy-{replica}.{cluster}.svc"
	ca := newCA(t, "ca")
	for _, row := range []struct {
		template string
		names    []string
		level    string // "" is identity_mismatch
	}{
		{uri, []string{"spiffe://td/iggy/prod/1"}, certs.LevelCertificate},
		{uri, []string{"spiffe://TD/iggy/prod/1"}, certs.LevelCertificate}, // a trust domain knows no case
		{uri, []string{"spiffe://td/iggy/prod/1", "https://elsewhere/iggy/prod/2"}, certs.LevelCertificate},
		{uri, []string{"spiffe://td/iggy/prod/1", "spiffe://td/iggy/stage/1"}, certs.LevelCertificate}, // one host in two clusters
		{uri, []string{"spiffe://td/iggy/prod/1", "spiffe://td/iggy/prod/2"}, certs.LevelMembership},   // shared
		{uri, nil, certs.LevelMembership},
		{uri, []string{"iggy-1.prod.svc"}, certs.LevelMembership},
		{uri, []string{"spiffe://td/iggy/prod/admin"}, certs.LevelMembership},
		{uri, []string{"spiffe://td/iggy/prod/1/shard"}, certs.LevelMembership},
		{uri, []string{"spiffe://td/iggy/prod/shard/1"}, certs.LevelMembership},
		{uri, []string{"https://td/iggy/prod/1"}, certs.LevelMembership},
		{uri, []string{"spiffe://td/iggy/prod/1?x=y"}, certs.LevelMembership},
		{uri, []string{"spiffe://someone@td/iggy/prod/1"}, certs.LevelMembership},
		{uri, []string{"spiffe://td/iggy/prod/2"}, ""},
		{uri, []string{"spiffe://td/iggy/prod/01"}, ""},
		{uri, []string{"spiffe://td/iggy/prod/11"}, ""},
		{uri, []string{"spiffe://td/iggy/stage/1"}, ""},
		{uri, []string{"spiffe://td/iggy/PROD/1"}, ""},
		{uri, []string{"spiffe://td/iggy/%70rod/1"}, ""},
		{uri, []string{"spiffe://other/iggy/prod/1"}, ""},
		{uri, []string{"spiffe://td:1/iggy/prod/1"}, ""},
		{dns, []string{"iggy-1.prod.svc"}, certs.LevelCertificate},
		{dns, []string{"IGGY-1.Prod.svc"}, certs.LevelCertificate},
		{dns, []string{"iggy-1.prod.svc", "iggy.prod.svc", "*.prod.svc"}, certs.LevelCertificate},
		{dns, []string{"iggy-0.prod.svc", "iggy-1.prod.svc"}, certs.LevelMembership},
		{dns, []string{"*.prod.svc"}, certs.LevelMembership},
		{dns, []string{"iggy-x.prod.svc"}, certs.LevelMembership},
		{dns, []string{"iggy-1.prod.svc.cluster.local"}, certs.LevelMembership},
		{dns, []string{"iggy-2.prod.svc"}, ""},
		{dns, []string{"iggy-1.a.b.svc"}, ""},
		{dns, []string{"iggy-1xprod.svc"}, certs.LevelMembership}, // a dot is a dot
	} {
		template := must[*certs.Template](t)(certs.NewTemplate(row.template, "td", "prod"))
		set := loadPair(t, sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1")), ca).With(certs.Options{Identity: template})
		leaf := sign(t, ca, ecdsaKey(t), named(row.names...))
		state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf.cert}}
		for role, by := range map[string]identify{"dialer": set.IdentifyDialer, "acceptor": set.IdentifyAcceptor} {
			identity, fault := by(state, 1, time.Now())
			switch {
			case row.level == "" && (fault == nil || fault.Word != certs.FaultIdentity):
				t.Errorf("%s %q: got %+v, %v, want %s", role, row.names, identity, fault, certs.FaultIdentity)
			case row.level != "" && (fault != nil || identity.Level != row.level):
				t.Errorf("%s %q: got %+v, %v, want %s", role, row.names, identity, fault, row.level)
			case row.level == certs.LevelCertificate && identity.Name != template.Name(1):
				t.Errorf("%s %q: got the name %q, want that of replica 1", role, row.names, identity.Name)
			case row.level != "" && !identity.NotAfter.Equal(leaf.cert.NotAfter):
				t.Errorf("%s %q: got NotAfter %v, want the leaf's", role, row.names, identity.NotAfter)
			}
		}
	}
}
