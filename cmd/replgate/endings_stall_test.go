//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
)

// pour writes frames with bodies of the given sizes by turns until the connection
// ends or stop is closed, and returns at once.
func pour(c *replica.Conn, id uint8, stop <-chan struct{}, sizes ...int) {
	go func() {
		for op := uint64(1); ; op++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := c.Write(offset(id, op, make([]byte, sizes[op%uint64(len(sizes))]))); err != nil {
				return
			}
		}
	}()
}

// TestStalledLocalReader lets the local replica read nothing from one of two
// links: that ends nothing but, after write_stall, the link itself. The product's
// own 10 s and a stall of 30 s are soak's.
func TestStalledLocalReader(t *testing.T) {
	t.Parallel()
	stall := 3 * time.Second
	if soaking() {
		stall = 30 * time.Second
	}
	s := raise(t, stageOptions{id: 2, replicas: 3, far: "psk", extra: fmt.Sprintf("[timeouts]\nwrite_stall = \"%v\"\n", stall)})
	p := beatOn(t, s.arrive(0, "psk"), 0, 2)
	stalled := s.arrive(1, "psk")
	stop := make(chan struct{})
	defer close(stop)
	began := time.Now()
	pour(stalled.far, 1, stop, 200<<10)
	// The other direction of the stalled link does not wait for it.
	lively := time.NewTicker(beat)
	defer lively.Stop()
	for token := uint64(1); time.Since(began) < stall*3/4; token++ {
		<-lively.C
		if _, err := stalled.near.Write(commit(2, token)); err != nil {
			t.Fatalf("the stalled link ended after %v, want it to live for %v: %v", time.Since(began), stall, err)
		}
		stalled.far.TCP.SetReadDeadline(time.Now().Add(pulseGap))
		if _, err := stalled.far.ReadFrame(1 << 20); err != nil {
			t.Fatalf("the other direction of a stalled link: got %v, want every frame", err)
		}
	}
	how, _, _ := endOf(stalled.far, stall+playLimit)
	if took := time.Since(began); how == byTime || took < stall || took > stall*3/2+time.Second {
		t.Errorf("got %s after %v at the far leg, want an end when no write has made progress for write_stall, %v", how, took, stall)
	}
	eventually(t, "write_stalled", func() bool { return s.closedBy("write_stalled") == 1 })
	p.end()
	if n := s.metrics().Sum("replgate_links_closed_total"); n != 1 {
		t.Errorf("got %v connections ended, want the stalled one alone", n)
	}
}

// TestStalledFarReader lets a peer read nothing: whoever answers the network and
// does not read has stalled, and is not unreachable, whether the gate's clock or
// the kernel's finds out.
func TestStalledFarReader(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stall    string
		from, to time.Duration
	}{{"1s", time.Second, 2500 * time.Millisecond}, {"10s", 3 * time.Second, 11 * time.Second}} {
		t.Run("write_stall="+c.stall, func(t *testing.T) {
			t.Parallel()
			s := raise(t, stageOptions{id: 1, replicas: 3, far: "psk", extra: "[timeouts]\nwrite_stall = \"" + c.stall + "\"\n"})
			p := beatOn(t, s.arrive(0, "psk"), 0, 1)
			stalled := s.leaveFor(2, s.listenAs(2), "psk")
			stop := make(chan struct{})
			defer close(stop)
			began := time.Now()
			pour(stalled.near, 1, stop, 200<<10)
			how, _, _ := endOf(stalled.near, 2*playLimit)
			if took := time.Since(began); how == byTime || took < c.from || took > c.to {
				t.Errorf("got %s after %v at the near leg, want an end after %v to %v", how, took, c.from, c.to)
			}
			eventually(t, "an end", func() bool { return s.metrics().Sum("replgate_links_closed_total") > 0 })
			if n := s.closedBy("write_stalled"); n != 1 {
				t.Errorf("got %v ended by write_stalled, want it: the log says\n%s", n, tail(s.gate.Log(), 3))
			}
			p.end()
		})
	}
}

