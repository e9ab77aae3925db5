//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

var stopSignals = map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT}

// wantExit waits for the gate's own end, after signals that the test has sent.
func (s *stage) wantExit(code int, within time.Duration) {
	s.t.Helper()
	began := time.Now()
	select {
	case <-s.gate.Done():
	case <-time.After(playLimit):
	}
	took := time.Since(began)
	if got := s.exit(playLimit); got != code || took > within {
		s.t.Errorf("got exit code %d after %v, want %d within %v:\n%s", got, took, code, within, tail(s.gate.Log(), 5))
	}
}

// TestSignalWhileStarting ends the gate in every moment of its start: it exits 0,
// or, before it can know of signals at all, by the signal; and it leaves no
// listener behind.
func TestSignalWhileStarting(t *testing.T) {
	t.Parallel()
	s := prepareStage(t, stageOptions{id: 1, replicas: 3, far: "tls"})
	for name, signal := range stopSignals {
		for delay := time.Duration(0); delay < 40*time.Millisecond; delay += 2 * time.Millisecond {
			cmd := exec.Command(replgateBinary, "run", "--config", s.path)
			var log bytes.Buffer
			cmd.Stderr = &log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(delay) // real time: the moment is what is varied
			cmd.Process.Signal(signal)
			hung := time.AfterFunc(5*time.Second, func() { cmd.Process.Kill() })
			err := cmd.Wait()
			inTime := hung.Stop()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			byDefault := status.Signaled() && status.Signal() == signal && log.Len() == 0
			if !inTime || err != nil && !byDefault {
				t.Errorf("%s after %v: got %v and the log %s, want exit 0", name, delay, err, log.String())
			}
		}
	}
}

// TestSignalWhileReady ends an idle gate, and one with a link that stands at a
// boundary and a dialer that is inside its handshake.
func TestSignalWhileReady(t *testing.T) {
	t.Parallel()
	for name, signal := range stopSignals {
		for _, links := range []bool{false, true} {
			s := raise(t, stageOptions{id: 1, replicas: 2, far: "tls"})
			if links {
				b := s.arrive(0, "tls")
				if _, err := b.far.Write(commit(0, 1)); err != nil {
					t.Fatal(err)
				}
				if _, err := b.near.ReadFrame(1 << 20); err != nil {
					t.Fatal(err)
				}
				go endOnEnd(b.far)
				go endOnEnd(b.near)
				helloOnly(t, s, "127.0.3.1")
			}
			s.gate.Signal(signal)
			s.wantExit(exitOK, time.Second)
			if n := loggedEndings(s.gate)["drain"]; n != map[bool]int{true: 2}[links] {
				t.Errorf("%s, links %v: got %d connections ended by drain, want each that there was", name, links, n)
			}
		}
	}
}

// endOnEnd closes a connection when the other side does.
func endOnEnd(c *replica.Conn) {
	drainBytes(c)
	c.TCP.Close()
}

// TestDrainUnderLoad ends a gate whose links never stop: in every direction the
// receiver has whole frames and not a byte more, then a FIN; exit 0 (T13).
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	for name, signal := range stopSignals {
		for _, security := range []string{"plaintext", "tls"} {
			t.Run(name+"/"+security, func(t *testing.T) {
				t.Parallel()
				s := raise(t, stageOptions{id: 2, replicas: 4, far: security, extra: "[frames]\nstore_limit = \"64KiB\"\n"})
				bonds := []bond{s.arrive(0, security), s.arrive(1, security), s.leaveFor(3, s.listenAs(3), security)}
				stop := make(chan struct{})
				defer close(stop)
				var all sync.WaitGroup
				for i, b := range bonds {
					far := []uint8{0, 1, 3}[i]
					pour(b.far, far, stop, unlike...)
					pour(b.near, 2, stop, unlike...)
					all.Go(func() { wantWholeFrames(t, fmt.Sprintf("%d, inward", i), b.near) })
					all.Go(func() { wantWholeFrames(t, fmt.Sprintf("%d, outward", i), b.far) })
				}
				eventually(t, "load on every link, both ways", func() bool {
					samples := s.metrics()
					for _, peer := range []string{"0", "1", "3"} {
						for _, way := range []string{"in", "out"} {
							if samples.Sum("replgate_frames_total", `peer="`+peer+`"`, `direction="`+way+`"`, `result="forwarded"`) < 50 {
								return false
							}
						}
					}
					return true
				})
				s.gate.Signal(signal)
				s.wantExit(exitOK, 5*time.Second)
				all.Wait()
				if n := loggedEndings(s.gate)["drain"]; n != len(bonds) {
					t.Errorf("got %d links ended by drain, want %d", n, len(bonds))
				}
			})
		}
	}
}

