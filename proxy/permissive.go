package proxy

import (
	"slices"

	"github.com/replgate/replgate/wire"
)

// Mode says whether peers must speak what Settings ask of them.
type Mode string

// The modes. A peer's Security is what strict asks of it and the most that
// permissive does.
const (
	Strict     Mode = "strict"
	Permissive Mode = "permissive" // weaker too, encrypted first, down to what the peer has proved
)

// bounds are the strongest and the weakest security that a peer may speak on its
// far leg.
func (v *visit) bounds(p *Peer) (most, least Security) {
	if v.settings.Mode != Permissive {
		return p.Security, p.Security
	}
	return p.Security, weakest(p.Security, v.server.memory.proved(p.ID))
}

// due is what an admitted dialer must speak, from what its connection and its
// Hello offer. A nonce says that it will read a Challenge. Less than it has proved
// before is answered as that: by a refusal.
func (v *visit) due(h *wire.Header) Security {
	id := wire.Replica.Get(h)
	p := v.settings.peer(id)
	if v.direction == egress || p == nil || id > v.settings.Local {
		return v.required(id)
	}
	most, least := v.bounds(p)
	offered := Plaintext
	switch {
	case v.arrived.security == TLS:
		offered = TLS
	case h.HasNonce():
		offered = PSK
	}
	return weakest(most, strongest(least, offered))
}

// weaker reports whether a security protects less than another. What is none of
// the three protects least.
func weaker(a, b Security) bool {
	rank := []Security{Plaintext, PSK, TLS}
	return slices.Index(rank, a) < slices.Index(rank, b)
}

func weakest(a, b Security) Security {
	if weaker(a, b) {
		return a
	}
	return b
}

func strongest(a, b Security) Security {
	if weaker(a, b) {
		return b
	}
	return a
}
