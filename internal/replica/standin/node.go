package standin

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// NodeConfig is a stand-in on real sockets.
type NodeConfig struct {
	Config
	// Listener accepts the replicas with lower ids; nil for replica 0. Run closes it.
	Listener net.Listener
	// Peers are the addresses of the replicas with higher ids.
	Peers map[uint8]string
	// Keys is nil for plaintext.
	Keys *mac.Keyring
	// ServerTLS and ClientTLS are nil for plaintext and psk. ClientTLS gives the
	// configuration to dial a peer with.
	ServerTLS *tls.Config
	ClientTLS func(peer uint8) *tls.Config
	// Redial is the pause between two dials, 100ms; Iggy's default is 5s.
	Redial time.Duration
	// Handshake bounds TLS and handshake together, 10s.
	Handshake time.Duration
	// Queue is how many frames wait for a peer before more are dropped, 256.
	Queue int
	// MaxFrame is the largest frame that is read, 64 MiB.
	MaxFrame uint32
	// Load is what this node's clients do.
	Load Load
}

const tickInterval = 10 * time.Millisecond

func (c NodeConfig) withDefaults() NodeConfig {
	if c.Redial == 0 {
		c.Redial = 100 * time.Millisecond
	}
	if c.Handshake == 0 {
		c.Handshake = 10 * time.Second
	}
	if c.Queue == 0 {
		c.Queue = 256
	}
	if c.MaxFrame == 0 {
		c.MaxFrame = 64 << 20
	}
	return c
}

// Node runs a Core on sockets. A killed stand-in is one whose context ended; it
// starts again as a new Node with the next Life.
type Node struct {
	cfg   NodeConfig
	tasks sync.WaitGroup
	stop  context.CancelCauseFunc

	mu     sync.Mutex // core, peers, and what is counted
	core   *Core
	peers  []*peer // registered connections
	driver driver
	acked  []Ack
	count  Counts
}

// Counts are a node's own, since its start.
type Counts struct {
	Dropped uint64 // frames for which a peer's queue had no room
	Refused uint64 // handshakes that failed, either role
	Opened  uint64 // connections that stood
	Cut     uint64 // connections that ended inside a frame
}

// Status is a snapshot of a node.
type Status struct {
	Groups []GroupStatus // the metadata group first
	Links  []uint8       // peers with a connection
	// HeartbeatGap is the longest time between two heartbeats that this replica
	// accepted as a backup in one group.
	HeartbeatGap time.Duration
	Acked        int
	// Sent and Received count frames by command; Sent those that met a full queue
	// too.
	Sent, Received [wire.Commands]uint64
	Counts
}

// NewNode returns a node that Run starts.
func NewNode(cfg NodeConfig) (*Node, error) {
	core, err := New(cfg.Config, time.Now())
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg.withDefaults(), core: core, peers: make([]*peer, cfg.Replicas)}
	n.driver = driver{load: cfg.Load, random: rand.New(rand.NewPCG(cfg.Seed, 1<<63|uint64(cfg.ID)<<32|uint64(cfg.Life)))}
	return n, nil
}

// Run speaks until ctx ends, which is no error, or until the first *Fault. All
// its goroutines have ended when it returns.
func (n *Node) Run(ctx context.Context) error {
	ctx, n.stop = context.WithCancelCause(ctx)
	defer n.tasks.Wait()
	defer n.stop(nil)
	if n.cfg.Listener != nil {
		context.AfterFunc(ctx, func() { n.cfg.Listener.Close() })
		n.tasks.Go(func() { n.accept(ctx) })
	}
	for id := n.cfg.ID + 1; id < n.cfg.Replicas; id++ {
		if address, ok := n.cfg.Peers[id]; ok {
			n.tasks.Go(func() { n.dial(ctx, id, address) })
		}
	}
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			if fault, ok := errors.AsType[*Fault](context.Cause(ctx)); ok {
				return fault
			}
			return nil
		case now := <-ticker.C:
			n.tick(now)
		}
	}
}

func (n *Node) tick(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.core.Tick(now)
	n.driver.step(n.core, now)
	n.flush()
}

// flush puts what the core said into the queues; a full one drops, as Iggy's do.
func (n *Node) flush() {
	n.acked = append(n.acked, n.core.TakeAcks()...)
	for _, m := range n.core.Drain() {
		select {
		case n.peers[m.To].queue <- m.Frame:
		default:
			n.count.Dropped++
		}
	}
}

// register takes a new connection, unless an old one stands: the old one wins
// (§7.4).
func (n *Node) register(p *peer) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.peers[p.id] != nil {
		return false
	}
	n.peers[p.id] = p
	n.count.Opened++
	n.core.Connected(p.id, time.Now())
	n.flush()
	return true
}

func (n *Node) unregister(p *peer, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.peers[p.id] = nil
	if cut {
		n.count.Cut++
	}
	n.core.Disconnected(p.id, time.Now())
}

func (n *Node) receive(p *peer, frame []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	err := n.core.Receive(p.id, frame, time.Now())
	n.flush()
	return err
}

func (n *Node) refused() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count.Refused++
}

// Submit starts an operation of a client at this node, see Core.Submit.
func (n *Node) Submit(o Op) (uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	op, err := n.core.Submit(o, time.Now())
	n.flush()
	return op, err
}

// Acked returns every operation that a client of this node was told is done.
func (n *Node) Acked() []Ack {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Ack(nil), n.acked...)
}

// Identity returns the identity of a committed op, false when it is not there.
func (n *Node) Identity(group, op uint64) (wire.U128, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.core.Identity(group, op)
}

// SetLoad changes what this node's clients do from now on.
func (n *Node) SetLoad(load Load) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.driver.load = load
}

// Status returns a snapshot.
func (n *Node) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Status{Groups: n.core.Groups(), HeartbeatGap: n.core.gapMax, Acked: len(n.acked),
		Sent: n.core.sent, Received: n.core.received, Counts: n.count}
	for id, p := range n.peers {
		if p != nil {
			s.Links = append(s.Links, uint8(id))
		}
	}
	return s
}
