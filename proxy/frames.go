package proxy

import (
	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// What a pump does with the frames it has read: judge, gather, write, count.

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
			lost := frameEnd(err)
			p.count.Rejected(string(lost), policy.Close.String())
			return &end{ending: lost, got: err.Error(), want: "a frame of the protocol"}
		case f.Head() == nil && !p.refusesBegun():
			return p.write(run)
		case f.Head() == nil:
			f = p.reader.Break()
		}
		p.pace.boundary()
		verdict := p.verdict(f)
		if verdict.Action == policy.Forward && !f.Long() {
			if run == nil {
				run = f.Bytes
			} else {
				run = run[:len(run)+len(f.Bytes)]
			}
			p.note(f.Head(), len(f.Bytes))
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

// refusesBegun judges the frame under way by its header as soon as that is in. One
// that does not pass is not gathered: its size may be as wrong as the rest of it,
// and would be waited for.
func (p *pump) refusesBegun() bool {
	h := p.reader.Begun()
	if h == nil {
		return false
	}
	if !p.hasBegun {
		p.begun, p.hasBegun = p.apply(p.judge.Header(h), h), true
	}
	return p.begun.Action != policy.Forward
}

// verdict judges a frame, its body too where it is there, and counts what is only
// observed. Under observe it lets everything pass.
func (p *pump) verdict(f wire.Frame) policy.Verdict {
	v := p.begun
	if !p.hasBegun {
		v = p.apply(p.judge.Header(f.Head()), f.Head())
	}
	p.hasBegun = false
	if v.Action != policy.Forward || v.Rule != policy.None || f.Long() {
		return v // refused, or let through all the same, or its body is still to come
	}
	v = p.judge.Body(f.Head(), f.Bytes[wire.HeaderSize:], policy.Verdict{})
	if v.Rule == policy.None {
		v = p.judge.Forwarded(f.Head(), v)
	}
	return p.apply(v, f.Head())
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
	h := *f.Head() // the reader's memory moves while a long frame is taken
	switch v.Action {
	case policy.Close:
		came := len(f.Bytes) + len(p.reader.Take(f.Rest))
		p.add(Dropped, h.Command(), 1, uint64(came))
		return p.ruleEnd(v, &h)
	case policy.Drop:
		e := p.discard(&f.Rest)
		p.add(Dropped, h.Command(), 1, uint64(wire.Size.Get(&h))-uint64(f.Rest))
		return e
	}
	e := p.long(&h, f.Bytes, f.Rest, v.Rule == policy.None)
	p.pace.boundary()
	return e
}

// ruleEnd is the end of a link by a rule. A seal that does not match on a frame
// whose size cannot be right has an ending of its own (§2.5).
func (p *pump) ruleEnd(v policy.Verdict, h *wire.Header) *end {
	ending := Ending(v.Rule.String())
	if v.Unframed() {
		ending = SealHeader
	}
	got, want := p.judge.Explain(v.Rule, h, v.Cause)
	return &end{ending: ending, got: h.Command().String() + ": " + got, want: want}
}

// long lets a frame through that is larger than what is stored. Its body is hashed
// while it goes, where it carries a seal, and the last piece is held back until
// the hash agrees. A frame whose header did not pass and that goes all the same,
// under observe, is not judged further.
func (p *pump) long(h *wire.Header, out []byte, rest int, clean bool) *end {
	sealed := clean && wire.BodyKindOf(h) != wire.BodyUnsealed
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
		if rest == 0 && clean {
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
	if v.Rule == policy.None {
		v = p.judge.Forwarded(h, v)
	}
	v = p.apply(v, h)
	if v.Action != policy.Forward {
		p.add(Dropped, h.Command(), 1, size)
		e := p.ruleEnd(v, h)
		e.partial = true
		return e
	}
	return nil
}

// discard throws away the body of a frame that was dropped by its header, and
// leaves in rest what did not come.
func (p *pump) discard(rest *int) *end {
	for {
		*rest -= len(p.reader.Take(*rest))
		if *rest == 0 {
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

func (p *pump) add(r Result, c wire.Command, frames, bytes uint64) {
	p.seen.add(r, c, frames, bytes)
	p.count.Add(r, uint8(c), frames, bytes)
}

// settle counts what was received and is not going anywhere.
func (p *pump) settle() {
	for {
		f, err := p.reader.Next()
		if err != nil || f.Head() == nil {
			break
		}
		n := len(f.Bytes) + len(p.reader.Take(f.Rest))
		p.add(Lost, f.Head().Command(), 1, uint64(n))
	}
	if h := p.reader.Begun(); h != nil {
		p.add(Lost, h.Command(), 1, uint64(p.reader.Buffered()))
	}
}
