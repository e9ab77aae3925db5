package proxy

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// Status is a snapshot of a gate, for people.
type Status struct {
	Replica     int          `json:"replica"`
	Replicas    int          `json:"replicas"`
	Draining    bool         `json:"draining"`
	Connections int64        `json:"connections"` // accepted and not ended, links among them
	Mode        Mode         `json:"mode"`
	StrictReady bool         `json:"strict_ready"`
	NotReady    []NotReady   `json:"not_ready,omitempty"` // for strict mode, by id
	Peers       []PeerStatus `json:"peers"`               // by id
}

// PeerStatus is what a gate knows of one other replica.
type PeerStatus struct {
	Peer      int    `json:"peer"`
	Direction string `json:"direction"` // ingress: it dials us; egress: our replica dials it
	Security  string `json:"security"`  // of the far leg, as configured
	// Proved is the strongest security it has ever proved, empty: nothing.
	Proved Security `json:"proved,omitempty"`
	Up     bool     `json:"up"`
	// Secret is which of our secrets it last signed with: current, previous, or
	// removed; empty before its first proof, and in plaintext. Fingerprint names
	// it, SecretProved is when.
	Secret       string          `json:"secret,omitempty"`
	Fingerprint  mac.Fingerprint `json:"fingerprint,omitempty"`
	SecretProved *time.Time      `json:"secret_proved,omitempty"`
	// LastEnding is why its last connection ended, LastEnded when.
	LastEnding Ending       `json:"last_ending,omitempty"`
	LastEnded  *time.Time   `json:"last_ended,omitempty"`
	Links      []LinkStatus `json:"links"` // one; two for a moment while one displaces another
}

// LinkStatus is one link.
type LinkStatus struct {
	Near   string `json:"near"`   // security
	Far    string `json:"far"`    // security
	Remote string `json:"remote"` // address of the far leg
	// Identity is what is known of who is at the far end: "certificate" for a
	// certificate of that replica, "membership" for one that holds the secret,
	// empty in plaintext. Name is the one in the certificate.
	Identity     string     `json:"identity,omitempty"`
	Name         string     `json:"name,omitempty"`
	PeerNotAfter *time.Time `json:"peer_not_after,omitempty"` // end of its certificate
	Since        time.Time  `json:"since"`
	In           WayStatus  `json:"in"`
	Out          WayStatus  `json:"out"`
}

// WayStatus is one direction of a link.
type WayStatus struct {
	Frames  uint64     `json:"frames"` // forwarded
	Bytes   uint64     `json:"bytes"`
	Dropped uint64     `json:"dropped"` // frames
	Lost    uint64     `json:"lost"`    // frames
	Last    *time.Time `json:"last,omitempty"`
	Command string     `json:"command,omitempty"` // of the last frame
}

// seen is what a pump has done, to be read while it goes on.
type seen struct {
	frames  [3]atomic.Uint64 // by Result
	bytes   atomic.Uint64    // forwarded
	last    atomic.Int64     // unix nanoseconds of the last frame that was forwarded
	command atomic.Uint32
}

func (s *seen) add(r Result, c wire.Command, frames, bytes uint64) {
	s.frames[r].Add(frames)
	if r == Forwarded {
		s.bytes.Add(bytes)
		s.command.Store(uint32(c))
		s.last.Store(time.Now().UnixNano())
	}
}

func (s *seen) snapshot() WayStatus {
	w := WayStatus{Frames: s.frames[Forwarded].Load(), Bytes: s.bytes.Load(),
		Dropped: s.frames[Dropped].Load(), Lost: s.frames[Lost].Load()}
	if last := s.last.Load(); last != 0 {
		at := time.Unix(0, last)
		w.Last, w.Command = &at, wire.Command(s.command.Load()).String()
	}
	return w
}

// noteEnding remembers why a peer's last connection ended.
func (s *Server) noteEnding(peer uint8, e Ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.seat(peer)
	at.ending, at.ended = e, time.Now()
}

// Status returns a snapshot.
func (s *Server) Status() Status {
	strict := s.StrictReady()
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.settings.Load()
	st := Status{Replica: int(set.Local), Replicas: set.Replicas, Draining: s.stopping(), Connections: s.open.Load(),
		Mode: set.Mode, StrictReady: strict.Ready, NotReady: strict.NotReady}
	for _, p := range set.Peers {
		ps := PeerStatus{Peer: int(p.ID), Direction: egress, Security: string(p.Security), Links: []LinkStatus{}}
		if p.ID < set.Local {
			ps.Direction = ingress
		}
		if proved := s.memory.proved(p.ID); proved != Plaintext {
			ps.Proved = proved
		}
		at := s.seat(p.ID)
		ps.Up = at.link != nil
		if !at.ended.IsZero() {
			ended := at.ended
			ps.LastEnding, ps.LastEnded = at.ending, &ended
		}
		if p := s.proofsOf(p.ID); p.signs != "" {
			at := p.signed
			ps.Secret, ps.Fingerprint, ps.SecretProved = set.slotName(p.signs), p.signs, &at
		}
		for l := range s.links {
			if l.peer.ID == p.ID {
				ps.Links = append(ps.Links, l.status())
			}
		}
		slices.SortFunc(ps.Links, func(a, b LinkStatus) int { return a.Since.Compare(b.Since) })
		st.Peers = append(st.Peers, ps)
	}
	slices.SortFunc(st.Peers, func(a, b PeerStatus) int { return cmp.Compare(a.Peer, b.Peer) })
	return st
}

func (l *link) status() LinkStatus {
	far := l.far.Load()
	st := LinkStatus{Near: string(l.near.security), Far: string(far.security), Remote: far.tcp.RemoteAddr().String(),
		Since: l.started, In: l.in.seen.snapshot(), Out: l.out.seen.snapshot()}
	if far.security != Plaintext {
		st.Identity, st.Name = far.identity.level(), far.identity.Name
	}
	if at := far.identity.NotAfter; !at.IsZero() {
		st.PeerNotAfter = &at
	}
	return st
}
