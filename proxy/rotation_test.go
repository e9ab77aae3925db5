package proxy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/proxy"
)

// The three rolls of a rotation as three changes of settings, gate by gate, under
// traffic. Nobody takes a step before every gate says that it is safe, and no link
// is touched: not even by the last step, which removes the secret that every link
// was made with.
func TestThreeRolls(t *testing.T) {
	for _, far := range []proxy.Security{proxy.PSK, proxy.TLS} {
		t.Run(string(far), func(t *testing.T) {
			c := startTrio(t, far, func(s *proxy.Settings) { s.Keys = rolled(oldSecret) })
			for id := range 3 {
				c.roll(id, rolled(oldSecret, newSecret))
				if r := c.gates[id].server.Rotation(); id < 2 && r.Safe {
					t.Errorf("gate %d: got a safe swap before replica 2 has the secret: %+v", id, r)
				}
			}
			c.safe(proxy.PhaseOne)
			for id := range 3 {
				c.roll(id, rolled(newSecret, oldSecret))
			}
			c.safe(proxy.PhaseTwo)
			for id := range 3 {
				c.roll(id, rolled(newSecret))
			}
			c.safe(proxy.PhaseNone)
			c.progress()
			time.Sleep(1200 * time.Millisecond) // real time: the window in which links would be made anew
			c.progress()
			if closed := c.closedLinks(); len(closed) != 0 {
				t.Errorf("got links closed %q, want none", closed)
			}
			c.whole()
		})
	}
}

// A step that is not safe cuts a link, and it is the one that was named.
func TestUnsafeStepCutsTheAwaited(t *testing.T) {
	c := startTrio(t, proxy.TLS, func(s *proxy.Settings) { s.Keys = rolled(oldSecret) })
	for id := range 2 { // replica 2's gate is forgotten
		c.roll(id, rolled(oldSecret, newSecret))
	}
	c.until("proofs of replica 1", func() bool { return slices.Equal(awaited(c.gates[0].server.Rotation()), []int{2}) })
	if r := c.gates[0].server.Rotation(); r.Safe || r.Phase != proxy.PhaseOne || !strings.Contains(r.Why, "replica 2") {
		t.Fatalf("got %+v, want a swap that may cut replica 2", r)
	}
	for id := range 2 {
		c.roll(id, rolled(newSecret, oldSecret))
	}
	c.until("replica 1 alone to be ready", func() bool {
		r := c.gates[0].server.Rotation()
		return r.Phase == proxy.PhaseTwo && slices.Equal(awaited(r), []int{2})
	})
	for id := range 2 {
		c.roll(id, rolled(newSecret))
	}
	c.until("replica 2 to be cut off", func() bool {
		return endedBy(c.closedLinks(), "reauth") >= 2 && c.up() == 2 && c.gates[2].refusals("mac_mismatch") > 0
	})
	for _, e := range c.closedLinks() {
		if e[:1] != "2" && !strings.Contains(e, "-> 2 ") {
			t.Errorf("got %q closed, want only links with replica 2", e)
		}
	}
}

// A gate that starts in the middle does not know which secret is the younger. It
// says yes when both steps would be safe.
func TestRotationAfterAStart(t *testing.T) {
	c := startTrio(t, proxy.PSK, func(s *proxy.Settings) {
		s.Keys = rolled(oldSecret, newSecret)
		if s.Local == 1 {
			s.Keys = rolled(newSecret, oldSecret)
		}
	})
	c.until("the proofs", func() bool { return slices.Equal(awaited(c.gates[0].server.Rotation()), []int{1}) })
	r := c.gates[0].server.Rotation()
	if r.Phase != proxy.PhaseUnknown || r.Safe || len(r.Awaited) != 1 || !strings.HasPrefix(r.Awaited[0].For, "signing with the current secret; last seen signing with the previous one") {
		t.Errorf("got %+v, want replica 1 to be waited for, which signs with the other secret", r)
	}
	c.roll(1, rolled(oldSecret, newSecret))
	c.safe(proxy.PhaseUnknown)
}

// refusals is how many connections were refused with an ending.
func (g *gate) refusals(ending string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return endedBy(g.refused, ending)
}
