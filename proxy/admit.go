package proxy

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// The two directions a connection can come from.
const (
	ingress = "ingress"
	egress  = "egress"
)

// visit is an accepted connection until it is a link or refused.
type visit struct {
	server    *Server
	settings  *Settings
	ctx       context.Context // done when the gate stops admitting, or when a newer session takes this one's place
	cancel    context.CancelCauseFunc
	tcp       *net.TCPConn
	direction string
	peer      *Peer // whom the link is with; on ingress known from the Hello on
	log       *slog.Logger
	arrived   *leg // the accepted connection
	acceptor  *mac.Acceptor
	loose     [2]int // handshake frames by side that hello_strict would have refused
	source    netip.Addr

	lobby *lobby
	gone  chan struct{} // closed when it makes no link any more, or has made it
	since time.Time     // of the accept

	// The lobby's. proven: the peer has proved itself, on ingress, and what ends
	// the connection from here on is counted as its.
	spoken, proven, evicted bool

	// probing: its first frame has the mark of `replgate probe`, and no other
	// frame has come. showing: a gate came with it to show a secret, and which.
	probing bool
	showing byte
}

func (s *Server) newVisit(c *net.TCPConn, peer *Peer) *visit {
	v := &visit{server: s, settings: s.settings.Load(), since: time.Now(), gone: make(chan struct{}), tcp: c, direction: egress}
	v.ctx, v.cancel = context.WithCancelCause(s.admitting)
	v.arrived = newLeg(c, near)
	if peer != nil {
		v.peer = v.settings.peer(peer.ID) // it may be somewhere else by now
	} else {
		v.direction, v.arrived.side = ingress, far
	}
	v.lobby = &s.lobbies[v.arrived.side]
	if addr, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		v.source = sourceOf(addr.AddrPort())
	}
	v.log = v.settings.Log.With("direction", v.direction, "remote", c.RemoteAddr().String())
	return v
}

// serve carries one connection from accept to its end.
func (v *visit) serve() {
	defer v.server.open.Add(-1)
	defer v.cancel(nil)
	v.settings.Metrics.Unauthenticated(1)
	v.tcp.SetDeadline(time.Now().Add(v.settings.HandshakeTimeout))
	release := context.AfterFunc(v.ctx, func() { v.arrived.tcp.last(time.Now()) })
	l, r := v.join()
	release()
	v.settings.Metrics.Unauthenticated(-1)
	gone := v.lobby.leave(v)
	if r == nil && !gone && v.ctx.Err() == nil {
		v.tcp.SetDeadline(time.Time{})
		l.run()
		return
	}
	v.server.release(v)
	switch {
	case gone && (r == nil || r.ending != Probe):
		v.discard(l)
		v.refuse(evicted)
	case v.ctx.Err() != nil:
		v.discard(l)
		r, ok := errors.AsType[*refusal](context.Cause(v.ctx))
		if !ok {
			r = draining
		}
		v.refuse(r)
	default:
		v.refuse(r)
	}
}

// discard ends a link that was made in the moment its visit had to go.
func (v *visit) discard(l *link) {
	if l != nil {
		l.near.abort()
		l.far.Load().abort()
	}
}

// allowed says whether this entrance takes TLS and plaintext connections.
func (v *visit) allowed() (tlsAllowed, plainAllowed bool) {
	if v.direction == egress {
		return v.settings.EgressSecurity == TLS, v.settings.EgressSecurity != TLS
	}
	for _, p := range v.settings.Peers {
		if p.ID < v.settings.Local {
			tlsAllowed = tlsAllowed || p.Security == TLS
			plainAllowed = plainAllowed || p.Security != TLS || v.settings.Mode == Permissive
		}
	}
	return tlsAllowed, plainAllowed
}

// entrance is what policy admits Hellos by.
func (v *visit) entrance() policy.Entrance {
	e := policy.Entrance{Cluster: v.settings.Cluster, Replicas: v.settings.Replicas, Acceptor: v.settings.Local}
	if v.direction == egress {
		e.Acceptor, e.Only = v.peer.ID, &v.settings.Local
	}
	return e
}

// required is the security that the replica with the given id must speak here.
// An id that is nobody's is held to the strongest that is spoken here, so that it
// learns nothing.
func (v *visit) required(id uint8) Security {
	if v.direction == egress {
		return v.settings.EgressSecurity
	}
	if p := v.settings.peer(id); p != nil && id < v.settings.Local {
		return p.Security
	}
	for _, p := range v.settings.Peers {
		if p.ID < v.settings.Local && p.Security != Plaintext {
			return PSK
		}
	}
	return Plaintext
}

// admit takes the accepted connection through TLS, Hello and admission. After it
// the dialer is known and waits.
func (v *visit) admit() *refusal {
	began := time.Now()
	r := v.probed(v.hello())
	if r != nil {
		v.handshaken("acceptor", r, began)
	}
	return r
}

