package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/replgate/replgate/internal/lab"
)

// manager is the end of a notify socket that a service manager has.
func manager(t *testing.T) (path string, next func() string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // t.TempDir's path may be longer than a socket's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return path, func() string {
		t.Helper()
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		b := make([]byte, 1024)
		n, err := c.Read(b)
		if err != nil {
			t.Fatalf("got %v, want a word to the service manager", err)
		}
		return string(b[:n])
	}
}

// gateUnder starts the program as a service manager would. Its configuration
// has listeners of both kinds.
func gateUnder(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	n := lab.NewNet()
	config := strings.ReplaceAll(`
[[cluster.nodes]]
ip = "$NET.10"
replica_id = 0
ports = { tcp_replica = 9090 }
[[cluster.nodes]]
ip = "$NET.11"
replica_id = 1
ports = { tcp_replica = 9090 }
[[cluster.nodes]]
ip = "$NET.12"
replica_id = 2
ports = { tcp_replica = 9090 }
[gate]
replica_id = 1
[ingress]
listen = "$NET.21:9190"
[[peers]]
replica_id = 2
address = "$NET.22:9190"
[metrics]
listen = ""
[admin]
listen = ""
[log]
level = "warn"
`, "$NET", strings.TrimSuffix(n.Replica(0), ".10:9090"))
	path := filepath.Join(t.TempDir(), "gate.toml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(replgateBinary, "run", "--config", path)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd
}

// TestNotify runs the program under a service manager of Type=notify with a
// watchdog, from its start to SIGTERM.
func TestNotify(t *testing.T) {
	socket, next := manager(t)
	cmd := gateUnder(t, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=200000")
	if got := next(); got != "READY=1\nSTATUS=serving" {
		t.Fatalf("got %q, want ready", got)
	}
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Fatalf("got %q, want a sign of life", got)
		}
	}
	for _, c := range []struct {
		signal syscall.Signal
		want   []string
	}{
		{syscall.SIGHUP, []string{"RELOADING=1\nSTATUS=reloading", "READY=1\nSTATUS=serving"}},
		{syscall.SIGTERM, []string{"STOPPING=1\nSTATUS=draining"}},
	} {
		if err := cmd.Process.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			got := next()
			for got == "WATCHDOG=1" {
				got = next()
			}
			if got != want {
				t.Errorf("got %q after %v, want %q", got, c.signal, want)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("got %v, want exit 0", err)
	}
}

// TestNotifyWhileWaiting: a gate whose secret is not there yet tells the manager so,
// and does not call itself ready before it has come.
func TestNotifyWhileWaiting(t *testing.T) {
	socket, next := manager(t)
	secret := filepath.Join(t.TempDir(), "secret")
	gateUnder(t, "NOTIFY_SOCKET="+socket, "REPLGATE_CLUSTER_AUTH_ENABLED=true", "REPLGATE_CLUSTER_AUTH_SHARED_SECRET_FILE="+secret, "REPLGATE_RELOAD_INTERVAL=20ms")
	if got := next(); !strings.HasPrefix(got, "STATUS=not ready: secret_missing: ") {
		t.Fatalf("got %q, want what it waits for", got)
	}
	if err := os.WriteFile(secret, []byte(secretOne), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != "READY=1\nSTATUS=serving" {
		t.Errorf("got %q, want ready", got)
	}
}

// TestAbort pins what the unit's restart rules stand on: by itself a Go program
// that is aborted, by a watchdog's SIGABRT or by a panic, exits with 2, which is
// our word for wrong usage; with GOTRACEBACK=crash it dies of the signal.
func TestAbort(t *testing.T) {
	for env, signalled := range map[string]bool{"GOTRACEBACK=crash": true, "GOTRACEBACK=all": false} {
		socket, next := manager(t)
		cmd := gateUnder(t, "NOTIFY_SOCKET="+socket, env)
		cmd.Stderr = nil
		next()
		if err := cmd.Process.Signal(syscall.SIGABRT); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if status.Signaled() != signalled || !signalled && status.ExitStatus() != exitUsage {
			t.Errorf("%s: got %v, want death of a signal: %v", env, cmd.ProcessState, signalled)
		}
	}
}

func TestNotifierFromEnvironment(t *testing.T) {
	for _, c := range []struct {
		socket, usec, pid string
		want              time.Duration
	}{
		{"/s", "20000000", "", 5 * time.Second},
		{"/s", "20000000", "1", 0}, // another process is watched
		{"/s", "0", "", 0},
		{"/s", "-4", "", 0},
		{"/s", "soon", "", 0},
		{"/s", "", "", 0},
		{"/s", "1", "", time.Millisecond},
		{"", "20000000", "", 0}, // nobody to tell
	} {
		env := map[string]string{"NOTIFY_SOCKET": c.socket, "WATCHDOG_USEC": c.usec, "WATCHDOG_PID": c.pid}
		if got := newNotifier(func(k string) string { return env[k] }).every; got != c.want {
			t.Errorf("got %v of %v, want %v", got, env, c.want)
		}
	}
	notify(filepath.Join(t.TempDir(), "nobody"), "READY=1") // must only not fail
}

// TestWatchdogNeedsProgress: no sign of life goes out while a part is stuck, one
// question is open at a time, and the signs come back with the answers.
func TestWatchdogNeedsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var said []string
		n := newNotifier(func(string) string { return "" })
		n.send = func(s string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, s)
		}
		since := func() []string {
			mu.Lock()
			defer mu.Unlock()
			defer func() { said = nil }()
			return said
		}
		n.every = 5 * time.Second
		gap := make(chan struct{}, 1)
		var questions atomic.Int32
		n.ready([]vital{{"one", func() {}}, {"two", func() { questions.Add(1); <-gap }}})

		gap <- struct{}{}
		time.Sleep(6 * time.Second)
		if got, want := since(), []string{"READY=1\nSTATUS=serving", "WATCHDOG=1"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		time.Sleep(15 * time.Second) // asked at 10 s, no answer at 15 s and 20 s
		waits := "STATUS=no sign of life, waiting for two"
		if got, want := since(), []string{waits, waits}; !slices.Equal(got, want) || questions.Load() != 2 {
			t.Errorf("got %q after %d questions, want %q and one open question", got, questions.Load(), want)
		}
		gap <- struct{}{}
		synctest.Wait()
		if got, want := since(), []string{"WATCHDOG=1\nSTATUS=moving again"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		n.close()
		time.Sleep(time.Minute)
		if got := since(); len(got) != 0 {
			t.Errorf("got %q after close, want silence", got)
		}
	})
}

// TestVitalsThatAreStuck: a write that does not return is a log that is stuck, and a
// reload that does not end is one too (T53).
func TestVitalsThatAreStuck(t *testing.T) {
	r, w := io.Pipe()
	p := &process{out: &logPath{to: w}}
	for name, c := range map[string]struct{ moved, stick, free func() }{
		"the log": {p.out.moved, func() {
			go p.out.Write([]byte("line\n"))
			io.ReadFull(r, make([]byte, 1)) // it is inside the write now
		}, func() { io.ReadFull(r, make([]byte, 4)) }},
		"a reload": {p.moved, p.mu.Lock, p.mu.Unlock},
	} {
		c.moved()
		c.stick()
		moved := make(chan struct{})
		go func() { c.moved(); close(moved) }()
		select {
		case <-moved:
			t.Errorf("%s: got an answer, want none while it is stuck", name)
		case <-time.After(50 * time.Millisecond):
		}
		c.free()
		<-moved
	}
}
