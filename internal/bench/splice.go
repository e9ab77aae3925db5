//go:build linux

package main

import (
	"io"
	"net"
)

// splice is the least that a relay can do: two io.Copy, which the kernel carries
// out between two sockets. It is a measure, and no gate.
func splice(listen string) error {
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go relayOne(c.(*net.TCPConn))
	}
}

func relayOne(c *net.TCPConn) {
	defer c.Close()
	to, err := net.Dial("tcp", sinkAddress)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		io.Copy(c, to)
		c.CloseWrite()
	}()
	io.Copy(to, c)
	to.(*net.TCPConn).CloseWrite()
}
