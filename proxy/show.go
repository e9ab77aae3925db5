package proxy

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"sync"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// While there are two secrets, a gate goes to the gate of each higher id and shows
// each of them (see package mac). A showing is a connection of its own: it never
// becomes a link, displaces none and touches none.

// showTime bounds one showing, from dial to receipt.
const showTime = 2 * time.Second

// showLoop makes a round at once where there are two secrets, then every VisitEvery
// and whenever Apply brings another secret.
func (s *Server) showLoop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.secretsChanged:
		case <-s.admitting.Done():
			return
		}
		if set := s.settings.Load(); set.rotating() {
			s.showAll(set)
			timer.Reset(set.VisitEvery)
		}
	}
}

// rotating reports whether there are two secrets.
func (s *Settings) rotating() bool { return s.Keys != nil && s.Keys.HasPrevious() }

// showAll makes one round: each peer gets one showing at a time.
func (s *Server) showAll(set *Settings) {
	var round sync.WaitGroup
	for i := range set.Peers {
		if p := &set.Peers[i]; p.ID > set.Local && p.Security != Plaintext {
			round.Go(func() { s.showPeer(set, p) })
		}
	}
	round.Wait()
}

// isNative reports whether a peer has turned out to be native. It is asked again
// when it has made another link.
func (s *Server) isNative(peer uint8) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proofsOf(peer).kind == KindNative
}

// showPeer shows a peer both secrets, unless it is native. What goes wrong is no news: the peer may be
// down, or not have the secret yet, and the rotation's status says of whom what is
// not known.
func (s *Server) showPeer(set *Settings, p *Peer) {
	for _, which := range []mac.Slot{mac.SlotCurrent, mac.SlotPrevious} {
		if s.isNative(p.ID) {
			return
		}
		ctx, cancel := context.WithTimeout(s.admitting, showTime)
		r := s.show(ctx, set, p, which)
		cancel()
		if r != nil {
			set.Log.Debug("secret not shown", "peer", p.ID, "secret", string(which), "ending", string(r.ending), "got", r.got, "want", r.want)
		}
	}
}

// show shows one secret to a peer and notes what the peer shows in turn.
func (s *Server) show(ctx context.Context, set *Settings, p *Peer, which mac.Slot) *refusal {
	to := target{side: far, replica: p.ID, address: p.Address, name: p.Name, security: p.Security,
		pair: mac.Pair{Dialer: set.Local, Acceptor: p.ID}}
	l, r := connect(ctx, to)
	if r != nil {
		return r
	}
	defer l.tcp.Close()
	defer context.AfterFunc(ctx, func() { l.tcp.SetDeadline(time.Now()) })()
	if p.Security == TLS {
		config, explain := set.Credentials.Client(p.Name)
		if r := l.handshake(ctx, l.secureWith(tls.Client, config), explain); r != nil {
			return r
		}
		if r := set.identified(l); r != nil {
			return r
		}
	}
	session, over := s.sessionWith(p.ID)
	m := mac.NewShowing(to.pair, set.macOptions(p.Security, l.binding), which)
	if r := s.challenged(set, l, m, session); r != nil {
		return r
	}
	h, r := readFrame(l, set.MaxFrame)
	if r != nil {
		return r
	}
	linked, err := m.Receipt(h, session)
	if err != nil {
		return macRefusal(err)
	}
	s.noteShown(p.ID, over, set.Keys.Fingerprint(which), linked)
	return nil
}

// challenged takes a showing to its Finish. A native acceptor gets none.
func (s *Server) challenged(set *Settings, l *leg, m *mac.Showing, session mac.Session) *refusal {
	var random [mac.ShowRandom]byte
	rand.Read(random[:]) // never fails
	hello := m.Hello(random)
	if _, err := l.io.Write(hello[:]); err != nil {
		return ioRefusal(l, err, HandshakeTimeout, false)
	}
	h, r := readFrame(l, set.MaxFrame)
	if r != nil {
		return r
	}
	finish, slot, err := m.Challenge(h, session)
	if err == nil || errors.Is(err, mac.ErrNative) {
		s.noteProof(l.replica, set.Keys.Fingerprint(slot), true)
	}
	switch {
	case errors.Is(err, mac.ErrNative):
		s.noteKind(l.replica, KindNative)
		return &refusal{ending: Probe, got: "a native replica", want: "a gate, which can be shown a secret"}
	case err != nil:
		return macRefusal(err)
	}
	s.noteKind(l.replica, KindGate)
	if _, err := l.io.Write(finish[:]); err != nil {
		return ioRefusal(l, err, HandshakeTimeout, false)
	}
	return nil
}

// noteShown notes that a gate has shown a secret, linked over the channel of a leg
// that it has with us too.
func (s *Server) noteShown(peer uint8, over *leg, secret mac.Fingerprint, linked bool) {
	s.noteProof(peer, secret, false)
	if linked {
		s.noteOver(over, secret)
	}
}

// shown takes the Finish of a gate that came to show a secret, and answers with the
// receipt.
func (v *visit) shown(h *wire.Header) *refusal {
	session, over := v.server.sessionWith(v.peer.ID)
	receipt, slot, linked, err := v.acceptor.Shown(h, session)
	if err != nil {
		return macRefusal(err)
	}
	secret := v.settings.Keys.Fingerprint(slot)
	v.settings.Metrics.SecretProof(decimal(v.peer.ID), string(slot))
	v.server.noteKind(v.peer.ID, KindGate)
	if v.showing == wire.ShowsCurrent {
		v.server.noteProof(v.peer.ID, secret, true)
	}
	v.server.noteShown(v.peer.ID, over, secret, linked)
	if _, err := v.arrived.io.Write(receipt[:]); err != nil {
		return ioRefusal(v.arrived, err, HandshakeTimeout, false)
	}
	return &refusal{ending: Probe, got: "a gate that showed a secret", want: probeWant}
}
