package proxy

import (
	"errors"
	"net"
	"sync"
	"time"
)

// stream is a leg's TCP connection as everything above it sees it, TLS included:
// it gives out first what was read ahead, and it tells a write that makes no
// progress from one that is slow.
type stream struct {
	*net.TCPConn
	ahead   []byte // read already, given out first
	written int64  // bytes that the kernel took; one writer at a time
	now     attempt

	// source is the leg that the bytes to be written come from. A write that waits
	// for its reader looks whether it is still there.
	source *stream

	mu      sync.Mutex
	stall   time.Duration // 0: writes keep the deadline they have
	closing bool          // the deadline is set for good
}

// Read implements net.Conn.
func (s *stream) Read(b []byte) (int, error) {
	if len(s.ahead) == 0 {
		return s.TCPConn.Read(b)
	}
	n := copy(b, s.ahead)
	if s.ahead = s.ahead[n:]; len(s.ahead) == 0 {
		s.ahead = nil // the first flight's memory is needed no more
	}
	return n, nil
}

// newStream takes a connection over.
func newStream(c *net.TCPConn) *stream {
	s := &stream{TCPConn: c}
	s.now.of(c)
	return s
}

// Write implements net.Conn. Most writes fit into the send buffer: those cost one
// system call, and no timer.
func (s *stream) Write(b []byte) (int, error) {
	sent, err := s.now.write(b)
	s.written += int64(sent)
	if err != nil || sent == len(b) {
		return sent, err
	}
	n, err := s.writeOn(b[sent:])
	return sent + n, err
}

// writeOn waits for a reader that is slow. A deadline that passes while the other
// end still takes bytes is only set anew: under TLS an error of the write below
// cannot be mended. What counts is what the other end's kernel has acknowledged;
// the room that is left in our own send buffer is no progress.
func (s *stream) writeOn(b []byte) (int, error) {
	began := time.Now()
	progress, taken := began, s.acknowledged()
	for sent := 0; ; {
		armed := s.arm()
		n, err := s.TCPConn.Write(b[sent:])
		sent += n
		s.written += int64(n)
		if err == nil {
			s.disarm()
		}
		if err == nil || !armed || !isTimeout(err) {
			return sent, err
		}
		if gone := s.source.gone(time.Since(began)); gone != nil {
			return sent, gone
		}
		if now := s.acknowledged(); now > taken {
			progress, taken = time.Now(), now
		} else if time.Since(progress) >= s.stall {
			return sent, err
		}
	}
}

// acknowledged is how many bytes the other end has, as far as the kernel tells;
// where it does not, what it took counts.
func (s *stream) acknowledged() int64 {
	if queued, ok := s.unacknowledged(); ok {
		return s.written - queued
	}
	return s.written
}

// arm gives the next part of a write its time, unless the leg is closing.
func (s *stream) arm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stall == 0 || s.closing {
		return false
	}
	s.TCPConn.SetWriteDeadline(time.Now().Add(min(s.stall/stallSteps, waitStep)))
	return true
}

// disarm takes a part's time away: what the next write tries at once has none.
func (s *stream) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stall != 0 && !s.closing {
		s.TCPConn.SetWriteDeadline(time.Time{})
	}
}

// stallSteps is how many times at least a stall is looked at before it is one,
// waitStep how often a write that waits looks around.
const (
	stallSteps = 8
	waitStep   = 50 * time.Millisecond
)

// The ends of a source that its own reader cannot see, because what it has read
// is still being written.
var (
	errSourceReset = errors.New("proxy: got a reset at the source")
	errSourceEnd   = errors.New("proxy: got an end at the source")
)

// gone reports how the other end of the source has ended. After a FIN what has
// been received may still be written for a while.
func (s *stream) gone(waited time.Duration) error {
	if s == nil {
		return nil
	}
	switch s.state() {
	case stateClosed:
		return errSourceReset
	case stateFIN:
		if waited > closeGrace {
			return errSourceEnd
		}
	}
	return nil
}

// tcpState is what gone tells apart.
type tcpState uint8

const (
	stateOpen   tcpState = iota // or not known
	stateFIN                    // the other end has closed
	stateClosed                 // reset, or given up by the kernel
)

// watch starts to bound every write by its progress.
func (s *stream) watch(stall time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stall = stall
}

// last sets the deadline of everything that is still to come, reads and writes.
func (s *stream) last(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	s.TCPConn.SetDeadline(t)
}