// unlike are sizes of very different frames: stored ones, long ones, and runs of
// small ones.
var unlike = []int{0, 0, 0, 1000, 300 << 10, 70 << 10}

// wantWholeFrames reads a link until its end, which must be a FIN between frames,
// and closes.
func wantWholeFrames(t *testing.T, name string, c *replica.Conn) {
	defer c.TCP.Close()
	frames := 0
	for {
		c.TCP.SetReadDeadline(time.Now().Add(playLimit))
		h := new(wire.Header)
		n, err := io.ReadFull(c, h[:])
		if err == io.EOF && n == 0 {
			break
		}
		if err != nil {
			t.Errorf("link %s: after %d frames got %d bytes and %v, want a FIN between frames", name, frames, n, err)
			return
		}
		body := int64(wire.Size.Get(h)) - wire.HeaderSize
		if m, err := io.CopyN(io.Discard, c, body); err != nil {
			t.Errorf("link %s: after %d frames got %d bytes of a body of %d and %v, want all", name, frames, m, body, err)
			return
		}
		if op := wire.PrepareOp.Get(h); op != uint64(frames+1) {
			t.Errorf("link %s: got frame %d after %d, want all in their order", name, op, frames)
			return
		}
		frames++
	}
	if frames == 0 {
		t.Errorf("link %s: got no frame, want load", name)
	}
}

// stickInFrame leaves a link inside a frame whose beginning has been passed on.
func stickInFrame(t *testing.T, b bond, id uint8) {
	t.Helper()
	if _, err := b.far.Write(offset(id, 1, make([]byte, 600<<10))[:500<<10]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(b.near, make([]byte, 300<<10)); err != nil {
		t.Fatal(err)
	}
	go drainBytes(b.near)
}

// TestDrainDeadline has one link that is stuck inside a frame and one that is not:
// the other ends in order, the stuck one is cut, exit 5 (T14).
func TestDrainDeadline(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 2, replicas: 3, far: "psk", extra: "[timeouts]\ndrain = \"1s\"\n"})
	stickInFrame(t, s.arrive(0, "psk"), 0)
	whole := s.arrive(1, "psk")
	eventually(t, "two links", func() bool { return s.metrics().Sum("replgate_links") == 2 })
	began := time.Now()
	s.gate.Signal(syscall.SIGTERM)
	if how, n, took := endOf(whole.near, playLimit); how != byFIN || n != 0 || took > 500*time.Millisecond {
		t.Errorf("got %s after %d bytes and %v at the link between frames, want a FIN at once", how, n, took)
	}
	whole.close()
	s.wantExit(exitDeadline, 2*time.Second)
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("got the end after %v, want the deadline of 1s waited for", took)
	}
	if seen := loggedEndings(s.gate); seen["drain"] != 1 || seen["drain_deadline"] != 1 {
		t.Errorf("got the endings %v, want one drain and one drain_deadline", seen)
	}
}

