package proxy

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// deadAfter is how long a peer may leave the network unanswered, of the heartbeat
// timeout: noticed inside the window, and not before a healthy network has had
// its retransmits.
const deadAfter = 0.8

// watchPeer makes the kernel notice a peer that is gone: on far legs only. A near
// leg is on this host, and its replica may stall for as long as it likes.
func watchPeer(c *net.TCPConn, heartbeat time.Duration) error {
	limit := time.Duration(float64(heartbeat) * deadAfter)
	probe := max(limit/4, time.Second)
	if err := c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: probe, Interval: probe, Count: 4}); err != nil {
		return err
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(limit.Milliseconds()))
	}); err != nil {
		return err
	}
	return failed
}

// unanswered explains ETIMEDOUT on a leg by the kernel's own figures: a reader
// that closed its window is there and does not read.
func (l *leg) unanswered(err error) *end {
	if window, known := l.sendWindow(); known && window == 0 {
		return &end{ending: WriteStalled, got: "a reader with its window closed", want: "one that reads", reset: true}
	}
	return &end{ending: PeerUnreachable, got: err.Error(), want: "an answer from the network", reset: true}
}

func (l *leg) sendWindow() (window uint32, known bool) {
	raw, err := l.tcp.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			window, known = info.Snd_wnd, true
		}
	})
	return window, known && err == nil
}

// isUnanswered reports whether the kernel gave up on the other end.
func isUnanswered(err error) bool {
	return errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}
