package proxy

import (
	"fmt"
	"time"
)

// seat is the place of a peer's one link. An Iggy replica drops a new connection
// while it has one of the same peer registered (§7.4), so a stale link must go
// before a new one can come.
type seat struct {
	link      *link
	displaced time.Time // when a newcomer last took it
	ending    Ending    // of the last connection that was known to be this peer's
	ended     time.Time
}

// displace makes room for a proven newcomer: the link that holds the seat ends,
// its near leg first. It is refused when the last time was less than a heartbeat
// ago: two holders of one id would otherwise throw each other out for ever.
func (v *visit) displace() *refusal {
	s := v.server
	s.mu.Lock()
	at := s.seat(v.peer.ID)
	old := at.link
	if old == nil {
		s.mu.Unlock()
		return nil
	}
	r := v.mayDisplace(old, at.displaced)
	if r == nil {
		at.displaced = time.Now()
	}
	s.mu.Unlock()
	if r != nil {
		return r
	}
	old.order(Superseded, closeGrace)
	<-old.nearGone
	return nil
}

// mayDisplace judges a newcomer against the link in its place.
func (v *visit) mayDisplace(old *link, last time.Time) *refusal {
	held := fmt.Sprintf("a link from %s", old.far.Load().tcp.RemoteAddr())
	switch {
	case v.arrived.security == Plaintext && old.legOf(v.arrived.side).security != Plaintext:
		return &refusal{ending: Superseded, got: "a plaintext newcomer beside " + held, want: "a proof at least as strong"}
	case time.Since(last) >= v.settings.HeartbeatTimeout:
		return nil
	case v.direction == ingress && old.source != v.source:
		return &refusal{ending: DuplicateIdentity, got: fmt.Sprintf("replica %d from %s beside %s", v.peer.ID, v.tcp.RemoteAddr(), held),
			want: "one holder of the id"}
	}
	return &refusal{ending: Superseded, got: "another newcomer beside " + held, want: "at most one in a heartbeat timeout"}
}

// seat returns a peer's seat. The caller holds s.mu.
func (s *Server) seat(peer uint8) *seat {
	if s.seats[peer] == nil {
		s.seats[peer] = new(seat)
	}
	return s.seats[peer]
}

// taken reports whether a peer has a link.
func (s *Server) taken(peer uint8) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seat(peer).link != nil
}
