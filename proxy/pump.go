package proxy

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
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
	link     *link
	way      string
	src, dst *leg
	reader   *wire.Reader
	judge    *policy.Judge
	count    FrameCounter
	told     policy.RuleSet // rules that have had their log line
	pending  [wire.Commands]tally
	total    [3]uint64    // frames by Result
	until    atomic.Int64 // when set, stop at a boundary; unix nanoseconds of the last moment
	partial  bool         // part of a frame has been written and the rest has not
}

type tally struct{ frames, bytes uint64 }

// end is why a pump stopped. The zero value means that it was told to and stands
// at a frame boundary.
type end struct {
	ending    Ending
	got, want string
	reset     bool // pass it on as a reset
	partial   bool // the receiver has part of a frame
}

func newPump(l *link, way string, src, dst *leg, loose int) *pump {
	p := &pump{link: l, way: way, src: src, dst: dst, reader: wire.NewReader(l.settings.limits()),
		judge: l.judge(way, src), count: l.settings.Metrics.Frames(decimal(l.peer.ID), way)}
	for range loose {
		p.count.Rejected(policy.HelloStrict.String(), policy.Observe.String())
	}
	return p
}

// run pumps until an end, and says why.
func (p *pump) run(ends chan<- end) {
	var e *end
	for e == nil {
		if e = p.fill(p.reader.Inside()); e == nil {
			e = p.forward()
		}
	}
	p.settle()
	e.partial = p.partial
	ends <- *e
}

// stop makes the pump stop at its next frame boundary, at the latest at until.
func (p *pump) stop(until time.Time) {
	p.until.Store(until.UnixNano())
	p.src.io.SetReadDeadline(time.Now()) // wakes it; fill then sets the real one
}

// fill does one read. inside says that the stream does not stand at a boundary:
// a pump that has been told to stop then reads on to the frame's end and no
// further.
func (p *pump) fill(inside bool) *end {
	for {
		free := p.reader.Free()
		until := p.until.Load()
		if until != 0 {
			if !inside {
				return &end{}
			}
			free = p.reader.FreeLimit()
			p.src.io.SetReadDeadline(time.Unix(0, until))
		}
		n, err := p.src.io.Read(free)
		p.reader.Filled(n)
		switch {
		case n > 0:
			return nil // an error comes again at the next read
		case err == nil, isTimeout(err) && until == 0, isTimeout(err) && time.Now().UnixNano() < until:
			continue // woken by stop
		}
		return p.readEnd(err, inside)
	}
}

// forward takes every frame out of the reader.
func (p *pump) forward() *end {
	var run []byte // frames that lie back to back and may pass
	for {
		f, err := p.reader.Next()
		switch {
		case err != nil:
			if e := p.write(run); e != nil {
				return e
			}
			return &end{ending: frameEnd(err), got: err.Error(), want: "a frame of the protocol"}
		case f.Head == nil:
			return p.write(run)
		}
		verdict := p.verdict(f)
		switch {
		case verdict.Action == policy.Forward && !f.Long():
			if run == nil {
				run = f.Bytes
			} else {
				run = run[:len(run)+len(f.Bytes)]
			}
			p.note(f.Head, len(f.Bytes))
			continue
		}
		if e := p.write(run); e != nil {
			return e
		}
		run = nil
		if e := p.exception(f, verdict); e != nil {
			return e
		}
	}
}

// verdict judges a frame, its body too where it is there, and counts what is only
// observed. Under observe it lets everything pass.
func (p *pump) verdict(f wire.Frame) policy.Verdict {
	v := p.judge.Header(f.Head)
	if v.Action == policy.Forward && !f.Long() {
		v = p.judge.Body(f.Head, f.Bytes[wire.HeaderSize:], v)
	}
	v = p.apply(v, f.Head)
	if v.Action == policy.Forward && v.Rule == policy.None && !f.Long() {
		p.judge.Forwarded(f.Head)
	}
	return v
}

// apply counts and tells a verdict, and softens it under observe.
func (p *pump) apply(v policy.Verdict, h *wire.Header) policy.Verdict {
	if v.Rule == policy.None && v.Observed == 0 {
		return v
	}
	for r := policy.None + 1; v.Observed>>r != 0; r++ {
		if v.Observed.Has(r) {
			p.rejected(v, r, h, policy.Observe.String())
		}
	}
	if v.Rule == policy.None {
		return v
	}
	word := v.Action.String()
	if p.link.settings.Observe {
		word = "would_" + word
		v.Action = policy.Forward
	}
	p.rejected(v, v.Rule, h, word)
	return v
}

func (p *pump) rejected(v policy.Verdict, r policy.Rule, h *wire.Header, verdict string) {
	p.count.Rejected(r.String(), verdict)
	p.logFrame(v, r, h, verdict)
}

// exception handles whatever is not a stored frame that passes.
func (p *pump) exception(f wire.Frame, v policy.Verdict) *end {
	h := *f.Head // the reader's memory moves while a long frame is taken
	switch v.Action {
	case policy.Close:
		p.add(Dropped, h.Command(), 1, uint64(len(f.Bytes)))
		return p.ruleEnd(v, &h)
	case policy.Drop:
		if e := p.discard(f.Rest); e != nil {
			return e
		}
		p.add(Dropped, h.Command(), 1, uint64(wire.Size.Get(&h)))
		return nil
	}
	return p.long(&h, f.Bytes, f.Rest)
}

