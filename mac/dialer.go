package mac

import "github.com/replgate/replgate/wire"

// Dialer is the side that dials: Hello goes out, and where Keys is set Challenge
// comes in and Finish goes out. It is used once.
type Dialer struct {
	opts  Options
	pair  Pair
	nonce [wire.NonceSize]byte
}

// NewDialer returns the dialing side of pair.
func NewDialer(pair Pair, opts Options) *Dialer {
	return &Dialer{opts: opts, pair: pair}
}

// Hello returns the first frame. nonce is NonceSize random bytes; it is not used
// where authentication is off.
func (d *Dialer) Hello(nonce [wire.NonceSize]byte) wire.Header {
	if d.opts.Keys == nil {
		return wire.NewHello(d.opts.Cluster, d.pair.Dialer, nil)
	}
	d.nonce = nonce
	return wire.NewHello(d.opts.Cluster, d.pair.Dialer, nonce[:])
}

// Challenge takes the acceptor's answer and returns the Finish to send and the
// secret the acceptor proved. A refusal is a *RejectedError. Neither the cluster
// nor the replica of the frame is looked at: the MAC holds both (§7.1).
func (d *Dialer) Challenge(h *wire.Header) (wire.Header, Slot, error) {
	if err := wantCommand(h, wire.ReplicaChallenge); err != nil {
		return wire.Header{}, SlotNone, err
	}
	if status := wire.Status(h[wire.HelloStatus]); status != wire.StatusOk {
		return wire.Header{}, SlotNone, &RejectedError{Status: status}
	}
	if err := checkClean(h, d.opts.Strict); err != nil {
		return wire.Header{}, SlotNone, err
	}
	t := newTranscript(d.opts.Cluster, d.pair, d.opts.Binding)
	copy(t.dialerNonce(), d.nonce[:])
	copy(t.acceptorNonce(), h.Nonce())
	slot, err := prove(d.opts.Keys, t.from(fromAcceptor), h)
	if err != nil {
		return wire.Header{}, SlotNone, err
	}
	sum := d.opts.Keys.sign(t.from(fromDialer))
	return wire.NewFinish(d.opts.Cluster, d.pair.Dialer, sum[:]), slot, nil
}
