package standin

import (
	"math/bits"
	"time"

	"github.com/replgate/replgate/wire"
)

// ballot is what a DoViewChange said.
type ballot struct {
	logView uint32
	commit  uint64
	top     uint64      // highest op whose header is there
	suffix  wire.Suffix // from top down
}

// startViewChange leaves the present view and votes for another.
func (g *group) startViewChange(view uint32, now time.Time) {
	g.status, g.view = viewChange, view
	g.endAsk(now)
	g.votes, g.voted, g.ballots = 1<<g.c.cfg.ID, false, make([]*ballot, g.c.cfg.Replicas)
	g.adopting, g.chosen = false, nil
	g.statusAt = now.Add(g.timers().ViewStatus + time.Duration(g.c.random.Int64N(int64(g.timers().ViewStatus)/4+1)))
	g.vote(now)
}

// vote broadcasts StartViewChange, and DoViewChange once enough others want the
// view too.
func (g *group) vote(now time.Time) {
	g.viewAt = now.Add(g.timers().ViewChange)
	g.c.broadcast(g.c.control(wire.StartViewChange, g.view, nil, func(h *wire.Header) {
		wire.StartViewChangeGroup.Set(h, g.key)
	}))
	if g.voted {
		g.c.broadcast(g.doViewChange())
	}
}

func (g *group) tickViewChange(now time.Time) {
	switch {
	case due(now, g.statusAt):
		g.startViewChange(g.view+1, now)
	case !g.adopting && due(now, g.viewAt):
		g.vote(now)
	}
}

// doViewChange is this replica's log as far as it is open: commit..op. Ops it
// only heard of are blank and nacked: it never prepared them (§1.6).
func (g *group) doViewChange() []byte {
	commit := min(g.commitMax, g.head())
	op := min(max(g.head(), g.heard), commit+wire.SuffixMax-1)
	body, present, nacks := g.suffix(op, commit)
	return g.c.control(wire.DoViewChange, g.view, body, func(h *wire.Header) {
		wire.ViewOp.Set(h, op)
		wire.ViewCommit.Set(h, commit)
		wire.ViewGroup.Set(h, g.key)
		wire.DoViewChangeLogView.Set(h, g.logView)
		wire.DoViewChangeNacks.Set(h, nacks)
		wire.DoViewChangePresent.Set(h, present)
	})
}

// onStartViewChange follows anybody into a higher view, as Iggy does (§1.5).
func (g *group) onStartViewChange(from uint8, view uint32, now time.Time) error {
	switch {
	case g.status == recovering:
		return nil
	case view <= g.view && g.leads():
		g.startView(from, wire.U128{}) // it missed ours
		return nil
	case view > g.view:
		g.startViewChange(view, now)
	case view < g.view || g.status == normal || g.adopting:
		return nil
	}
	g.votes |= 1 << from
	if !g.voted && bits.OnesCount32(g.votes) >= g.c.agreement {
		g.voted = true
		frame := g.doViewChange()
		g.c.broadcast(frame)
		g.ballots[g.c.cfg.ID] = newBallot(frame)
		return g.merge(now)
	}
	return nil
}

// onDoViewChange counts as a StartViewChange too.
func (g *group) onDoViewChange(from uint8, frame []byte, now time.Time) error {
	view := wire.View.Get((*wire.Header)(frame))
	err := g.onStartViewChange(from, view, now)
	if err != nil || g.status != viewChange || view != g.view || g.adopting {
		return err
	}
	g.ballots[from] = newBallot(frame)
	return g.merge(now)
}

func newBallot(frame []byte) *ballot {
	h, suffix := (*wire.Header)(frame), wire.Suffix(frame[wire.HeaderSize:])
	b := &ballot{logView: wire.DoViewChangeLogView.Get(h), commit: wire.ViewCommit.Get(h), top: wire.ViewOp.Get(h)}
	for len(suffix) > 0 && wire.Blank(suffix.Entry(0), b.top) {
		suffix = suffix[wire.HeaderSize:]
		b.top--
	}
	b.suffix = suffix
	return b
}

