package mac

import (
	"fmt"

	"github.com/replgate/replgate/wire"
)

// Options are one side of a handshake.
type Options struct {
	// Cluster is the cluster's id; it stands in every frame and in the MAC.
	Cluster wire.ClusterID
	// Keys is nil where authentication is off (plaintext): a Hello is then the
	// whole handshake and no MAC is made or checked.
	Keys *Keyring
	// Binding is the channel. The zero value is a plaintext channel.
	Binding Binding
	// Strict refuses handshake frames with a body or dirty zeros, which Iggy
	// accepts (rule hello_strict).
	Strict bool
}

// Acceptor is the side that is dialed: Hello, then Accept, then where Keys is set
// Challenge and Finish. Between Hello and Accept the caller asks policy. It is
// used once.
type Acceptor struct {
	opts  Options
	pair  Pair
	nonce []byte // the dialer's, nil when it sent none
	hello wire.Header
	bound *transcript
}

// NewAcceptor returns the side with the given id.
func NewAcceptor(self uint8, opts Options) *Acceptor {
	return &Acceptor{opts: opts, pair: Pair{Acceptor: self}}
}

// Hello takes the dialer's first frame. It returns ErrCommand when that is no
// ReplicaHello. Who it is and whether it may come in is for policy to say, from
// the header's cluster and replica.
func (a *Acceptor) Hello(h *wire.Header) error {
	a.hello = *h
	a.pair.Dialer = wire.Replica.Get(h)
	if h.HasNonce() {
		a.nonce = a.hello.Nonce()
	}
	return wantCommand(h, wire.ReplicaHello)
}

// Accept is asked once policy has admitted the Hello: ErrAuthRequired when a
// nonce is missing where one is required, ErrMalformed where Strict is set.
func (a *Acceptor) Accept() error {
	if a.opts.Keys != nil && a.nonce == nil {
		return fmt.Errorf("%w: got a Hello without a nonce, want one: the dialer has authentication off", ErrAuthRequired)
	}
	return checkClean(&a.hello, a.opts.Strict)
}

// Reject returns the frame that tells the dialer why, and whether it may be sent
// at all: only a dialer that sent a nonce reads an answer, from anyone else it
// would land among the consensus frames, and only statuses 1..3 are ever said
// (§7.1).
func (a *Acceptor) Reject(status wire.Status) (wire.Header, bool) {
	readable := a.opts.Keys != nil && a.nonce != nil &&
		status >= wire.StatusUnknownCommand && status <= wire.StatusDirectionalRule
	return wire.NewReject(a.opts.Cluster, a.pair.Acceptor, status), readable
}

// Challenge answers an accepted Hello, with a nonce of NonceSize random bytes.
func (a *Acceptor) Challenge(nonce [wire.NonceSize]byte) wire.Header {
	a.bound = newTranscript(a.opts.Cluster, a.pair, a.opts.Binding)
	copy(a.bound.dialerNonce(), a.nonce)
	copy(a.bound.acceptorNonce(), nonce[:])
	sum := a.opts.Keys.current.sign(a.bound.from(fromAcceptor)[:])
	return wire.NewChallenge(a.opts.Cluster, a.pair.Acceptor, nonce[:], sum[:])
}

// Finish takes the dialer's proof and says which secret made it. Whatever is
// wrong with it, the answer is silence: the dialer no longer reads handshake
// frames.
func (a *Acceptor) Finish(h *wire.Header) (Slot, error) {
	if err := wantCommand(h, wire.ReplicaFinish); err != nil {
		return SlotNone, err
	}
	if err := checkClean(h, a.opts.Strict); err != nil {
		return SlotNone, err
	}
	return prove(a.opts.Keys, a.bound.from(fromDialer), h)
}

// Session is the channel that a verified Finish has proved.
func (a *Acceptor) Session() Session { return a.bound.session() }

// prove verifies the MAC that h carries over t.
func prove(keys *Keyring, t *transcript, h *wire.Header) (Slot, error) {
	slot := keys.verify(t, h.MAC())
	if slot == SlotNone {
		return SlotNone, fmt.Errorf("%w: got a MAC that neither the current nor the previous secret makes, want one of them on both sides", ErrMismatch)
	}
	return slot, nil
}