// ruleEnd is the end of a link by a rule. A seal that does not match on a frame
// whose size cannot be right has an ending of its own (§2.5).
func (p *pump) ruleEnd(v policy.Verdict, h *wire.Header) *end {
	ending := Ending(v.Rule.String())
	if v.Unframed {
		ending = SealHeader
	}
	got, want := p.judge.Explain(v.Rule, h, v.Cause)
	return &end{ending: ending, got: h.Command().String() + ": " + got, want: want}
}

// long lets a frame through that is larger than what is stored. Its header has
// passed; its body is hashed while it goes, where it carries a seal, and the last
// piece is held back until the hash agrees.
func (p *pump) long(h *wire.Header, out []byte, rest int) *end {
	sealed := wire.BodyKindOf(h) != wire.BodyUnsealed
	if sealed {
		p.judge.Verifier().Start(h)
	}
	size := uint64(wire.HeaderSize + rest)
	for sent := uint64(0); ; {
		piece := p.reader.Take(rest)
		rest -= len(piece)
		out = out[:len(out)+len(piece)]
		if sealed {
			p.judge.Verifier().Write(piece)
		}
		if rest == 0 {
			if e := p.sealedEnd(h, sealed, size); e != nil {
				return e
			}
		}
		p.partial = true
		if e := p.put(out); e != nil {
			p.add(Lost, h.Command(), 1, sent+uint64(len(out)))
			return e
		}
		sent += uint64(len(out))
		if rest == 0 {
			p.partial = false
			p.add(Forwarded, h.Command(), 1, size)
			return nil
		}
		if e := p.fill(true); e != nil {
			p.add(Lost, h.Command(), 1, sent)
			return e
		}
		out = p.reader.Take(0)
	}
}

// sealedEnd judges a long frame's body before its last piece leaves. The receiver
// already has the rest, so a mismatch can only end the link.
func (p *pump) sealedEnd(h *wire.Header, sealed bool, size uint64) *end {
	var found error
	if sealed {
		found = p.judge.Verifier().Sum()
	}
	v := p.judge.BodyResult(h, found, nil, policy.Verdict{})
	v = p.apply(v, h)
	if v.Action != policy.Forward {
		p.add(Dropped, h.Command(), 1, size)
		e := p.ruleEnd(v, h)
		e.reset = true
		return e
	}
	if v.Rule == policy.None {
		p.judge.Forwarded(h)
	}
	return nil
}

// discard throws away the body of a frame that was dropped by its header.
func (p *pump) discard(rest int) *end {
	for {
		rest -= len(p.reader.Take(rest))
		if rest == 0 {
			return nil
		}
		if e := p.fill(true); e != nil {
			return e
		}
	}
}

// note remembers a frame until the write that carries it has succeeded.
func (p *pump) note(h *wire.Header, n int) {
	t := &p.pending[h.Command()]
	t.frames++
	t.bytes += uint64(n)
}

// write puts out a run of frames and settles their count.
func (p *pump) write(run []byte) *end {
	if len(run) == 0 {
		return nil
	}
	e, result := p.put(run), Forwarded
	if e != nil {
		p.partial, result = true, Lost
	}
	for c := range p.pending {
		if t := &p.pending[c]; t.frames > 0 {
			p.add(result, wire.Command(c), t.frames, t.bytes)
			*t = tally{}
		}
	}
	return e
}

func (p *pump) put(b []byte) *end {
	_, err := p.dst.io.Write(b)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, net.ErrClosed):
		return &end{}
	case errors.Is(err, syscall.ETIMEDOUT):
		return &end{ending: PeerUnreachable, got: err.Error(), want: "an answer", reset: true}
	}
	return &end{ending: p.dst.side.reset(), got: err.Error(), want: "a reader", reset: true}
}

func (p *pump) add(r Result, c wire.Command, frames, bytes uint64) {
	p.total[r] += frames
	p.count.Add(r, uint8(c), frames, bytes)
}

// settle counts what was received and is not going anywhere.
func (p *pump) settle() {
	for {
		f, err := p.reader.Next()
		if err != nil || f.Head == nil {
			break
		}
		n := len(f.Bytes) + len(p.reader.Take(f.Rest))
		p.add(Lost, f.Head.Command(), 1, uint64(n))
	}
}

// readEnd explains a read that failed.
func (p *pump) readEnd(err error, inside bool) *end {
	_, isAlert := errors.AsType[tls.RecordHeaderError](err)
	operation, isOperation := errors.AsType[*net.OpError](err)
	switch {
	case isEOF(err) && inside:
		return &end{ending: p.src.side.eofMidFrame(), got: "an end inside a frame", want: "a whole frame"}
	case isEOF(err):
		return &end{ending: p.src.side.eof()}
	case isReset(err):
		return &end{ending: p.src.side.reset(), reset: true}
	case errors.Is(err, net.ErrClosed):
		return &end{}
	case isTimeout(err):
		return &end{ending: "", partial: inside}
	case errors.Is(err, syscall.ETIMEDOUT):
		return &end{ending: PeerUnreachable, got: err.Error(), want: "an answer", reset: true}
	case isAlert || isOperation && (operation.Op == "remote error" || operation.Op == "local error"):
		return &end{ending: TLSAlert, got: err.Error(), want: "TLS records", reset: true}
	}
	return &end{ending: p.src.side.reset(), got: err.Error(), want: "frames", reset: true}
}
