//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/lab"
)

// TestLabCommand runs the lab as a user does, in JSON and in lines.
func TestLabCommand(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"lab", "--duration", "2s", "--json"},
		{"lab", "--duration", "2s", "--replicas", "5", "--security", "psk", "--near", "psk"},
	} {
		out, err := exec.Command(replgateBinary, args...).Output()
		if err != nil {
			t.Fatalf("%v: got %v, want exit 0:\n%s", args, err, out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		last := lines[len(lines)-1]
		if args[len(args)-1] != "--json" {
			if !strings.HasPrefix(last, "all 5 stand-ins agree: ") || !strings.HasSuffix(last, ", 0 refused") {
				t.Errorf("%v: got last line %q, want all to agree and nothing refused", args, last)
			}
			continue
		}
		var s labSnapshot
		if err := json.Unmarshal([]byte(last), &s); err != nil {
			t.Fatal(err)
		}
		if s.Refused != 0 || s.Acked == 0 || len(s.Replicas) != 3 || s.Replicas[0].Hash != s.Replicas[2].Hash {
			t.Errorf("%v: got %+v, want equal logs, acknowledged operations and nothing refused", args, s)
		}
	}
}

// TestLabServersThatEnd: a program that is no server is told, and is a fault.
func TestLabServersThatEnd(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(replgateBinary, "lab", "--iggy", "/bin/false", "--duration", "3s").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFault || !bytes.Contains(out, []byte("a server ended (exit status 1)")) {
		t.Errorf("got %v, want exit %d and the server's end:\n%s", err, exitFault, out)
	}
}

// TestLabInterrupted: an interrupt of the whole group, as a terminal sends it, ends
// a lab in order.
func TestLabInterrupted(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(replgateBinary, "lab", "--duration", "0", "--json")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, last := bufio.NewScanner(out), ""
	for n := 0; lines.Scan(); n++ {
		if last = lines.Text(); n == 1 {
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(last, `"agreed":true`) {
		t.Errorf("got %v and last line %s, want exit 0 and agreement", err, last)
	}
}

// startLab runs a lab for the length of a test.
func startLab(t *testing.T, p lab.Plan) *lab.Lab {
	t.Helper()
	p.Binary, p.Dir, p.Complaints = replgateBinary, t.TempDir(), os.Stderr
	l, err := lab.New(p)
	t.Cleanup(func() {
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func until(t *testing.T, l *lab.Lab, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Until(ctx, what, cond); err != nil {
		t.Fatal(err)
	}
}

func ackedBy(l *lab.Lab) (n int) {
	for _, r := range l.Reports() {
		n += r.Acked
	}
	return n
}

// TestLabLosesAReplica kills the primary behind its gate and brings it back empty:
// another is elected, traffic goes on, and in the end all logs are equal. The
// other two must notice by their links' end, not by a timeout of the gates.
func TestLabLosesAReplica(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Plan{Replicas: 3, Near: "plaintext", Far: "tls", Rate: 100, Payload: 128, Groups: 4, Seed: 7})
	until(t, l, "every link is up", l.Meshed)
	until(t, l, "traffic flows", func() bool { return ackedBy(l) > 100 })
	l.StandIns[0].Kill()
	l.StandIns[0] = nil
	until(t, l, "another is elected", func() bool {
		r := l.Reports()
		return r[1].View > 0 && r[1].Normal && r[2].View == r[1].View && r[2].Normal
	})
	before := ackedBy(l)
	until(t, l, "traffic goes on", func() bool { return ackedBy(l) > before+50 })
	if err := l.StartStandIn(0); err != nil {
		t.Fatal(err)
	}
	until(t, l, "every link is back", l.Meshed)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Settle(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestLabAgainstWitness holds a lab's traffic, with elections and repair in it,
// against an independent checker of the protocol, which records it on its way
// from each stand-in to its gate. The checker is no part of this project:
// REPLGATE_WITNESS names its program.
func TestLabAgainstWitness(t *testing.T) {
	t.Parallel()
	if witness == "" {
		t.Skip("REPLGATE_WITNESS names no checker") // CI sets it where the checker lies beside the checkout
	}
	dir := t.TempDir()
	n := lab.NewNet()
	plan := lab.Plan{Replicas: 3, Near: "plaintext", Far: "tls", Rate: 200, Payload: 300, Groups: 6, Seed: 11,
		Net: n, Dialed: func(i, j int) string { return n.Relay(i, j) }}
	args := []string{"relay", "-out", dir}
	for _, p := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		args = append(args, strings.Join([]string{string(rune('0'+p[0])) + "-" + string(rune('0'+p[1])), "=", n.Relay(p[0], p[1]), ">", n.Egress(p[0], p[1])}, ""))
	}
	relay := exec.Command(witness, args...)
	if err := relay.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		relay.Process.Kill()
		relay.Wait()
	})
	l := startLab(t, plan)
	until(t, l, "every link is up", l.Meshed)
	length := 30 * time.Second
	for began, victim := time.Now(), 0; time.Since(began) < length; victim = (victim + 1) % 3 {
		before := ackedBy(l)
		until(t, l, "traffic flows", func() bool { return ackedBy(l) > before+200 })
		l.StandIns[victim].Kill()
		if err := l.StartStandIn(victim); err != nil {
			t.Fatal(err)
		}
		until(t, l, "every link is back and every group is normal", func() bool {
			for _, r := range l.Reports() {
				if !r.Normal {
					return false
				}
			}
			return l.Meshed()
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := l.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(witness, "verify", dir).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("no fault")) || bytes.Contains(out, []byte("FRAMING")) {
		t.Errorf("got %v from the checker, want no fault:\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.bin"))
	if err != nil || len(files) < 6 {
		t.Errorf("got %d recordings and %v, want both directions of every link", len(files), err)
	}
	t.Logf("%s", out)
}
