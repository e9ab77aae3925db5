package proxy

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
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
	visit     *visit // that it was made of, until it has its place
	holder    holder
	near      *leg
	far       atomic.Pointer[leg]
	in, out   *pump
	force     *time.Timer // that ends what the second pump waits for
	started   time.Time
	nearGone  chan struct{} // closed when the local replica no longer has the connection

	mu      sync.Mutex
	ends    []end         // of the pumps, in the order in which they came
	ordered Ending        // why the gate itself ended it, empty while it did not
	grace   time.Duration // how long the pumps may take to a frame's end then
	ended   bool          // the legs are closing: nothing more may be ordered
}

func newLink(v *visit, near, far *leg) *link {
	l := &link{server: v.server, settings: v.settings, direction: v.direction, peer: v.peer, log: v.log, visit: v, holder: v.holder(),
		near: near, started: time.Now(), nearGone: make(chan struct{}), grace: closeGrace}
	l.far.Store(far)
	l.in = newPump(l, inward, v.loose[far.side])
	l.out = newPump(l, outward, v.loose[near.side])
	return l
}

// closeGrace is how long after one leg ended the other may still take to reach a
// frame's end: with it the other ends within half a second. A drain has a
// deadline of its own, which cuts what drainGrace would wait for.
const (
	closeGrace = 400 * time.Millisecond
	resetGrace = 20 * time.Millisecond
	drainGrace = time.Hour
)

// run carries frames until the link ends, and ends both legs.
func (l *link) run() {
	defer l.server.open.Add(-1)
	if !l.enter() {
		return
	}
	defer l.server.leave(l)
	l.prepare()
	l.opened()
	var other sync.WaitGroup
	other.Go(func() { l.pumped(l.out.run()) })
	l.pumped(l.in.run()) // here, because a goroutine that only waits costs as much as one that works
	other.Wait()
	l.force.Stop()
	l.closed(l.judgeEnds(l.ends[0], l.ends[1]))
}

// enter gives the link its place, or refuses it, and lets its visit go: a link
// lives for weeks, what its handshake needed does not.
func (l *link) enter() bool {
	v := l.visit
	defer v.cancel(nil)
	refused := l.server.enter(l)
	l.visit = nil
	l.server.release(v)
	if refused == "" {
		return true
	}
	v.discard(l)
	v.refuse(&refusal{ending: refused, got: "a link in its place", want: "an empty one"})
	return false
}

// pumped takes a pump's end. The first one stops the other pump.
func (l *link) pumped(e end) {
	l.mu.Lock()
	l.ends = append(l.ends, e)
	first := len(l.ends) == 1
	l.mu.Unlock()
	if first {
		l.force = time.AfterFunc(l.stopPumps(e), l.expire)
	}
}

// prepare gives both legs the options of a link.
func (l *link) prepare() {
	far := l.far.Load()
	if err := watchPeer(far.tcp.TCPConn, l.settings.HeartbeatTimeout); err != nil {
		l.log.Warn("socket option failed", "got", err.Error(), "want", "keepalive and TCP_USER_TIMEOUT on the far leg")
	}
	far.tcp.source, l.near.tcp.source = l.near.tcp, far.tcp
	far.tcp.watch(l.settings.WriteStall)
	l.near.tcp.watch(l.settings.WriteStall)
}

// expire unblocks whatever a pump still waits for. A link whose legs are closing
// has its own time.
func (l *link) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.near.tcp.last(time.Now())
	l.far.Load().tcp.last(time.Now())
}

// stopPumps makes both pumps stop at their next frame boundary, and returns how
// long that may take: a drain waits, a leg that ended does not, and a reset is
// passed on at once.
func (l *link) stopPumps(first end) time.Duration {
	l.mu.Lock()
	grace := l.grace
	l.mu.Unlock()
	switch {
	case first.reset:
		grace = resetGrace
	case first.ending != "":
		grace = closeGrace
	}
	until := time.Now().Add(grace)
	l.in.stop(until)
	l.out.stop(until)
	return grace
}

