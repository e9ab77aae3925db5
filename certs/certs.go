// Package certs turns X.509 files into TLS configurations for the replica plane
// (§7.8): TLS 1.3 only, ALPN "iggy-replica", no session tickets, in the two modes
// Iggy knows: certificate files with a CA, and self-signed. Beyond Iggy it asks
// clients for certificates, reads revocation lists, and tells which replica a
// certificate names.
//
// It never opens a socket, never knows the roster, never decides who may speak:
// membership is proven by the MAC handshake that follows, and a certificate adds
// at most which member it is.
//
// It stands at "secure" on the way of a byte: a [Set] gives the configuration
// that the handshake runs under, a [Hello] takes the note that names a refused
// client's fault, [ClassifyClient] and [ClassifyServer] turn a failed handshake
// into a word of the vocabulary of endings, and [Set.IdentifyAcceptor] and
// [Set.IdentifyDialer] say what the certificate of an established peer proves.
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
// Legs that were made under an older set are checked against a newer one with
// the same functions that checked them at first.
//
// The zero Set has nothing to present and trusts nobody; sets come from [Load]
// and [SelfSigned].
type Set struct {
	pair  tls.Certificate
	chain []*x509.Certificate // what we present, leaf first
	cas   []*x509.Certificate // what ca_file held, for Notes and metrics
	roots *x509.CertPool

	crls    []crl
	revoked revocations
	options Options

	// acceptAny is its own field and not "roots is nil", so that a set built
	// wrongly trusts nobody instead of everybody.
	acceptAny bool
}

// Server returns the configuration for legs dialed to us; [Options.ClientAuth]
// says what it asks of a client. Each call returns a new value that the caller
// may change.
func (s *Set) Server() *tls.Config {
	cfg := s.common()
	switch s.asks() {
	case Off:
		cfg.ClientAuth = tls.NoClientCert // Iggy neither asks for nor offers one (§7.8)
	case Request:
		cfg.ClientAuth = tls.RequestClientCert
		if len(s.crls) > 0 {
			cfg.VerifyConnection = s.admitDialer
		}
	case Require:
		// crypto/tls verifies what is given, because its alerts say which fault it
		// was and those of a hook do not. What is missing is left to the hook: the
		// error of crypto/tls for it has no type to tell it by.
		cfg.ClientAuth = tls.VerifyClientCertIfGiven
		cfg.ClientCAs = s.pool()
		cfg.VerifyConnection = s.admitDialer
	}
	return cfg
}

// Client returns the configuration for a leg that we dial. serverName is what
// the certificate's SAN must hold in CA mode, an IP address or a DNS name; the
// common name is ignored, as webpki ignores it. An IP address is never sent as
// SNI, a DNS name is (§7.8). In self-signed mode any certificate is accepted,
// but crypto/tls still verifies that the peer holds its private key.
//
// In CA mode our own certificate is presented to a server that asks for one,
// which a native replica never does.
func (s *Set) Client(serverName string) *tls.Config {
	cfg := s.common()
	cfg.ServerName = serverName
	cfg.RootCAs = s.pool()
	cfg.InsecureSkipVerify = s.acceptAny
	cfg.Certificates = nil
	if len(s.crls) > 0 {
		cfg.VerifyConnection = s.admitAcceptor
	}
	if !s.acceptAny && s.pair.Certificate != nil {
		cfg.GetClientCertificate = s.present
	}
	return cfg
}

// pool is what we trust, never nil: to crypto/tls and crypto/x509 a nil pool
// means the system's roots, and ours come from ca_file only.
func (s *Set) pool() *x509.CertPool {
	if s.roots == nil {
		return x509.NewCertPool()
	}
	return s.roots
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
