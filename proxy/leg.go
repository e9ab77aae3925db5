package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/replgate/replgate/mac"
)

// side is which end of a gate a leg is at.
type side uint8

const (
	near side = iota // the local replica
	far              // a peer
)

// eof, eofMidFrame and reset name what the other end of a leg did.
func (s side) eof() Ending         { return [...]Ending{LocalEOF, PeerEOF}[s] }
func (s side) eofMidFrame() Ending { return [...]Ending{LocalEOFMidFrame, PeerEOFMidFrame}[s] }
func (s side) reset() Ending       { return [...]Ending{LocalReset, PeerReset}[s] }

// leg is one TCP connection with its own security.
type leg struct {
	io       net.Conn // what is read and written: the stream, or TLS on it
	tcp      *stream  // what is closed and given options
	records  *records // under TLS, nil elsewhere
	side     side
	replica  uint8 // who is at the other end, once the handshake says so
	security Security
	binding  mac.Binding
	state    *tls.ConnectionState // of its TLS, nil elsewhere
	identity Identity             // what its certificate said when it was last judged
	session  mac.Session          // that its handshake proved, zero for plaintext
	// secrets are those that its other end has proved over it. Once the leg is a
	// link's, the server's mutex guards them, and identity.
	secrets []mac.Fingerprint
}

func newLeg(c *net.TCPConn, side side) *leg {
	s := &stream{TCPConn: c}
	return &leg{io: s, tcp: s, side: side}
}

// abort ends a leg with a reset, so that the other end's log says so and its
// kernel throws away what it has not read.
func (l *leg) abort() {
	l.tcp.SetLinger(0) // a failure leaves an orderly close, which ends it too
	l.tcp.Close()
}

// secureWith puts a side of TLS on the leg's stream.
func (l *leg) secureWith(side func(net.Conn, *tls.Config) *tls.Conn, config *tls.Config) *tls.Conn {
	l.records = &records{stream: l.tcp}
	return side(l.records, config)
}

// write writes frames. Under TLS the records of a long run leave together.
func (l *leg) write(b []byte) error {
	if l.records == nil || len(b) <= recordMax {
		_, err := l.io.Write(b)
		return err
	}
	l.records.begin()
	_, err := l.io.Write(b)
	return errors.Join(err, l.records.flush())
}

// readOn reads more if there is more, without waiting for it.
func (l *leg) readOn(b []byte) int {
	if l.records == nil || len(b) < recordMax || !l.records.ready() {
		return 0
	}
	return l.records.readOn(l.io, b)
}

// end ends a leg with its link.
func (l *leg) end(broken bool) {
	if broken {
		l.abort()
		return
	}
	l.finish(lingerTime)
}

// lingerTime is how long a closing leg waits for the other side's end.
const lingerTime = 2 * time.Second

// finish ends a leg in order: close_notify, FIN, then read and throw away until
// the other side's end, and a reset when that does not come. A plain close with
// unread input makes the kernel reset, which can cut off the last frame written.
func (l *leg) finish(linger time.Duration) {
	l.tcp.last(time.Now().Add(linger))
	if notify, ok := l.io.(interface{ CloseWrite() error }); ok && l.security == TLS {
		notify.CloseWrite() // fails when the leg is dead, and then the FIN does too
	}
	if l.tcp.CloseWrite() == nil {
		if _, err := io.Copy(io.Discard, l.tcp.TCPConn); isTimeout(err) {
			l.abort()
			return
		}
	}
	l.tcp.Close()
}

// isReset reports whether err says that the other end broke the connection.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNABORTED)
}

// isEOF reports whether err is the other end's FIN. Over TLS a FIN without
// close_notify ends a link as one with it does (§7.6).
func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// isTLSFault reports whether err is an alert, of either side, or no record at all.
func isTLSFault(err error) bool {
	_, isRecord := errors.AsType[tls.RecordHeaderError](err)
	operation, isOperation := errors.AsType[*net.OpError](err)
	return isRecord || isOperation && (operation.Op == "remote error" || operation.Op == "local error")
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// peek waits until the connection has input and copies the first bytes without
// taking them. It returns io.EOF when the other end closed without a byte.
func peek(c *net.TCPConn, b []byte) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	n, peekErr := 0, error(nil)
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, _, peekErr = syscall.Recvfrom(int(fd), b, syscall.MSG_PEEK)
			if peekErr != syscall.EINTR {
				break
			}
		}
		return peekErr != syscall.EAGAIN
	})
	switch {
	case err != nil:
		return 0, err
	case peekErr != nil:
		return 0, os.NewSyscallError("recvfrom", peekErr)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
