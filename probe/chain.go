package probe

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// certificate judges what the server presented: chain, name and dates apart from
// one another, so that no fault hides another.
func (v *visit) certificate(state tls.ConnectionState) {
	leaf := state.PeerCertificates[0] // crypto/tls refuses a server without one
	chain := state.PeerCertificates
	if v.TLS != nil && v.TLS.InsecureSkipVerify {
		v.ok(CodeTLSChain, "any certificate is accepted here (self-signed): "+subject(leaf))
		v.ok(CodeTLSName, "any name is accepted here (self-signed): "+sans(leaf))
		v.ok(CodeTLSDates, "no date is looked at here (self-signed): "+v.left(leaf))
		return
	}
	if v.TLS == nil || v.TLS.RootCAs == nil {
		v.unknown(CodeTLSChain, "a certificate of a CA that we trust", subject(leaf)+" issued by "+quote(leaf.Issuer.String()), "no CA was given")
	} else if verified, err := v.trace(state); err != nil {
		v.untrusted(leaf, err)
	} else {
		chain = verified
		v.ok(CodeTLSChain, fmt.Sprintf("%s, signed by %s", subject(leaf), subject(chain[len(chain)-1])))
	}
	v.name(leaf)
	v.dates(chain)
}

func (v *visit) untrusted(leaf *x509.Certificate, err error) {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		v.fault(CodeTLSChain, "tls_unknown_ca", "a certificate of a CA that we trust",
			subject(leaf)+" issued by "+quote(leaf.Issuer.String()), "add its CA to ca_file, or replace the certificate")
		return
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		v.fault(CodeTLSChain, "tls_expired", "a chain to a CA that we trust", subject(leaf)+" and a CA that are never valid at the same time",
			"replace the one that is wrong")
		return
	}
	v.fault(CodeTLSChain, "tls_alert", "an acceptable certificate", subject(leaf)+" and "+quote(err.Error()), "replace the certificate there")
}

// datesMax bounds the moments at which a chain is looked for.
const datesMax = 32

// trace finds the chain to a root of ours at any moment at all: whether now is
// inside everybody's dates is another finding.
func (v *visit) trace(state tls.ConnectionState) ([]*x509.Certificate, error) {
	moments := []time.Time{v.Now()}
	add := func(c *x509.Certificate) { moments = append(moments, c.NotBefore, c.NotAfter) }
	pool := x509.NewCertPool()
	for i, c := range state.PeerCertificates {
		add(c)
		if i > 0 {
			pool.AddCert(c)
		}
	}
	var failed error
	for i := 0; i < len(moments) && i < datesMax; i++ {
		chains, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{
			Roots: v.TLS.RootCAs, Intermediates: pool, CurrentTime: moments[i],
		})
		if err == nil {
			return chains[0], nil
		}
		invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
		if ok = ok && invalid.Reason == x509.Expired && invalid.Cert != nil; ok && !slices.Contains(moments, invalid.Cert.NotAfter) {
			add(invalid.Cert) // a root's, which the server did not present
		}
		if failed == nil || !ok {
			failed = err
		}
	}
	return nil, failed
}

// name holds the certificate against the name that is asked of it. The common
// name is ignored, as webpki ignores it.
func (v *visit) name(leaf *x509.Certificate) {
	switch {
	case v.ServerName == "":
		v.unknown(CodeTLSName, "a certificate for the name that is dialed", "one for "+sans(leaf), "no name was given")
	case leaf.VerifyHostname(v.ServerName) != nil:
		v.fault(CodeTLSName, "tls_name_mismatch", "a certificate for "+quote(v.ServerName), "one for "+sans(leaf),
			"add the name to its SANs, or set server_name")
	default:
		v.ok(CodeTLSName, quote(v.ServerName))
	}
}

// dates holds every certificate of the chain against the clock. The leaf's is
// the finding; others are mentioned only when they are at fault.
func (v *visit) dates(chain []*x509.Certificate) {
	now, fine := v.Now(), true
	for _, c := range chain {
		switch {
		case now.Before(c.NotBefore):
			fine = false
			behind := span(c.NotBefore.Unix() - now.Unix())
			v.fault(CodeTLSDates, "tls_not_yet_valid", "certificates that are valid now",
				fmt.Sprintf("%s valid from %s, %s after the local time %s", subject(c), stamp(c.NotBefore), behind, stamp(now)),
				"compare both clocks: ours is behind by "+behind+" or more, or the certificate is not to be used yet")
		case now.After(c.NotAfter):
			fine = false
			v.fault(CodeTLSDates, "tls_expired", "certificates that are valid now",
				fmt.Sprintf("%s expired at %s, %s before the local time %s", subject(c), stamp(c.NotAfter), span(now.Unix()-c.NotAfter.Unix()), stamp(now)),
				"replace it, or correct the local clock")
		}
	}
	if fine {
		v.ok(CodeTLSDates, v.left(chain[0]))
	}
}

// left says how long a certificate lives. It counts in seconds since 1970: a
// time.Duration ends after 292 years, and rcgen's certificates end in 4096.
func (v *visit) left(c *x509.Certificate) string {
	return fmt.Sprintf("expires in %d days (%s)", (c.NotAfter.Unix()-v.Now().Unix())/86400, stamp(c.NotAfter))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// span prints a number of seconds in its two largest units.
func span(seconds int64) string {
	days, hours, minutes := seconds/86400, seconds/3600%24, seconds/60%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	}
	return fmt.Sprintf("%dm%ds", minutes, seconds%60)
}

func subject(c *x509.Certificate) string { return "certificate " + quote(c.Subject.String()) }

// sansMax is how many names are shown.
const sansMax = 8

func sans(c *x509.Certificate) string {
	var names []string
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	for _, name := range c.DNSNames {
		names = append(names, quote(name))
	}
	switch {
	case len(names) == 0:
		return "no IP address and no DNS name"
	case len(names) > sansMax:
		return strings.Join(names[:sansMax], ", ") + fmt.Sprintf(" and %d more", len(names)-sansMax)
	}
	return strings.Join(names, ", ")
}
