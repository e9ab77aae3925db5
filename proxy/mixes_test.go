package proxy_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/replica/standin"
	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/proxy"
)

// T56: any subset of three replicas behind gates, the others without: every mix
// replicates. Plaintext replicas are what a running cluster has while it is
// hardened, so their gates are permissive; beside replicas with TLS gates are
// strict.
func TestEveryMixReplicates(t *testing.T) {
	_, set := minted(t, "127.0.0.1")
	for _, row := range []struct {
		native proxy.Security
		mode   proxy.Mode
	}{
		{proxy.Plaintext, proxy.Permissive},
		{proxy.TLS, proxy.Strict},
	} {
		for gated := range 1 << 3 {
			t.Run(fmt.Sprintf("%s-%s-gates-%03b", row.native, row.mode, gated), func(t *testing.T) {
				t.Parallel()
				m := &mix{t: t, native: row.native, mode: row.mode, certs: set, faults: make(chan error, 3), nodes: make([]*standin.Node, 3)}
				for id := range m.isGated {
					m.isGated[id] = gated>>id&1 == 1
				}
				m.start()
				m.until("every link", m.linked)
				m.until("operations committed on all three", func() bool {
					return !slices.ContainsFunc(m.nodes, func(n *standin.Node) bool { return committed(n) < 30 })
				})
				for _, n := range m.nodes {
					n.SetLoad(standin.Load{})
				}
				m.until("equal logs", func() bool { return m.equal() })
				m.holdLinks()
			})
		}
	}
}

// mix is three stand-in replicas, some behind gates in this process.
type mix struct {
	t      *testing.T
	native proxy.Security // what a replica without a gate speaks
	mode   proxy.Mode
	certs  *certs.Set
	timers standin.Timers

	isGated [3]bool
	nodes   []*standin.Node
	gates   [3]*gate
	public  [3]string // where others reach a replica
	lives   [3]uint32
	stops   [3]func() // of the replicas
	faults  chan error
}

// start starts the highest id first: lower ones need to know where it is.
func (m *mix) start() {
	m.t.Helper()
	for i := range uint8(3) {
		id, ln := 2-i, listen(m.t)
		m.public[id] = ln.Addr().String()
		peers := m.higher(id)
		if m.isGated[id] {
			peers = m.gate(id, "127.0.0.1:0", m.public[id], peers)
			if id > 0 {
				m.public[id] = m.gates[id].ingress()
			}
		}
		m.node(id, ln, peers)
	}
}

// higher is where the replicas with higher ids are.
func (m *mix) higher(id uint8) map[uint8]string {
	peers := map[uint8]string{}
	for j := id + 1; j < 3; j++ {
		peers[j] = m.public[j]
	}
	return peers
}

// gate puts a gate that listens at an address before a replica at another, and
// returns where that finds its peers now.
func (m *mix) gate(id uint8, at, upstream string, peers map[uint8]string) map[uint8]string {
	m.t.Helper()
	g := &gate{watch: newWatch(), t: m.t, local: id}
	table, err := policy.NewTable(nil)
	if err != nil {
		m.t.Fatal(err)
	}
	set := proxy.Settings{Cluster: cluster, Local: id, Replicas: 3, EgressSecurity: proxy.Plaintext, UpstreamSecurity: proxy.Plaintext,
		Upstream: upstream, Rules: table, MaxFrame: maxFrame, StoreLimit: storeLimit, Keys: secret, Mode: m.mode,
		Credentials: credentials{m.certs}, StrictReadyAfter: 300 * time.Millisecond, Log: slog.New(slog.NewJSONHandler(g.watch, nil)), Metrics: g.watch}
	if id > 0 {
		set.Listen = at
	}
	for j := range uint8(3) {
		if j != id {
			set.Peers = append(set.Peers, proxy.Peer{ID: j, Security: proxy.TLS, Listen: "127.0.0.1:0", Address: peers[j], Name: "127.0.0.1"})
		}
	}
	g.given = set
	if g.server, err = proxy.New(set); err != nil {
		m.t.Fatal(err)
	}
	if err := g.server.Start(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(g.stop)
	m.gates[id] = g
	behind := map[uint8]string{}
	for j := range peers {
		behind[j] = g.server.Addr(&j).String()
	}
	return behind
}

// node runs a replica, at first or again with its memory lost: one behind a gate
// in plaintext, another as it is.
func (m *mix) node(id uint8, ln net.Listener, peers map[uint8]string) {
	m.t.Helper()
	c := standin.NodeConfig{Listener: ln, Peers: peers, Redial: 20 * time.Millisecond,
		Config: standin.Config{ID: id, Replicas: 3, Cluster: cluster, Seed: 56, Groups: 3, Life: m.lives[id], Timers: m.timers},
		Load:   standin.Load{Rate: 100, Messages: 2, Payload: 100, Metadata: 0.2, Offsets: 0.2, SignIns: 0.1}}
	if m.native != proxy.Plaintext && !m.isGated[id] {
		c.Keys, c.ServerTLS = secret, m.certs.Server()
		c.ClientTLS = func(uint8) *tls.Config { return m.certs.Client("127.0.0.1") }
	}
	n, err := standin.NewNode(c)
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.Run(ctx); err != nil {
			m.faults <- err
		}
	})
	m.stops[id] = func() { cancel(); running.Wait() }
	m.t.Cleanup(m.stops[id])
	m.nodes[id], m.lives[id] = n, m.lives[id]+1
}

// until waits for something to hold, and fails at the first fault of a replica.
func (m *mix) until(what string, holds func() bool) {
	m.t.Helper()
	for deadline := time.After(2 * patience); !holds(); {
		select {
		case err := <-m.faults:
			m.t.Fatalf("waiting for %s: %v", what, err)
		case <-deadline:
			for id, n := range m.nodes {
				m.t.Logf("%+v", n.Status())
				if m.gates[id] != nil {
					m.t.Log(m.gates[id].text())
				}
			}
			m.t.Fatalf("waited in vain for %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// linked reports whether every replica has all its connections, and every gate its
// links: a plaintext replica believes in a connection before there is a link.
func (m *mix) linked() bool {
	for id, n := range m.nodes {
		if len(n.Status().Links) != 2 {
			return false
		}
		if g := m.gates[id]; g != nil && slices.ContainsFunc(g.server.Status().Peers, func(p proxy.PeerStatus) bool { return !p.Up }) {
			return false
		}
	}
	return true
}

// committed is the sum of a replica's commit points.
func committed(n *standin.Node) (sum uint64) {
	for _, g := range n.Status().Groups {
		sum += g.Commit
	}
	return sum
}

func (m *mix) equal() bool {
	first := m.nodes[0].Status().Groups
	return !slices.ContainsFunc(m.nodes, func(n *standin.Node) bool {
		return !slices.EqualFunc(n.Status().Groups, first, func(a, b standin.GroupStatus) bool {
			return a == b && a.Normal && a.Op == a.Commit
		})
	})
}

// holdLinks holds what each gate's far legs speak: TLS toward another gate, the
// replica's own tongue toward one without.
func (m *mix) holdLinks() {
	for id, g := range m.gates {
		if g == nil {
			continue
		}
		for _, p := range g.server.Status().Peers {
			want := m.native
			if m.gates[p.Peer] != nil {
				want = proxy.TLS
			}
			if len(p.Links) != 1 || p.Links[0].Far != string(want) {
				m.t.Errorf("gate %d: got links %+v with replica %d, want one in %s; log:\n%s", id, p.Links, p.Peer, want, g.text())
			}
		}
	}
}
