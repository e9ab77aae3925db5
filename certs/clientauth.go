package certs

import (
	"crypto/tls"
	"fmt"
	"time"
)

// ClientAuth is what a [Set] asks of a client: cluster.tls.client_auth. It is
// about legs that are dialed to us; a certificate of ours is presented to whoever
// asks, whatever the value.
type ClientAuth uint8

// The values of client_auth. A self-signed set is always Off: a self-made name
// proves nothing.
const (
	// Request asks, and takes a client with any certificate or none. One that
	// does not verify counts as none. A revoked one is refused: it says who
	// comes, and that he must not. The default.
	Request ClientAuth = iota
	// Require refuses a client without a certificate that verifies.
	Require
	// Off asks for nothing, as a native replica.
	Off
)

// String gives the configuration's word.
func (c ClientAuth) String() string {
	switch c {
	case Off:
		return "off"
	case Request:
		return "request"
	case Require:
		return "require"
	}
	return fmt.Sprintf("ClientAuth(%d)", uint8(c))
}

// ParseClientAuth reads the configuration's word; an empty one is the default.
func ParseClientAuth(text string) (ClientAuth, error) {
	if text == "" {
		return Request, nil
	}
	for _, c := range []ClientAuth{Off, Request, Require} {
		if c.String() == text {
			return c, nil
		}
	}
	return Request, fmt.Errorf("certs: got client_auth %q, want off, request or require", clip(text))
}

// Options are what a set does beyond Iggy. The zero value asks for client
// certificates and takes them as proof of membership.
type Options struct {
	// ClientAuth is asked of clients. Default: Request.
	ClientAuth ClientAuth
	// Identity is the name that a replica's certificate has to carry. nil: no
	// certificate names a replica, every peer is a member and no more.
	Identity *Template
	// Replica is our own id, used with Identity: [Set.Notes] looks for its name
	// in our own certificate.
	Replica uint8
}

// With returns a copy of the set under other options. [Load] and [SelfSigned]
// give sets with the zero value.
func (s *Set) With(options Options) *Set {
	with := *s
	with.options = options
	return &with
}

// asks is what the set really asks of clients. A value outside the list asks for
// the most, so that a set built wrongly does not stand open.
func (s *Set) asks() ClientAuth {
	switch {
	case s.acceptAny:
		return Off
	case s.options.ClientAuth == Off, s.options.ClientAuth == Request:
		return s.options.ClientAuth
	}
	return Require
}

// present gives our certificate to a server that asks. The names of CAs in its
// request are passed over: in a rotation they may lag behind what it accepts, and
// its refusal of a certificate says more in both logs than one that never came.
// A signature that it cannot verify would break the handshake, so then none is
// given.
func (s *Set) present(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	open := *request
	open.AcceptableCAs = nil
	if open.SupportsCertificate(&s.pair) != nil {
		return new(tls.Certificate), nil
	}
	return &s.pair, nil
}

// refusedError carries a verdict of ours through crypto/tls, which hands on what
// a hook returns, to [ClassifyClient] and [ClassifyServer].
type refusedError struct{ fault Fault }

func (e *refusedError) Error() string { return "certs: " + e.fault.Word + ": " + e.fault.Detail }

// admitDialer is the hook of a server: what can be judged before a client has
// said which replica it is.
func (s *Set) admitDialer(state tls.ConnectionState) error {
	if _, fault := s.dialer(state, time.Now()); fault != nil {
		return &refusedError{*fault}
	}
	return nil
}

// admitAcceptor is the hook of a client. crypto/tls has verified the chain and
// the name by then, and knows nothing of revocation.
func (s *Set) admitAcceptor(state tls.ConnectionState) error {
	if fault := s.revocation(state.VerifiedChains); fault != nil {
		return &refusedError{*fault}
	}
	return nil
}
