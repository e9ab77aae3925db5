package proxy

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// The times of a search for what a peer speaks, inside ProveTimeout, which is
// below half of the heartbeat timeout: a replica that waits at the near leg for
// the whole of it is back before anybody votes.
const (
	// stepTime is what TLS has to itself, and then a Challenge: a plaintext Iggy
	// neither refuses a ClientHello nor answers it (Appendix B), nor a nonce. With
	// a shorter ProveTimeout it is half of that.
	stepTime = time.Second
	// glanceTime is what a Challenge has, on top of two round trips, where
	// plaintext was found before.
	glanceTime = 200 * time.Millisecond
	// findingTime is how long a peer is dialed as it was found before something
	// stronger is tried again. Whoever puts a gate before a replica needs longer
	// for that. A try costs a plaintext Iggy a round trip in most cases, a step at
	// worst.
	findingTime = 10 * time.Second
)

// finding is what a peer spoke when it was last dialed, where that was less than
// strict asks.
type finding struct {
	security Security
	tried    time.Time // when something stronger was, in vain
}

// findings are those of all peers. The zero value is ready.
type findings struct {
	mu    sync.Mutex
	peers map[uint8]finding
}

func (f *findings) get(id uint8) finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.peers[id]
}

// put notes a finding, and says whether the peer was found otherwise before.
func (f *findings) put(id uint8, found finding) (news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.peers == nil {
		f.peers = map[uint8]finding{}
	}
	news = f.peers[id].security != found.security
	f.peers[id] = found
	return news
}

// doubt lets the next search begin with the strongest: who answers then may be
// another than the one that was found.
func (f *findings) doubt(id uint8) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found, ok := f.peers[id]; ok {
		f.peers[id] = finding{security: found.security}
	}
}

func (f *findings) forget(id uint8) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.peers, id)
}

// reach dials the peer and proves it, within ProveTimeout: as strict asks, or in
// the strongest security that it speaks where it may speak several.
func (v *visit) reach(t target) (*leg, *refusal) {
	most, least := v.bounds(v.peer)
	if most == least {
		return v.dial(t)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(v.ctx, v.settings.ProveTimeout)
	defer cancel()
	s := search{visit: v, target: t, least: least, step: min(stepTime, v.settings.ProveTimeout/2), until: began.Add(v.settings.ProveTimeout - aliveTime)}
	l, r := s.run(ctx)
	if s.connected {
		v.handshaken("dialer", r, began)
	}
	return l, r
}

// search finds out in which security a peer can be dialed.
type search struct {
	*visit
	target target
	least  Security
	step   time.Duration
	until  time.Time // when silence must be taken for an answer
	known  Security  // found before, empty: not

	connected bool // there was a handshake to count
}

// run goes straight to what was found before. Where that is old, or no longer
// holds, it begins with the strongest.
func (s *search) run(ctx context.Context) (*leg, *refusal) {
	before := s.server.findings.get(s.target.replica)
	s.known = before.security
	if s.known != "" && time.Since(before.tried) < findingTime {
		l, r := s.plain(ctx, s.known == Plaintext && s.target.security == TLS)
		if r == nil {
			return l, nil
		}
		s.server.findings.doubt(s.target.replica)
		if !r.otherwise() || ctx.Err() != nil {
			return nil, r
		}
		s.known = ""
	}
	tried := time.Now()
	if s.target.security == TLS {
		l, r := s.tls(ctx)
		if r == nil || !r.absent || ctx.Err() != nil {
			return l, r
		}
	}
	l, r := s.plain(ctx, false)
	if r == nil && l.security != s.target.security && s.server.findings.put(s.target.replica, finding{l.security, tried}) {
		s.log.Info("peer found weaker than strict asks", "found", string(l.security), "strict", string(s.target.security))
	}
	return l, r
}

// otherwise reports whether a peer may be there that speaks something else than
// it was dialed in: it ended the connection, or said nothing, or more than
// expected. One that refuses a proof speaks what it was dialed in.
func (r *refusal) otherwise() bool {
	switch r.ending {
	case PeerEOF, PeerReset, HandshakeTimeout, HelloCommand, PeerEOFMidFrame:
		return true
	}
	return false
}

// tls dials in TLS. A refusal says with absent whether nobody there speaks it;
// then there is a step left for something weaker.
func (s *search) tls(ctx context.Context) (*leg, *refusal) {
	first, cancel := context.WithTimeout(ctx, s.step)
	defer cancel()
	l, r := connect(ctx, s.target)
	if r != nil {
		return nil, r
	}
	s.connected = true
	if first.Err() != nil {
		first = ctx // a lost SYN is sent again after a second, and that says nothing about TLS
	}
	r = l.attempt(ctx, func() *refusal {
		if r := s.secure(first, l, s.target); r != nil {
			return r
		}
		return s.shake(l, s.target)
	})
	if r != nil {
		return nil, r
	}
	return l, nil
}

// plain dials without TLS, with a nonce in the Hello. A Challenge in time makes it
// psk; anything else, or silence, a plaintext link on this same connection: a
// replica has registered it by then, and would drop a second one (§7.4). Where
// climbing is set, a Challenge is not answered: the peer is not what it was, and
// may speak TLS by now.
func (s *search) plain(ctx context.Context, climbing bool) (*leg, *refusal) {
	began := time.Now()
	t := s.target
	t.security = PSK
	l, r := connect(ctx, t)
	switch {
	case r != nil:
		return nil, r
	case time.Until(s.until) < s.step/5:
		l.tcp.Close()
		return nil, &refusal{ending: HandshakeTimeout, got: "no time left to hear a Challenge", want: "an answer within timeouts.prove"}
	}
	s.connected = true
	wait := s.step
	if s.known == Plaintext {
		wait = min(s.step, glanceTime+2*time.Since(began))
	}
	until := time.Now().Add(wait)
	if until.After(s.until) {
		until = s.until
	}
	r = l.attempt(ctx, func() *refusal { return s.ask(l, t, until, climbing) })
	if r != nil {
		return nil, r
	}
	return l, nil
}

// ask sends the Hello and takes what comes until a time for what the peer speaks.
// What is no Challenge stays on the leg, to be read by the pump.
func (s *search) ask(l *leg, t target, until time.Time, climbing bool) *refusal {
	d := mac.NewDialer(t.pair, s.settings.macOptions(PSK, l.binding))
	hello := d.Hello(nonce())
	if _, err := l.io.Write(hello[:]); err != nil {
		return ioRefusal(l, err, HandshakeTimeout, false)
	}
	l.tcp.SetReadDeadline(until)
	h := new(wire.Header)
	n, err := io.ReadFull(l.io, h[:])
	l.tcp.SetReadDeadline(s.until)
	isChallenge := h.Command() == wire.ReplicaChallenge
	if err != nil && (!isTimeout(err) || isChallenge || s.least == PSK) {
		return ioRefusal(l, err, HandshakeTimeout, n > 0)
	}
	if err == nil {
		if r := checkFrame(h, s.settings.MaxFrame, "a Challenge or another frame"); r != nil {
			return r
		}
	}
	switch {
	case isChallenge && climbing:
		return &refusal{ending: HelloCommand, got: "a Challenge", want: "plaintext, as before"}
	case isChallenge:
		return s.conclude(l, d, h)
	case s.least == PSK:
		return &refusal{ending: HelloCommand, got: h.Command().String(), want: "a Challenge: this peer has proved its MAC before"}
	}
	l.security, l.tcp.ahead = Plaintext, h[:n]
	if err == nil {
		return l.lives()
	}
	return l.stands()
}
