package proxy

import (
	"net"
	"sync"
	"time"
)

// stream is a leg's TCP connection as everything above it sees it, TLS included:
// it gives out first what was read ahead, and it tells a write that makes no
// progress from one that is slow.
type stream struct {
	*net.TCPConn
	ahead []byte // read already, given out first

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

// Write implements net.Conn. A deadline that passes while bytes still leave is
// only set anew: under TLS an error of the write below cannot be mended.
func (s *stream) Write(b []byte) (int, error) {
	for sent := 0; ; {
		armed := s.arm()
		n, err := s.TCPConn.Write(b[sent:])
		sent += n
		if err == nil || !armed || n == 0 || !isTimeout(err) {
			return sent, err
		}
	}
}

// arm gives the next write its time, unless the leg is closing.
func (s *stream) arm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stall == 0 || s.closing {
		return false
	}
	s.TCPConn.SetWriteDeadline(time.Now().Add(s.stall))
	return true
}

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
