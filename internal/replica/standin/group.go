package standin

import (
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/replgate/replgate/wire"
)

type status uint8

const (
	normal status = iota
	viewChange
	recovering // restarted empty: asks, takes no part
)

// entry is one op of the log.
type entry struct {
	frame  []byte // command Prepare, under the view it was built in
	id     wire.U128
	offset uint64 // messages of the partition up to and with this op

	// At the primary, until it is committed.
	acks   uint32 // by replica
	sentAt time.Time
	tries  uint
	// Where a client waits.
	since  time.Time // of Submit, zero when not submitted here
	origin *origin   // of a forwarded one
}

func (e *entry) header() *wire.Header { return (*wire.Header)(e.frame) }

// group is one consensus group. Its log has no holes: op i+1 is log[i].
type group struct {
	c             *Core
	index         int
	key           uint64
	status        status
	view, logView uint32 // logView: in which this replica was last normal
	log           []entry
	commit        uint64 // applied
	commitMax     uint64 // known to be committed somewhere
	hash          uint64 // of the log up to commit
	token         uint64
	heard         uint64            // highest op that did not fit behind the head
	stash         map[uint64][]byte // prepares above a hole, of this view; never walked
	newer         uint32            // a view above ours that a peer is in

	votes    uint32 // StartViewChange, by replica
	voted    bool   // our DoViewChange is out
	ballots  []*ballot
	adopting bool   // a log was chosen and is not yet all here
	source   uint8  // who has it
	target   uint64 // its head
	chosen   wire.Suffix
	ask      *ask

	commitAt, heartbeatAt, viewAt, statusAt, probeAt, repairAt time.Time
	lastBeat, laggedAt                                         time.Time
}

func (g *group) head() uint64        { return uint64(len(g.log)) }
func (g *group) at(op uint64) *entry { return &g.log[op-1] }
func (g *group) leads() bool         { return g.status == normal && g.c.primary(g.view) == g.c.cfg.ID }
func (g *group) timers() *Timers     { return &g.c.cfg.Timers }
func due(now, at time.Time) bool     { return !now.Before(at) }
func (g *group) headID() (id wire.U128) {
	if g.head() > 0 {
		id = g.at(g.head()).id
	}
	return id
}

func (g *group) offset() uint64 {
	if g.head() == 0 {
		return 0
	}
	return g.at(g.head()).offset
}

func (g *group) restTimers(now time.Time) {
	t := g.timers()
	jitter := time.Duration(g.c.random.Int64N(int64(t.Heartbeat)/4 + 1))
	g.commitAt, g.heartbeatAt = now, now.Add(t.Heartbeat+jitter)
}

func (g *group) tick(now time.Time) {
	switch {
	case g.leads():
		g.beat(now)
		g.retransmit(now)
	case g.status == normal && due(now, g.heartbeatAt):
		g.startViewChange(g.view+1, now)
	case g.status == viewChange:
		g.tickViewChange(now)
	}
	if (g.status == recovering && !g.adopting || g.newer > g.view) && due(now, g.probeAt) {
		g.probe(now)
	}
	g.repair(now)
}

// beat broadcasts the commit point with the next token (§1.4).
func (g *group) beat(now time.Time) {
	if !due(now, g.commitAt) {
		return
	}
	g.commitAt = now.Add(g.timers().Commit)
	g.token++
	g.c.broadcast(g.c.control(wire.Commit, g.view, nil, func(h *wire.Header) {
		wire.CommitToken.Set(h, g.token)
		wire.CommitCommit.Set(h, g.commit)
		wire.CommitGroup.Set(h, g.key)
	}))
}

// retransmit sends what has no quorum directly to everyone that has not
// acknowledged it (§1.15).
func (g *group) retransmit(now time.Time) {
	for op := g.commit + 1; op <= g.head(); op++ {
		e := g.at(op)
		if !due(now, e.sentAt.Add(g.timers().Prepare<<min(e.tries, 4))) {
			continue
		}
		e.sentAt = now
		e.tries++
		frame := restamped(e.frame, g.view)
		for to := range g.c.cfg.Replicas {
			if e.acks&(1<<to) == 0 {
				g.c.send(to, frame)
			}
		}
	}
}

// Submit starts an operation at its group's primary and returns its op number.
// Its Ack comes with TakeAcks.
func (c *Core) Submit(o Op, now time.Time) (uint64, error) {
	g := c.index[o.Group]
	if g == nil || (g.key == wire.MetadataGroup) == (o.Operation.Class() == wire.ClassPartition) {
		return 0, errPlane
	}
	return g.submit(o, entry{since: now}, now)
}

func (g *group) submit(o Op, e entry, now time.Time) (uint64, error) {
	switch {
	case !g.leads():
		return 0, ErrNotPrimary
	case g.head()-g.commit >= pipelineDepth:
		return 0, ErrBusy
	}
	frame := g.prepare(o, now)
	if err := g.append(frame); err != nil {
		return 0, err
	}
	last := g.at(g.head())
	last.since, last.origin = e.since, e.origin
	last.acks, last.sentAt = 1<<g.c.cfg.ID, now
	g.c.send((g.c.cfg.ID+1)%g.c.cfg.Replicas, frame)
	return g.head(), nil
}

