package proxy

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// lobby holds the connections that are not yet proven, within two limits: all of
// them, and those of one source address. Strangers cannot keep a known peer out:
// when a limit is full, the oldest connection that has not sent a whole first
// flight gives way to the newcomer, and where there is none the oldest that has
// sent one and not proved itself for lobbyPatience.
type lobby struct {
	all, perSource int

	mu      sync.Mutex
	waiting []*visit // in order of arrival
}

// enter takes a visit in. victim is the one that gives way, already out of the
// lobby; ok is false when nobody does.
func (y *lobby) enter(v *visit, now time.Time) (victim *visit, ok bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	same := func(w *visit) bool { return w.source == v.source }
	anyone := func(*visit) bool { return true }
	full := func(limit int, counts func(*visit) bool) bool {
		n := 0
		for _, w := range y.waiting {
			if counts(w) {
				n++
			}
		}
		return n >= limit
	}
	switch {
	case full(y.perSource, same):
		victim = y.givesWay(same, now)
	case full(y.all, anyone):
		victim = y.givesWay(anyone, now)
	default:
		y.waiting = append(y.waiting, v)
		return nil, true
	}
	if victim == nil {
		return nil, false
	}
	y.remove(victim)
	victim.evicted = true
	y.waiting = append(y.waiting, v)
	return victim, true
}

// lobbyPatience is how long a connection that has spoken keeps its place against
// newcomers: a handshake across the world takes less.
const lobbyPatience = 500 * time.Millisecond

// givesWay finds who does, nobody when all are proven or have just spoken.
func (y *lobby) givesWay(counts func(*visit) bool, now time.Time) *visit {
	var slow *visit
	for _, w := range y.waiting {
		switch {
		case !counts(w) || w.proven:
		case !w.spoken:
			return w
		case slow == nil && now.Sub(w.since) > lobbyPatience:
			slow = w
		}
	}
	return slow
}

func (y *lobby) remove(v *visit) {
	if i := slices.Index(y.waiting, v); i >= 0 {
		y.waiting = slices.Delete(y.waiting, i, i+1)
	}
}

// spoke notes that a visit has sent a whole first flight.
func (y *lobby) spoke(v *visit) {
	y.mu.Lock()
	defer y.mu.Unlock()
	v.spoken = true
}

// proved notes that a visit has proved itself: it gives way to nobody.
func (y *lobby) proved(v *visit) {
	y.mu.Lock()
	defer y.mu.Unlock()
	v.proven = true
}

// leave lets a visit go, and says whether it had to give way before.
func (y *lobby) leave(v *visit) (evicted bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.remove(v)
	return v.evicted
}

// sourceOf is the address a connection counts under: an IPv4 one is the same
// however it came.
func sourceOf(addr netip.AddrPort) netip.Addr { return addr.Addr().Unmap().WithZone("") }
