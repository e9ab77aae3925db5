package proxy

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// T55 in time: ten minutes after the last plaintext link, and not a moment sooner.
func TestStrictReadyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{seats: map[uint8]*seat{}, links: map[*link]struct{}{}, memory: newMemory(nil)}
		s.settings.Store(&Settings{StrictReadyAfter: 10 * time.Minute,
			Peers: []Peer{{ID: 2, Security: TLS}, {ID: 0, Security: TLS}, {ID: 3, Security: Plaintext}}})
		s.notePlaintext(2)
		s.notePlaintext(3) // of which strict asks no more
		s.memory.prove(2, TLS)
		s.memory.prove(0, PSK)
		if r := s.StrictReady(); r.Ready || len(r.NotReady) != 2 || r.NotReady[0].Peer != 0 || r.NotReady[0].Proved != PSK || r.NotReady[1].Peer != 2 {
			t.Fatalf("got %+v, want peers 0 and 2 awaited", r)
		}
		s.memory.prove(0, TLS)
		time.Sleep(10*time.Minute - time.Nanosecond)
		if r := s.StrictReady(); r.Ready || len(r.NotReady) != 1 || !r.NotReady[0].Plaintext.Equal(time.Now().Add(time.Nanosecond-10*time.Minute)) {
			t.Errorf("just before: got %+v, want peer 2 awaited, with the time", r)
		}
		time.Sleep(time.Nanosecond)
		if r := s.StrictReady(); !r.Ready {
			t.Errorf("after ten minutes: got %+v, want ready", r)
		}
		s.notePlaintext(0)
		if r := s.StrictReady(); r.Ready {
			t.Error("after another plaintext link: got ready, want it awaited")
		}
	})
}

// A weaker link is named, whatever has been proved beside it.
func TestStandingWithWeakerLink(t *testing.T) {
	at := standing{peer: Peer{ID: 2, Security: TLS}, proved: TLS, linked: true, link: PSK}
	if a, ready := at.judge(time.Now(), time.Minute); ready || a.Link != PSK || a.Reason != "its link speaks psk" {
		t.Errorf("got %+v, ready %v, want it awaited for its link", a, ready)
	}
}

// slowMemory is a Memory on a disk that hangs until it is released, and that then
// fails.
type slowMemory struct {
	release chan struct{}
	got     []Security // what was kept, of one peer; empty: a reset
}

var errDisk = errors.New("no space left")

func (m *slowMemory) Proved(uint8) Security { return "" }
func (m *slowMemory) Prove(_ uint8, s Security) error {
	<-m.release
	m.got = append(m.got, s)
	return errDisk
}
func (m *slowMemory) Reset(uint8) error {
	m.got = append(m.got, "")
	return nil
}

// What has been proved holds at once, however long the Memory takes, and what it
// gets last is the newest.
func TestProofsDoNotWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &slowMemory{release: make(chan struct{})}
		p := newMemory(m)
		if !p.prove(2, PSK) || p.prove(2, PSK) || p.proved(2) != PSK {
			t.Error("a first proof of psk: want it to be news once, and to hold")
		}
		kept := make(chan error, 2)
		go func() { kept <- p.keep(2) }()
		synctest.Wait()
		if !p.prove(2, TLS) || p.prove(2, PSK) || p.proved(2) != TLS {
			t.Error("a proof of tls: want it to be news, and psk none after it")
		}
		go func() { kept <- p.keep(2) }()
		close(m.release)
		for range 2 {
			if err := <-kept; !errors.Is(err, errDisk) {
				t.Errorf("got %v, want the Memory's own error", err)
			}
		}
		p.forget(2)
		if err := p.keep(2); err != nil || p.proved(2) != Plaintext {
			t.Errorf("after a reset: got %v, %q, want nothing", err, p.proved(2))
		}
		if want := []Security{PSK, TLS, ""}; !slices.Equal(m.got, want) && !slices.Equal(m.got, []Security{TLS, TLS, ""}) {
			t.Errorf("the Memory got %q, want %q: what is kept last is the newest", m.got, want)
		}
	})
}