// hello is the acceptor's half up to the Challenge, in Iggy's order (§7.1).
func (v *visit) hello() *refusal {
	h, r := v.firstFrame()
	if r != nil {
		return r
	}
	id := wire.Replica.Get(h)
	need := v.due(h)
	v.acceptor = mac.NewAcceptor(v.entrance().Acceptor, v.settings.macOptions(need, v.arrived.binding))
	if err := v.acceptor.Hello(h); err != nil {
		r := macRefusal(err)
		if h.Command() == wire.Request {
			again := *clientFrame // which may get a frame to answer with
			r = &again
		}
		return v.rejected(r, wire.StatusUnknownCommand)
	}
	if err := v.entrance().Admit(h); err != nil {
		refused, _ := errors.AsType[*policy.Refusal](err)
		return v.rejected(&refusal{ending: Ending(refused.Reason), got: refused.Got, want: refused.Want}, refused.Status)
	}
	if r := v.matches(need); r != nil {
		return r
	}
	if err := v.acceptor.Accept(); err != nil {
		return macRefusal(err)
	}
	if v.probing && need == Plaintext {
		// Any other plaintext dialer would be a replica from here on.
		return &refusal{ending: Probe, got: probeGot, want: probeWant}
	}
	v.arrived.replica = id
	if v.direction == ingress {
		v.peer = v.settings.peer(id)
	}
	v.log = v.log.With("peer", v.peer.ID)
	if r := v.settings.identified(v.arrived); r != nil {
		return r
	}
	return v.tolerate(v.arrived, h)
}

// matches holds the channel against what this dialer must speak, where an
// entrance takes both kinds.
func (v *visit) matches(need Security) *refusal {
	switch {
	case need == TLS && v.arrived.security != TLS:
		return &refusal{ending: TLSPlaintext, got: "a plaintext Hello", want: "TLS from this replica"}
	case need != TLS && v.arrived.security == TLS:
		return &refusal{ending: PlaintextRefused, got: "TLS", want: string(need) + " from this replica"}
	}
	v.arrived.security = need
	return nil
}

// rejected adds the frame that tells the dialer, where it can read one.
func (v *visit) rejected(r *refusal, status wire.Status) *refusal {
	if frame, readable := v.acceptor.Reject(status); readable {
		r.reject = &frame
	}
	return r
}

// macOptions are those of a handshake on a leg.
func (s *Settings) macOptions(security Security, binding mac.Binding) mac.Options {
	o := mac.Options{Cluster: s.Cluster, Binding: binding,
		Strict: s.Rules[policy.HelloStrict] == policy.Close && !s.Observe}
	if security != Plaintext {
		o.Keys = s.Keys
	}
	return o
}

// answer proves the accepted connection: Challenge and Finish, or for plaintext
// that it stays. A psk or tls dialer believes in the link from here on.
func (v *visit) answer() *refusal {
	l := v.arrived
	if l.security == Plaintext {
		return l.lives()
	}
	began := time.Now()
	challenge := v.challenge()
	if _, err := l.io.Write(challenge[:]); err != nil {
		return ioRefusal(l, err, HandshakeTimeout, false)
	}
	h, r := readFrame(l, v.settings.MaxFrame)
	switch {
	case r != nil:
	case v.showing != 0:
		r = v.shown(h)
	default:
		v.probing = false // who goes on is judged as any other
		r = v.finished(h)
	}
	r = v.probed(r)
	v.handshaken("acceptor", r, began)
	return r
}

// challenge is the answer to an admitted Hello. Who only asks is told that a gate
// answers.
func (v *visit) challenge() wire.Header {
	if !v.probing {
		return v.acceptor.Challenge(nonce())
	}
	var random [mac.ShowRandom]byte
	rand.Read(random[:]) // never fails
	return v.acceptor.ChallengeAsGate(random)
}

// finished takes the Finish of whoever wants a link.
func (v *visit) finished(h *wire.Header) *refusal {
	slot, err := v.acceptor.Finish(h)
	if err != nil {
		return macRefusal(err)
	}
	v.proved(v.arrived, slot, v.acceptor.Session())
	return v.tolerate(v.arrived, h)
}

// handshaken counts one side's handshake.
func (v *visit) handshaken(role string, r *refusal, began time.Time) {
	result := "ok"
	if r != nil {
		result = string(r.ending)
	}
	v.settings.Metrics.Handshake(role, result, time.Since(began))
}

// proved notes that the other end of a leg has proved itself, and which secret it
// has and signs with.
func (v *visit) proved(l *leg, slot mac.Slot, session mac.Session) {
	v.remember(l)
	secret := v.settings.Keys.Fingerprint(slot)
	l.session, l.secrets = session, []mac.Fingerprint{secret}
	v.server.noteProof(l.replica, secret, true)
	if l.side == far {
		v.settings.Metrics.SecretProof(decimal(l.replica), string(slot))
	}
	v.log = v.log.With([...]string{"local_secret", "peer_secret"}[l.side], string(slot))
}

// tolerate counts a handshake frame that Iggy accepts and a strict gate does not,
// and throws its body away.
func (v *visit) tolerate(l *leg, h *wire.Header) *refusal {
	if !wire.HandshakeClean(h) {
		v.loose[l.side]++
	}
	return discardBody(l, h)
}

func nonce() (n [wire.NonceSize]byte) {
	rand.Read(n[:]) // never fails: crypto/rand ends the program instead
	return n
}
