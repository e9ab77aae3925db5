package mac

import "github.com/replgate/replgate/wire"

// Dialer is the side that dials: Hello goes out, and where Keys is set Challenge
// comes in and Finish goes out. It is used once.
type Dialer struct {
	opts  Options
	pair  Pair
	nonce [wire.NonceSize]byte
	bound *transcript // once there is a Challenge
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
	slot, err := d.challenged(h)
	if err != nil {
		return wire.Header{}, SlotNone, err
	}
	return d.finish(SlotCurrent), slot, nil
}

// challenged takes the acceptor's answer.
func (d *Dialer) challenged(h *wire.Header) (Slot, error) {
	if err := wantCommand(h, wire.ReplicaChallenge); err != nil {
		return SlotNone, err
	}
	if status := wire.Status(h[wire.HelloStatus]); status != wire.StatusOk {
		return SlotNone, &RejectedError{Status: status}
	}
	if err := checkClean(h, d.opts.Strict); err != nil {
		return SlotNone, err
	}
	d.bound = newTranscript(d.opts.Cluster, d.pair, d.opts.Binding)
	copy(d.bound.dialerNonce(), d.nonce[:])
	copy(d.bound.acceptorNonce(), h.Nonce())
	return prove(d.opts.Keys, d.bound.from(fromAcceptor), h)
}

// finish is the proof, with the secret of a slot.
func (d *Dialer) finish(slot Slot) wire.Header {
	sum := d.opts.Keys.slot(slot).sign(d.bound.from(fromDialer)[:])
	return wire.NewFinish(d.opts.Cluster, d.pair.Dialer, sum[:])
}

// Session is the channel that a verified Challenge has proved.
func (d *Dialer) Session() Session { return d.bound.session() }
