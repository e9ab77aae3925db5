package proxy

import (
	"fmt"
	"net/netip"
	"time"
)

// seat is the place of a peer's one link. An Iggy replica drops a new connection
// while it has one of the same peer registered (§7.4), so a stale link must go
// before a new one can come. One proven session at a time makes a link for it.
type seat struct {
	link      *link
	claim     *visit    // whose link is being made
	displaced time.Time // when a newcomer last took it
	ending    Ending    // of the last connection that was known to be this peer's
	ended     time.Time
	plaintext time.Time // when it last got a plaintext link
}

// displace makes room for a proven newcomer and gives it the seat: the link that
// holds it ends, its near leg first, and so does a session that was about to. It
// is refused when the last time was less than a heartbeat ago: two holders of one
// id would otherwise throw each other out for ever.
func (v *visit) displace() *refusal {
	s, granted := v.server, false
	for {
		s.mu.Lock()
		at := s.seat(v.peer.ID)
		old, claim := at.link, at.claim
		if old == nil && (claim == nil || claim == v) {
			at.claim = v
			s.mu.Unlock()
			return nil
		}
		// A link that is ending anyway is waited for and not judged, and what was
		// granted once stays so, unless somebody newer has come.
		var r *refusal
		if ending := old != nil && old.ending(); !ending {
			if r = v.mayDisplace(held(at), at.displaced); granted && !held(at).since.After(v.since) {
				r = nil
			}
			if r == nil {
				at.displaced, granted = time.Now(), true
			}
		}
		s.mu.Unlock()
		switch {
		case r != nil:
			return r
		case claim != nil:
			claim.cancel(&refusal{ending: Superseded, got: "a newer proven session", want: "nothing"})
			<-claim.gone
		default:
			old.order(Superseded, closeGrace)
			<-old.nearGone
		}
	}
}

// holder is what a newcomer is judged against: a link, or a session that is making
// one.
type holder struct {
	security Security
	source   netip.Addr
	address  string
	since    time.Time
}

// held describes who has a seat. The caller holds the server's mutex.
func held(at *seat) holder {
	v := at.claim
	if at.link != nil {
		v = at.link.visit
	}
	return holder{v.arrived.security, v.source, v.tcp.RemoteAddr().String(), v.since}
}

// mayDisplace judges a newcomer against whoever is in its place.
func (v *visit) mayDisplace(old holder, last time.Time) *refusal {
	switch {
	case v.arrived.security == Plaintext && old.security != Plaintext:
		return &refusal{ending: Superseded, got: "a plaintext newcomer beside a link from " + old.address, want: "a proof at least as strong"}
	case time.Since(last) >= v.settings.HeartbeatTimeout:
		return nil
	case v.direction == ingress && old.source != v.source:
		return &refusal{ending: DuplicateIdentity, want: "one holder of the id",
			got: fmt.Sprintf("replica %d from %s beside a link from %s", v.peer.ID, v.tcp.RemoteAddr(), old.address)}
	}
	return &refusal{ending: Superseded, got: "another newcomer beside a link from " + old.address, want: "at most one in a heartbeat timeout"}
}

// release gives up a seat whose link was not made.
func (s *Server) release(v *visit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.peer != nil && s.seat(v.peer.ID).claim == v {
		s.seat(v.peer.ID).claim = nil
	}
	close(v.gone)
}

// seat returns a peer's seat. The caller holds s.mu.
func (s *Server) seat(peer uint8) *seat {
	if s.seats[peer] == nil {
		s.seats[peer] = new(seat)
	}
	return s.seats[peer]
}

// taken reports whether a peer has a link, or nearly.
func (s *Server) taken(peer uint8) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seat(peer).link != nil || s.seat(peer).claim != nil
}