// TestNewestProvenSessionWins lets each kind of newcomer prove itself beside a
// link: the old near leg ends first, by a FIN between frames, then the new one is
// made; nothing is said twice and nothing that was said is missing.
func TestNewestProvenSessionWins(t *testing.T) {
	t.Parallel()
	for _, security := range []string{"plaintext", "psk", "tls"} {
		t.Run("ingress/"+security, func(t *testing.T) {
			t.Parallel()
			s := raise(t, stageOptions{id: 1, replicas: 2, far: security})
			old := s.arrive(0, security)
			if _, err := old.far.Write(commit(0, 1)); err != nil {
				t.Fatal(err)
			}
			eventually(t, "a frame through the old link", func() bool { return s.metrics().Sum("replgate_frames_total") == 1 })
			far, err := s.ring(caller{pair: mac.Pair{Dialer: 0, Acceptor: 1}, security: security}, s.ingressAddr())
			if err != nil {
				t.Fatal(err)
			}
			defer far.TCP.Close()
			if how, n, took := endOf(old.near, playLimit); how != byFIN || n != 256 || took > finPassed {
				t.Errorf("got %s after %d bytes and %v at the old near leg, want a FIN after the frame", how, n, took)
			}
			if len(s.local.of(0)) != 0 {
				t.Error("got a new near leg before the old one has ended, want it after")
			}
			old.near.TCP.Close()
			began := time.Now()
			near, err := s.local.next(0)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("got the new near leg after %v, want it at once", took)
			}
			p := beatOn(t, bond{far, near}, 0, 1)
			time.Sleep(4 * beat) // real time: frames are to go over the new link
			p.end()
			if how, _, _ := endOf(old.far, playLimit); how == byTime {
				t.Error("got an old far leg that stays open, want its end")
			}
			old.far.TCP.Close()
			eventually(t, "one link superseded and one alive", func() bool { return s.closedBy("superseded") == 1 && s.linksOf(0) == 1 })
		})
	}
	t.Run("egress/plaintext", func(t *testing.T) {
		t.Parallel()
		s := raise(t, stageOptions{id: 0, replicas: 2, far: "psk", noLocal: true})
		ln := s.listenAs(1)
		old := s.leaveFor(1, ln, "psk")
		eventually(t, "a link", func() bool { return s.linksOf(1) == 1 })
		renewed := make(chan bond, 1)
		go func() { renewed <- s.leaveFor(1, ln, "psk") }()
		if how, _, _ := endOf(old.near, playLimit); how == byTime {
			t.Error("got an old near leg that stays open beside a new one, want its end")
		}
		old.near.TCP.Close()
		old.far.TCP.Close()
		p := beatOn(t, <-renewed, 1, 0)
		time.Sleep(4 * beat) // real time: frames are to go over the new link
		p.end()
		eventually(t, "one link superseded and one alive", func() bool { return s.closedBy("superseded") == 1 && s.linksOf(1) == 1 })
	})
}

// TestFlappingHolders lets two holders of one id throw each other out: at most
// one displacement in a heartbeat timeout, and a line that names both addresses
// (T25).
func TestFlappingHolders(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 1, replicas: 2, far: "psk"})
	go func() { // the local replica ends what ends
		for c := range s.local.of(0) {
			go func() { drainBytes(c); c.Close() }()
		}
	}()
	sources := []string{"127.11.0.1", "127.12.0.1"}
	pair := mac.Pair{Dialer: 0, Acceptor: 1}
	newcomers := 0
	began := time.Now()
	for i := 0; time.Since(began) < 6*time.Second; i++ {
		c, err := s.ring(caller{pair: pair, security: "psk", source: sources[i%2]}, s.ingressAddr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.TCP.Close() })
		go func() { drainBytes(c); c.TCP.Close() }()
		time.Sleep(100 * time.Millisecond) // real time: a holder redials so often
		newcomers++
	}
	displaced := 0
	for _, line := range logLines(s.gate, "ending", "superseded") {
		if line["msg"] == "link closed" { // the others are newcomers that came too soon
			displaced++
		}
	}
	if displaced < 1 || displaced > 2 {
		t.Errorf("got %d displacements in %v by %d newcomers, want one in each heartbeat timeout of 5 s", displaced, time.Since(began), newcomers)
	}
	lines := logLines(s.gate, "ending", "duplicate_identity")
	if len(lines) == 0 || lines[0]["level"] != "WARN" {
		t.Fatalf("got %v, want a warning of two holders", lines)
	}
	text := fmt.Sprint(lines[0])
	if !strings.Contains(text, sources[0]) || !strings.Contains(text, sources[1]) {
		t.Errorf("got the line %s, want both %v in it", text, sources)
	}
	if s.linksOf(0) != 1 {
		t.Errorf("got %d links, want the last one's", s.linksOf(0))
	}
}

// TestNewcomerWhileALinkIsMade lets a newcomer prove itself while the near leg of
// the one before is still being made: the newest wins, and the local replica never
// has two connections of one peer.
func TestNewcomerWhileALinkIsMade(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 1, replicas: 2, far: "psk"})
	c := caller{pair: mac.Pair{Dialer: 0, Acceptor: 1}, security: "psk"}
	var far [2]*replica.Conn
	for i := range far {
		var err error
		if far[i], err = s.ring(c, s.ingressAddr()); err != nil {
			t.Fatal(err)
		}
		defer far[i].TCP.Close()
		// The newest is the one that is proven last: a Finish that lies in a socket
		// is not.
		want := fmt.Sprintf("session %d proven", i+1)
		eventually(t, want, func() bool {
			return s.metrics().Sum("replgate_handshakes_total", `role="acceptor"`, `result="ok"`) > float64(i)
		})
	}
	near, err := s.local.next(0)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case second := <-s.local.of(0):
		if how, _, _ := endOf(near, 10*time.Millisecond); how == byTime {
			t.Error("got two near legs of one peer at once, want the first to end before the second is made")
		}
		near = second
	case <-time.After(300 * time.Millisecond):
		// The one that stays is the newest session's, whose frame says so; an older
		// one may have gone before it reached the replica at all.
		if how, _, _ := endOf(near, 300*time.Millisecond); how != byTime {
			near.TCP.Close()
			if near, err = s.local.next(0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := far[1].Write(commit(0, 1)); err != nil {
		t.Fatalf("the newest session: %v", err)
	}
	near.TCP.SetReadDeadline(time.Now().Add(time.Second))
	if _, err := near.ReadFrame(1 << 20); err != nil {
		t.Errorf("got %v in place of the newest session's frame, want it: the newest wins", err)
	}
}
