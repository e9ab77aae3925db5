package probe

import (
	"crypto/tls"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// proof is what came of the second Hello.
type proof struct {
	answer answer
	dialer uint8
	slot   mac.Slot
}

// challenge asks an acceptor that requires the MAC for its Challenge, as a
// replica that may dial it would, and goes no further: a Finish is never sent.
// claimed is the acceptor's id by its own word.
func (v *visit) challenge(on *channel, cluster wire.ClusterID, claimed uint8) (p proof) {
	if claimed == 0 {
		return p // nobody may dial it
	}
	if p.dialer = v.Dialer; p.dialer >= claimed {
		p.dialer = 0
	}
	c, err := v.connect(v.Timeout)
	if err != nil {
		p.answer.what = gotEnd
		return p
	}
	defer c.Close()
	n := nonce()
	hello := wire.NewHello(cluster, p.dialer, n[:])
	if !on.tls {
		p.answer = v.ask(c, hello)
		p.slot = v.verify(&p, mac.Binding{}, cluster, claimed, n)
		return p
	}
	secured := tls.Client(c, v.config())
	if err := secured.HandshakeContext(v.ctx); err != nil {
		p.answer.what = gotEnd
		return p
	}
	p.answer = v.ask(secured, hello)
	if binding, err := bind(secured.ConnectionState()); err == nil {
		p.slot = v.verify(&p, binding, cluster, claimed, n)
	}
	secured.CloseWrite() // in order, so that the acceptor sees an end and no break
	return p
}

// verify says which of our secrets made the Challenge's MAC.
func (v *visit) verify(p *proof, binding mac.Binding, cluster wire.ClusterID, claimed uint8, n [wire.NonceSize]byte) mac.Slot {
	if p.answer.what != gotChallenge || v.Keys == nil {
		return mac.SlotNone
	}
	d := mac.NewDialer(mac.Pair{Dialer: p.dialer, Acceptor: claimed}, mac.Options{Cluster: cluster, Keys: v.Keys, Binding: binding})
	d.Hello(n)
	// The Finish that comes with it proves our secret: it is thrown away here.
	_, slot, _ := d.Challenge(&p.answer.frame)
	return slot
}