// merge chooses the log of the view, at its primary and once enough have voted:
// that of the latest view in which any voter was normal, and there the longest.
// Ops that nobody in it prepared are cut off. A committed op has a header at one
// voter at least, so it is in that log.
func (g *group) merge(now time.Time) error {
	if !g.voted || g.c.primary(g.view) != g.c.cfg.ID {
		return nil
	}
	count, best, commit := 0, g.c.cfg.ID, g.commitMax
	for r, b := range g.ballots {
		if b == nil {
			continue
		}
		count++
		commit = max(commit, b.commit)
		if top := g.ballots[best]; b.logView > top.logView || b.logView == top.logView && b.top > top.top {
			best = uint8(r)
		}
	}
	if count < g.c.agreement {
		return nil
	}
	g.commitMax = commit
	return g.adopt(best, g.ballots[best].top, g.ballots[best].suffix, now)
}

// adopt makes a chosen log this replica's own: it cuts off what the suffix
// contradicts and asks source for what is missing. Below the suffix nothing is
// cut here: the chain finds it while the missing ops arrive.
func (g *group) adopt(source uint8, top uint64, suffix wire.Suffix, now time.Time) error {
	if top < g.commitMax {
		return errLostCommit
	}
	keep := min(g.head(), top)
	for ; keep > 0; keep-- {
		e := chosen(suffix, top, keep)
		if e == nil || wire.Checksum.Get(e) == g.at(keep).id {
			break
		}
		if keep <= g.commit {
			return errCommitted
		}
	}
	g.log = g.log[:keep]
	g.adopting, g.source, g.target, g.chosen = true, source, top, suffix
	g.heard = 0
	clear(g.stash)
	g.endAsk(now)
	g.repairAt = now
	if g.head() == g.target {
		g.finish(now)
	}
	g.repair(now)
	return nil
}

// chosen returns the header of op in a suffix that starts at top, nil outside.
func chosen(suffix wire.Suffix, top, op uint64) *wire.Header {
	if op > top || top-op >= uint64(suffix.Len()) {
		return nil
	}
	return suffix.Entry(int(top - op))
}

// finish ends the way into a view: the chosen log is here.
func (g *group) finish(now time.Time) {
	g.status, g.logView, g.adopting, g.chosen = normal, g.view, false, nil
	g.restTimers(now)
	g.laggedAt = time.Time{}
	if g.leads() {
		for op := g.commit + 1; op <= g.head(); op++ {
			e := g.at(op)
			e.acks, e.sentAt, e.tries = 1<<g.c.cfg.ID, now, 0
		}
		g.apply(now)
		g.startView(everyone, wire.U128{})
		return
	}
	g.apply(now)
	for op := g.commit + 1; op <= g.head(); op++ {
		g.acknowledge(op)
	}
}

// everyone is no replica's id.
const everyone = 255

// startView says what the view's log is (§1.7).
func (g *group) startView(to uint8, incarnation wire.U128) {
	body, _, _ := g.suffix(g.head(), g.commit)
	frame := g.c.control(wire.StartView, g.view, body, func(h *wire.Header) {
		wire.ViewOp.Set(h, g.head())
		wire.ViewCommit.Set(h, g.commit)
		wire.ViewGroup.Set(h, g.key)
		wire.StartViewIncarnation.Set(h, incarnation)
	})
	if to == everyone {
		g.c.broadcast(frame)
		return
	}
	g.c.send(to, frame)
}

func (g *group) onStartView(from uint8, frame []byte, now time.Time) error {
	h := (*wire.Header)(frame)
	view := wire.View.Get(h)
	switch {
	case view < g.view || view == g.view && g.status == normal:
		return nil
	case g.status == recovering && wire.StartViewIncarnation.Get(h) != g.c.incarnation:
		return nil // an answer to somebody else, or to a former life (§1.7)
	case view == g.view && g.adopting:
		return nil
	}
	if g.status != recovering {
		g.status = viewChange
	}
	g.view = view
	g.votes, g.voted = 0, false
	g.statusAt = now.Add(g.timers().ViewStatus)
	g.commitMax = max(g.commitMax, wire.ViewCommit.Get(h))
	return g.adopt(from, wire.ViewOp.Get(h), wire.Suffix(frame[wire.HeaderSize:]), now)
}
