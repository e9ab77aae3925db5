package proxy

import (
	"fmt"
	"slices"
	"time"
)

// Links are made anew when settings no longer support what proved them. It is done
// from here by ending them in order: the replica, or the peer, dials again.

// The ReauthWindow in parts: one part is how long the next peer waits for a peer
// that does not come back, and in the last one nobody is waited for.
const reauthParts = 6

// revokedGrace is how long the link of a revoked certificate may take to a frame's
// end: it is closed within five seconds.
const revokedGrace = 2 * time.Second

// unsupported is a link that the settings of now would not admit any more.
type unsupported struct {
	link   *link
	ending Ending
	got    string
}

// remakeLoop judges the links whenever settings have been applied, and makes anew
// those that they do not support.
func (s *Server) remakeLoop() {
	for {
		select {
		case <-s.judged:
			s.remake()
		case <-s.admitting.Done():
			return
		}
	}
}

// remake ends what is to be made anew: revoked certificates' links at once, the
// others one peer at a time.
func (s *Server) remake() {
	for s.admitting.Err() == nil {
		set := s.settings.Load()
		left := s.endRevoked(set)
		if len(left) == 0 {
			return
		}
		end := set.applied.Add(set.ReauthWindow)
		grace := max(time.Until(end), closeGrace)
		part := set.ReauthWindow / reauthParts
		patience := time.Until(end.Add(-part)) // until the last part
		if patience <= 0 {
			for _, u := range left {
				u.end(grace)
			}
			return
		}
		left[0].end(grace)
		s.awaitBack(left[0].link, min(part, patience))
	}
}

// end orders the link's end.
func (u unsupported) end(grace time.Duration) {
	u.link.log.Info("link not supported any more", "ending", string(u.ending), "got", u.got, "want", "what the applied settings ask for")
	u.link.order(u.ending, grace)
}

// endRevoked ends the links of revoked certificates and returns the others that are
// not supported, by peer.
func (s *Server) endRevoked(set *Settings) (left []unsupported) {
	for _, u := range s.judge(set) {
		if u.ending == PeerCertRevoked {
			u.end(revokedGrace)
		} else {
			left = append(left, u)
		}
	}
	return left
}

// awaitBack waits until a link's peer has another one. Newer settings are judged
// meanwhile as far as they cannot wait.
func (s *Server) awaitBack(old *link, patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		s.mu.Lock()
		now, entered := s.seat(old.peer.ID).link, s.entered
		s.mu.Unlock()
		if now != nil && now != old {
			return
		}
		select {
		case <-entered:
		case <-s.judged:
			s.endRevoked(s.settings.Load())
		case <-timer.C:
			return
		case <-s.admitting.Done():
			return
		}
	}
}

// judge holds every link that is not ending against settings, in the order of the
// peers.
func (s *Server) judge(set *Settings) (all []unsupported) {
	for _, l := range s.current() {
		if l.ending() {
			continue
		}
		if ending, got := s.unsupported(set, l); ending != "" {
			all = append(all, unsupported{l, ending, got})
		}
	}
	slices.SortFunc(all, func(a, b unsupported) int { return int(a.link.peer.ID) - int(b.link.peer.ID) })
	return all
}

// unsupported says why settings do not support a link, by the ending that it is
// given; an empty one says that they do. A revoked certificate comes before all
// else.
func (s *Server) unsupported(set *Settings, l *link) (Ending, string) {
	nearNeeds := set.UpstreamSecurity
	if l.direction == egress {
		nearNeeds = set.EgressSecurity
	}
	farNeeds := set.peer(l.peer.ID).Security
	if set.Mode == Permissive {
		farNeeds = Plaintext // what its peer has proved since, only its next one must be
	}
	ending, got := s.unsupportedLeg(set, l.far.Load(), farNeeds)
	if ending == PeerCertRevoked {
		return ending, got
	}
	if other, why := s.unsupportedLeg(set, l.near, nearNeeds); other != "" {
		return other, why
	}
	return ending, got
}

// unsupportedLeg is the same for one leg. Time alone ends no link: a certificate
// that was good when the leg was made may have expired since, and its successor is
// shown at the next handshake.
func (s *Server) unsupportedLeg(set *Settings, l *leg, needs Security) (Ending, string) {
	identity, fault := set.identify(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if fault == nil && identity.Ignored != nil && l.identity.Ignored == nil {
		fault = identity.Ignored
	}
	switch {
	case fault == nil:
		l.identity = identity
	case fault.Ending == PeerCertRevoked:
		return PeerCertRevoked, fault.Detail
	case fault.Ending != TLSExpired && fault.Ending != TLSNotYetValid:
		return Reauth, fault.Detail
	}
	switch {
	case weaker(l.security, needs):
		return Reauth, fmt.Sprintf("a leg to replica %d in %s", l.replica, l.security)
	case l.security != Plaintext && set.Keys != nil && !slices.ContainsFunc(l.secrets, set.holds):
		return Reauth, fmt.Sprintf("a leg to replica %d that only a removed secret has proven", l.replica)
	}
	return "", ""
}
