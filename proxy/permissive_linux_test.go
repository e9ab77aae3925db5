package proxy_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/replgate/replgate/proxy"
)

// losing makes the listener of higher ids lose SYNs: its queue of one is full until
// the returned function empties it. A SYN that is lost is sent again after a
// second.
func (g *gate) losing() (empty func()) {
	g.t.Helper()
	ln, err := g.peers.SyscallConn()
	if err != nil {
		g.t.Fatal(err)
	}
	var failed error
	if err := ln.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), 0) }); err != nil || failed != nil {
		g.t.Fatal(err, failed)
	}
	raw(g.t, g.peers.Addr().String())
	return func() { accept(g.t, g.peers).Close() }
}

// A lost SYN costs all the time that TLS has to itself. That is no sign that it is
// not there, and nothing weaker is tried.
func TestPermissiveLostSYN(t *testing.T) {
	t.Parallel()
	g := permissive(t)
	empty := g.losing()
	began := time.Now()
	near, err := g.dialing(g.outPair(), g.near).Dial(t.Context(), g.egress())
	if err != nil {
		t.Fatal(err)
	}
	bound(t, near.TCP)
	// real time: until the gate's SYN has been sent and lost
	time.Sleep(300 * time.Millisecond)
	empty()
	n := g.native(g.only(proxy.TLS))
	g.await("an opened link", func() bool { return len(g.opened) == 1 })
	g.wantFar(proxy.TLS)
	if took := time.Since(began); took < time.Second {
		t.Skipf("no SYN was lost: the link took %v", took) // another kernel; nothing is learnt there
	}
	if got := n.heard(); !slices.Equal(got, []string{"tls"}) {
		t.Errorf("the peer was spoken to in %q, want TLS alone", got)
	}
}

// Where a lost SYN has left no time to hear a Challenge, silence is no answer: a
// psk peer would get a plaintext link.
func TestPermissiveNoTimeForAnAnswer(t *testing.T) {
	t.Parallel()
	g := permissive(t, func(s *proxy.Settings) { s.ProveTimeout = 2200 * time.Millisecond })
	near, err := g.dialing(g.outPair(), g.near).Dial(t.Context(), g.egress())
	if err != nil {
		t.Fatal(err)
	}
	bound(t, near.TCP)
	tls := accept(t, g.peers) // and silence
	empty := g.losing()
	if hello, _ := rest(tls); len(hello) == 0 || hello[0] != 0x16 {
		t.Errorf("got %d bytes, want a ClientHello and the end", len(hello))
	}
	// real time: until the gate's second SYN has been sent and lost
	time.Sleep(300 * time.Millisecond)
	empty()
	if got, err := rest(near); len(got) != 0 || !isReset(err) {
		t.Errorf("got %d bytes and %v at the near leg, want a reset", len(got), err)
	}
	g.wantRefused("egress", "handshake_timeout")
	if got, _ := rest(accept(t, g.peers)); len(got) != 0 {
		t.Errorf("got %d bytes on the second connection, want none", len(got))
	}
}
