package standin

import (
	"time"

	"github.com/replgate/replgate/wire"
)

// ask is one RequestPrepares and what has come of it.
type ask struct {
	peer     uint8
	group    *group
	nonce    wire.U128
	from, to uint64
	next     uint64 // lowest op that may still come
	at       time.Time
}

// probe asks everyone for the view (§1.9).
func (g *group) probe(now time.Time) {
	g.probeAt = now.Add(g.timers().Probe)
	g.c.broadcast(g.c.control(wire.RequestStartView, g.view, nil, func(h *wire.Header) {
		wire.RequestStartViewGroup.Set(h, g.key)
		wire.RequestStartViewIncarnation.Set(h, g.c.incarnation)
	}))
}

// onRequestStartView: only the primary answers. A primary that asks has lost its
// memory, so the others elect at once (§13, 10).
func (g *group) onRequestStartView(from uint8, h *wire.Header, now time.Time) {
	switch {
	case g.leads():
		g.startView(from, wire.RequestStartViewIncarnation.Get(h))
	case g.status == normal && g.c.primary(g.view) == from:
		g.startViewChange(g.view+1, now)
	}
}

// missing says whom to ask for the ops behind the head, and up to which.
func (g *group) missing(now time.Time) (source uint8, to uint64, ok bool) {
	switch {
	case g.adopting:
		return g.source, min(g.target, g.head()+askChunk), true
	case g.status == normal && !g.leads() && g.head() < max(g.commitMax, g.heard) &&
		!g.laggedAt.IsZero() && due(now, g.laggedAt.Add(g.timers().Prepare)):
		return g.c.primary(g.view), g.head() + askChunk, true
	}
	return 0, 0, false
}

// repair asks for what is missing, a chunk at a time, and again when no answer
// came. Few ask at once, so that the answers fit the peer's queue.
func (g *group) repair(now time.Time) {
	if g.ask != nil && due(now, g.ask.at.Add(g.timers().Repair)) {
		g.endAsk(now)
		g.adopting = g.adopting && g.status != recovering // ask again who leads
	}
	if g.ask != nil || g.c.asking >= asksMax || !due(now, g.repairAt) {
		return
	}
	source, to, ok := g.missing(now)
	if !ok || g.c.links[source] == nil {
		if ok && g.status == recovering {
			g.adopting = false // the primary is gone: ask who leads now
		}
		return
	}
	g.ask = &ask{peer: source, group: g, nonce: g.c.nonce(), from: g.head() + 1, to: to, next: g.head() + 1, at: now}
	g.c.asking++
	g.c.links[source].asks = append(g.c.links[source].asks, g.ask)
	g.c.send(source, g.c.control(wire.RequestPrepares, 0, nil, func(h *wire.Header) {
		wire.RequestPreparesNonce.Set(h, g.ask.nonce)
		wire.RequestPreparesFrom.Set(h, g.ask.from)
		wire.RequestPreparesTo.Set(h, g.ask.to)
		wire.RequestPreparesGroup.Set(h, g.key)
	}))
}

func (g *group) endAsk(now time.Time) {
	if g.ask != nil {
		g.ask = nil
		g.c.asking--
		g.repairAt = now
	}
}

// nonce is (replica << 64) | counter (§1.13).
func (c *Core) nonce() wire.U128 {
	c.counter++
	return wire.U128{Lo: c.counter, Hi: uint64(c.cfg.ID)}
}

// onRequestPrepares serves what is here, in op order, then RepairDone.
func (g *group) onRequestPrepares(from uint8, h *wire.Header) {
	first := wire.RequestPreparesFrom.Get(h)
	op := first
	for ; op <= min(g.head(), wire.RequestPreparesTo.Get(h)) && op < first+serveMax; op++ {
		frame := append([]byte(nil), g.at(op).frame...)
		(*wire.Header)(frame).SetCommand(wire.RepairPrepare)
		g.c.send(from, frame)
	}
	g.c.send(from, g.c.control(wire.RepairDone, 0, nil, func(done *wire.Header) {
		wire.RepairNonce.Set(done, wire.RequestPreparesNonce.Get(h))
		wire.RepairOp.Set(done, op-1)
		wire.RepairGroup.Set(done, g.key)
	}))
}

// asked finds the question on this connection that an op answers. A question
// that was given up may be answered all the same, and frames in between may have
// been dropped, but within an answer the ops rise.
func (l *link) asked(g *group, op uint64) bool {
	for _, a := range l.asks {
		if a.group == g && op >= a.next && op <= a.to {
			a.next = op + 1
			return true
		}
	}
	return false
}

func (g *group) onRepairPrepare(from uint8, frame []byte, now time.Time) error {
	h := (*wire.Header)(frame)
	op, id := wire.PrepareOp.Get(h), wire.Checksum.Get(h)
	switch {
	case !g.c.links[from].asked(g, op):
		return errUnasked
	case op <= g.commit && g.at(op).id != id:
		return errCommitted
	case op != g.head()+1 || wire.View.Get(h) > g.view:
		return nil
	case !g.adopting && (g.status != normal || g.leads()):
		return nil
	}
	if want := chosen(g.chosen, g.target, op); want != nil && wire.Checksum.Get(want) != id {
		return nil
	}
	if wire.PrepareParent.Get(h) != g.headID() && g.head() > g.commit {
		if g.adopting {
			g.log = g.log[:g.head()-1] // not of the chosen log; ask again from here
		}
		return nil
	}
	g.statusAt = now.Add(g.timers().ViewStatus)
	clone := append([]byte(nil), frame...)
	(*wire.Header)(clone).SetCommand(wire.Prepare)
	if err := g.append(clone); err != nil {
		return err
	}
	if g.adopting {
		if g.head() == g.target {
			g.finish(now)
		}
		return nil
	}
	if op > g.commitMax {
		g.acknowledge(op)
	}
	err := g.unstash()
	g.learn(0, now)
	return err
}

func (g *group) onRepairDone(from uint8, h *wire.Header, now time.Time) error {
	l, nonce, op := g.c.links[from], wire.RepairNonce.Get(h), wire.RepairOp.Get(h)
	for i, a := range l.asks {
		if a.nonce != nonce || a.group != g {
			continue
		}
		if op+1 < a.next || op > a.to {
			return errRepairRange
		}
		l.asks = append(l.asks[:i], l.asks[i+1:]...)
		if g.ask == a {
			g.endAsk(now)
			if op < a.from { // it has nothing for us
				g.repairAt = now.Add(g.timers().Repair)
			}
			g.continueRepair(now)
		}
		return nil
	}
	return errUnasked
}

// continueRepair asks on at once when a repair has not yet reached what is known
// to be there.
func (g *group) continueRepair(now time.Time) {
	if g.status == normal && g.head() < max(g.commitMax, g.heard) {
		g.laggedAt = now.Add(-g.timers().Prepare)
	}
	g.repair(now)
}
