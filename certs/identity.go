package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"
)

// The levels of an [Identity].
const (
	// LevelCertificate: the certificate names the replica, and the MAC handshake
	// proves that it is a member.
	LevelCertificate = "certificate"
	// LevelMembership: the MAC handshake alone. So are native replicas, which
	// present nothing as dialers and an IP address as acceptors, every peer in
	// self-signed mode, and every peer where no template is set: then no name
	// in a certificate means a replica.
	LevelMembership = "membership"
)

// Identity is what the certificate of an established peer proves.
type Identity struct {
	Level string
	// Name is the SAN that names the replica, "" below LevelCertificate.
	Name string
	// NotBefore and NotAfter are the validity of the peer's leaf where it was
	// verified, at either level, and zero elsewhere.
	NotBefore, NotAfter time.Time
	// Ignored says why a certificate that a dialer presented counts as none, nil
	// where nothing was passed over. Of a live leg it is news: where it was nil
	// under an older set and is not under a newer one, the leg has lost what it
	// was authenticated by.
	Ignored *Fault
}

// IdentifyAcceptor checks the certificate of a peer that we dialed and that said
// it is replica. The name that was dialed has been verified in the handshake and
// is not looked at again. A fault is why the leg must not be, or not go on:
//
//   - tls_unknown_ca, tls_expired, tls_not_yet_valid, tls_alert: it does not
//     verify, which a leg made under an older set may come to;
//   - peer_cert_revoked: it, or its intermediate, is in crl_file;
//   - identity_mismatch: it carries names of the template's shape, and not this
//     replica's. Under Require also one that carries none, as a native replica's,
//     or names of several replicas.
//
// now is the local time. It looks at nothing but its arguments and the set, and
// serves legs of any age.
func (s *Set) IdentifyAcceptor(state tls.ConnectionState, replica uint8, now time.Time) (Identity, *Fault) {
	if s.acceptAny {
		return Identity{Level: LevelMembership}, nil
	}
	if fault := s.verify(state.PeerCertificates, x509.ExtKeyUsageServerAuth, now); fault != nil {
		return Identity{}, fault
	}
	return s.identify(state.PeerCertificates[0], replica)
}

// IdentifyDialer checks the certificate, if any, of a peer that dialed us and
// said it is replica. Faults are those of [Set.IdentifyAcceptor] and:
//
//   - tls_no_client_cert: there is none, under Require.
//
// Under Request a certificate that does not verify counts as none, and
// Identity.Ignored says why; under Off none counts.
func (s *Set) IdentifyDialer(state tls.ConnectionState, replica uint8, now time.Time) (Identity, *Fault) {
	if s.asks() == Off {
		return Identity{Level: LevelMembership}, nil
	}
	ignored, fault := s.dialer(state, now)
	switch {
	case fault != nil:
		return Identity{}, fault
	case ignored != nil, len(state.PeerCertificates) == 0:
		return Identity{Level: LevelMembership, Ignored: ignored}, nil
	}
	return s.identify(state.PeerCertificates[0], replica)
}

// dialer judges a client's certificate without knowing which replica it is: why
// it counts as none, or why the client is refused.
func (s *Set) dialer(state tls.ConnectionState, now time.Time) (ignored, fault *Fault) {
	required := s.asks() == Require
	switch {
	case len(state.PeerCertificates) == 0 && required:
		return nil, &Fault{Word: FaultNoClientCert, Detail: "expected a client certificate, found none: give the dialing side one, " +
			"or set client_auth to request; a native replica has none to give"}
	case len(state.PeerCertificates) == 0:
		return nil, nil
	}
	fault = s.verify(state.PeerCertificates, x509.ExtKeyUsageClientAuth, now)
	if fault == nil || required || fault.Word == FaultRevoked {
		return nil, fault
	}
	return fault, nil
}

// verify leads a peer's leaf to one of our roots, with none revoked on the way.
// usage is what its extended key usages, if it has any, must allow.
func (s *Set) verify(chain []*x509.Certificate, usage x509.ExtKeyUsage, now time.Time) *Fault {
	if len(chain) == 0 {
		return &Fault{Word: FaultUnknownCA, Detail: "expected a certificate signed by a CA of ca_file, found none: look at the log of the other side"}
	}
	intermediates := x509.NewCertPool()
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	ways, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         s.pool(),
		Intermediates: intermediates,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		// Dressed as crypto/tls does, so that both are read alike.
		fault, _ := verification(&tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}, now)
		return &fault
	}
	return s.revocation(ways)
}

// identify tells which replica a verified leaf is for.
func (s *Set) identify(leaf *x509.Certificate, replica uint8) (Identity, *Fault) {
	identity := Identity{Level: LevelMembership, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}
	t := s.options.Identity
	if t == nil {
		return identity, nil
	}
	verdict, name := t.bearing(leaf, replica)
	found := ""
	switch verdict {
	case bearsOwn:
		identity.Level, identity.Name = LevelCertificate, name
		return identity, nil
	case bearsOther:
		found = fmt.Sprintf("one for %q", clip(name))
	case bearsShared:
		found = fmt.Sprintf("one for %q too, so that it proves neither", clip(name))
	case bearsNone:
		found = "one that names no replica (" + subject(leaf) + ")"
	}
	if verdict != bearsOther && s.asks() != Require {
		return identity, nil
	}
	return Identity{}, &Fault{Word: FaultIdentity, Detail: fmt.Sprintf(
		"expected a certificate for replica %d (%q), found %s: compare replica_id and the certificate of the other side", replica, clip(t.Name(replica)), found)}
}
