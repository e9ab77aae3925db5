package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// holder names the process that listens on an address, "" where the system does
// not tell: it takes the right to look into that process. The kernel's table of
// sockets gives the inode, and the process that has it open is the one.
func holder(address string) string {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return ""
	}
	sockets := listeners(port)
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

// listeners returns the sockets that listen on a port, as links in /proc name
// them.
func listeners(port uint64) map[string]bool {
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
			if strings.HasSuffix(column[columnLocal], fmt.Sprintf(":%04X", port)) {
				sockets["socket:["+column[columnInode]+"]"] = true
			}
		}
		f.Close()
	}
	return sockets
}
