//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sea is a bridge in a network namespace of its own; islands are namespaces on
// it, each a host with one address. Whatever it makes has a name of its own and
// goes with the test.
type sea struct {
	t      *testing.T
	name   string
	prefix string // the first three numbers of every address
}

// island is a host of its own.
type island struct {
	sea  *sea
	name string
	ip   string
}

// canSail says whether namespaces and packet filters can be made here.
func canSail() bool {
	if os.Geteuid() != 0 {
		return false
	}
	for _, tool := range []string{"ip", "nft"} {
		if _, err := exec.LookPath(tool); err != nil {
			return false
		}
	}
	return true
}

func newSea(t *testing.T) *sea {
	t.Helper()
	s := &sea{t: t, name: fmt.Sprintf("rg%06x", rand.IntN(1<<24)), prefix: fmt.Sprintf("198.%d.%d", 18+rand.IntN(2), rand.IntN(256))}
	s.ip("netns add " + s.name)
	t.Cleanup(func() { s.ip("netns del " + s.name) })
	s.ip("-n " + s.name + " link add br0 type bridge")
	s.ip("-n " + s.name + " link set br0 up")
	return s
}

// ip runs one ip command.
func (s *sea) ip(words string) {
	s.t.Helper()
	if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
		s.t.Errorf("ip %s: %v\n%s", words, err, out)
	}
}

// island makes the host with the last number n of its address.
func (s *sea) island(n int) *island {
	s.t.Helper()
	i := &island{sea: s, name: fmt.Sprintf("%s-%d", s.name, n), ip: fmt.Sprintf("%s.%d", s.prefix, n)}
	s.ip("netns add " + i.name)
	s.t.Cleanup(func() { s.ip("netns del " + i.name) })
	s.ip(fmt.Sprintf("link add eth0 netns %s type veth peer name port%d netns %s", i.name, n, s.name))
	s.ip(fmt.Sprintf("-n %s link set port%d master br0 up", s.name, n))
	s.ip(fmt.Sprintf("-n %s addr add %s/24 dev eth0", i.name, i.ip))
	s.ip("-n " + i.name + " link set eth0 up")
	s.ip("-n " + i.name + " link set lo up")
	for _, words := range []string{"add table inet gate",
		"add chain inet gate in { type filter hook input priority 0 ; policy accept ; }",
		"add chain inet gate out { type filter hook output priority 0 ; policy accept ; }"} {
		i.nft(words)
	}
	return i
}

// shore is one island that this host can reach, nil where there can be none.
func shore(t *testing.T) *island {
	t.Helper()
	if !canSail() {
		return nil
	}
	s := newSea(t)
	here := s.name + "h"
	s.ip(fmt.Sprintf("link add %s type veth peer name port1 netns %s", here, s.name))
	t.Cleanup(func() { s.ip("link del " + here) })
	s.ip(fmt.Sprintf("-n %s link set port1 master br0 up", s.name))
	s.ip(fmt.Sprintf("addr add %s.1/24 dev %s", s.prefix, here))
	s.ip("link set " + here + " up")
	return s.island(2)
}

func (i *island) address(port int) string { return fmt.Sprintf("%s:%d", i.ip, port) }

// wrap makes a program run on the island.
func (i *island) wrap() string { return "ip netns exec " + i.name }

func (i *island) nft(words string) {
	i.sea.t.Helper()
	out, err := exec.Command("ip", append([]string{"netns", "exec", i.name, "nft"}, strings.Fields(words)...)...).CombinedOutput()
	if err != nil {
		i.sea.t.Errorf("nft %s on %s: %v\n%s", words, i.name, err, out)
	}
}

// drop throws away what comes in or goes out, in words of nft: "tcp dport 9190".
func (i *island) drop(chain, what string) {
	i.sea.t.Helper()
	i.nft("add rule inet gate " + chain + " " + what + " drop")
}

// cutOff throws away everything but what stays on the island.
func (i *island) cutOff() {
	i.sea.t.Helper()
	i.drop("in", "iifname eth0")
	i.drop("out", "oifname eth0")
}

// heal lets everything pass again.
func (i *island) heal() {
	i.sea.t.Helper()
	i.nft("flush table inet gate")
}

// inside runs f on a thread that stands on the island. Sockets that f makes stay
// there; f must not start goroutines that make more.
func (i *island) inside(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		ns, err := os.Open("/run/netns/" + i.name)
		if err != nil {
			done <- err
			return
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// listen listens on the island.
func (i *island) listen(address string) *net.TCPListener {
	i.sea.t.Helper()
	var ln net.Listener
	err := i.inside(func() (err error) {
		ln, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		i.sea.t.Fatal(err)
	}
	i.sea.t.Cleanup(func() { ln.Close() })
	return ln.(*net.TCPListener)
}

// dial connects from the island; source may be empty.
func (i *island) dial(address, source string) (c net.Conn, err error) {
	d := net.Dialer{Timeout: playLimit}
	if source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	err = i.inside(func() (err error) {
		c, err = d.Dial("tcp", address)
		return err
	})
	return c, err
}

// ferry makes an address on the island reachable from here, at the same address
// of this host's loopback net.
func (i *island) ferry(address string) {
	i.sea.t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		i.sea.t.Fatal(err)
	}
	i.sea.t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			here, err := ln.Accept()
			if err != nil {
				return
			}
			there, err := i.dial(address, "")
			if err != nil {
				here.Close()
				continue
			}
			go carryBytes(here, there)
			go carryBytes(there, here)
		}
	}()
}

func carryBytes(to, from net.Conn) {
	to.(*net.TCPConn).ReadFrom(from)
	to.Close()
	from.Close()
}

// deafListener is an address that answers no connection: its queue is full.
func deafListener(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	for range 8 {
		c, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("got eight connections to a full queue, want the last to hang")
	return ""
}
