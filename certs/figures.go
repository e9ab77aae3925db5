package certs

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"time"
)

// NotAfter returns the end of our leaf's validity in unix seconds, the value of
// replgate_cert_not_after_timestamp_seconds; 0 for the zero Set.
func (s *Set) NotAfter() float64 { return UnixSeconds(s.pair.Leaf, false) }

// NotBefore returns the start of our leaf's validity in unix seconds; 0 for the
// zero Set.
func (s *Set) NotBefore() float64 { return UnixSeconds(s.pair.Leaf, true) }

// UnixSeconds returns a certificate's NotAfter, or its NotBefore when start is
// set, in unix seconds; 0 for nil. It goes through [time.Time.Unix], which holds
// the year 4096 of Iggy's own certificates (Appendix B); UnixNano would not.
func UnixSeconds(cert *x509.Certificate, start bool) float64 {
	if cert == nil {
		return 0
	}
	at := cert.NotAfter
	if start {
		at = cert.NotBefore
	}
	return float64(at.Unix())
}

// Validity is the time in which one certificate of a set is valid: a series of
// the expiry gauges.
type Validity struct {
	Role      string // "leaf" or "ca"
	Slot      int    // place in its file, from 0
	NotBefore time.Time
	NotAfter  time.Time
}

// The roles of a [Validity], labels of metrics.
const (
	RoleLeaf = "leaf"
	RoleCA   = "ca"
)

// Validities lists our leaf and every CA of ca_file, so that a gauge can be
// replaced as a whole when the set is. Intermediates are not in it: [Set.Notes]
// reports theirs. None for the zero Set.
func (s *Set) Validities() []Validity {
	var all []Validity
	if leaf := s.Leaf(); leaf != nil {
		all = append(all, Validity{RoleLeaf, 0, leaf.NotBefore, leaf.NotAfter})
	}
	for i, ca := range s.cas {
		all = append(all, Validity{RoleCA, i, ca.NotBefore, ca.NotAfter})
	}
	return all
}

// expiryPart is the part of a lifetime below which a certificate counts as about
// to expire: a fifth. It is a fraction because no number of days fits both a
// certificate of an hour and one of ten years, and a fifth because those who
// renew by themselves do so with a third left or more.
const expiryPart = 5

// Expiring reports whether less than a fifth of a certificate's lifetime is left
// at now. It is false before the lifetime and after it, which are faults of their
// own.
func Expiring(notBefore, notAfter, now time.Time) bool {
	if now.Before(notBefore) || now.After(notAfter) {
		return false
	}
	// Whole seconds in int64: a time.Duration ends after 292 years.
	left, life := notAfter.Unix()-now.Unix(), notAfter.Unix()-notBefore.Unix()
	return left < life/expiryPart
}

// Fingerprints tell one generation of files from another. Each is the first
// eight bytes of a SHA-256, in hex, "" where the set has no such part: certificates
// and revocation lists are public, so that this gives nothing away.
type Fingerprints struct {
	Leaf string // what `openssl x509 -fingerprint -sha256` begins with
	CA   string // over all certificates of ca_file in their order
	CRL  string // over all lists of crl_file in their order
}

// Fingerprints returns those of the set. They are taken over DER: comments and
// line ends in a PEM file change nothing.
func (s *Set) Fingerprints() Fingerprints {
	var leaf, cas, lists [][]byte
	if s.Leaf() != nil {
		leaf = append(leaf, s.Leaf().Raw)
	}
	for _, ca := range s.cas {
		cas = append(cas, ca.Raw)
	}
	for _, list := range s.crls {
		lists = append(lists, list.raw)
	}
	return Fingerprints{Leaf: fingerprint(leaf), CA: fingerprint(cas), CRL: fingerprint(lists)}
}

// fingerprintSize is in bytes: enough to compare by eye, and by accident two
// generations never share one.
const fingerprintSize = 8

func fingerprint(parts [][]byte) string {
	if len(parts) == 0 {
		return ""
	}
	hash := sha256.New()
	for _, part := range parts {
		hash.Write(part)
	}
	return hex.EncodeToString(hash.Sum(nil)[:fingerprintSize])
}
