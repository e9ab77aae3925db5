package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// target is the other end of a leg that this gate dials.
type target struct {
	side     side
	replica  uint8 // who is there
	address  string
	name     string // what its certificate must be for
	security Security
	pair     mac.Pair
}

// aliveTime is how long a leg that this gate dialed, and a plaintext one that
// dialed us, must stay open to count as proven: a replica that has a live
// connection already closes a second one at once (§7.4).
const aliveTime = 50 * time.Millisecond

// dial connects to t and proves it, within ProveTimeout.
func (v *visit) dial(t target) (*leg, *refusal) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(v.ctx, v.settings.ProveTimeout)
	defer cancel()
	l, r := connect(ctx, t)
	if r != nil {
		return nil, r
	}
	r = l.attempt(ctx, func() *refusal { return v.prove(ctx, l, t) })
	v.handshaken("dialer", r, began)
	if r != nil {
		return nil, r
	}
	return l, nil
}

// attempt runs a proof on a leg until ctx is done, and closes the leg when it
// fails.
func (l *leg) attempt(ctx context.Context, proof func() *refusal) *refusal {
	release := context.AfterFunc(ctx, func() { l.tcp.SetDeadline(time.Now()) })
	r := proof()
	if !release() && r == nil { // the time was up in the very moment it was proven
		r = &refusal{ending: HandshakeTimeout, got: "a proof too late", want: "one within timeouts.prove"}
	}
	if r != nil {
		l.tcp.Close() // a FIN, after which the other side can say what it was waiting for
		return r
	}
	l.tcp.SetDeadline(time.Time{})
	return nil
}

// connect makes a leg to t, on which nothing has been said.
func connect(ctx context.Context, t target) (*leg, *refusal) {
	dialer := net.Dialer{KeepAlive: -1}
	c, err := dialer.DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, dialRefusal(t, err)
	}
	l := newLeg(c.(*net.TCPConn), t.side)
	l.replica, l.security = t.replica, t.security
	return l, nil
}

// prove runs the dialer's half on a connected leg (§7.1).
func (v *visit) prove(ctx context.Context, l *leg, t target) *refusal {
	if t.security == TLS {
		if r := v.secure(ctx, l, t); r != nil {
			return r
		}
	}
	return v.shake(l, t)
}

// secure puts TLS on a leg that this gate dialed, and asks whose certificate came.
func (v *visit) secure(ctx context.Context, l *leg, t target) *refusal {
	config, explain := v.settings.Credentials.Client(t.name)
	if r := l.handshake(ctx, l.secureWith(tls.Client, config), explain); r != nil {
		return r
	}
	return v.settings.identified(l)
}

// shake says Hello, and proves both sides where the leg is not plaintext.
func (v *visit) shake(l *leg, t target) *refusal {
	d := mac.NewDialer(t.pair, v.settings.macOptions(t.security, l.binding))
	hello := d.Hello(nonce())
	if _, err := l.io.Write(hello[:]); err != nil {
		return ioRefusal(l, err, HandshakeTimeout, false)
	}
	if t.security == Plaintext {
		return l.lives()
	}
	h, r := readFrame(l, v.settings.MaxFrame)
	if r != nil {
		return r
	}
	return v.conclude(l, d, h)
}

// conclude answers a Challenge.
func (v *visit) conclude(l *leg, d *mac.Dialer, h *wire.Header) *refusal {
	finish, slot, err := d.Challenge(h)
	if err != nil {
		return macRefusal(err)
	}
	if r := v.tolerate(l, h); r != nil {
		return r
	}
	if _, err := l.io.Write(finish[:]); err != nil {
		return ioRefusal(l, err, HandshakeTimeout, false)
	}
	v.proved(l, slot, d.Session())
	// There is no answer to a Finish. A gate whose replica is down, and a replica
	// that has a connection of ours already, end the leg at once.
	return l.lives()
}

// lives waits aliveTime for the end of a connection. What comes in meanwhile stays
// unread. It proves a leg that has proved its MAC, if it is a frame: a smaller
// thing may be a close_notify with the end behind it. Anybody can send a plaintext
// one.
func (l *leg) lives() *refusal {
	began := time.Now()
	l.tcp.SetReadDeadline(began.Add(aliveTime))
	defer l.tcp.SetReadDeadline(time.Time{})
	var b [wire.HeaderSize]byte
	n, err := peek(l.tcp.TCPConn, b[:])
	switch {
	case err != nil && !isTimeout(err):
		return ioRefusal(l, err, HandshakeTimeout, false)
	case n == len(b) && l.security != Plaintext:
		return nil
	}
	time.Sleep(aliveTime - time.Since(began))
	return l.stands()
}

// stands refuses a leg whose other end has closed it, whatever is still unread.
func (l *leg) stands() *refusal {
	switch l.tcp.state() {
	case stateFIN:
		return ioRefusal(l, io.EOF, HandshakeTimeout, false)
	case stateClosed:
		return ioRefusal(l, syscall.ECONNRESET, HandshakeTimeout, false)
	}
	return nil
}

// dialRefusal explains a connection that was not made.
func dialRefusal(t target, err error) *refusal {
	r := &refusal{ending: DialRefused, got: err.Error(), want: "a connection to " + t.address}
	_, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case t.side == near:
		r.ending = LocalDown
	case isDNS:
		r.ending = DNSFailed
	case isTimeout(err) || errors.Is(err, context.DeadlineExceeded):
		r.ending = DialTimeout
	}
	return r
}
