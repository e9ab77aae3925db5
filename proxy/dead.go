package proxy

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// deadAfter is how long a peer may leave the network unanswered: noticed inside
// the heartbeat window, and not before a healthy network has had its retransmits.
func deadAfter(heartbeat time.Duration) time.Duration { return heartbeat * 4 / 5 }

// keepAlive makes the kernel ask a silent peer often enough to notice its death
// within limit.
func keepAlive(c *net.TCPConn, limit time.Duration) error {
	probe := max(limit/4, time.Second)
	return c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: probe, Interval: probe, Count: 4})
}

// unanswered explains ETIMEDOUT on a leg by the kernel's own figures: a reader
// that closed its window is there and does not read.
func (l *leg) unanswered(err error) *end {
	if window, known := l.sendWindow(); known && window == 0 {
		return &end{ending: WriteStalled, got: "a reader with its window closed", want: "one that reads", reset: true}
	}
	return &end{ending: PeerUnreachable, got: err.Error(), want: "an answer from the network", reset: true}
}

// isUnanswered reports whether the kernel gave up on the other end.
func isUnanswered(err error) bool {
	return errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}
