package proxy_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/replgate/replgate/proxy"
)

// A SYN that is lost is sent again after a second, which is all that TLS has to
// itself. That is no sign that it is not there, and nothing weaker is tried.
func TestPermissiveLostSYN(t *testing.T) {
	t.Parallel()
	g := permissive(t)
	ln, err := g.peers.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	// A queue of one that is full: the kernel drops what else comes.
	if err := ln.Control(func(fd uintptr) { err = syscall.Listen(int(fd), 0) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	raw(t, g.peers.Addr().String())
	began := time.Now()
	near, err := g.dialing(g.outPair(), g.near).Dial(t.Context(), g.egress())
	if err != nil {
		t.Fatal(err)
	}
	bound(t, near.TCP)
	// real time: until the gate's SYN has been sent and lost
	time.Sleep(300 * time.Millisecond)
	filler := accept(t, g.peers)
	filler.Close()
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
