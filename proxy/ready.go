package proxy

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Readiness says whether strict mode would cut nobody, and if it would, whom.
type Readiness struct {
	Ready bool `json:"ready"`
	// NotReady are the peers that are not, by id.
	NotReady []NotReady `json:"not_ready,omitempty"`
}

// NotReady is a peer that is not ready for strict mode.
type NotReady struct {
	Peer   int      `json:"peer"`
	Strict Security `json:"strict"`           // what strict mode asks of it
	Proved Security `json:"proved,omitempty"` // the strongest it has proved, empty: nothing
	Link   Security `json:"link,omitempty"`   // what its link speaks, where that is less than strict asks
	// Plaintext is when it last got a plaintext link, zero where that is long ago.
	Plaintext time.Time `json:"plaintext,omitzero"`
	Reason    string    `json:"reason"` // the first of these, in words
}

func (a NotReady) String() string { return fmt.Sprintf("peer %d: %s", a.Peer, a.Reason) }

// StrictReady says whether every peer of which strict mode asks more than
// plaintext has proved it, has no link that is weaker, and for StrictReadyAfter
// has got no plaintext link.
func (s *Server) StrictReady() Readiness {
	set, now, r := s.settings.Load(), time.Now(), Readiness{Ready: true}
	for _, p := range set.Peers {
		a, ready := s.standing(p).judge(now, set.StrictReadyAfter)
		if !ready {
			r.Ready, r.NotReady = false, append(r.NotReady, a)
		}
	}
	slices.SortFunc(r.NotReady, func(a, b NotReady) int { return cmp.Compare(a.Peer, b.Peer) })
	return r
}

// A Cut is a peer that strict mode would not let be as it is.
type Cut struct {
	Peer   int      `json:"peer"`
	Strict Security `json:"strict"` // what would be asked of it
	// Link is what its link speaks, which would end. Empty: it has no link now,
	// and has never proved what would be asked of it.
	Link Security `json:"link,omitempty"`
}

func (c Cut) String() string {
	if c.Link == "" {
		return fmt.Sprintf("peer %d has no link and has never proved %s", c.Peer, c.Strict)
	}
	return fmt.Sprintf("peer %d has a %s link, strict asks for %s", c.Peer, c.Link, c.Strict)
}

// WouldCut names the peers, by id, that would be cut if settings were applied now
// in strict mode.
func (s *Server) WouldCut(settings Settings) (cuts []Cut) {
	for _, p := range settings.Peers {
		at := s.standing(p)
		if at.link != "" || !at.linked && weaker(at.proved, p.Security) {
			cuts = append(cuts, Cut{Peer: int(p.ID), Strict: p.Security, Link: at.link})
		}
	}
	slices.SortFunc(cuts, func(a, b Cut) int { return cmp.Compare(a.Peer, b.Peer) })
	return cuts
}

// standing is how a peer stands toward strict mode.
type standing struct {
	peer      Peer
	proved    Security
	linked    bool
	link      Security // the weakest of its links that is weaker than strict asks
	plaintext time.Time
}

func (s *Server) standing(p Peer) standing {
	at := standing{peer: p, proved: s.memory.proved(p.ID)}
	s.mu.Lock()
	defer s.mu.Unlock()
	at.plaintext = s.seat(p.ID).plaintext
	for l := range s.links {
		if l.peer.ID != p.ID {
			continue
		}
		at.linked = true
		if far := l.far.Load().security; weaker(far, p.Security) && (at.link == "" || weaker(far, at.link)) {
			at.link = far
		}
	}
	return at
}

// judge holds a standing against strict mode, at a time.
func (at standing) judge(now time.Time, after time.Duration) (a NotReady, ready bool) {
	a = NotReady{Peer: int(at.peer.ID), Strict: at.peer.Security, Link: at.link}
	if at.proved != Plaintext {
		a.Proved = at.proved
	}
	if !at.plaintext.IsZero() && now.Sub(at.plaintext) < after {
		a.Plaintext = at.plaintext
	}
	switch {
	case at.peer.Security == Plaintext:
		return a, true
	case weaker(at.proved, at.peer.Security):
		a.Reason = "never proved " + string(at.peer.Security)
	case at.link != "":
		a.Reason = "its link speaks " + string(at.link)
	case !a.Plaintext.IsZero():
		a.Reason = "got a plaintext link at " + a.Plaintext.UTC().Format(time.RFC3339)
	default:
		return a, true
	}
	return a, false
}

// notePlaintext remembers when a peer got a plaintext link.
func (s *Server) notePlaintext(peer uint8) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seat(peer).plaintext = time.Now()
}
