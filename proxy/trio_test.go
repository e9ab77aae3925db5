package proxy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/replica/standin"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
)

// trio is a cluster of three gates, each in front of a stand-in replica that
// speaks plaintext with it; the gates speak far with each other.
type trio struct {
	t      *testing.T
	gates  [3]*gate
	nodes  [3]*standin.Node
	faults chan error
}

// The secrets of a rotation.
const (
	oldSecret = "the secret of before, 32+ bytes long"
	newSecret = "the secret of after,  32+ bytes long"
)

// rolled is a keyring of a current and, where it is given, a previous secret.
func rolled(secrets ...string) *mac.Keyring {
	var previous []byte
	if len(secrets) > 1 {
		previous = []byte(secrets[1])
	}
	k, err := mac.NewKeyring([]byte(secrets[0]), previous)
	if err != nil {
		panic(err)
	}
	return k
}

// startTrio starts gates and replicas and waits until every pair has its link.
func startTrio(t *testing.T, far proxy.Security, change func(*proxy.Settings)) *trio {
	t.Helper()
	c := &trio{t: t, faults: make(chan error, 9)}
	var local [3]*net.TCPListener
	for id := range local {
		local[id] = listen(t)
	}
	for id := 2; id >= 0; id-- { // a higher one is dialed by the lower
		g := &gate{watch: newWatch(), t: t, local: uint8(id), far: far}
		g.given = proxy.Settings{
			Cluster: cluster, Local: uint8(id), Replicas: 3, EgressSecurity: proxy.Plaintext, UpstreamSecurity: proxy.Plaintext,
			Upstream: local[id].Addr().String(), MaxFrame: maxFrame, StoreLimit: storeLimit,
			VisitEvery: 30 * time.Millisecond, ReauthWindow: time.Second,
			Log:     slog.New(slog.NewJSONHandler(g.watch, &slog.HandlerOptions{Level: slog.LevelDebug})).With("gate", id),
			Metrics: g.watch,
		}
		if id > 0 {
			g.given.Listen = "127.0.0.1:0"
		}
		for peer := range 3 {
			p := proxy.Peer{ID: uint8(peer), Security: far}
			if peer > id {
				p.Listen, p.Address, p.Name = "127.0.0.1:0", c.gates[peer].ingress(), "127.0.0.1"
			}
			if peer != id {
				g.given.Peers = append(g.given.Peers, p)
			}
		}
		if far == proxy.TLS {
			_, set := minted(t, "127.0.0.1")
			g.given.Credentials = credentials{set}
			if id < 2 {
				g.given.Credentials = c.gates[2].given.Credentials
			}
		}
		change(&g.given)
		var err error
		if g.server, err = proxy.New(g.given); err != nil {
			t.Fatal(err)
		}
		if err := g.server.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.stop)
		c.gates[id] = g
	}
	for id := range c.nodes {
		c.startNode(uint8(id), local[id])
	}
	c.until("a link of every pair", func() bool { return c.up() == 6 })
	return c
}

// startNode starts one replica, with clients that do not stop.
func (c *trio) startNode(id uint8, ln *net.TCPListener) {
	cfg := standin.NodeConfig{
		Config: standin.Config{ID: id, Replicas: 3, Cluster: cluster, Seed: 11, Groups: 3,
			Timers: standin.Timers{Commit: 20 * time.Millisecond, Prepare: 50 * time.Millisecond, Probe: 100 * time.Millisecond, Repair: 100 * time.Millisecond}},
		Listener: ln, Peers: map[uint8]string{}, Redial: 20 * time.Millisecond,
		Load: standin.Load{Rate: 200, Messages: 2, Payload: 3000, Metadata: 0.2, Offsets: 0.2, SignIns: 0.1},
	}
	for peer := id + 1; peer < 3; peer++ {
		cfg.Peers[peer] = c.gates[id].server.Addr(&peer).String()
	}
	n, err := standin.NewNode(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.Run(ctx); err != nil {
			c.faults <- err
		}
	})
	c.nodes[id] = n
	c.t.Cleanup(func() { cancel(); running.Wait() })
}

// up is how many peers have a link, over all gates.
func (c *trio) up() (n int) {
	for _, g := range c.gates {
		for _, p := range g.server.Status().Peers {
			if p.Up {
				n++
			}
		}
	}
	return n
}

// until waits until something holds. A replica that got what no honest link
// delivers fails the test.
func (c *trio) until(what string, holds func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		select {
		case err := <-c.faults:
			c.t.Fatalf("waiting for %s: %v", what, err)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			for _, g := range c.gates {
				c.t.Logf("gate %d: %+v\n%s", g.local, g.server.Rotation(), g.text())
			}
			c.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// roll applies keys to one gate.
func (c *trio) roll(id int, keys *mac.Keyring) {
	c.t.Helper()
	next := c.gates[id].settings()
	next.Keys = keys
	if err := c.gates[id].server.Apply(next); err != nil {
		c.t.Fatal(err)
	}
}

// safe waits until every gate says that the next step of a phase is safe.
func (c *trio) safe(phase proxy.Phase) {
	c.t.Helper()
	c.until("a safe step after phase "+string(phase), func() bool {
		for _, g := range c.gates {
			if r := g.server.Rotation(); r.Phase != phase || !r.Safe {
				return false
			}
		}
		return true
	})
}

// progress waits until every pair has said more to each other.
func (c *trio) progress() {
	c.t.Helper()
	total := func() (n [3][3]uint64) {
		for id, g := range c.gates {
			for _, p := range g.server.Status().Peers {
				for _, l := range p.Links {
					n[id][p.Peer] += l.In.Frames + l.Out.Frames
				}
			}
		}
		return n
	}
	before := total()
	c.until("frames on every link", func() bool {
		now := total()
		for id := range 3 {
			for peer := range 3 {
				if peer != id && now[id][peer] < before[id][peer]+20 {
					return false
				}
			}
		}
		return true
	})
}

// closedLinks are all links that have ended: "0 -> 1 egress tls reauth".
func (c *trio) closedLinks() (all []string) {
	for _, g := range c.gates {
		g.mu.Lock()
		for _, e := range g.closed {
			all = append(all, fmt.Sprintf("%d -> %s", g.local, e))
		}
		g.mu.Unlock()
	}
	return all
}

// whole holds that no gate lost a frame and no replica got part of one.
func (c *trio) whole() {
	c.t.Helper()
	for id, g := range c.gates {
		g.mu.Lock()
		if n := g.frames["in lost"] + g.frames["out lost"]; n != 0 || len(g.rejected) != 0 {
			c.t.Errorf("gate %d: got %d frames lost and %v rejected, want none", id, n, g.rejected)
		}
		g.mu.Unlock()
		if cut := c.nodes[id].Status().Cut; cut != 0 {
			c.t.Errorf("replica %d: got %d connections cut inside a frame, want none", id, cut)
		}
	}
	select {
	case err := <-c.faults:
		c.t.Error(err)
	default:
	}
}

// awaited are the ids that a gate waits for.
func awaited(r proxy.Rotation) (ids []int) {
	for _, a := range r.Awaited {
		if !slices.Contains(ids, a.Peer) {
			ids = append(ids, a.Peer)
		}
	}
	return ids
}

// endedBy counts the endings of a list of links.
func endedBy(all []string, ending string) (n int) {
	for _, e := range all {
		if strings.HasSuffix(e, " "+ending) {
			n++
		}
	}
	return n
}
