package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Notes says what is wrong with the set at a time without making it unusable,
// one sentence each: a certificate outside its validity or [Expiring], with both
// dates, the local time and the difference (T46), a revocation list that is out
// of date, and in CA mode what peers with the same files and options would refuse.
// None means all is well.
func (s *Set) Notes(now time.Time) []string {
	var notes []string
	for i, cert := range s.chain {
		name := "own certificate"
		if i > 0 {
			name = "intermediate certificate"
		}
		notes = appendValidity(notes, name, keyCert, cert, now)
	}
	for _, ca := range s.cas {
		notes = appendValidity(notes, "CA certificate", keyCA, ca, now)
	}
	for i, list := range s.crls {
		notes = appendList(notes, fmt.Sprintf("list %d of crl_file (issued by %q)", i+1, clip(list.issuer)), list, now)
	}
	if !s.acceptAny && s.Leaf() != nil {
		notes = append(notes, s.trustNotes()...)
		notes = append(notes, s.identityNotes()...)
		notes = append(notes, s.revocationNotes()...)
	}
	return notes
}

// trustNotes lists what a peer in CA mode refuses whatever the time is. These
// are notes and no errors: the other roots may arrive first in a rotation.
func (s *Set) trustNotes() []string {
	var notes []string
	leaf := s.Leaf()
	who := fmt.Sprintf("own certificate (%s, cert_file)", subject(leaf))
	if len(leaf.IPAddresses)+len(leaf.DNSNames) == 0 {
		notes = append(notes, who+" has no IP or DNS SAN, want one for each address that peers dial: the common name is ignored")
	}
	if leaf.IsCA {
		notes = append(notes, who+" is a CA, want an end entity: native peers refuse it")
	}
	if !allows(leaf, x509.ExtKeyUsageServerAuth) {
		notes = append(notes, who+" lacks the extended key usage serverAuth: peers refuse it")
	}
	if !s.chains() {
		notes = append(notes, who+" is signed by no CA of ca_file: peers that have the same ca_file refuse it")
	}
	return notes
}

// identityNotes lists what keeps our certificate from saying who we are when we
// dial. Where nobody asks for that, there is nothing to say.
func (s *Set) identityNotes() []string {
	var notes []string
	leaf, t := s.Leaf(), s.options.Identity
	who := fmt.Sprintf("own certificate (%s, cert_file)", subject(leaf))
	if t != nil {
		switch verdict, name := t.bearing(leaf, s.options.Replica); verdict {
		case bearsNone:
			notes = append(notes, who+fmt.Sprintf(" has no SAN %q, want it: peers take it for a member's only, or refuse it", clip(t.Name(s.options.Replica))))
		case bearsShared:
			notes = append(notes, who+fmt.Sprintf(" is for %q too, want one for each replica: peers take it for a member's only, or refuse it", clip(name)))
		case bearsOther:
			notes = append(notes, who+fmt.Sprintf(" is for %q, want %q: peers refuse it", clip(name), clip(t.Name(s.options.Replica))))
		}
	}
	if (t != nil || s.asks() == Require) && !allows(leaf, x509.ExtKeyUsageClientAuth) {
		notes = append(notes, who+" lacks the extended key usage clientAuth: peers that we dial take it for none, or refuse it")
	}
	return notes
}

// revocationNotes lists what of ours is revoked.
func (s *Set) revocationNotes() []string {
	var notes []string
	for i, cert := range s.chain {
		issuers := s.cas
		if i+1 < len(s.chain) {
			issuers = s.chain[i+1 : i+2]
		}
		if slices.ContainsFunc(issuers, func(issuer *x509.Certificate) bool {
			return s.revoked.has(cert, issuer) && cert.CheckSignatureFrom(issuer) == nil
		}) {
			notes = append(notes, fmt.Sprintf("own chain: %s is revoked in crl_file: peers that know refuse it", subject(cert)))
		}
	}
	for _, ca := range s.cas {
		if s.revoked.amongCAs(ca, s.cas) {
			notes = append(notes, fmt.Sprintf("CA certificate (%s, ca_file) is revoked in crl_file: it is not trusted", subject(ca)))
		}
	}
	return notes
}

