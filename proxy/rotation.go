package proxy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/replgate/replgate/mac"
)

// Phase is how far a rotation is, as far as this gate can tell.
type Phase string

// The phases. A rotation has three steps: the new secret is given to all as their
// previous one; the two are swapped, so that all sign with the new one; the old one
// is removed. A gate knows where it stands by which of its two secrets came later
// in its process's life. After a start in between it does not.
const (
	PhaseNone    Phase = "none"
	PhaseOne     Phase = "1 of 3" // next is the swap
	PhaseTwo     Phase = "2 of 3" // next is the removal
	PhaseUnknown Phase = "1 or 2 of 3"
)

// Rotation tells whether the rotation of the shared secret may go on.
type Rotation struct {
	Phase Phase `json:"phase"`
	// Current and Previous are the fingerprints of our secrets, empty where there
	// is none.
	Current  mac.Fingerprint `json:"current,omitempty"`
	Previous mac.Fingerprint `json:"previous,omitempty"`
	// Peers are those that prove a secret, by id; the local replica is among them
	// where it does.
	Peers []PeerRotation `json:"peers"`
	// Awaited are those that the next step would cut off, or may.
	Awaited []Awaited `json:"awaited"`
	// Safe says that the next step cuts no link, Why says why, or why not.
	Safe bool   `json:"safe"`
	Why  string `json:"why"`
}

// PeerRotation is what one replica has proved.
type PeerRotation struct {
	Peer  int  `json:"peer"`
	Local bool `json:"local,omitempty"` // the replica behind this gate
	Kind  Kind `json:"kind,omitempty"`
	// SignsWith is the fingerprint of the secret that it last signed with, and
	// Signs what that is here: "old" or "new", in an unknown phase "current" or
	// "previous", "removed" for one that is not ours any more; empty before its
	// first proof.
	SignsWith mac.Fingerprint `json:"signs_with,omitempty"`
	Signs     string          `json:"signs,omitempty"`
	Signed    *time.Time      `json:"signed,omitempty"`
	// Holds are the secrets of ours that it has shown to hold.
	Holds []HeldSecret `json:"holds"`
	// Linked says that it has a link, and LinkProven that all its legs here are
	// proven by our current secret.
	Linked     bool `json:"linked"`
	LinkProven bool `json:"link_proven"`
}

// HeldSecret is one secret that a replica has proved, and when last.
type HeldSecret struct {
	Fingerprint mac.Fingerprint `json:"fingerprint"`
	Name        string          `json:"name"` // as PeerRotation.Signs
	Seen        time.Time       `json:"seen"`
}

// Awaited is a replica that the next step waits for.
type Awaited struct {
	Peer int    `json:"peer"`
	For  string `json:"for"` // in words
	// CannotShow says that it may be ready and has no way to show it: a native
	// replica proves only what it signs with.
	CannotShow bool `json:"cannot_show,omitempty"`
}

// Rotation returns a snapshot.
func (s *Server) Rotation() Rotation {
	s.mu.Lock()
	defer s.mu.Unlock()
	set := s.settings.Load()
	r := Rotation{Phase: PhaseNone, Peers: []PeerRotation{}, Awaited: []Awaited{}, Safe: true}
	r.Current, r.Previous = set.secrets()
	if set.rotating() {
		r.Phase = s.phase(r.Current, r.Previous)
	}
	for id := range set.Replicas {
		if s.proves(set, uint8(id)) {
			r.Peers = append(r.Peers, s.peerRotation(&r, uint8(id), int(set.Local) == id))
		}
	}
	r.judge()
	return r
}

// phase tells it by the ages of the secrets.
func (s *Server) phase(current, previous mac.Fingerprint) Phase {
	switch {
	case s.born[previous] > s.born[current]:
		return PhaseOne
	case s.born[previous] < s.born[current]:
		return PhaseTwo
	}
	return PhaseUnknown
}

// proves reports whether a replica proves secrets to this gate at all.
func (s *Server) proves(set *Settings, id uint8) bool {
	if p := set.peer(id); p != nil {
		return p.Security != Plaintext
	}
	dialsUs := slices.ContainsFunc(set.Peers, func(p Peer) bool { return p.ID > set.Local })
	return dialsUs && set.EgressSecurity != Plaintext || set.Listen != "" && set.UpstreamSecurity != Plaintext
}

