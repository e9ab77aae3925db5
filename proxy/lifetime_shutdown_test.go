package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// shutdown ends the gate within a time.
func (g *gate) shutdown(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	g.down = true
	return g.server.Shutdown(ctx)
}

// heard is what a stand-in got until the end: how many whole frames, how many
// bytes behind the last one, and how it ended.
type heard struct {
	frames, torn int
	err          error
}

// listenTo reads a side to its end and then closes it, as a replica does.
func listenTo(c *replica.Conn) heard {
	got, err := rest(c)
	c.TCP.Close()
	frames, torn, framing := replica.Frames(got)
	if framing != nil {
		err = framing
	}
	return heard{len(frames), len(torn), err}
}

// endless says frames of all sizes until it cannot, without pause.
func endless(c *replica.Conn, sender uint8) {
	all := stream(sender, 1<<20, uint64(sender))
	for {
		if _, err := c.Write(all); err != nil {
			return
		}
	}
}

// A shutdown under peers that never stop talking, in both directions at once:
// every receiver gets whole frames and then the end, nothing behind the last one.
func TestLifetimeShutdownUnderTraffic(t *testing.T) {
	for _, s := range securities {
		for _, egress := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/egress %v", s, egress), func(t *testing.T) {
				g := start(t, spec{near: s, far: s})
				e := g.openIngressOrEgress(egress)
				peer := g.lower()
				if egress {
					peer = g.higher()
				}
				var all sync.WaitGroup
				var near, far heard
				all.Go(func() { near = listenTo(e.near) })
				all.Go(func() { far = listenTo(e.far) })
				all.Go(func() { endless(e.near, g.local) })
				all.Go(func() { endless(e.far, peer) })
				g.await("traffic", func() bool { return g.volume["in forwarded"] > 4<<20 && g.volume["out forwarded"] > 4<<20 })
				if err := g.shutdown(patience); err != nil {
					t.Errorf("got %v, want nil", err)
				}
				all.Wait()
				for side, h := range map[string]heard{"near": near, "far": far} {
					if h.torn != 0 || h.frames == 0 || h.err != nil {
						t.Errorf("%s: got %d frames, %d bytes behind the last and %v, want 0 bytes and a FIN", side, h.frames, h.torn, h.err)
					}
				}
				g.wantClosed("drain")
				g.mu.Lock()
				defer g.mu.Unlock()
				if n := g.frames["in forwarded"]; n != near.frames {
					t.Errorf("near: got %d frames counted and %d received", n, near.frames)
				}
				if n := g.frames["out forwarded"]; n != far.frames {
					t.Errorf("far: got %d frames counted and %d received", n, far.frames)
				}
			})
		}
	}
}

// An idle link ends at once.
func TestLifetimeShutdownIdle(t *testing.T) {
	for _, s := range securities {
		t.Run(string(s), func(t *testing.T) {
			g := start(t, spec{near: s, far: s})
			in, out := g.openIngress(), g.openEgress()
			var all sync.WaitGroup
			for _, c := range []*replica.Conn{in.near, in.far, out.near, out.far} {
				all.Go(func() {
					if h := listenTo(c); h != (heard{}) {
						t.Errorf("got %+v, want nothing and a FIN", h)
					}
				})
			}
			began := time.Now()
			if err := g.shutdown(patience); err != nil {
				t.Errorf("got %v, want nil", err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("got a shutdown of %v, want one at once", took)
			}
			all.Wait()
			g.mu.Lock()
			defer g.mu.Unlock()
			if want := []string{"0 ingress " + string(s) + " drain", "2 egress " + string(s) + " drain"}; !slices.Equal(slices.Sorted(slices.Values(g.closed)), want) {
				t.Errorf("got links closed %q, want %q", g.closed, want)
			}
		})
	}
}

// A link that stands inside a frame is waited for until the deadline and then cut,
// which the receiver sees as a reset: with part of a stored frame, of a long one,
// of one that is dropped, and with a receiver that does not read.
func TestLifetimeShutdownStuck(t *testing.T) {
	for name, stick := range map[string]func(t *testing.T, g *gate, from, to *replica.Conn){
		"stored frame": func(t *testing.T, _ *gate, from, to *replica.Conn) {
			send(t, from, commit(0, 1), commit(0, 2)[:100])
			receive(t, to, commit(0, 1))
		},
		"long frame": func(t *testing.T, _ *gate, from, to *replica.Conn) {
			frame := offset(5, noise(1<<20, 1))[:300_000]
			send(t, from, frame)
			receive(t, to, frame)
		},
		"dropped frame": func(t *testing.T, _ *gate, from, to *replica.Conn) {
			send(t, from, commit(0, 1), foreignised(metadata(5, noise(1<<20, 1)))[:300_000])
			receive(t, to, commit(0, 1))
		},
		"blocked receiver": func(_ *testing.T, g *gate, from, to *replica.Conn) {
			narrow(from, to)
			go from.Write(bytes.Repeat(messages(2, noise(30_000, 1)), 1000)) // until it is cut
			g.awaitBlocked(ways[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, spec{})
			from, to := g.openWay(ways[0])
			stick(t, g, from, to)
			began := time.Now()
			if err := g.shutdown(quarter); !errors.Is(err, proxy.ErrDeadline) {
				t.Errorf("got %v, want ErrDeadline", err)
			}
			wantTimely(t, began, quarter)
			g.wantClosed("drain_deadline")
			if _, err := rest(to); !isReset(err) {
				t.Errorf("receiver: got an end by %v, want a reset", err)
			}
			if _, err := rest(from); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("sender: got silence, want an end")
			}
		})
	}
}

