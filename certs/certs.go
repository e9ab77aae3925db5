// Package certs turns X.509 files into TLS configurations for the replica plane
// (§7.8): TLS 1.3 only, ALPN "iggy-replica", no session tickets, no client
// certificates, in the two modes Iggy knows: certificate files with a CA, and
// self-signed.
//
// It never opens a socket, never knows a peer, never decides who may speak: a
// certificate proves an address at most, membership is proven by the MAC
// handshake that follows.
//
// It stands at "secure" on the way of a byte: a [Set] gives the configuration
// that the handshake runs under, a [Hello] takes the note that names a refused
// client's fault, and [ClassifyClient] and [ClassifyServer] turn a failed
// handshake into a word of the vocabulary of endings.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"time"
)

// ALPN is the only application protocol either role of Iggy configures (§7.8).
const ALPN = "iggy-replica"

// Set is one generation of key material: the pair we present and, in CA mode,
// the roots we accept. It is immutable and safe for concurrent use, so that a
// reload is one swap of a pointer to it.
//
// The zero Set has nothing to present and trusts nobody; sets come from [Load]
// and [SelfSigned].
type Set struct {
	pair  tls.Certificate
	chain []*x509.Certificate // what we present, leaf first
	cas   []*x509.Certificate // what ca_file held, for Notes and metrics
	roots *x509.CertPool

	// acceptAny is its own field and not "roots is nil", so that a set built
	// wrongly trusts nobody instead of everybody.
	acceptAny bool
}

// Server returns the configuration for legs dialed to us. Each call returns a
// new value that the caller may change.
func (s *Set) Server() *tls.Config {
	cfg := s.common()
	cfg.ClientAuth = tls.NoClientCert // Iggy neither asks for nor offers one (§7.8)
	return cfg
}

// Client returns the configuration for a leg that we dial. serverName is what
// the certificate's SAN must hold in CA mode, an IP address or a DNS name; the
// common name is ignored, as webpki ignores it. An IP address is never sent as
// SNI, a DNS name is (§7.8). In self-signed mode any certificate is accepted,
// but crypto/tls still verifies that the peer holds its private key.
func (s *Set) Client(serverName string) *tls.Config {
	cfg := s.common()
	cfg.ServerName = serverName
	cfg.RootCAs = s.roots
	if s.roots == nil {
		// A nil pool would mean the system's roots; ours come from ca_file only.
		cfg.RootCAs = x509.NewCertPool()
	}
	cfg.InsecureSkipVerify = s.acceptAny
	// A client certificate is never offered; dropping the pair makes that plain.
	cfg.Certificates = nil
	return cfg
}

// common holds what both roles share.
func (s *Set) common() *tls.Config {
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS13,
		MaxVersion: tls.VersionTLS13,
		NextProtos: []string{ALPN},
		// A set, not an order: Go prefers the hybrid, then X25519. rustls with
		// ring knows no hybrid and takes X25519, the second key share (§7.8).
		CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256},
		// Without tickets every connection has a full handshake, and with it an
		// exporter of its own to bind the MAC to.
		SessionTicketsDisabled: true,
		// Frames are whole when they are written; small first records would only
		// cost a 64 MiB body its first kilobytes in slow motion.
		DynamicRecordSizingDisabled: true,
	}
	if s.pair.Certificate != nil {
		cfg.Certificates = []tls.Certificate{s.pair}
	}
	return cfg
}

// SelfSigned reports whether the set accepts any certificate of a peer.
func (s *Set) SelfSigned() bool { return s.acceptAny }

// Leaf returns the certificate that we present, nil for the zero Set. It must
// not be changed.
func (s *Set) Leaf() *x509.Certificate { return s.pair.Leaf }

// CAs returns the certificates of ca_file, none in self-signed mode. They must
// not be changed.
func (s *Set) CAs() []*x509.Certificate { return s.cas }

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

// validity tells where now lies: before the certificate's time, inside, after.
func validity(cert *x509.Certificate, now time.Time) int {
	switch {
	case now.Before(cert.NotBefore):
		return -1
	case now.After(cert.NotAfter):
		return 1
	}
	return 0
}
