package proxy

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// A TLS record's header, and the first bytes of a ClientHello. A replica's Hello
// begins with a zero checksum (§1.8), so one byte tells them apart.
const (
	recordHeader    = 5
	recordHandshake = 0x16
	recordMajor     = 0x03
)

// flightMax is the most that is read of a TLS first flight before crypto/tls
// starts: a stranger costs no more. A ClientHello with post-quantum key shares is
// about 1.5 KiB.
const flightMax = 4 << 10

// secondFlightMax is what a client may send after its ClientHello until it is
// through: a Finished, of less than a hundred bytes.
const secondFlightMax = 4 << 10

// firstFrame takes an accepted connection to its dialer's first frame: it reads
// what a Hello or a ClientHello needs and no more, puts TLS on the leg where that
// is asked for and allowed, and names whatever else came.
func (v *visit) firstFrame() (*wire.Header, *refusal) {
	tlsAllowed, plainAllowed := v.allowed()
	h := new(wire.Header)
	n, r := v.firstBytes(h, plainAllowed)
	if r != nil {
		return nil, r
	}
	isTLS := h[0] == recordHandshake && (n == 1 || h[1] == recordMajor)
	switch {
	case isTLS && !tlsAllowed:
		v.probing = wire.IsProbeHello(h[:n])
		return nil, &refusal{ending: PlaintextRefused, got: "a TLS ClientHello", want: "a plaintext Hello: this port does not speak TLS"}
	case isTLS:
		if r := v.acceptTLS(h[:n]); r != nil {
			return nil, r
		}
		h, n = new(wire.Header), 0
	}
	r = readHello(v.arrived, h, n, v.settings.MaxFrame)
	v.probing = h.IsProbe()
	if which, ok := h.Shows(); ok && v.direction == ingress {
		v.showing = which
	}
	if r != nil {
		return nil, r
	}
	if !isTLS && !plainAllowed && h.Command() == wire.Request {
		return nil, clientFrame
	}
	if !isTLS && !plainAllowed {
		return nil, &refusal{ending: TLSPlaintext, got: "a plaintext frame", want: "a ClientHello: this port requires TLS"}
	}
	v.lobby.spoke(v)
	return h, nil
}

// firstBytes waits for the first bytes of a connection.
func (v *visit) firstBytes(h *wire.Header, plainAllowed bool) (int, *refusal) {
	n, err := v.arrived.tcp.Read(h[:])
	switch {
	case n > 0:
		return n, nil
	case isTimeout(err) && !plainAllowed:
		return 0, &refusal{ending: TLSTimeout, got: "silence", want: "a ClientHello"}
	case isTimeout(err):
		return 0, &refusal{ending: HelloTimeout, got: "silence", want: "a Hello"}
	}
	return 0, &refusal{ending: Probe, got: "a connection closed without a byte", want: "a Hello"}
}

// acceptTLS gathers the ClientHello that begins with first, and runs TLS.
func (v *visit) acceptTLS(first []byte) *refusal {
	flight := append(make([]byte, 0, flightMax), first...)
	for {
		need, whole := recordHeader, false
		if len(flight) >= recordHeader {
			need += int(binary.BigEndian.Uint16(flight[3:]))
			whole = len(flight) >= need
		}
		switch {
		case need > flightMax:
			return &refusal{ending: TLSAlert, got: "a ClientHello of more than 4 KiB", want: "one that a replica sends"}
		case whole && !isClientHello(flight[recordHeader:]):
			return &refusal{ending: TLSAlert, got: "no ClientHello, or one in many records", want: "one in one record"}
		case whole:
			v.arrived.tcp.ahead = flight
			v.lobby.spoke(v)
			config, explain := v.settings.Credentials.Server()
			side := v.arrived.secureWith(tls.Server, config)
			v.arrived.records.budget = len(flight) + secondFlightMax
			defer func() { v.arrived.records.budget = 0 }()
			return v.arrived.handshake(v.ctx, side, explain)
		}
		n, err := v.arrived.tcp.Read(flight[len(flight):need])
		flight = flight[:len(flight)+n]
		switch {
		case isTimeout(err):
			return &refusal{ending: TLSTimeout, got: "part of a ClientHello", want: "a whole one in time"}
		case err != nil && n == 0:
			return &refusal{ending: TLSAlert, got: "an end inside a ClientHello", want: "a whole one"}
		}
	}
}

// isClientHello reports whether a record holds a whole ClientHello: type 1 and a
// length of three bytes. One that goes on in further records would be gathered by
// crypto/tls without a bound of ours.
func isClientHello(record []byte) bool {
	const head = 4
	return len(record) >= head && record[0] == 1 &&
		int(record[1])<<16|int(record[2])<<8|int(record[3]) <= len(record)-head
}

