package proxy

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// pump is the copy of one direction of a link. It reads as much as there is,
// judges every whole frame where it lies, and writes the valid ones in as few
// writes as their order allows. It waits for its own writes and for nobody
// else's.
type pump struct {
	link    *link
	way     string
	reader  *wire.Reader
	judge   *policy.Judge
	count   FrameCounter
	told    policy.RuleSet // rules that have had their log line
	pending [wire.Commands]tally
	seen    seen
	partial bool // part of a frame has been written and the rest has not
	pace    pace
	held    int // bytes of the reader that the gate counts
	// begun is the verdict on the header of a frame whose body is still to come.
	begun    policy.Verdict
	hasBegun bool

	mu    sync.Mutex
	until time.Time // when set: stop at a boundary, and at this time wherever it is
	timed bool      // the source has a read deadline
	armed time.Time // when the last deadline between two frames was set
}

type tally struct{ frames, bytes uint64 }

// end is why a pump stopped. The zero value means that it was told to and stands
// at a frame boundary.
type end struct {
	ending    Ending
	got, want string
	reset     bool  // one leg is broken: the other is reset too
	partial   bool  // the receiver has part of a frame: its leg is reset
	broken    *leg  // on which a write found a reset or no answer
	pump      *pump // whose end it is
}

// broke reports whether e tells what the other pump's end does not: the kernel
// gives a reset to one system call only, and when that is a write the reader of
// the same leg sees a plain end.
func (e end) broke(other end) bool {
	return e.broken != nil && other.pump != nil && !other.reset && e.broken == other.pump.src()
}

func newPump(l *link, way string, loose int) *pump {
	p := &pump{link: l, way: way, reader: wire.NewReader(l.settings.limits()), pace: pace{rate: l.settings.FrameRate},
		count: l.settings.Metrics.Frames(decimal(l.peer.ID), way)}
	p.judge = l.judge(way, p.src())
	verdict := policy.Observe.String()
	if l.settings.Observe && l.settings.Rules[policy.HelloStrict] == policy.Close {
		verdict = "would_close"
	}
	for range loose {
		p.count.Rejected(policy.HelloStrict.String(), verdict)
	}
	return p
}

// src and dst are the legs the pump stands between. They are asked for anew at
// every read and write, because the far one may be replaced between two frames.
func (p *pump) src() *leg {
	if p.way == inward {
		return p.link.far.Load()
	}
	return p.link.near
}

func (p *pump) dst() *leg {
	if p.way == inward {
		return p.link.near
	}
	return p.link.far.Load()
}

// run pumps until an end, and says why.
func (p *pump) run() end {
	var e *end
	for e == nil {
		if e = p.fill(p.reader.Inside()); e == nil {
			e = p.forward()
		}
	}
	p.settle()
	p.link.server.buffered.Add(int64(-p.held))
	e.pump, e.partial = p, e.partial || p.partial
	return *e
}

// stop makes the pump stop at its next frame boundary, at the latest at until.
func (p *pump) stop(until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.until.IsZero() || until.Before(p.until) {
		p.until = until
	}
	p.src().io.SetReadDeadline(time.Now()) // wakes it; ready then sets the real one
}

// ready prepares one read: how long it may take, and whether only the rest of the
// frame under way may be read. It returns an end when there is nothing more to
// read.
func (p *pump) ready(inside bool) (onlyRest bool, e *end) {
	p.mu.Lock()
	defer p.mu.Unlock()
	stopping := !p.until.IsZero()
	switch {
	case stopping && !inside:
		return false, &end{}
	case stopping && !time.Now().Before(p.until):
		return false, &end{}
	case stopping:
		p.deadline(p.until)
	case inside && p.pace.rate > 0:
		left := p.pace.left()
		if left <= 0 {
			return false, &end{ending: FrameStalled, got: fmt.Sprintf("%d bytes of a frame's rest in %v", p.pace.got, p.pace.waited.Round(time.Millisecond)),
				want: fmt.Sprintf("at least %d bytes per second after %v", p.pace.rate, paceGrace)}
		}
		p.deadline(time.Now().Add(left))
	case !inside:
		p.pace.boundary()
		p.rests()
	}
	return stopping, nil
}

// restAfter is how long at most a source is silent between two frames until the
// memory that its traffic has grown is given back; half of it at least.
const restAfter = time.Second

