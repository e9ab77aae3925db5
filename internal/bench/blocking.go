//go:build linux

package main

import (
	"io"
	"net"
	"syscall"
	"time"
)

// blocking does plain system calls on a TCP connection, so that the scheduler of
// the generator and of the sink stays out of the figures. Whoever uses it has
// locked its thread.
type blocking struct {
	net.Conn
	fd int
}

// hang is how long a system call may wait: a peer that hangs must not hang the
// run.
const hang = 30 * time.Second

// toBlocking takes the connection away from the runtime until release.
func toBlocking(c *net.TCPConn) (*blocking, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	b := &blocking{Conn: c}
	limit := syscall.NsecToTimeval(int64(hang))
	var failed error
	err = raw.Control(func(fd uintptr) {
		b.fd = int(fd)
		for _, option := range []int{syscall.SO_RCVTIMEO, syscall.SO_SNDTIMEO} {
			if err := syscall.SetsockoptTimeval(b.fd, syscall.SOL_SOCKET, option, &limit); err != nil {
				failed = err
			}
		}
		if err := syscall.SetNonblock(b.fd, false); err != nil {
			failed = err
		}
	})
	if err == nil {
		err = failed
	}
	return b, err
}

// release gives the connection back to the runtime.
func (b *blocking) release() error { return syscall.SetNonblock(b.fd, true) }

// Read implements io.Reader.
func (b *blocking) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(b.fd, p)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// Write implements io.Writer.
func (b *blocking) Write(p []byte) (int, error) {
	sent := 0
	for sent < len(p) {
		n, err := syscall.Write(b.fd, p[sent:])
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return sent, err
		}
		sent += n
	}
	return sent, nil
}
