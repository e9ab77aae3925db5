package proxy

import (
	"net/netip"
	"slices"
	"sync"
)

// lobby holds the connections that are not yet proven, within two limits: all of
// them, and those of one source address. Strangers that say nothing cannot keep a
// known peer out: when a limit is full, the oldest connection that has not sent a
// whole first flight gives way to the newcomer.
type lobby struct {
	all, perSource int

	mu      sync.Mutex
	waiting []*visit // in order of arrival
}

// enter takes a visit in. victim is the one that gives way, already out of the
// lobby; ok is false when nobody does.
func (y *lobby) enter(v *visit) (victim *visit, ok bool) {
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
		victim = y.oldestSilent(same)
	case full(y.all, anyone):
		victim = y.oldestSilent(anyone)
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

// oldestSilent finds who gives way.
func (y *lobby) oldestSilent(counts func(*visit) bool) *visit {
	for _, w := range y.waiting {
		if !w.spoken && counts(w) {
			return w
		}
	}
	return nil
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