// append puts a prepare behind the head, or says how it breaks the chain.
func (g *group) append(frame []byte) error {
	h := (*wire.Header)(frame)
	offset := g.offset()
	switch head := g.head(); {
	case wire.PrepareParent.Get(h) != g.headID():
		return errParent
	case head > 0 && wire.PrepareTimestamp.Get(h) <= wire.PrepareTimestamp.Get(g.at(head).header()):
		return errTimestamp
	}
	if op, _ := h.Operation(); op == wire.OpSendMessages {
		body := frame[wire.HeaderSize:]
		if binary.LittleEndian.Uint64(body[wire.BatchBaseOffset:]) != offset {
			return errOffset
		}
		offset += uint64(binary.LittleEndian.Uint32(body[wire.BatchCount:]))
	}
	frame = restamped(frame, uint32(wire.PrepareRequestChecksum.Get(h).Hi))
	g.log = append(g.log, entry{frame: frame, id: wire.Checksum.Get(h), offset: offset})
	g.laggedAt = time.Time{}
	return nil
}

func (g *group) onPrepare(from uint8, frame []byte, now time.Time) error {
	h := (*wire.Header)(frame)
	view, op := wire.View.Get(h), wire.PrepareOp.Get(h)
	switch {
	case view > g.view:
		g.newer = max(g.newer, view)
		return nil
	case view < g.view || g.status != normal:
		return nil
	case g.leads():
		return errNotPrimary
	case op <= g.head():
		if g.at(op).id != wire.Checksum.Get(h) {
			return errOtherOp
		}
		g.acknowledge(op)
	case op > g.head()+1:
		g.heard = max(g.heard, op)
		if len(g.stash) < stashMax {
			g.stash[op] = frame
		}
	default:
		if err := g.take(frame); err != nil {
			return err
		}
	}
	if err := g.unstash(); err != nil {
		return err
	}
	g.learn(wire.PrepareCommit.Get(h), now)
	return nil
}

// take appends a live prepare, sends it along the chain as it came, and
// acknowledges it. A restamped one went to everyone already.
func (g *group) take(frame []byte) error {
	if err := g.append(frame); err != nil {
		return err
	}
	e := g.at(g.head())
	next := (g.c.cfg.ID + 1) % g.c.cfg.Replicas
	if next != g.c.primary(g.view) && wire.View.Get((*wire.Header)(frame)) == wire.View.Get(e.header()) {
		g.c.send(next, frame)
	}
	g.acknowledge(g.head())
	return nil
}

func (g *group) unstash() error {
	for frame := g.stash[g.head()+1]; frame != nil; frame = g.stash[g.head()+1] {
		delete(g.stash, g.head()+1)
		if err := g.take(frame); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) acknowledge(op uint64) {
	g.c.send(g.c.primary(g.view), g.prepareOk(g.at(op).header()))
}

func (g *group) onPrepareOk(from uint8, h *wire.Header, now time.Time) error {
	view, op := wire.View.Get(h), wire.PrepareOkOp.Get(h)
	if view > g.view {
		g.newer = max(g.newer, view)
	}
	if view != g.view || !g.leads() {
		return nil
	}
	if op == 0 || op > g.head() || !echoes(h, g.at(op).header()) {
		return errEcho
	}
	g.at(op).acks |= 1 << from
	for next := g.commitMax + 1; next <= g.head() && bits.OnesCount32(g.at(next).acks) >= g.c.replication; next++ {
		g.commitMax = next
	}
	g.apply(now)
	return nil
}

func (g *group) onCommit(from uint8, h *wire.Header, now time.Time) {
	view := wire.View.Get(h)
	switch {
	case view > g.view:
		g.newer = max(g.newer, view)
	case view < g.view && g.leads():
		g.startView(from, wire.U128{}) // tell a primary that was deposed (§1.4)
	case view == g.view && g.status == normal:
		if !g.lastBeat.IsZero() {
			g.c.gapMax = max(g.c.gapMax, now.Sub(g.lastBeat))
		}
		g.lastBeat = now
		g.restTimers(now)
		g.learn(wire.CommitCommit.Get(h), now)
	case view == g.view && g.adopting:
		g.statusAt = now.Add(g.timers().ViewStatus)
	}
}

// learn notes a commit point and applies what is here of it.
func (g *group) learn(commit uint64, now time.Time) {
	g.commitMax = max(g.commitMax, commit)
	g.apply(now)
	if g.laggedAt.IsZero() && g.head() < max(g.commitMax, g.heard) {
		g.laggedAt = now
	}
}

func (g *group) apply(now time.Time) {
	for g.status == normal && g.commit < min(g.commitMax, g.head()) {
		g.commit++
		e := g.at(g.commit)
		var link [32]byte
		binary.LittleEndian.PutUint64(link[0:], g.hash)
		binary.LittleEndian.PutUint64(link[8:], g.commit)
		binary.LittleEndian.PutUint64(link[16:], e.id.Lo)
		g.hash = wire.Hash(link[:])
		g.answer(e, now)
	}
}

// answer tells the client of a committed op, where one waits here.
func (g *group) answer(e *entry, now time.Time) {
	op, _ := e.header().Operation()
	ack := Ack{Group: g.key, Op: g.commit, Identity: e.id, Operation: op}
	switch {
	case !e.since.IsZero():
		ack.Took = now.Sub(e.since)
	case e.origin != nil:
		e.origin.done(g, g.commit)
	default:
		return
	}
	e.since, e.origin = time.Time{}, nil
	g.c.acks = append(g.c.acks, ack)
}