// TestSecondSignal comes in every kind of drain: the gate ends within a second,
// with 5 where a link was cut inside a frame and 0 where none was.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		extra string
		set   func(t *testing.T, s *stage)
		code  int
	}{
		"stuck in a frame":   {"", func(t *testing.T, s *stage) { stickInFrame(t, s.arrive(0, "psk"), 0) }, exitDeadline},
		"delayed, no link":   {"[timeouts]\ndrain_min_delay = \"20s\"\n", func(*testing.T, *stage) {}, exitOK},
		"delayed, idle link": {"[timeouts]\ndrain_min_delay = \"20s\"\n", idleLink, exitOK},
		"a refused dialer that stays": {"", func(t *testing.T, s *stage) {
			stickInFrame(t, s.arrive(0, "psk"), 0)
			c, err := s.send("", hello(200, true))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, make([]byte, wire.HeaderSize)); err != nil {
				t.Fatal(err)
			}
		}, exitDeadline},
		"a drained peer that stays": {"", func(t *testing.T, s *stage) {
			s.arrive(0, "psk")
			eventually(t, "a link", func() bool { return s.linksOf(0) == 1 })
		}, exitOK},
	}
	for name, c := range cases {
		for first := range stopSignals {
			t.Run(name+"/"+first, func(t *testing.T) {
				t.Parallel()
				s := raise(t, stageOptions{id: 1, replicas: 2, far: "psk", extra: c.extra})
				c.set(t, s)
				s.gate.Signal(stopSignals[first])
				if _, err := s.gate.Await(t.Context(), "msg", "draining"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond) // real time: the drain is under way
				s.gate.Signal(syscall.SIGTERM)
				s.wantExit(c.code, time.Second)
			})
		}
	}
}

// idleLink is a link whose ends behave.
func idleLink(t *testing.T, s *stage) {
	b := s.arrive(0, "psk")
	eventually(t, "a link", func() bool { return s.linksOf(0) == 1 })
	go endOnEnd(b.far)
	go endOnEnd(b.near)
}

// TestDrainMinDelay goes on as before for the delay, but says at once that it is
// no longer ready.
func TestDrainMinDelay(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 2, replicas: 3, far: "psk", extra: "[timeouts]\ndrain_min_delay = \"1500ms\"\n"})
	p := beatOn(t, s.arrive(0, "psk"), 0, 2)
	began := time.Now()
	s.gate.Signal(syscall.SIGTERM)
	eventually(t, "readyz to say no", func() bool {
		resp, err := http.Get("http://" + s.net.Metrics(2) + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusServiceUnavailable
	})
	late, err := s.tryArrive(caller{pair: mac.Pair{Dialer: 1, Acceptor: 2}, security: "psk"})
	if err != nil {
		t.Fatalf("a link during the delay: got %v, want one", err)
	}
	if _, err := late.far.Write(commit(1, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := late.near.ReadFrame(1 << 20); err != nil {
		t.Fatalf("a frame during the delay: got %v, want it", err)
	}
	time.Sleep(time.Second - time.Since(began)) // real time: the delay is what is tested
	p.end()
	if took := time.Since(began); took > 1400*time.Millisecond {
		t.Fatalf("the pulse took until %v after the signal, too long for this test", took)
	}
	for _, c := range []*replica.Conn{late.far, late.near, p.conns[0], p.conns[1]} {
		go endOnEnd(c)
	}
	s.wantExit(exitOK, 3*time.Second)
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("got the end after %v, want the delay of 1.5s", took)
	}
}

// TestSecondGate starts a gate twice by mistake: with the same file, and with one
// that shares only the replica port. The second says who holds it, exit 1, and the
// first does not notice (T18).
func TestSecondGate(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 1, replicas: 2, far: "psk"})
	p := beatOn(t, s.arrive(0, "psk"), 0, 1)
	text, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.toml")
	quiet := strings.ReplaceAll(string(text), `listen = "`+s.net.Metrics(1)+`"`, `listen = ""`)
	if err := os.WriteFile(other, []byte(quiet), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"the same file": s.path, "the replica port alone": other} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.Command(replgateBinary, "run", "--config", path).CombinedOutput()
			if code := exitOf(t, err); code != exitFailure {
				t.Errorf("got exit code %d, want %d", code, exitFailure)
			}
			if holder := fmt.Sprintf("process %d (replgate)", s.pid); !strings.Contains(string(out), holder) {
				t.Errorf("got %s, want %q in it", out, holder)
			}
		})
	}
	time.Sleep(4 * beat) // real time: the first gate goes on
	p.end()
}
