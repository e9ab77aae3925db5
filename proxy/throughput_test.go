package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
)

// BenchmarkForward carries SendMessages prepares through one gate, 256 KiB a
// write: out of a plaintext leg into a far one (originate), and the other way
// (terminate). The other end of a TLS leg is stock crypto/tls.
func BenchmarkForward(b *testing.B) {
	for _, far := range []proxy.Security{proxy.Plaintext, proxy.TLS} {
		for _, way := range []string{"originate", "terminate"} {
			for _, payload := range []int{600, 16 << 10} {
				b.Run(fmt.Sprintf("%s/%s/%d", far, way, payload), func(b *testing.B) {
					g := start(b, spec{far: far})
					pair := g.openEgress()
					from, to := pair.near, pair.far
					if way == "terminate" {
						pair = g.openIngress()
						from, to = pair.far, pair.near
					}
					carry(b, from, to, payload)
				})
			}
		}
	}
}

// BenchmarkPair carries the same through two gates with TLS between them, where
// both ends of the TLS leg are ours.
func BenchmarkPair(b *testing.B) {
	for _, payload := range []int{600, 16 << 10} {
		b.Run(fmt.Sprint(payload), func(b *testing.B) {
			from, to := pairOfGates(b, proxy.TLS)
			carry(b, from, to, payload)
		})
	}
}

// pairOfGates is a way through two gates with far between them, entered and left
// in plaintext.
func pairOfGates(t testing.TB, far proxy.Security) (from, to *replica.Conn) {
	t.Helper()
	in := start(t, spec{far: far})
	out := start(t, spec{first: true, far: far, change: func(s *proxy.Settings) {
		if far == proxy.TLS {
			s.Credentials = credentials{in.certs}
		}
		for i := range s.Peers {
			s.Peers[i].Address = in.ingress()
		}
	}})
	link := mac.Pair{Dialer: 0, Acceptor: 1}
	dial := func(ctx context.Context) (*replica.Conn, error) {
		return out.dialing(link, proxy.Plaintext).Dial(ctx, out.egress())
	}
	return out.open(dial, in.upstream, in.accepting(link, proxy.Plaintext))
}

// carry writes trains of frames with the given payload into from while the
// benchmark goes on, and reads them all from to.
func carry(b *testing.B, from, to *replica.Conn, payload int) {
	from.SetDeadline(time.Time{})
	to.SetDeadline(time.Time{})
	frame := messages(1, noise(payload, 1))
	train := bytes.Repeat(frame, 256<<10/len(frame))
	b.SetBytes(int64(len(train)))
	b.ReportAllocs()
	said := make(chan int, 1)
	go func() {
		n := 0
		for b.Loop() {
			from.Write(train)
			n++
		}
		from.TCP.CloseWrite()
		said <- n
	}()
	heard, _ := io.Copy(io.Discard, to)
	if n := <-said; heard < int64(n)*int64(len(train)) {
		b.Fatalf("got %d bytes of %d", heard, int64(n)*int64(len(train)))
	}
}
