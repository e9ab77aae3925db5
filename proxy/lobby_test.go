package proxy

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func visitFrom(addr string) *visit {
	return &visit{source: netip.MustParseAddr(addr), since: time.Now()}
}

// TestLobbyGivesWayToNewcomers is T36: the oldest that has not sent a whole first
// flight gives way; one that has spoken never does.
func TestLobbyGivesWayToNewcomers(t *testing.T) {
	y := &lobby{all: 4, perSource: 2}
	a1, a2, b1, b2 := visitFrom("127.0.0.1"), visitFrom("127.0.0.1"), visitFrom("127.0.0.2"), visitFrom("127.0.0.2")
	for _, v := range []*visit{a1, a2, b1, b2} {
		if victim, ok := y.enter(v, time.Now()); victim != nil || !ok {
			t.Fatalf("got victim %v, ok %v in an empty lobby, want a place", victim, ok)
		}
	}
	y.spoke(a1)
	for _, c := range []struct {
		name   string
		comes  *visit
		victim *visit
		ok     bool
	}{
		{"its own source is full: the oldest silent one of it", visitFrom("127.0.0.1"), a2, true},
		{"the lobby is full: the oldest silent one of all", visitFrom("127.0.0.3"), b1, true},
		{"again", visitFrom("127.0.0.4"), b2, true},
	} {
		if victim, ok := y.enter(c.comes, time.Now()); victim != c.victim || ok != c.ok {
			t.Errorf("%s: got victim %p, ok %v, want %p, %v", c.name, victim, ok, c.victim, c.ok)
		}
	}
	if !y.leave(a2) || y.leave(a1) {
		t.Error("got other visits evicted than a2, b1 and b2")
	}
}

// TestLobbyOfSpeakers: whoever has just spoken keeps its place; later the oldest
// of them gives way, unless it is proven.
func TestLobbyOfSpeakers(t *testing.T) {
	y := &lobby{all: 2, perSource: 2}
	proven, spoken := visitFrom("127.0.0.1"), visitFrom("127.0.0.2")
	for _, v := range []*visit{proven, spoken} {
		y.enter(v, time.Now())
		y.spoke(v)
	}
	y.proved(proven)
	if victim, ok := y.enter(visitFrom("127.0.0.3"), time.Now()); victim != nil || ok {
		t.Errorf("got victim %v, ok %v, want the newcomer refused", victim, ok)
	}
	later := time.Now().Add(lobbyPatience + time.Millisecond)
	if victim, ok := y.enter(visitFrom("127.0.0.3"), later); victim != spoken || !ok {
		t.Errorf("got victim %p, ok %v after a second, want %p", victim, ok, spoken)
	}
}

// TestSourceOf: an address is one source however it is written (T32).
func TestSourceOf(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"127.0.0.1:5", "127.0.0.1"},
		{"[::ffff:127.0.0.1]:6", "127.0.0.1"},
		{"[fe80::1%lo]:7", "fe80::1"},
	} {
		if got := sourceOf(netip.MustParseAddrPort(c.in)); got.String() != c.want {
			t.Errorf("got %v of %s, want %s", got, c.in, c.want)
		}
	}
}

// TestRepeats: a line at once, then one every repeatEvery with the count between.
func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r repeats
		k, other := kind{DialRefused, egress, 2}, kind{DialRefused, egress, 1}
		type said struct {
			hidden int
			ok     bool
		}
		tell := func(k kind) said {
			hidden, ok := r.tell(k, time.Now())
			return said{hidden, ok}
		}
		if got := tell(k); got != (said{0, true}) {
			t.Errorf("got %v for the first, want it told", got)
		}
		for range 99 {
			time.Sleep(100 * time.Millisecond) // virtual time
			if got := tell(k); got.ok {
				t.Fatalf("got a line %v after the first", time.Since(time.Time{}))
			}
		}
		if got := tell(other); got != (said{0, true}) {
			t.Errorf("got %v for another peer, want it told", got)
		}
		time.Sleep(100 * time.Millisecond) // virtual time
		if got := tell(k); got != (said{99, true}) {
			t.Errorf("got %v after ten seconds, want a line that counts 99", got)
		}
	})
}
