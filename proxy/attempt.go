package proxy

import (
	"net"
	"os"
	"syscall"
)

// attempt writes to a connection what the kernel takes at once. Its parts are kept
// so that a write allocates nothing. One writer at a time.
type attempt struct {
	raw  syscall.RawConn
	call func(fd uintptr) bool
	b    []byte
	n    int
	err  error
}

func (a *attempt) of(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // the connection is closed, and every write will say so
	}
	a.raw, a.call = raw, a.once
}

// write returns how much was taken: all of it, a part, or nothing, where the rest
// has to wait. An error is the connection's own.
func (a *attempt) write(b []byte) (int, error) {
	if a.raw == nil {
		return 0, nil
	}
	a.b, a.n, a.err = b, 0, nil
	err := a.raw.Write(a.call) // fails for a deadline or a close, which the write that waits tells
	a.b = nil
	if err != nil {
		return 0, nil
	}
	return a.n, a.err
}

// once never asks to be called again.
func (a *attempt) once(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), a.b)
		switch err {
		case nil:
			a.n = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
		default:
			a.err = os.NewSyscallError("write", err)
		}
		return true
	}
}
