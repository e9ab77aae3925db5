package probe_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/replgate/replgate/probe"
	"github.com/replgate/replgate/wire"
)

// The ClientHello carries the mark where a gate looks for it, and the size of no
// frame where a plaintext replica does (Appendix B); what else is random is. The
// Hello that follows carries the mark in its nonce. Both rest on the order in
// which crypto/tls asks for random bytes.
func TestMarks(t *testing.T) {
	var mu sync.Mutex
	var firsts [][]byte
	address := serve(t, func(c *net.TCPConn) {
		b := make([]byte, wire.HeaderSize)
		if _, err := io.ReadFull(c, b); err == nil {
			mu.Lock()
			firsts = append(firsts, b)
			mu.Unlock()
		}
	})
	for range 2 {
		probe.Run(t.Context(), options(t, address))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(firsts) != 4 {
		t.Fatalf("got %d connections with a first frame, want two for each probe", len(firsts))
	}
	for i, b := range firsts {
		hello := (*wire.Header)(b)
		if i%2 == 1 {
			if !hello.IsProbe() || hello.Command() != wire.ReplicaHello || wire.Replica.Get(hello) != 255 {
				t.Errorf("got the first frame %x, want a marked Hello of replica 255", b)
			}
			continue
		}
		if size := wire.Size.Get(hello); b[0] != 0x16 || !wire.IsProbeHello(b) || size != 0xFFFFFFFF {
			t.Errorf("got a ClientHello with %q and size %#x, want the mark and no frame's size", b[11:26], size)
		}
	}
	// What follows the mark differs: random, session id, both nonces.
	for _, at := range []struct{ hello, from, to int }{{0, 26, 43}, {0, 44, 48}, {0, 52, 76}, {1, 147, 160}} {
		if a, b := firsts[at.hello][at.from:at.to], firsts[at.hello+2][at.from:at.to]; bytes.Equal(a, b) {
			t.Errorf("got %x twice at %d..%d, want random bytes", a, at.from, at.to)
		}
	}
	if got := string(firsts[1][128:147]); got != wire.ProbeMark+"\r\n\r\n" || strings.Contains(got, "\x00") {
		t.Errorf("got a nonce that begins with %q", got)
	}
}