// A shutdown that falls into a frame lets it end and takes nothing of the next:
// the frame arrives whole, then the end.
func TestLifetimeShutdownFinishesFrame(t *testing.T) {
	for _, s := range securities {
		for name, frame := range map[string][]byte{
			"stored":        messages(5, noise(30_001, 1)),
			"long":          messages(5, noise(1<<20+100, 2)),
			"long unsealed": offset(5, noise(1<<20+77, 3)),
		} {
			t.Run(fmt.Sprintf("%s/%s", s, name), func(t *testing.T) {
				g := start(t, spec{near: s, far: s})
				from, to := g.openWay(ways[0])
				half := len(frame) / 2
				send(t, from, commit(0, 1), frame[:half])
				receive(t, to, commit(0, 1))
				failed := make(chan error, 1)
				go func() { failed <- g.shutdown(patience) }()
				g.awaitRefusing()
				send(t, from, frame[half:], commit(0, 2)[:100])
				receive(t, to, frame)
				if h := listenTo(to); h != (heard{}) {
					t.Errorf("got %+v behind the frame, want a FIN", h)
				}
				from.TCP.Close()
				if err := <-failed; err != nil {
					t.Errorf("got %v, want nil", err)
				}
				g.wantClosed("drain")
			})
		}
	}
}

// awaitRefusing waits until the gate is shutting down: its entrances are closed.
func (g *gate) awaitRefusing() {
	g.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		c, err := net.DialTimeout("tcp", g.ingress(), patience)
		if err != nil {
			// The links have their orders a moment after the entrances are closed.
			<-time.After(50 * time.Millisecond) // real time: nothing outside tells that moment
			return
		}
		c.Close()
	}
	g.t.Fatal("got an entrance that stays open, want it closed by the shutdown")
}

// Whoever is in the middle of a handshake is sent away at once, in all the places
// where one can be.
func TestLifetimeShutdownInHandshake(t *testing.T) {
	for name, row := range map[string]struct {
		near, far proxy.Security
		egress    bool
		begin     func(t *testing.T, g *gate) net.Conn
	}{
		"no byte":        {proxy.PSK, proxy.PSK, false, func(t *testing.T, g *gate) net.Conn { return raw(t, g.ingress()) }},
		"no ClientHello": {proxy.TLS, proxy.TLS, false, func(t *testing.T, g *gate) net.Conn { return raw(t, g.ingress()) }},
		"TLS, no Hello":  {proxy.TLS, proxy.TLS, false, func(_ *testing.T, g *gate) net.Conn { return g.knock("ingress").tcp }},
		"half a Hello": {proxy.PSK, proxy.PSK, true, func(t *testing.T, g *gate) net.Conn {
			c := raw(t, g.egress())
			send(t, c, hello(1, nil)[:100])
			return c
		}},
		"no Finish": {proxy.PSK, proxy.PSK, false, func(_ *testing.T, g *gate) net.Conn {
			c := g.knock("ingress")
			g.challenged(c, secret)
			return c.tcp
		}},
		"far silent": {proxy.PSK, proxy.PSK, true, func(t *testing.T, g *gate) net.Conn {
			c := raw(t, g.egress())
			send(t, c, hello(1, nil))
			readHeader(t, accept(t, g.peers))
			return c
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, spec{near: row.near, far: row.far})
			c := row.begin(t, g)
			g.await("a connection in handshake", func() bool { return g.inflight == 1 })
			began := time.Now()
			if err := g.shutdown(patience); err != nil {
				t.Errorf("got %v, want nil", err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("got a shutdown of %v, want one at once", took)
			}
			if _, err := rest(c); err != nil && !isReset(err) {
				t.Errorf("got an end by %v, want a FIN or a reset", err)
			}
			direction := "ingress"
			if row.egress {
				direction = "egress"
			}
			g.wantRefused(direction, "drain")
		})
	}
}

// Nothing is left behind: as many goroutines as before the gate was made.
func TestLifetimeShutdownLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	g := start(t, spec{near: proxy.TLS, far: proxy.TLS})
	in, out := g.openIngress(), g.openEgress()
	send(t, in.far, commit(0, 1))
	receive(t, in.near, commit(0, 1))
	refused := g.knock("ingress")
	send(t, refused, hello(7, nil))
	wantAnswer(t, refused, 1, wire.StatusDirectionalRule)
	raw(t, g.egress())
	g.await("one in handshake", func() bool { return g.inflight == 1 })
	var all sync.WaitGroup
	for _, c := range []*replica.Conn{in.near, in.far, out.near, out.far} {
		all.Go(func() { listenTo(c) })
	}
	if err := g.shutdown(patience); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	all.Wait()
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > before && time.Now().Before(deadline) {
		<-time.After(10 * time.Millisecond) // real time: the runtime tells nobody that a goroutine ended
	}
	if n := runtime.NumGoroutine(); n > before {
		stacks := make([]byte, 1<<20)
		t.Errorf("got %d goroutines, want %d as before:\n%s", n, before, stacks[:runtime.Stack(stacks, true)])
	}
}
