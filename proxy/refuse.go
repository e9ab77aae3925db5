package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// A refusal is why a connection did not become a link. Here, and nowhere else, it
// turns into bytes on the wire, a metric and a log line.
type refusal struct {
	ending    Ending
	got, want string
	// reject is the frame that the dialer is told with, nil for silence.
	reject *wire.Header
	// abort ends the accepted connection with a reset.
	abort bool
	// absent: a TLS handshake failed because the other end does not speak TLS.
	absent bool
}

func (r *refusal) Error() string {
	return fmt.Sprintf("proxy: %s: got %s, want %s", r.ending, r.got, r.want)
}

// refuseLinger is how long a refused dialer has to read why. It sends nothing more,
// so that a plain close would do; this is for one that does.
const refuseLinger = 300 * time.Millisecond

// Refusals that are always the same; evicted and draining are of this gate's own
// making.
var (
	evicted     = &refusal{ending: UnauthLimit, got: "a newcomer while the limit is full", want: "a whole first flight in time"}
	clientFrame = &refusal{ending: ClientFrame, got: "a client's Request", want: "a Hello: this is the replica port"}
	draining    = &refusal{ending: Drain, got: "a shutdown", want: "nothing"}
)

// refuse ends a visit that did not become a link.
func (v *visit) refuse(r *refusal) {
	r = v.probed(r)
	if v.proven {
		peer, security := decimal(v.peer.ID), string(v.peer.Security)
		v.settings.Metrics.LinkOpened(peer, v.direction, security)
		v.settings.Metrics.LinkClosed(peer, v.direction, security, string(r.ending))
	} else {
		v.settings.Metrics.Refused(v.direction, string(r.ending))
	}
	if v.peer != nil && r.ending != Probe {
		v.server.noteEnding(v.peer.ID, r.ending)
	}
	v.tell(r)
	switch {
	case r.abort:
		v.arrived.abort()
	case r.reject != nil:
		v.tcp.SetDeadline(time.Now().Add(refuseLinger))
		if _, err := v.arrived.io.Write(r.reject[:]); err == nil {
			v.arrived.finish(refuseLinger)
		}
		v.tcp.Close()
	default:
		v.tcp.Close()
	}
}

// What is said of a connection of `replgate probe`.
const (
	probeGot  = "`replgate probe`"
	probeWant = "nothing more of it"
)

// probed gives the ending of a connection that `replgate probe` made and that
// ended as its connections do. Whatever else happens to it keeps its name.
func (v *visit) probed(r *refusal) *refusal {
	if r == nil || !v.probing {
		return r
	}
	switch r.ending {
	case DirectionalRule, UnknownReplica, ClusterMismatch, TLSPlaintext, PlaintextRefused, ClientFrame,
		TLSNoClientCert, PeerEOF, LocalEOF, PeerReset, LocalReset:
		return &refusal{ending: Probe, got: probeGot, want: probeWant, reject: r.reject}
	case MACMismatch:
		if v.showing == wire.ShowsOther { // a secret that it does not sign with need not be ours yet
			return &refusal{ending: Probe, got: "a gate that showed another secret than ours", want: probeWant}
		}
	}
	return r
}

// tell logs a refusal. Of one kind there is a line at once and then one every
// repeatEvery, which says how many there were in between.
func (v *visit) tell(r *refusal) {
	k := kind{r.ending, v.direction, -1}
	if v.peer != nil {
		k.peer = int(v.peer.ID)
	}
	hidden, ok := v.server.repeats.tell(k, time.Now())
	if !ok {
		return
	}
	attrs := []any{"ending", string(r.ending), "got", r.got, "want", r.want, "do", r.ending.do()}
	if hidden > 0 {
		attrs = append(attrs, "repeats", hidden)
	}
	v.log.Log(context.Background(), r.ending.level(), "connection refused", attrs...)
}

// ioRefusal explains a read or write that failed in a handshake. late is the
// ending when it was silence, midFrame whether part of a frame was in.
func ioRefusal(l *leg, err error, late Ending, midFrame bool) *refusal {
	switch {
	case isTLSFault(err):
		return &refusal{ending: TLSAlert, got: err.Error(), want: "TLS records"}
	case isTimeout(err):
		return &refusal{ending: late, got: "silence", want: "a whole handshake in time"}
	case isEOF(err) && midFrame:
		return &refusal{ending: l.side.eofMidFrame(), got: "an end inside a handshake frame", want: "256 bytes"}
	case isEOF(err) && l.security == PSK, isEOF(err) && l.security == TLS:
		return &refusal{ending: l.side.eof(), got: "an end in place of a proof, or right behind ours",
			want: "a link: the other side may have another secret, a replica that is down, or a connection already"}
	case isEOF(err):
		return &refusal{ending: l.side.eof(), got: "an end at once", want: "a link: the other side may be down or have a connection already"}
	}
	return &refusal{ending: l.side.reset(), got: err.Error(), want: "a whole handshake"}
}

// macRefusal explains what package mac found wrong.
func macRefusal(err error) *refusal {
	rejected, isRejected := errors.AsType[*mac.RejectedError](err)
	switch {
	case isRejected:
		return &refusal{ending: Rejected, got: "status " + rejected.Status.String(), want: "a Challenge"}
	case errors.Is(err, mac.ErrCommand):
		return &refusal{ending: HelloCommand, got: err.Error(), want: "the handshake's next frame"}
	case errors.Is(err, mac.ErrMalformed):
		return &refusal{ending: HelloMalformed, got: err.Error(), want: "a clean handshake frame"}
	case errors.Is(err, mac.ErrAuthRequired):
		return &refusal{ending: AuthRequired, got: "a Hello without a nonce", want: "one with: this leg requires the MAC"}
	}
	return &refusal{ending: MACMismatch, got: "a MAC that none of our secrets makes", want: "one of the current or the previous secret"}
}

// frameEnd is a frame fault that ends a link.
func frameEnd(err error) Ending {
	if _, ok := errors.AsType[*wire.SizeError](err); ok {
		return FrameSize
	}
	return FrameCommand
}

// logFrame writes the one line that the first frame of its kind on a link gets;
// the rest are counted.
func (p *pump) logFrame(v policy.Verdict, rule policy.Rule, h *wire.Header, verdict string) {
	if p.told.Has(rule) {
		return
	}
	p.told |= 1 << rule
	got, want := p.judge.Explain(rule, h, v.Cause)
	level, message := slog.LevelWarn, "frame refused"
	if verdict != policy.Drop.String() && verdict != policy.Close.String() {
		level, message = slog.LevelInfo, "frame observed"
	}
	p.link.log.Log(context.Background(), level, message, "rule", rule.String(), "verdict", verdict,
		"way", p.way, "command", h.Command().String(), "size", wire.Size.Get(h), "got", got, "want", want,
		"note", "further ones on this link are only counted")
}

func decimal(id uint8) string { return strconv.Itoa(int(id)) }
