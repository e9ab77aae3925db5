package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// holder names the process that listens on an address, "" where the system does
// not tell: it takes the right to look into that process.
func holder(address string) string {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return ""
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return ""
	}
	sockets := listeners(fs, port)
	all, err := fs.AllProcs()
	if err != nil || len(sockets) == 0 {
		return ""
	}
	for _, p := range all {
		targets, err := p.FileDescriptorTargets()
		if err != nil {
			continue // not ours to look into, or gone
		}
		for _, target := range targets {
			if sockets[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] {
				name, _ := p.Comm() // a process without a name still has its number
				return fmt.Sprintf("process %d (%s)", p.PID, name)
			}
		}
	}
	return ""
}

// stateListen is TCP_LISTEN in /proc/net/tcp.
const stateListen = 0x0a

// listeners returns the inodes of the sockets that listen on a port.
func listeners(fs procfs.FS, port uint64) map[string]bool {
	inodes := map[string]bool{}
	for _, read := range []func() (procfs.NetTCP, error){fs.NetTCP, fs.NetTCP6} {
		lines, err := read()
		if err != nil {
			continue
		}
		for _, l := range lines {
			if l.St == stateListen && l.LocalPort == port {
				inodes[strconv.FormatUint(l.Inode, 10)] = true
			}
		}
	}
	return inodes
}
