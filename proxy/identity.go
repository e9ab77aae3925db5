package proxy

import "time"

// The levels of an Identity.
const (
	// ByCertificate: the other end holds the key of that replica's certificate.
	ByCertificate = "certificate"
	// ByMembership: it holds the cluster's secret, as every replica does. That is
	// all a native replica can show to whom it dials.
	ByMembership = "membership"
)

// Identity is what is known of who is at the other end of a leg.
type Identity struct {
	// Level is ByCertificate or ByMembership.
	Level string
	// Name is the name in the certificate that says which replica it is, empty
	// for ByMembership.
	Name string
	// NotAfter is the end of the certificate's time, zero where none was shown.
	NotAfter time.Time
	// Ignored says why a certificate that was shown counts as none, nil where none
	// was passed over. Of a live leg it is news: the leg has lost what it was known
	// by.
	Ignored *TLSFault
}

// level is the identity's level: a leg without TLS, or without a word about it,
// has shown membership.
func (i Identity) level() string {
	if i.Level == "" {
		return ByMembership
	}
	return i.Level
}

// identified asks the credentials who is at the other end of a leg whose replica
// is known, and notes it.
func (s *Settings) identified(l *leg) *refusal {
	identity, fault := s.identify(l)
	if fault != nil {
		return &refusal{ending: fault.Ending, got: fault.Detail, want: "a certificate of replica " + decimal(l.replica)}
	}
	l.identity = identity
	return nil
}

// identify is the question alone. A leg without TLS has nothing to be asked about,
// and where there are no certificates any more nobody can judge one.
func (s *Settings) identify(l *leg) (Identity, *TLSFault) {
	if l.state == nil || s.Credentials == nil {
		return Identity{}, nil
	}
	return s.Credentials.Identify(*l.state, l.replica)
}