// order ends the link from this gate's side, between frames, within grace.
func (l *link) order(e Ending, grace time.Duration) {
	l.mu.Lock()
	if l.ended || l.ordered != "" {
		l.mu.Unlock()
		return
	}
	l.ordered, l.grace = e, grace
	l.mu.Unlock()
	l.stopPumps(end{})
	time.AfterFunc(grace, l.expire) // a pump may be blocked on its reader
}

// ending reports whether the link's legs are closing or about to: by this gate's
// order, or because the other end of one of them has gone, even if no pump has
// come to read that yet.
func (l *link) ending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended || l.ordered != "" || len(l.ends) > 0 ||
		l.near.tcp.state() != stateOpen || l.far.Load().tcp.state() != stateOpen
}

// cut ends the link at once, inside a frame if need be. It reports whether there
// was anything to cut: a link whose pumps stand at a boundary is only closing.
func (l *link) cut(e Ending) bool {
	l.mu.Lock()
	flowing := !l.ended
	if flowing {
		l.ordered = e
	}
	l.mu.Unlock()
	l.near.abort()
	l.far.Load().abort()
	return flowing
}

// judgeEnds chooses the one ending of the link and closes both legs accordingly.
func (l *link) judgeEnds(first, second end) end {
	l.mu.Lock()
	l.ended = true
	e := first
	if e.ending == "" || second.broke(first) {
		e = second // the first stopped because it was told to, or saw what was left of a reset
	}
	if l.ordered != "" {
		e = end{ending: l.ordered}
	}
	l.mu.Unlock()
	broken := [2]bool{e.reset, e.reset}
	for _, pumped := range []end{first, second} {
		if pumped.partial {
			broken[pumped.pump.dst().side] = true
		}
	}
	var closing sync.WaitGroup
	closing.Go(func() {
		l.near.end(broken[near])
		l.server.nearEnded(l)
		close(l.nearGone)
	})
	closing.Go(func() { l.far.Load().end(broken[far]) })
	closing.Wait()
	return e
}

func (l *link) opened() {
	m := l.settings.Metrics
	m.LinkOpened(decimal(l.peer.ID), l.direction, string(l.far.Load().security))
	if l.far.Load().security == Plaintext {
		m.PlaintextLink(decimal(l.peer.ID))
		l.server.notePlaintext(l.peer.ID)
	}
	l.server.tidy.later()
	l.log.Info("link opened", "near", string(l.near.security), "far", string(l.far.Load().security))
}

func (l *link) closed(e end) {
	l.settings.Metrics.LinkClosed(decimal(l.peer.ID), l.direction, string(l.far.Load().security), string(e.ending))
	l.server.noteEnding(l.peer.ID, e.ending)
	in, out := l.in.seen.snapshot(), l.out.seen.snapshot()
	attrs := []any{"ending", string(e.ending), "age_ms", time.Since(l.started).Milliseconds(),
		"frames_in", in.Frames, "frames_out", out.Frames, "dropped", in.Dropped + out.Dropped, "lost", in.Lost + out.Lost}
	if e.got != "" {
		attrs = append(attrs, "got", e.got, "want", e.want)
	}
	if e.ending.level() >= slog.LevelWarn {
		attrs = append(attrs, "do", e.ending.do())
	}
	l.log.Log(context.Background(), e.ending.level(), "link closed", attrs...)
}

// judge returns the judge of one of the link's directions.
func (l *link) judge(way string, src *leg) *policy.Judge {
	return policy.NewJudge(l.settings.Rules, policy.Leg{
		Cluster: l.settings.Cluster, Replicas: l.settings.Replicas, Sender: src.replica,
		Inward: way == inward, MaxFrame: l.settings.MaxFrame,
	}, &l.server.chain)
}