// rests gives a read between two frames its time: none, or, where there is memory
// to give back, until it is. The deadline is not set anew for each read; one that
// comes early only shortens the silence. The caller holds p.mu.
func (p *pump) rests() {
	if !p.reader.Grown() {
		if p.timed {
			p.deadline(time.Time{})
			p.armed = time.Time{}
		}
		return
	}
	if now := time.Now(); now.Sub(p.armed) > restAfter/2 {
		p.deadline(now.Add(restAfter))
		p.armed = now
	}
}

// rest gives memory back.
func (p *pump) rest() {
	p.reader.Rest()
	if r := p.src().records; r != nil {
		r.rest()
	}
	p.holds()
	p.link.server.tidy.later()
}

// gather reads on while that does not wait, so that what came together leaves
// together.
func (p *pump) gather() (n int) {
	for {
		m := p.src().readOn(p.reader.Free())
		if m == 0 {
			return n
		}
		p.reader.Filled(m)
		n += m
	}
}

// holds keeps the gate's sum of buffers up to date.
func (p *pump) holds() {
	if held := p.reader.Held(); held != p.held {
		p.link.server.buffered.Add(int64(held - p.held))
		p.held = held
	}
}

// deadline sets the source's read deadline. The caller holds p.mu, so that it
// cannot undo what stop has set.
func (p *pump) deadline(t time.Time) {
	p.timed = !t.IsZero()
	p.src().io.SetReadDeadline(t)
}

// fill does one read. inside says that the stream does not stand at a boundary.
func (p *pump) fill(inside bool) *end {
	for {
		onlyRest, e := p.ready(inside)
		if e != nil {
			return e
		}
		free := p.reader.Free()
		if onlyRest {
			free = p.reader.FreeLimit()
		}
		began := time.Now()
		n, err := p.src().io.Read(free)
		p.reader.Filled(n)
		if !onlyRest {
			n += p.gather()
		}
		p.holds()
		if inside { // silence between frames is nobody's fault
			p.pace.took(time.Since(began), n)
		}
		switch {
		case n > 0:
			return nil // an error comes again at the next read
		case err == nil, isTimeout(err):
			if !inside && !onlyRest {
				p.rest()
			}
			continue // ready knows what time it is
		}
		return p.readEnd(err, inside)
	}
}

// put writes to the other leg and explains a failure.
func (p *pump) put(b []byte) *end {
	dst, began := p.dst(), time.Now()
	err := dst.write(b)
	if blocked := time.Since(began); blocked > blockedMin {
		p.link.settings.Metrics.WriteBlocked(blocked)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errSourceReset):
		return &end{ending: p.src().side.reset(), got: "a reset while what it had sent waited for its reader", want: "a reader that reads", reset: true}
	case errors.Is(err, errSourceEnd):
		return &end{ending: p.src().side.eof(), got: "an end while what it had sent waited for its reader", want: "a reader that reads", partial: true}
	case errors.Is(err, net.ErrClosed), isTimeout(err) && p.isStopping():
		return &end{}
	case isTimeout(err):
		return &end{ending: WriteStalled, got: "no progress of a write for " + p.link.settings.WriteStall.String(), want: "a reader that reads", reset: true}
	case isUnanswered(err):
		e := dst.unanswered(err)
		e.broken = dst
		return e
	}
	e := &end{ending: dst.side.reset(), got: err.Error(), want: "a reader", reset: true}
	if errors.Is(err, syscall.ECONNRESET) { // EPIPE is what follows a FIN
		e.broken = dst
	}
	return e
}

// blockedMin is how long a write takes at least to count as blocked: a reader that
// keeps up takes microseconds.
const blockedMin = time.Millisecond

// isStopping reports whether the pump has been told to stop.
func (p *pump) isStopping() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.until.IsZero()
}

// readEnd explains a read that failed.
func (p *pump) readEnd(err error, inside bool) *end {
	switch {
	case isEOF(err) && inside:
		return &end{ending: p.src().side.eofMidFrame(), got: "an end inside a frame", want: "a whole frame"}
	case isEOF(err):
		return &end{ending: p.src().side.eof()}
	case isReset(err):
		return &end{ending: p.src().side.reset(), reset: true}
	case errors.Is(err, net.ErrClosed):
		return &end{}
	case isUnanswered(err):
		return p.src().unanswered(err)
	case isTLSFault(err):
		return &end{ending: TLSAlert, got: err.Error(), want: "TLS records", reset: true}
	}
	return &end{ending: p.src().side.reset(), got: err.Error(), want: "frames", reset: true}
}
