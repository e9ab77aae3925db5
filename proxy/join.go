package proxy

import "github.com/replgate/replgate/mac"

// join makes a link of an accepted connection, in the order that the liveness
// promises ask for.
func (v *visit) join() (*link, *refusal) {
	if v.direction == ingress {
		return v.joinIngress()
	}
	return v.joinEgress()
}

// joinIngress proves the peer first and then dials the local replica: a peer that
// is not proven costs the replica nothing.
func (v *visit) joinIngress() (*link, *refusal) {
	if r := v.admit(); r != nil {
		return nil, r
	}
	if r := v.answer(); r != nil {
		return nil, r
	}
	v.lobby.proved(v)
	if r := v.displace(); r != nil {
		return nil, r
	}
	local, r := v.dial(target{
		side: near, replica: v.settings.Local, address: v.settings.Upstream, name: v.settings.UpstreamName,
		security: v.settings.UpstreamSecurity, pair: mac.Pair{Dialer: v.peer.ID, Acceptor: v.settings.Local},
	})
	if r != nil {
		return nil, r
	}
	return newLink(v, local, v.arrived), nil
}

// joinEgress proves the far side before the local replica is told yes. A psk or
// tls replica waits for its Challenge; a plaintext one believes since connect, so
// a refusal reaches it as a reset, and its bytes stay unread until then.
func (v *visit) joinEgress() (*link, *refusal) {
	if r := v.admit(); r != nil {
		return nil, r
	}
	if v.probing {
		// It is about this gate only, and gets its Challenge: a far leg would
		// displace the peer's link. What is marked never becomes one.
		r := v.answer()
		if r == nil {
			r = &refusal{ending: Probe, got: probeGot, want: probeWant}
		}
		return nil, r
	}
	// A link in the place of this one must go first: a native peer takes no second
	// connection while it has the first, and a gate would end it for the newcomer.
	// So the newcomer proves itself before anything is dialed. That tells a psk or
	// tls replica yes early, but only while the peer has been there until now.
	answered := v.server.taken(v.peer.ID)
	if answered {
		if r := v.takeSeat(); r != nil {
			return nil, r
		}
	}
	peer, r := v.reach(target{
		side: far, replica: v.peer.ID, address: v.peer.Address, name: v.peer.Name,
		security: v.peer.Security, pair: mac.Pair{Dialer: v.settings.Local, Acceptor: v.peer.ID},
	})
	if r != nil {
		r.abort = true
		return nil, r
	}
	if !answered {
		r = v.takeSeat()
	}
	if r != nil {
		peer.abort()
		r.abort = true
		return nil, r
	}
	return newLink(v, v.arrived, peer), nil
}

// takeSeat lets the local replica prove itself and gives it its peer's seat.
func (v *visit) takeSeat() *refusal {
	if r := v.answer(); r != nil {
		return r
	}
	v.lobby.proved(v)
	return v.displace()
}