// allows reports whether a certificate may be used for something: it lists no
// usage, any, or this one.
func allows(cert *x509.Certificate, usage x509.ExtKeyUsage) bool {
	return len(cert.ExtKeyUsage) == 0 || slices.Contains(cert.ExtKeyUsage, usage) ||
		slices.Contains(cert.ExtKeyUsage, x509.ExtKeyUsageAny)
}

// chains tells whether our leaf leads to one of our roots. Dates are looked at
// elsewhere, so the leaf's first second is taken; any verdict but an unknown
// authority counts as a chain.
func (s *Set) chains() bool {
	intermediates := x509.NewCertPool()
	for _, cert := range s.chain[1:] {
		intermediates.AddCert(cert)
	}
	_, err := s.Leaf().Verify(x509.VerifyOptions{
		Roots:         s.roots,
		Intermediates: intermediates,
		CurrentTime:   s.Leaf().NotBefore,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	var unknown x509.UnknownAuthorityError
	return !errors.As(err, &unknown)
}

// appendValidity adds a note when now is outside the certificate's validity, or
// near its end.
func appendValidity(notes []string, name, key string, cert *x509.Certificate, now time.Time) []string {
	fault := ""
	switch {
	case validity(cert, now) != 0:
		fault = outside(cert, now)
	case Expiring(cert.NotBefore, cert.NotAfter, now):
		fault = fmt.Sprintf("expires in %s, less than a fifth of its lifetime of %s: %s",
			span(now, cert.NotAfter), span(cert.NotBefore, cert.NotAfter), dateText(cert, now))
	default:
		return notes
	}
	return append(notes, fmt.Sprintf("%s (%s, %s): %s", name, subject(cert), key, fault))
}

// appendList adds a note when a revocation list is out of date: what was revoked
// since, nobody here knows. It is used all the same, for a file that nobody renews
// must not bring back what it revokes.
func appendList(notes []string, name string, list crl, now time.Time) []string {
	switch {
	case now.Before(list.thisUpdate):
		return append(notes, fmt.Sprintf("%s is from the future, by %s: thisUpdate %s, local time %s: compare the clocks",
			name, span(now, list.thisUpdate), stamp(list.thisUpdate), stamp(now)))
	case !list.nextUpdate.IsZero() && now.After(list.nextUpdate):
		return append(notes, fmt.Sprintf("%s is out of date since %s: nextUpdate %s, local time %s: fetch a new one, this one still counts",
			name, span(list.nextUpdate, now), stamp(list.nextUpdate), stamp(now)))
	}
	return notes
}

// outside says how far outside its validity a certificate is, with everything
// that tells a wrong certificate from a wrong clock (T46).
func outside(cert *x509.Certificate, now time.Time) string {
	dates := dateText(cert, now)
	switch validity(cert, now) {
	case -1:
		return "not valid yet for " + span(now, cert.NotBefore) + ": " + dates
	case 1:
		return "expired since " + span(cert.NotAfter, now) + ": " + dates
	}
	return "at the edge of its validity: " + dates
}

func dateText(cert *x509.Certificate, now time.Time) string {
	return fmt.Sprintf("NotBefore %s, NotAfter %s, local time %s", stamp(cert.NotBefore), stamp(cert.NotAfter), stamp(now))
}

// stamp prints a time so that two machines' figures can be compared.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// span prints the time from a to b, b being the later one. It counts whole
// seconds in int64: a time.Duration ends after 292 years and [time.Time.Sub]
// then reports that limit, while NotAfter may be in the year 4096 (Appendix B).
// Part of a second counts as one, so that it never says "0s".
func span(a, b time.Time) string {
	seconds := b.Unix() - a.Unix()
	if b.Nanosecond() > a.Nanosecond() {
		seconds++
	}
	var text strings.Builder
	for _, unit := range []struct {
		name    string
		seconds int64
	}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}} {
		if n := seconds / unit.seconds; n > 0 {
			text.WriteString(strconv.FormatInt(n, 10) + unit.name)
		}
		seconds %= unit.seconds
	}
	if text.Len() == 0 {
		return "0s"
	}
	return text.String()
}
