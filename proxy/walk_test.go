package proxy_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/replica/standin"
	"github.com/replgate/replgate/proxy"
)

// T54: three plaintext replicas under traffic get gates one by one, the gates turn
// strict one by one, and all goes back the same way. Each replica is restarted
// once each way, because its roster changes; nobody else notices more than that.
func TestWalkToStrictAndBack(t *testing.T) {
	_, set := minted(t, "127.0.0.1")
	w := &walk{mix: &mix{t: t, native: proxy.Plaintext, mode: proxy.Permissive, certs: set, faults: make(chan error, 9), nodes: make([]*standin.Node, 3)}}
	w.timers = standin.Timers{Commit: 50 * time.Millisecond, Heartbeat: time.Second, Prepare: 50 * time.Millisecond,
		ViewChange: 50 * time.Millisecond, ViewStatus: time.Second, Probe: 100 * time.Millisecond, Repair: 200 * time.Millisecond}
	for id := range w.public {
		// Nobody's own addresses, so that no dialer's port takes one while it is free.
		ln := listenAt(t, fmt.Sprintf("127.%d.%d.%d:0", 80+os.Getpid()%100, os.Getpid()/100%256, id+1))
		w.public[id] = ln.Addr().String()
		ln.Close()
	}
	for id := range uint8(3) {
		w.alone(id)
	}
	w.step("plaintext without gates")
	for _, id := range []uint8{2, 0, 1} {
		w.halt(id)
		w.behind(id)
		w.step(fmt.Sprintf("a gate for replica %d", id))
	}
	w.until("nobody in the way of strict mode", func() bool {
		return !slices.ContainsFunc(w.gates[:], func(g *gate) bool { return !g.server.StrictReady().Ready })
	})
	w.turn(proxy.Strict)
	w.turn(proxy.Permissive)
	for _, id := range []uint8{0, 2, 1} {
		w.halt(id)
		for _, g := range w.gates {
			if g != nil {
				if err := g.server.ResetPeer(id); err != nil {
					t.Fatal(err)
				}
			}
		}
		w.alone(id)
		w.step(fmt.Sprintf("replica %d without its gate", id))
	}
	for _, n := range w.nodes {
		n.SetLoad(standin.Load{})
	}
	w.until("equal logs", w.equal)
	for id := range uint8(3) {
		w.holdGap(id)
	}
}

// walk is a mix that changes.
type walk struct {
	*mix
	before [3]uint64 // commit points at the last step
}

// alone starts a replica without a gate where it is known.
func (w *walk) alone(id uint8) {
	w.t.Helper()
	w.isGated[id] = false
	w.node(id, listenAt(w.t, w.public[id]), w.higher(id))
}

// behind starts a gate where a replica was, and the replica behind it.
func (w *walk) behind(id uint8) {
	w.t.Helper()
	w.isGated[id] = true
	ln := listen(w.t)
	w.node(id, ln, w.gate(id, w.public[id], ln.Addr().String(), w.higher(id)))
}

// halt ends a replica, and its gate where it has one: the one restart that it
// needs.
func (w *walk) halt(id uint8) {
	w.t.Helper()
	w.holdGap(id)
	w.stops[id]()
	if g := w.gates[id]; g != nil {
		if err := g.shutdown(patience); err != nil {
			w.t.Fatal(err)
		}
		w.holdWhole(g)
		w.gates[id] = nil
	}
}

// step waits until everybody has everybody and operations are committed on all.
func (w *walk) step(name string) {
	w.t.Helper()
	w.until("every link: "+name, w.linked)
	for id, n := range w.nodes {
		w.before[id] = committed(n)
	}
	w.until("progress: "+name, func() bool {
		for id, n := range w.nodes {
			if committed(n) < w.before[id]+30 {
				return false
			}
		}
		return true
	})
	w.holdLinks()
}

// turn applies a mode to one gate after the other. No link ends.
func (w *walk) turn(mode proxy.Mode) {
	w.t.Helper()
	for id, g := range w.gates {
		closed := len(g.closedNow())
		g.apply(func(s *proxy.Settings) { s.Mode = mode })
		w.step(fmt.Sprintf("gate %d %s", id, mode))
		if got := g.closedNow(); len(got) != closed {
			w.t.Errorf("gate %d, now %s: got links closed %q, want none", id, mode, got[closed:])
		}
	}
}

// gapMax is T54's bound for the time between two heartbeats of any group.
const gapMax = 5 * time.Second

func (w *walk) holdGap(id uint8) {
	w.t.Helper()
	if gap := w.nodes[id].Status().HeartbeatGap; gap >= gapMax {
		w.t.Errorf("replica %d: got no heartbeat for %v, want less than %v", id, gap, gapMax)
	}
}

// holdWhole holds that a gate refused no frame.
func (w *walk) holdWhole(g *gate) {
	w.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.rejected) != 0 {
		w.t.Errorf("gate %d: got frames refused %v, want none of honest ones", g.local, g.rejected)
	}
}
