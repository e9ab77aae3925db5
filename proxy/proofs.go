package proxy

import (
	"maps"
	"slices"
	"time"

	"github.com/replgate/replgate/mac"
)

// proofs is what one replica has proved of secrets, by their fingerprints: in a
// rotation the slots change their meaning and the secrets stay what they are.
type proofs struct {
	signs  mac.Fingerprint // that it last signed with
	signed time.Time
	// shown are the secrets that it has proved to hold, and when last. It never
	// has others than the keyring's.
	shown map[mac.Fingerprint]time.Time
	kind  Kind
}

// Kind is what is known of a peer's acceptor.
type Kind string

// The kinds. A peer that dials us and shows nothing may be either.
const (
	KindUnknown Kind = ""
	KindGate    Kind = "gate"
	KindNative  Kind = "native"
)

// proofsOf returns the proofs of a replica, the local one too. The caller holds
// s.mu.
func (s *Server) proofsOf(replica uint8) *proofs {
	if s.proofs[replica] == nil {
		s.proofs[replica] = &proofs{shown: map[mac.Fingerprint]time.Time{}}
	}
	return s.proofs[replica]
}

// noteProof takes the proof of a secret, and whether it is the one that the replica
// signs with. Only secrets that are still ours count.
func (s *Server) noteProof(replica uint8, secret mac.Fingerprint, signs bool) {
	set, now := s.settings.Load(), time.Now()
	s.mu.Lock()
	p := s.proofsOf(replica)
	news := signs && p.signs != secret || p.shown[secret].IsZero()
	if signs {
		p.signs, p.signed = secret, now
	}
	if set.holds(secret) {
		p.shown[secret] = now
	}
	s.mu.Unlock()
	if news && set.rotating() {
		set.Log.Info("secret proved", "peer", replica, "secret", string(set.Keys.Slot(secret)), "fingerprint", string(secret), "signs", signs)
	}
}

// noteKind remembers what a peer is.
func (s *Server) noteKind(replica uint8, k Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proofsOf(replica).kind = k
}

// holds reports whether a secret is one of the keyring's.
func (s *Settings) holds(secret mac.Fingerprint) bool {
	return s.Keys != nil && s.Keys.Slot(secret) != mac.SlotNone
}

// slotName says in a word which secret of ours a fingerprint is.
func (s *Settings) slotName(secret mac.Fingerprint) string {
	if !s.holds(secret) {
		return "removed"
	}
	return string(s.Keys.Slot(secret))
}

// secrets returns the fingerprints of both slots, empty where there is none.
func (s *Settings) secrets() (current, previous mac.Fingerprint) {
	if s.Keys == nil {
		return "", ""
	}
	return s.Keys.Fingerprint(mac.SlotCurrent), s.Keys.Fingerprint(mac.SlotPrevious)
}

// meet takes in the secrets of new settings: which of them are younger than the
// others, and what has been proved of those that are gone. It reports whether there
// is another secret than before, or another current one. The caller holds s.mu.
func (s *Server) meet(next *Settings) (changed bool) {
	current, previous := next.secrets()
	was, wasPrevious := mac.Fingerprint(""), mac.Fingerprint("")
	if before := s.settings.Load(); before != nil {
		was, wasPrevious = before.secrets()
	}
	maps.DeleteFunc(s.born, func(f mac.Fingerprint, _ int) bool { return !next.holds(f) })
	youngest := 0
	if len(s.born) > 0 {
		youngest = slices.Max(slices.Collect(maps.Values(s.born))) + 1
	}
	for _, f := range []mac.Fingerprint{current, previous} {
		if _, known := s.born[f]; f != "" && !known {
			s.born[f] = youngest
		}
	}
	for _, p := range s.proofs {
		maps.DeleteFunc(p.shown, func(f mac.Fingerprint, _ time.Time) bool { return !next.holds(f) })
	}
	return current != was || previous != wasPrevious
}

// sessionWith returns the session of the link with a peer, and the leg that has
// it; nil where there is no link, or a plaintext one.
func (s *Server) sessionWith(peer uint8) (mac.Session, *leg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.seat(peer)
	if at.link == nil {
		return mac.Session{}, nil
	}
	far := at.link.far.Load()
	return far.session, far
}

// noteOver takes the proof of a secret over the channel of a link's leg.
func (s *Server) noteOver(l *leg, secret mac.Fingerprint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(l.secrets, secret) {
		set := s.settings.Load()
		l.secrets = slices.DeleteFunc(l.secrets, func(f mac.Fingerprint) bool { return !set.holds(f) })
		l.secrets = append(l.secrets, secret)
	}
}
