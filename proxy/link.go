package proxy

import (
	"log/slog"
	"sync"
	"time"

	"github.com/replgate/replgate/policy"
)

// The two ways a frame can go.
const (
	inward  = "in"  // toward the local replica
	outward = "out" // away from it
)

// link is two proven legs and the two pumps between them. The near leg belongs to
// the link for its whole life; the pumps reach the far one through the link, so
// that it can become a part that is replaced between frames.
type link struct {
	server    *Server
	settings  *Settings
	direction string
	peer      *Peer
	log       *slog.Logger
	near, far *leg
	in, out   *pump
	started   time.Time

	mu      sync.Mutex
	ordered Ending // why the gate itself ended it, empty while it did not
	ended   bool   // the legs are closing: nothing more may be ordered
}

func newLink(v *visit, near, far *leg) *link {
	l := &link{server: v.server, settings: v.settings, direction: v.direction, peer: v.peer, log: v.log,
		near: near, far: far, started: time.Now()}
	l.in = newPump(l, inward, far, near, v.loose[far.side])
	l.out = newPump(l, outward, near, far, v.loose[near.side])
	return l
}

// closeGrace is how long after one leg ended the other may still take to reach a
// frame's end.
const closeGrace = 500 * time.Millisecond

// run carries frames until the link ends, and ends both legs.
func (l *link) run() {
	if !l.server.enter(l) {
		l.near.abort()
		l.far.abort()
		l.settings.Metrics.Refused(l.direction, string(Drain))
		return
	}
	defer l.server.leave(l)
	l.opened()
	ends := make(chan end, 2)
	go l.in.run(ends)
	go l.out.run(ends)
	first := <-ends
	l.stopPumps(time.Now().Add(l.grace()))
	second := <-ends
	l.closed(l.judgeEnds(first, second))
}

// grace is how long the second pump may take to its frame's end: until the drain
// deadline cuts in when the gate shuts down, else closeGrace.
func (l *link) grace() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ordered != "" {
		return time.Hour // Server.Shutdown has the deadline and aborts
	}
	return closeGrace
}

// stopPumps makes both pumps stop at their next frame boundary, or at the given
// time wherever they are.
func (l *link) stopPumps(until time.Time) {
	l.in.stop(until)
	l.out.stop(until)
}

// order ends the link from this gate's side, between frames.
func (l *link) order(e Ending) {
	l.mu.Lock()
	if l.ended || l.ordered != "" {
		l.mu.Unlock()
		return
	}
	l.ordered = e
	l.mu.Unlock()
	l.stopPumps(time.Now().Add(time.Hour)) // see grace
}

// cut ends the link at once, inside a frame if need be.
func (l *link) cut(e Ending) {
	l.mu.Lock()
	l.ordered = e
	l.mu.Unlock()
	l.near.abort()
	l.far.abort()
}

// judgeEnds chooses the one ending of the link and closes both legs accordingly.
func (l *link) judgeEnds(first, second end) end {
	l.mu.Lock()
	l.ended = true
	e := first
	if e.ending == "" {
		e = second // the first stopped because it was told to
	}
	if l.ordered != "" {
		e = end{ending: l.ordered}
	}
	l.mu.Unlock()
	if e.reset || first.partial || second.partial {
		l.near.abort()
		l.far.abort()
		return e
	}
	var closing sync.WaitGroup
	closing.Go(func() { l.near.finish(lingerTime) })
	closing.Go(func() { l.far.finish(lingerTime) })
	closing.Wait()
	return e
}

func (l *link) opened() {
	m := l.settings.Metrics
	m.LinkOpened(decimal(l.peer.ID), l.direction, string(l.far.security))
	if l.far.security == Plaintext {
		m.PlaintextLink(decimal(l.peer.ID))
	}
	l.log.Info("link opened", "near", string(l.near.security), "far", string(l.far.security))
}

func (l *link) closed(e end) {
	if e.ending == "" {
		e.ending = l.far.side.reset() // both pumps were stopped by nobody: cannot happen
	}
	l.settings.Metrics.LinkClosed(decimal(l.peer.ID), l.direction, string(l.far.security), string(e.ending))
	attrs := []any{"ending", string(e.ending), "age_ms", time.Since(l.started).Milliseconds(),
		"frames_in", l.in.total[Forwarded], "frames_out", l.out.total[Forwarded],
		"dropped", l.in.total[Dropped] + l.out.total[Dropped], "lost", l.in.total[Lost] + l.out.total[Lost]}
	if e.got != "" {
		attrs = append(attrs, "got", e.got, "want", e.want)
	}
	if e.ending.level() >= slog.LevelWarn {
		attrs = append(attrs, "do", e.ending.do())
	}
	l.log.Log(l.server.admitting, e.ending.level(), "link closed", attrs...)
}

// judge returns the judge of one of the link's directions.
func (l *link) judge(way string, src *leg) *policy.Judge {
	return policy.NewJudge(l.settings.Rules, policy.Leg{
		Cluster: l.settings.Cluster, Replicas: l.settings.Replicas, Sender: src.replica,
		Inward: way == inward, MaxFrame: l.settings.MaxFrame,
	}, &l.server.chain)
}
