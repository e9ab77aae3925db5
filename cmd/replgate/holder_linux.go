package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// holder names the process that listens on an address, "" where the system does
// not tell: it takes the right to look into that process. The kernel's table of
// sockets gives the inode, and the process that has it open is the one.
func holder(address string) string {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return ""
	}
	sockets := listeners(at.AddrPort())
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil || len(sockets) == 0 {
		return ""
	}
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || !sockets[target] {
			continue // not ours to look into, gone, or another file
		}
		pid := strings.Split(link, "/")[2]
		name, err := os.ReadFile("/proc/" + pid + "/comm")
		if err != nil {
			return "process " + pid
		}
		return fmt.Sprintf("process %s (%s)", pid, strings.TrimSpace(string(name)))
	}
	return ""
}

// Columns of /proc/net/tcp, and the state of a socket that listens.
const (
	columnLocal = 1
	columnState = 3
	columnInode = 9
	stateListen = "0A"
)

// listeners returns the sockets that listen on an address, or on all addresses of
// its port, as links in /proc name them.
func listeners(at netip.AddrPort) map[string]bool {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			column := strings.Fields(lines.Text())
			if len(column) <= columnInode || column[columnState] != stateListen {
				continue
			}
			if local, ok := parseLocal(column[columnLocal]); ok && stands(local, at) {
				sockets["socket:["+column[columnInode]+"]"] = true
			}
		}
		f.Close()
	}
	return sockets
}

// stands reports whether a socket at local is in the way of one at want.
func stands(local, want netip.AddrPort) bool {
	a, b := local.Addr().Unmap(), want.Addr().Unmap()
	return local.Port() == want.Port() && (a == b || a.IsUnspecified() || b.IsUnspecified() || !b.IsValid())
}

// parseLocal reads an address of the kernel's table: 32-bit words in the machine's
// order, which is little-endian where Iggy runs, a colon, the port.
func parseLocal(text string) (netip.AddrPort, bool) {
	words, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(words)
	n, portErr := strconv.ParseUint(port, 16, 16)
	if err != nil || portErr != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for w := 0; w < len(b); w += 4 {
		slices.Reverse(b[w : w+4])
	}
	addr, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr, uint16(n)), ok
}
