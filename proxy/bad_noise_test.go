package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// opening draws what a stranger might begin with: noise, noise behind the first
// bytes of something known, and an honest beginning that goes wrong somewhere.
func opening(r *rand.Rand) []byte {
	b := make([]byte, 1+r.IntN(700))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	switch r.IntN(5) {
	case 0: // a TLS record, often a short one
		copy(b, []byte{0x16, 0x03, byte(r.IntN(4)), byte(r.IntN(2)), byte(r.IntN(256))})
	case 1: // records without content
		for i := 0; i+5 <= len(b); i += 5 {
			copy(b[i:], []byte{0x16, 0x03, 0x01, 0, 0})
		}
	case 2: // any command, of any size
		h := header(wire.Command(r.IntN(40)), uint8(r.IntN(4)))
		wire.Size.Set(&h, uint32(r.IntN(600)))
		copy(b, h[:])
	case 3: // a Hello with one byte changed
		h := hello(0, nil)
		h[r.IntN(len(h))] ^= byte(1 + r.IntN(255))
		b = h[:1+r.IntN(len(h))]
	}
	return b
}

// Whatever a stranger says and wherever it stops, it is refused once, with one
// ending, and costs the gate nothing but that. The seed is fixed: a fault found
// stays found.
func TestBadNoise(t *testing.T) {
	for i, s := range []proxy.Security{proxy.PSK, proxy.TLS} {
		for j, direction := range []string{"ingress", "egress"} {
			t.Run(fmt.Sprintf("%s/%s", s, direction), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{near: s, far: s, change: func(s *proxy.Settings) { s.ProveTimeout = quarter }})
				r := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				g.peers.Close() // who passes by chance gets no further on egress
				for n := range 150 {
					b := opening(r)
					c := raw(t, g.entrance(direction))
					c.Write(b) // may fail: the gate does not wait for all of it
					c.CloseWrite()
					rest(c)
					g.await(fmt.Sprintf("refusal of % x", b[:min(len(b), 64)]), func() bool { return len(g.refused) == n+1 })
				}
				g.await("nobody in handshake", func() bool { return g.inflight == 0 })
				if n := g.links(); n != 0 {
					t.Errorf("got %d links, want none", n)
				}
			})
		}
	}
}