// handshake runs TLS on a leg and binds the MAC to it. It is bounded by the
// connection's deadline.
func (l *leg) handshake(ctx context.Context, c *tls.Conn, explain func(error) TLSFault) *refusal {
	if err := c.HandshakeContext(ctx); err != nil {
		fault := explain(err)
		return &refusal{ending: fault.Ending, got: fault.Detail, want: "TLS 1.3 between replicas", absent: l.noTLS(err)}
	}
	state := c.ConnectionState()
	exporter, err := state.ExportKeyingMaterial(mac.ExporterLabel, nil, mac.ExporterSize)
	if err != nil {
		return &refusal{ending: TLSAlert, got: err.Error(), want: "an exporter"}
	}
	l.io, l.security, l.binding, l.state = c, TLS, mac.TLS([mac.ExporterSize]byte(exporter)), &state
	return nil
}

// noTLS reports whether a handshake failed because nobody at the other end speaks
// TLS: not a byte of a record came, but the end, silence or something else. A
// fault of a certificate, an alert, anything behind a ServerHello is no such sign.
func (l *leg) noTLS(err error) bool {
	_, isNoRecord := errors.AsType[tls.RecordHeaderError](err)
	late := isTimeout(err) || errors.Is(err, context.DeadlineExceeded)
	return !l.records.heard() && (isNoRecord || late || isEOF(err) || isReset(err))
}

// textPrefix is how many printable bytes at the start of a connection are taken
// for a protocol of words: HTTP, SSH, SMTP. A Hello starts with zeros.
const textPrefix = 4

// readHello reads the rest of a dialer's first frame, of which n bytes are in h,
// and names what came in its place. No more than the 256 bytes are read: what is
// pipelined behind them stays where it is.
func readHello(l *leg, h *wire.Header, n int, maxFrame uint32) *refusal {
	for {
		switch {
		case isText(h[:n]):
			return &refusal{ending: NotAFrame, got: "text", want: "a Hello"}
		case n == len(h):
			return checkHello(h, maxFrame)
		}
		m, err := l.io.Read(h[n:])
		if n += m; err != nil && m == 0 {
			return ioRefusal(l, err, HelloTimeout, n > 0)
		}
	}
}

// checkHello judges what the transport judges before any handshake (§2.1).
func checkHello(h *wire.Header, maxFrame uint32) *refusal {
	if !h.Command().Valid() {
		return &refusal{ending: NotAFrame, got: h.Command().String(), want: "a Hello"}
	}
	return checkSize(h, maxFrame, "a Hello of 256 bytes")
}

// checkSize judges the size that a handshake frame gives itself (§2.1).
func checkSize(h *wire.Header, maxFrame uint32, want string) *refusal {
	size := wire.Size.Get(h)
	if size >= wire.HeaderSize && size <= maxFrame {
		return nil
	}
	err := &wire.SizeError{Size: size, Max: maxFrame}
	return &refusal{ending: FrameSize, got: err.Error(), want: want}
}

func isText(b []byte) bool {
	if len(b) < textPrefix {
		return false
	}
	for _, c := range b[:textPrefix] {
		if c < ' ' && c != '\r' && c != '\n' || c > '~' {
			return false
		}
	}
	return true
}

// readFrame reads a later handshake frame; a body, which only a lenient reading
// allows, is thrown away without being held.
func readFrame(l *leg, maxFrame uint32) (*wire.Header, *refusal) {
	h := new(wire.Header)
	if n, err := io.ReadFull(l.io, h[:]); err != nil {
		return nil, ioRefusal(l, err, HandshakeTimeout, n > 0)
	}
	return h, checkFrame(h, maxFrame, "a handshake frame")
}

// checkFrame judges what the transport judges of every frame (§2.1).
func checkFrame(h *wire.Header, maxFrame uint32, want string) *refusal {
	if r := checkSize(h, maxFrame, want+" of at least 256 bytes"); r != nil {
		return r
	}
	if !h.Command().Valid() {
		err := &wire.CommandError{Command: h.Command()}
		return &refusal{ending: FrameCommand, got: err.Error(), want: want}
	}
	return nil
}

// discardBody throws away the body of a handshake frame that was accepted with
// one.
func discardBody(l *leg, h *wire.Header) *refusal {
	body := int64(wire.Size.Get(h)) - wire.HeaderSize
	if _, err := io.CopyN(io.Discard, l.io, body); err != nil {
		return ioRefusal(l, err, HandshakeTimeout, true)
	}
	return nil
}