// name is what a secret is called in a phase.
func (r *Rotation) name(f mac.Fingerprint) string {
	names := map[Phase][2]string{PhaseOne: {"old", "new"}, PhaseTwo: {"new", "old"}}[r.Phase]
	if names[0] == "" {
		names = [2]string{"current", "previous"}
	}
	switch f {
	case "":
		return ""
	case r.Current:
		return names[0]
	case r.Previous:
		return names[1]
	}
	return "removed"
}

// peerRotation is one replica's line. The caller holds s.mu.
func (s *Server) peerRotation(r *Rotation, id uint8, local bool) PeerRotation {
	p := s.proofsOf(id)
	pr := PeerRotation{Peer: int(id), Local: local, Kind: p.kind, SignsWith: p.signs, Signs: r.name(p.signs), Holds: []HeldSecret{}, LinkProven: true}
	if !p.signed.IsZero() {
		at := p.signed
		pr.Signed = &at
	}
	for _, f := range []mac.Fingerprint{r.Current, r.Previous} {
		if at := p.shown[f]; f != "" && !at.IsZero() {
			pr.Holds = append(pr.Holds, HeldSecret{f, r.name(f), at})
		}
	}
	for l := range s.links {
		for _, leg := range []*leg{l.near, l.far.Load()} {
			if leg.replica == id && leg.security != Plaintext {
				pr.Linked = true
				pr.LinkProven = pr.LinkProven && slices.Contains(leg.secrets, r.Current)
			}
		}
	}
	pr.LinkProven = pr.LinkProven && pr.Linked
	return pr
}

// judge says whether the next step is safe. A swap is when everybody holds what we
// will sign with; a removal is when everybody signs with what will be left, and no
// link rests on the other secret alone. After a start in the middle of a rotation
// both are asked for.
func (r *Rotation) judge() {
	if r.Phase == PhaseNone {
		r.Why = "no rotation is under way: there is no previous secret"
		return
	}
	for _, p := range r.Peers {
		if r.Phase != PhaseTwo {
			r.awaitHolding(p)
		}
		if r.Phase != PhaseOne {
			r.awaitSigning(p)
		}
	}
	r.Safe = len(r.Awaited) == 0
	step := map[Phase]string{PhaseOne: "swapping the two secrets", PhaseTwo: "removing the previous secret",
		PhaseUnknown: "the next step, whether swap or removal,"}[r.Phase]
	if r.Safe {
		r.Why = step + " cuts no link"
		return
	}
	var ids []string
	for _, a := range r.Awaited {
		if id := decimal(uint8(a.Peer)); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	r.Why = fmt.Sprintf("%s may cut replica %s", step, strings.Join(ids, ", "))
}

// awaitHolding awaits a replica that has not proved our previous secret.
func (r *Rotation) awaitHolding(p PeerRotation) {
	if slices.ContainsFunc(p.Holds, func(h HeldSecret) bool { return h.Fingerprint == r.Previous }) {
		return
	}
	a := Awaited{Peer: p.Peer, For: "showing that it holds the " + r.name(r.Previous) + " secret"}
	switch {
	case p.Local || p.Kind == KindNative:
		a.CannotShow = true
		a.For = "holding the " + r.name(r.Previous) + " secret: it is native and cannot show it"
	case p.Kind == KindUnknown:
		a.For += ", which a native replica cannot"
	}
	a.For += lastSeen(p)
	r.Awaited = append(r.Awaited, a)
}

// awaitSigning awaits a replica that does not sign with our current secret, or has
// a link that nothing but the other one proves.
func (r *Rotation) awaitSigning(p PeerRotation) {
	switch {
	case p.SignsWith != r.Current:
		r.Awaited = append(r.Awaited, Awaited{Peer: p.Peer, For: "signing with the " + r.name(r.Current) + " secret" + lastSeen(p)})
	case p.Linked && !p.LinkProven:
		r.Awaited = append(r.Awaited, Awaited{Peer: p.Peer, For: "a link that the " + r.name(r.Current) + " secret proves" + lastSeen(p)})
	}
}

// lastSeen says what a replica last signed with.
func lastSeen(p PeerRotation) string {
	if p.Signed == nil {
		return "; nothing was seen of it"
	}
	return fmt.Sprintf("; last seen signing with the %s one at %s", p.Signs, p.Signed.UTC().Format(time.RFC3339))
}
