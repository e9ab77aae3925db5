package proxy

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// watchPeer makes the kernel notice a peer that is gone: on far legs only. A near
// leg is on this host, and its replica may stall for as long as it likes.
func watchPeer(c *net.TCPConn, heartbeat time.Duration) error {
	limit := deadAfter(heartbeat)
	if err := keepAlive(c, limit); err != nil {
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

// sendWindow is the last window the other end has announced, in bytes.
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

// The states of the kernel that matter here.
const (
	tcpClose     = 7
	tcpCloseWait = 8
)

// state asks the kernel for the connection's state.
func (s *stream) state() tcpState {
	raw, err := s.SyscallConn()
	if err != nil {
		return stateClosed
	}
	state := stateOpen
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		switch {
		case err != nil:
		case info.State == tcpClose:
			state = stateClosed
		case info.State == tcpCloseWait:
			state = stateFIN
		}
	})
	return state
}

// unacknowledged is how many bytes are written and not yet acknowledged.
func (s *stream) unacknowledged() (queued int64, known bool) {
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			queued, known = int64(n), true
		}
	})
	return queued, known && err == nil
}
