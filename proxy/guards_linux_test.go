package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
)

// The guards hold what makes a gate fast without a clock: what it asks of the
// kernel and of memory. `make bench` has the speeds.

// TestGuardSystemCalls: frames that come together leave together. Counted is the
// whole process, the two ends of the way too, which read and write 256 KiB at a
// time.
func TestGuardSystemCalls(t *testing.T) {
	const total, most = 64 << 20, 64
	for _, far := range []proxy.Security{proxy.Plaintext, proxy.TLS} {
		t.Run(string(far), func(t *testing.T) {
			from, to := pairOfGates(t, far)
			from.SetDeadline(time.Now().Add(patience))
			to.SetDeadline(time.Now().Add(patience))
			frame := messages(1, noise(600, 1))
			train := bytes.Repeat(frame, 256<<10/len(frame))
			before := systemCalls(t)
			var sending sync.WaitGroup
			sending.Go(func() {
				for sent := 0; sent < total; sent += len(train) {
					if _, err := from.Write(train); err != nil {
						t.Error(err)
					}
				}
				from.TCP.CloseWrite()
			})
			n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{to.TCP}, make([]byte, 256<<10))
			sending.Wait()
			if err != nil || n < total {
				t.Fatalf("got %d bytes and %v, want %d", n, err, total)
			}
			if each := (systemCalls(t) - before) / (n >> 20); each > most {
				t.Errorf("got %d reads and writes for each MiB through two gates, want at most %d", each, most)
			} else {
				t.Logf("%d reads and writes for each MiB", each)
			}
		})
	}
}

// systemCalls is how many reads and writes this process has made.
func systemCalls(t *testing.T) (n int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		// Without it nothing is counted here; CI has it.
		t.Skip(err)
	}
	for line := range strings.Lines(string(b)) {
		var calls int64
		if _, err := fmt.Sscanf(line, "syscr: %d", &calls); err == nil {
			n += calls
		}
		if _, err := fmt.Sscanf(line, "syscw: %d", &calls); err == nil {
			n += calls
		}
	}
	return n
}

// TestGuardIdleMemory: a link at rest holds little. Counted are heap and stacks of
// this process, in which both ends of each link live as well.
func TestGuardIdleMemory(t *testing.T) {
	const links = 40
	for far, most := range map[proxy.Security]uint64{proxy.Plaintext: 24 << 10, proxy.TLS: 48 << 10} {
		t.Run(string(far), func(t *testing.T) {
			g := start(t, spec{far: far, change: func(s *proxy.Settings) {
				s.Local, s.Replicas, s.Peers = links, links+1, nil
				for id := range uint8(links) {
					s.Peers = append(s.Peers, proxy.Peer{ID: id, Security: far})
				}
			}})
			open := func(id uint8) {
				pair := mac.Pair{Dialer: id, Acceptor: links}
				far, near := g.open(func(ctx context.Context) (*replica.Conn, error) {
					return g.dialing(pair, g.far).Dial(ctx, g.ingress())
				}, g.upstream, g.accepting(pair, proxy.Plaintext))
				frame := commit(id, 1)
				far.Write(frame)
				if _, err := io.ReadFull(near, frame); err != nil {
					t.Fatal(err)
				}
			}
			open(0)
			before := inUse()
			for id := range uint8(links - 1) {
				open(id + 1)
			}
			if each := (inUse() - before) / (links - 1); each > most {
				t.Errorf("got %d bytes for each link at rest, want at most %d", each, most)
			} else {
				t.Logf("%d bytes for each link at rest", each)
			}
		})
	}
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one only queued
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
