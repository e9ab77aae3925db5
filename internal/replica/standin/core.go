package standin

import (
	"math/rand/v2"
	"time"

	"github.com/replgate/replgate/wire"
)

// Message is one frame to one peer. The frame may go to several and is never
// changed again.
type Message struct {
	To    uint8
	Frame []byte
}

// Ack is an operation that a client was told is done: it must survive.
type Ack struct {
	Group, Op uint64
	Identity  wire.U128
	Operation wire.Operation
	Took      time.Duration // from Submit to commit; zero for forwarded ones
}

// Core is one stand-in without I/O: frames, time and operations go in, frames
// come out. It is not safe for concurrent use.
type Core struct {
	cfg         Config
	random      *rand.Rand
	incarnation wire.U128
	replication int // how many must hold an op
	agreement   int // how many must agree on a view
	groups      []*group
	index       map[uint64]*group
	links       []*link
	out         []Message
	acks        []Ack
	results     []SignResult
	forwards    map[uint64]wire.U128 // clients of sign-ins and sign-outs by nonce, zero once answered
	counter     uint64               // of nonces
	asking      int                  // repairs under way
	verifier    wire.BodyVerifier
	sent        [wire.Commands]uint64
	received    [wire.Commands]uint64
	gapMax      time.Duration
}

// link is what a peer has said on its present connection; nil when there is none.
type link struct {
	view   []uint32 // by group: highest view
	commit []uint64 // by group: highest commit point of its own
	token  []uint64 // by group: highest token
	asks   []*ask   // repairs asked for and not yet ended
}

// New returns a stand-in that has no connection yet.
func New(cfg Config, now time.Time) (*Core, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.Timers = cfg.Timers.withDefaults()
	c := &Core{
		cfg: cfg, index: map[uint64]*group{}, forwards: map[uint64]wire.U128{},
		links:  make([]*link, cfg.Replicas),
		random: rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.ID)<<32|uint64(cfg.Life))),
	}
	c.replication, c.agreement = quorums(cfg.Replicas)
	c.incarnation = wire.U128{Lo: c.random.Uint64(), Hi: c.random.Uint64() | 1}
	c.counter = c.random.Uint64() >> 1
	for i := range cfg.Groups + 1 {
		g := &group{c: c, index: i, key: wire.MetadataGroup, stash: map[uint64][]byte{}}
		if i > 0 {
			g.key = GroupKey(i - 1)
		}
		if cfg.Life > 0 {
			g.status = recovering
		}
		g.restTimers(now)
		c.groups = append(c.groups, g)
		c.index[g.key] = g
	}
	return c, nil
}

// primary returns the replica that leads a view.
func (c *Core) primary(view uint32) uint8 { return uint8(view % uint32(c.cfg.Replicas)) }

// Connected says that a new connection to peer stands.
func (c *Core) Connected(peer uint8, now time.Time) {
	n := len(c.groups)
	c.links[peer] = &link{view: make([]uint32, n), commit: make([]uint64, n), token: make([]uint64, n)}
	for _, g := range c.groups {
		if g.status == recovering && !g.adopting {
			g.probeAt = now
		}
	}
}

// Disconnected says that the connection to peer is gone.
func (c *Core) Disconnected(peer uint8, now time.Time) {
	c.links[peer] = nil
	for _, g := range c.groups {
		if g.ask != nil && g.ask.peer == peer {
			g.endAsk(now)
		}
	}
}

// Tick lets time pass; call it every 10 ms or so.
func (c *Core) Tick(now time.Time) {
	for _, g := range c.groups {
		g.tick(now)
	}
}

// Receive takes a whole frame from a peer that is connected. An error is a
// *Fault and the end of this stand-in. The frame is kept and must not change.
func (c *Core) Receive(from uint8, frame []byte, now time.Time) error {
	h := (*wire.Header)(frame)
	g, err := c.check(from, frame)
	if err == nil {
		c.received[h.Command()]++
		err = g.receive(from, frame, now)
	}
	if err != nil {
		return c.fault(from, h, err)
	}
	return nil
}

func (c *Core) fault(from uint8, h *wire.Header, err error) *Fault {
	return &Fault{Replica: c.cfg.ID, Peer: from, Head: *h, Err: err}
}

func (g *group) receive(from uint8, frame []byte, now time.Time) error {
	h := (*wire.Header)(frame)
	switch h.Command() {
	case wire.Prepare:
		return g.onPrepare(from, frame, now)
	case wire.PrepareOk:
		return g.onPrepareOk(from, h, now)
	case wire.Commit:
		g.onCommit(from, h, now)
	case wire.StartViewChange:
		return g.onStartViewChange(from, wire.View.Get(h), now)
	case wire.DoViewChange:
		return g.onDoViewChange(from, frame, now)
	case wire.StartView:
		return g.onStartView(from, frame, now)
	case wire.RequestStartView:
		g.onRequestStartView(from, h, now)
	case wire.RequestPrepares:
		g.onRequestPrepares(from, h)
	case wire.RepairPrepare:
		return g.onRepairPrepare(from, frame, now)
	case wire.RepairDone:
		return g.onRepairDone(from, h, now)
	case wire.ForwardRegister, wire.ForwardLogout:
		g.onForward(from, h, now)
	case wire.ForwardRegisterResult, wire.ForwardLogoutResult:
		return g.c.onResult(h)
	}
	return nil
}

// Drain returns the frames to send, in order. Those to peers without a
// connection were never made.
func (c *Core) Drain() []Message {
	out := c.out
	c.out = nil
	return out
}

// TakeAcks returns what clients of this replica were told since the last call.
func (c *Core) TakeAcks() []Ack {
	acks := c.acks
	c.acks = nil
	return acks
}

func (c *Core) send(to uint8, frame []byte) {
	if c.links[to] == nil || to == c.cfg.ID {
		return
	}
	c.sent[(*wire.Header)(frame).Command()]++
	c.out = append(c.out, Message{to, frame})
}

func (c *Core) broadcast(frame []byte) {
	for to := range c.cfg.Replicas {
		c.send(to, frame)
	}
}

// GroupStatus is one group as this replica sees it.
type GroupStatus struct {
	Group   uint64
	View    uint32
	Primary uint8
	Normal  bool   // false in a view change or while the log is being recovered
	Op      uint64 // highest op in the log
	Commit  uint64
	// LogHash chains number and identity of every committed op: equal commit
	// points with equal hashes are equal logs.
	LogHash uint64
}

// Groups returns the state of every group, the metadata group first.
func (c *Core) Groups() []GroupStatus {
	all := make([]GroupStatus, len(c.groups))
	for i, g := range c.groups {
		all[i] = GroupStatus{g.key, g.view, c.primary(g.view), g.status == normal, g.head(), g.commit, g.hash}
	}
	return all
}

// Identity returns the identity of a committed op, false when it is not there.
func (c *Core) Identity(group, op uint64) (wire.U128, bool) {
	g := c.index[group]
	if g == nil || op == 0 || op > g.commit {
		return wire.U128{}, false
	}
	return g.at(op).id, true
}
