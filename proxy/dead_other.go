//go:build !linux

package proxy

import (
	"net"
	"time"
)

// watchPeer has keepalive only: TCP_USER_TIMEOUT, which notices a peer that dies
// with data under way, is Linux's. Builds for other systems are for development.
func watchPeer(c *net.TCPConn, heartbeat time.Duration) error {
	return keepAlive(c, deadAfter(heartbeat))
}

// sendWindow is not known here.
func (l *leg) sendWindow() (window uint32, known bool) { return 0, false }

// state is not known here.
func (s *stream) state() tcpState { return stateOpen }

// unacknowledged is not known here.
func (s *stream) unacknowledged() (queued int64, known bool) { return 0, false }
