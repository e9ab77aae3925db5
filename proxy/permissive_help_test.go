package proxy_test

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// permissive starts a gate of which strict mode would ask TLS on far legs.
func permissive(t testing.TB, change ...func(*proxy.Settings)) *gate {
	t.Helper()
	return start(t, spec{far: proxy.TLS, change: func(s *proxy.Settings) {
		s.Mode = proxy.Permissive
		for _, c := range change {
			c(s)
		}
	}})
}

// hasty makes the steps of a search short, where their length is not the matter.
func hasty(s *proxy.Settings) { s.ProveTimeout = 800 * time.Millisecond }

// tongue is what a native peer speaks, by the first byte that comes.
type tongue struct {
	plain  proxy.Security      // plaintext or psk; tls: nothing that begins without TLS
	tls    *replica.Voice      // nil: it takes a ClientHello for part of a frame
	silent bool                // then it waits for the rest, or it closes at once
	rude   func(*replica.Conn) // what it does on a ClientHello instead
	speaks func(*replica.Conn) // what it does on a connection that stands
}

// native is a peer without a gate, as this gate's far leg finds it.
type native struct {
	g     *gate
	conns chan *replica.Conn // that stood

	mu     sync.Mutex
	now    tongue
	hellos []string // what began each connection: "tls", "nonce", "plain"
}

// native listens where all higher ids are.
func (g *gate) native(speaks tongue) *native {
	n := &native{g: g, conns: make(chan *replica.Conn, 16), now: speaks}
	ln := g.peers
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := ln.AcceptTCP()
			if err != nil {
				return
			}
			bound(g.t, c)
			serving.Go(func() { n.serve(c) })
		}
	})
	g.t.Cleanup(func() { ln.Close(); serving.Wait() })
	return n
}

// only is a peer of one security.
func (g *gate) only(s proxy.Security) tongue {
	if s != proxy.TLS {
		return tongue{plain: s}
	}
	v := g.accepting(g.outPair(), proxy.TLS)
	return tongue{plain: proxy.TLS, tls: &v}
}

// turn gives the peer another tongue.
func (n *native) turn(speaks tongue) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.now = speaks
}

// heard is what began the connections since it was last asked.
func (n *native) heard() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.hellos
	n.hellos = nil
	return all
}

func (n *native) serve(c *net.TCPConn) {
	first := peekHello(c)
	if first == nil {
		c.Close()
		return
	}
	kind := "plain"
	switch {
	case first[0] == 0x16:
		kind = "tls"
	case (*wire.Header)(first).HasNonce():
		kind = "nonce"
	}
	n.mu.Lock()
	now := n.now
	n.hellos = append(n.hellos, kind)
	n.mu.Unlock()
	voice := n.g.accepting(n.g.outPair(), now.plain)
	if now.plain == "stranger" {
		voice.Keys = stranger
	}
	switch {
	case kind == "tls" && now.tls != nil:
		voice = *now.tls
	case kind == "tls" && now.rude != nil:
		now.rude(&replica.Conn{Conn: c, TCP: c})
		return
	case kind == "tls" && now.silent:
		rest(c) // it waits for the rest of a frame, or the end
		return
	case kind == "tls": // with part of it unread: a reset
		c.Close()
		return
	case now.plain == proxy.TLS: // an end
		io.ReadFull(c, first)
		c.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := voice.Accept(ctx, c)
	if err != nil {
		c.Close()
		return
	}
	if now.speaks != nil {
		now.speaks(conn)
	}
	n.conns <- conn
}

// peekHello waits for the 256 bytes of a dialer's first flight without taking
// them, nil when they do not come.
func peekHello(c *net.TCPConn) []byte {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	b := make([]byte, wire.HeaderSize)
	got := 0
	err = raw.Read(func(fd uintptr) bool {
		n, _, err := syscall.Recvfrom(int(fd), b, syscall.MSG_PEEK)
		got = max(n, 0)
		return err != syscall.EAGAIN
	})
	if err != nil || got == 0 {
		return nil
	}
	return b
}

// next is the next connection that stood.
func (n *native) next() *replica.Conn {
	n.g.t.Helper()
	select {
	case c := <-n.conns:
		return c
	case <-time.After(patience):
		n.g.t.Fatalf("got no connection that stands, heard %q; log:\n%s", n.heard(), n.g.text())
		return nil
	}
}

// link lets the local replica dial and waits for the link to the native peer.
func (n *native) link() ends {
	g := n.g
	g.t.Helper()
	links := g.links()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	near, err := g.dialing(g.outPair(), g.near).Dial(ctx, g.egress())
	if err != nil {
		g.t.Fatal(err)
	}
	bound(g.t, near.TCP)
	g.await("an opened link", func() bool { return len(g.opened) > links })
	return ends{near: near, far: n.next()}
}

// refused lets the local replica dial, and holds that it is reset, with which
// ending, and how the peer was spoken to meanwhile.
func (n *native) refused(ending string, heard ...string) {
	g := n.g
	g.t.Helper()
	n.heard()
	g.mu.Lock()
	before := len(g.refused)
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	near, err := g.dialing(g.outPair(), g.near).Dial(ctx, g.egress())
	if err != nil {
		g.t.Fatal(err)
	}
	bound(g.t, near.TCP)
	if got, err := rest(near); len(got) != 0 || !isReset(err) {
		g.t.Errorf("got %d bytes and %v at the near leg, want a reset", len(got), err)
	}
	g.await("a refusal", func() bool { return len(g.refused) > before })
	g.mu.Lock()
	got := slices.Clone(g.refused[before:])
	g.mu.Unlock()
	if len(got) != 1 || got[0] != "egress "+ending {
		g.t.Errorf("got refusals %q, want egress %s; log:\n%s", got, ending, g.text())
	}
	if got := n.heard(); !slices.Equal(got, heard) {
		g.t.Errorf("the peer was spoken to in %q, want %q", got, heard)
	}
	for len(n.conns) > 0 { // what a plaintext peer took for a link
		hangUp(<-n.conns)
	}
}

// carries holds that a link takes frames both ways.
func (g *gate) carries(e ends, peer uint8) {
	g.t.Helper()
	token := uint64(g.links())
	send(g.t, e.near, commit(g.local, token))
	receive(g.t, e.far, commit(g.local, token))
	send(g.t, e.far, commit(peer, token))
	receive(g.t, e.near, commit(peer, token))
}

// over ends a link and waits until the books have it.
func (g *gate) over(e ends) {
	g.t.Helper()
	g.mu.Lock()
	before := len(g.closed)
	g.mu.Unlock()
	hangUp(e.near, e.far)
	g.await("a closed link", func() bool { return len(g.closed) > before })
}

// wantFar holds what the far leg of the newest link speaks.
func (g *gate) wantFar(want proxy.Security) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if newest := g.opened[len(g.opened)-1]; !strings.HasSuffix(newest, " "+string(want)) {
		g.t.Errorf("got link %q, want one in %s; log:\n%s", newest, want, g.log.String())
	}
}
