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
// one sentence each: a certificate outside its validity, with both dates, the
// local time and the difference (T46), and in CA mode what peers with the same
// ca_file would refuse. None means all is well.
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
	if !s.acceptAny && s.Leaf() != nil {
		notes = append(notes, s.trustNotes()...)
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
	if len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) &&
		!slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		notes = append(notes, who+" lacks the extended key usage serverAuth: peers refuse it")
	}
	if !s.chains() {
		notes = append(notes, who+" is signed by no CA of ca_file: peers that have the same ca_file refuse it")
	}
	return notes
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

// appendValidity adds a note when now is outside the certificate's validity.
func appendValidity(notes []string, name, key string, cert *x509.Certificate, now time.Time) []string {
	if validity(cert, now) == 0 {
		return notes
	}
	return append(notes, fmt.Sprintf("%s (%s, %s): %s", name, subject(cert), key, outside(cert, now)))
}

// outside says how far outside its validity a certificate is, with everything
// that tells a wrong certificate from a wrong clock (T46).
func outside(cert *x509.Certificate, now time.Time) string {
	dates := fmt.Sprintf("NotBefore %s, NotAfter %s, local time %s", stamp(cert.NotBefore), stamp(cert.NotAfter), stamp(now))
	switch validity(cert, now) {
	case -1:
		return "not valid yet for " + span(now, cert.NotBefore) + ": " + dates
	case 1:
		return "expired since " + span(cert.NotAfter, now) + ": " + dates
	}
	return "at the edge of its validity: " + dates
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
