package proxy

import (
	"context"
	"crypto/tls"
	"io"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// recordHandshake and recordMajor are the first bytes of a TLS ClientHello. A
// replica's Hello begins with a zero checksum (§1.8), so one byte tells them
// apart.
const (
	recordHandshake = 0x16
	recordMajor     = 0x03
)

// secure looks at the first bytes of an accepted connection and puts TLS on it
// where they ask for it and this entrance allows it. Nothing is taken from a
// plaintext connection.
func (v *visit) secure() *refusal {
	tlsAllowed, plainAllowed := v.allowed()
	var first [2]byte
	n, err := peek(v.tcp, first[:])
	switch {
	case isTimeout(err) && !plainAllowed:
		return &refusal{ending: TLSTimeout, got: "silence", want: "a ClientHello"}
	case isTimeout(err):
		return &refusal{ending: HelloTimeout, got: "silence", want: "a Hello"}
	case err != nil:
		return &refusal{ending: Probe, got: "a connection closed without a byte", want: "a Hello"}
	}
	isTLS := first[0] == recordHandshake && (n == 1 || first[1] == recordMajor)
	switch {
	case isTLS && !tlsAllowed:
		return &refusal{ending: PlaintextRefused, got: "a TLS ClientHello", want: "a plaintext Hello: this port does not speak TLS"}
	case isTLS:
		config, explain := v.settings.Credentials.Server()
		return v.arrived.handshake(v.ctx, tls.Server(v.tcp, config), explain)
	case !plainAllowed:
		// Read as far as a Hello goes, to say what it was.
		if _, r := readHello(v.arrived, v.settings.MaxFrame); r != nil && r.ending != HelloTimeout {
			return r
		}
		return &refusal{ending: TLSPlaintext, got: "a plaintext frame", want: "a ClientHello: this port requires TLS"}
	}
	return nil
}

// handshake runs TLS on a leg and binds the MAC to it. It is bounded by the
// connection's deadline.
func (l *leg) handshake(ctx context.Context, c *tls.Conn, explain func(error) TLSFault) *refusal {
	if err := c.HandshakeContext(ctx); err != nil {
		fault := explain(err)
		return &refusal{ending: fault.Ending, got: fault.Detail, want: "TLS 1.3 between replicas"}
	}
	state := c.ConnectionState()
	exporter, err := state.ExportKeyingMaterial(mac.ExporterLabel, nil, mac.ExporterSize)
	if err != nil {
		return &refusal{ending: TLSAlert, got: err.Error(), want: "an exporter"}
	}
	l.io, l.security, l.binding = c, TLS, mac.TLS([mac.ExporterSize]byte(exporter))
	return nil
}

// textPrefix is how many printable bytes at the start of a connection are taken
// for a protocol of words: HTTP, SSH, SMTP. A Hello starts with zeros.
const textPrefix = 4

// readHello reads a dialer's first frame, and names what came in its place. Only
// the 256 bytes are read: what is pipelined behind them stays where it is.
func readHello(l *leg, maxFrame uint32) (*wire.Header, *refusal) {
	h := new(wire.Header)
	for n := 0; n < len(h); {
		m, err := l.io.Read(h[n:])
		n += m
		if isText(h[:n]) {
			return nil, &refusal{ending: NotAFrame, got: "text", want: "a Hello"}
		}
		if err != nil && n < len(h) {
			if n == 0 && isReset(err) {
				return nil, &refusal{ending: Probe, got: "a connection closed without a byte", want: "a Hello"}
			}
			return nil, ioRefusal(l, err, HelloTimeout, n > 0)
		}
	}
	return h, checkHello(h, maxFrame)
}

// checkHello judges what the transport judges before any handshake (§2.1).
func checkHello(h *wire.Header, maxFrame uint32) *refusal {
	size := wire.Size.Get(h)
	switch {
	case !h.Command().Valid():
		return &refusal{ending: NotAFrame, got: h.Command().String(), want: "a Hello"}
	case size < wire.HeaderSize || size > maxFrame:
		err := &wire.SizeError{Size: size, Max: maxFrame}
		return &refusal{ending: FrameSize, got: err.Error(), want: "a Hello of 256 bytes"}
	case h.Command() == wire.Request:
		return &refusal{ending: ClientFrame, got: "a client's Request", want: "a Hello: this is the replica port"}
	}
	return nil
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
	size := wire.Size.Get(h)
	switch {
	case size < wire.HeaderSize || size > maxFrame:
		err := &wire.SizeError{Size: size, Max: maxFrame}
		return nil, &refusal{ending: FrameSize, got: err.Error(), want: "a handshake frame of 256 bytes"}
	case !h.Command().Valid():
		err := &wire.CommandError{Command: h.Command()}
		return nil, &refusal{ending: FrameCommand, got: err.Error(), want: "a handshake frame"}
	}
	return h, nil
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
