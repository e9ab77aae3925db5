package mac

import (
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/replgate/replgate/wire"
)

// In a rotation a replica signs with one of its two secrets, so nobody can see
// from a handshake that it holds the other one too. Gates show each other: one
// comes to another, proves one secret, and goes. A showing is a handshake that
// leads to no link, with four things in places that an Iggy leaves random or zero:
//
//	dialer                              acceptor
//	Hello(mark, which secret)     ->
//	                              <-    Challenge(a gate's mark in nonce_a, mac_a)
//	Finish(channel_d, mac_d)      ->
//	                              <-    Challenge(channel_a, receipt)
//
// A native acceptor would take a Finish for a new link, and its Challenge has no
// mark: to that one no Finish is made. channel_d and channel_a prove the secret
// once more, over the session of the link that the two gates have, if they have
// one. From then on that link is proven by this secret as well, and it need not be
// made anew when the secret of its handshake is removed.

// ErrNative: the Challenge verifies, and it is not a gate's.
var ErrNative = errors.New("mac: native acceptor")

// The labels of what is made with the gates' key. Behind each comes a fixed number
// of bytes.
const (
	labelFingerprint = "fingerprint"
	labelGate        = "gate"
	labelChannel     = "channel"
	labelReceipt     = "receipt"
)

// gateMark is the length of the mark in a Challenge's nonce, ShowRandom how many
// bytes of either nonce of a showing are random.
const (
	gateMark   = 16
	ShowRandom = wire.NonceSize - gateMark
)

// mark is what a gate's Challenge says in its nonce. The nonce of a native one is
// random and equals it never.
func (s *secret) mark(dialerNonce []byte) []byte {
	sum := s.gate(append([]byte(labelGate), dialerNonce...))
	return sum[:gateMark]
}

// channel proves the secret over the session of a link, in one direction of one
// showing; it is zero where there is no link.
func (s *secret) channel(direction byte, showing, link Session) (sum [wire.NonceSize]byte) {
	if link == (Session{}) {
		return sum
	}
	message := append([]byte(labelChannel), direction)
	message = append(message, showing[:]...)
	return s.gate(append(message, link[:]...))
}

// binds reports whether got is the other side's proof over a link that there is.
func (s *secret) binds(got []byte, direction byte, showing, link Session) bool {
	want := s.channel(direction, showing, link)
	return link != (Session{}) && subtle.ConstantTimeCompare(got, want[:]) == 1
}

// receipt proves to the dialer that the acceptor holds the secret that was shown.
func (s *secret) receipt(showing Session) [wire.MACSize]byte {
	return s.gate(append([]byte(labelReceipt), showing[:]...))
}

// Showing is the side that comes: Hello goes out, Challenge comes in, Finish goes
// out, the receipt comes in. It is used once.
type Showing struct {
	dialer *Dialer
	which  Slot
}

// NewShowing returns the dialing side of a showing of one of the secrets of
// opts.Keys.
func NewShowing(pair Pair, opts Options, which Slot) *Showing {
	return &Showing{dialer: NewDialer(pair, opts), which: which}
}

// Hello returns the first frame.
func (s *Showing) Hello(random [ShowRandom]byte) wire.Header {
	which := wire.ShowsCurrent
	if s.which == SlotPrevious {
		which = wire.ShowsOther
	}
	var nonce [wire.NonceSize]byte
	at := copy(nonce[:], wire.ProbeMark)
	nonce[at] = which
	copy(nonce[at+1:], random[:])
	return s.dialer.Hello(nonce)
}

// Challenge takes the acceptor's answer. It returns which secret the acceptor
// signs with, and the Finish to send; link is the session of the link with it. For
// a native acceptor the error is ErrNative, and there is no Finish.
func (s *Showing) Challenge(h *wire.Header, link Session) (wire.Header, Slot, error) {
	slot, err := s.dialer.challenged(h)
	if err != nil {
		return wire.Header{}, SlotNone, err
	}
	mark := s.dialer.opts.Keys.slot(slot).mark(s.dialer.nonce[:])
	if subtle.ConstantTimeCompare(mark, h.Nonce()[:gateMark]) != 1 {
		return wire.Header{}, slot, fmt.Errorf("%w: got a Challenge without a gate's mark, want one with", ErrNative)
	}
	finish := s.dialer.finish(s.which)
	channel := s.dialer.opts.Keys.slot(s.which).channel(fromDialer, s.dialer.Session(), link)
	copy(finish.Nonce(), channel[:])
	return finish, slot, nil
}

// Receipt takes the acceptor's last frame: with it the acceptor has shown the same
// secret. linked says that it did so over the link too.
func (s *Showing) Receipt(h *wire.Header, link Session) (linked bool, err error) {
	if err := wantCommand(h, wire.ReplicaChallenge); err != nil {
		return false, err
	}
	secret, showing := s.dialer.opts.Keys.slot(s.which), s.dialer.Session()
	want := secret.receipt(showing)
	if subtle.ConstantTimeCompare(h.MAC(), want[:]) != 1 {
		return false, fmt.Errorf("%w: got a receipt that the shown secret does not make, want one that it does", ErrMismatch)
	}
	return secret.binds(h.Nonce(), fromAcceptor, showing, link), nil
}

// ChallengeAsGate is Challenge to a first frame that carries the mark of a probe:
// it says that a gate answers, with ShowRandom random bytes.
func (a *Acceptor) ChallengeAsGate(random [ShowRandom]byte) wire.Header {
	var nonce [wire.NonceSize]byte
	at := copy(nonce[:], a.opts.Keys.current.mark(a.nonce))
	copy(nonce[at:], random[:])
	return a.Challenge(nonce)
}

// Shown takes the Finish of a showing and says which secret it shows. linked says
// that it was shown over the link with that session too. The receipt is the answer.
func (a *Acceptor) Shown(h *wire.Header, link Session) (receipt wire.Header, slot Slot, linked bool, err error) {
	bare := *h
	clear(bare.Nonce())
	if slot, err = a.Finish(&bare); err != nil {
		return wire.Header{}, SlotNone, false, err
	}
	secret, showing := a.opts.Keys.slot(slot), a.Session()
	sum, channel := secret.receipt(showing), secret.channel(fromAcceptor, showing, link)
	receipt = wire.NewChallenge(a.opts.Cluster, a.pair.Acceptor, channel[:], sum[:])
	return receipt, slot, secret.binds(h.Nonce(), fromDialer, showing, link), nil
}
