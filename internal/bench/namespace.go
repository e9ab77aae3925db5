//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// algorithm is the congestion control of every socket of the bench: under the one
// that a machine happens to have, loopback can be several times slower for some
// and not for others.
const algorithm = "reno"

// apart runs this program again in a network namespace of its own.
func apart(args []string) error {
	cmd := exec.Command(args[0], append([]string{"inside"}, args[1:]...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	return cmd.Run()
}

// furnish makes the namespace usable: loopback up, one congestion control.
func furnish() error {
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("ip link: %w: %s", err, out)
	}
	return os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte(algorithm), 0o644)
}
