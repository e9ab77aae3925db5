package proxy_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// A direction that has been silent for longer than a frame may take, and then a
// frame that needs more than one read: the silence is nobody's fault (T27, T37).
func TestTrapIdleThenALargeFrame(t *testing.T) {
	t.Parallel()
	g := start(t, spec{})
	e := g.openIngress()
	time.Sleep(6 * time.Second) // real time: more than the grace of a frame, on real sockets
	frame := messages(1, noise(20_000, 1))
	send(t, e.near.TCP, frame)
	receive(t, e.far.TCP, frame)
	hangUp(e.near, e.far)
}

// chained is a metadata prepare of replica 0.
func chained(op uint64, parent wire.U128, body int) []byte {
	h := prepareOf(op, 128, wire.MetadataGroup)
	wire.PrepareParent.Set(&h, parent)
	return seal(h, noise(body, op), true)
}

// A prepare whose header comes before the honest one that it contradicts, and whose
// body comes after it, over another link: it is held against the chain again, in
// one step with being remembered (§2.6 c).
func TestTrapChainWhileABodyComes(t *testing.T) {
	for _, size := range []int{1000, 200_000} {
		g := start(t, spec{})
		honest, forger := g.openIngress(), g.openEgress()
		one := chained(1, wire.U128{}, 100)
		send(t, honest.far.TCP, one)
		receive(t, honest.near.TCP, one)
		bad := chained(3, wire.U128{Lo: 0xbad}, size)
		send(t, forger.far.TCP, bad[:wire.HeaderSize])
		time.Sleep(100 * time.Millisecond) // real time: its header is to be judged first
		two := chained(2, wire.Checksum.Get((*wire.Header)(one)), 100)
		send(t, honest.far.TCP, two)
		receive(t, honest.near.TCP, two)
		send(t, forger.far.TCP, bad[wire.HeaderSize:])
		forger.near.TCP.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		if n, err := io.ReadFull(forger.near.TCP, make([]byte, len(bad))); err == nil {
			t.Errorf("got all %d bytes of a prepare that breaks the chain at the replica, want it refused", n)
		}
		g.wantRejected("in metadata_chain drop")
		hangUp(honest.near, honest.far, forger.near, forger.far)
	}
}

// A stranger at the local replica's own entrance, who knows no secret: the link of
// the proven replica goes on (T25). Its far leg must not be dialed for anybody else,
// because the peer's gate would take that for a newer session.
func TestTrapUnprovenNewcomerOnEgress(t *testing.T) {
	link := mac.Pair{Dialer: 0, Acceptor: 1}
	b := start(t, spec{far: proxy.PSK})
	a := start(t, spec{first: true, near: proxy.PSK, far: proxy.PSK, change: func(s *proxy.Settings) {
		for i := range s.Peers {
			s.Peers[i].Address = b.ingress()
		}
	}})
	dial := func(ctx context.Context) (*replica.Conn, error) {
		return a.dialing(link, proxy.PSK).Dial(ctx, a.egress())
	}
	dialed, accepted := a.open(dial, b.upstream, b.accepting(link, proxy.Plaintext))
	stranger := raw(t, a.egress())
	n := nonce(7)
	h := wire.NewHello(cluster, 0, n[:])
	send(t, stranger, h[:])
	challenge := new(wire.Header)
	if _, err := io.ReadFull(stranger, challenge[:]); err != nil || challenge.Command() != wire.ReplicaChallenge {
		t.Fatalf("got %v, want a Challenge: the newcomer is to prove itself first", err)
	}
	send(t, dialed, commit(0, 1))
	receive(t, accepted, commit(0, 1))
	if b.links() != 1 || a.links() != 1 {
		t.Errorf("got %d and %d links, want the one that is proven", a.links(), b.links())
	}
	stranger.Close()
	hangUp(dialed, accepted)
}

// A ClientHello that goes on in further records is not gathered: 4 KiB is what a
// stranger may cost.
func TestTrapFragmentedClientHello(t *testing.T) {
	g := start(t, spec{far: proxy.TLS})
	c := raw(t, g.ingress())
	const claimed = 40 << 10
	first := append([]byte{0x16, 3, 1, 0, 0, 1, 0, claimed >> 8, 0, 3, 3}, make([]byte, 990)...)
	binary.BigEndian.PutUint16(first[3:], uint16(len(first)-5))
	send(t, c, first)
	g.wantRefused("ingress", "tls_alert")
}

// A reset goes on at once, also when the other direction is inside a frame, and
// when what the peer had sent waits for a reader that does not read (T22).
func TestTrapResetGoesOn(t *testing.T) {
	t.Run("inside a frame", func(t *testing.T) {
		took := fastest(t, func(t *testing.T) time.Duration {
			g := start(t, spec{})
			e := g.openIngress()
			send(t, e.near.TCP, commit(g.local, 1)[:100])
			time.Sleep(50 * time.Millisecond) // real time: the part is to be read first
			began := time.Now()
			reset(e.far.TCP)
			e.near.TCP.SetReadDeadline(time.Now().Add(patience))
			e.near.TCP.Read(make([]byte, 1))
			took := time.Since(began)
			g.wantClosed("peer_reset")
			hangUp(e.near)
			return took
		})
		if took > 100*time.Millisecond {
			t.Errorf("got the reset after %v, want it within 100 ms", took)
		}
	})
	t.Run("behind a reader that does not read", func(t *testing.T) {
		g := start(t, spec{})
		e := g.openIngress()
		e.far.TCP.SetWriteDeadline(time.Now().Add(time.Second))
		for op := uint64(1); ; op++ {
			if _, err := e.far.TCP.Write(offset(op, noise(30_000, op))); err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatal(err)
				}
				break
			}
		}
		began := time.Now()
		reset(e.far.TCP)
		g.wantClosed("peer_reset")
		if took := time.Since(began); took > time.Second {
			t.Errorf("got the end after %v, want it long before write_stall", took)
		}
		hangUp(e.near)
	})
}

// A peer that comes back at once, while its last link is still closing, is let in:
// nobody holds the id, so nobody is displaced.
func TestTrapRedialWhileALinkCloses(t *testing.T) {
	g := start(t, spec{far: proxy.PSK})
	for i := range 4 {
		e := g.openIngress()
		send(t, e.far.TCP, commit(0, uint64(i+1)))
		receive(t, e.near.TCP, commit(0, uint64(i+1)))
		e.far.TCP.Close()
		go func() {
			io.Copy(io.Discard, e.near.TCP)
			time.Sleep(30 * time.Millisecond) // real time: a replica's own teardown
			e.near.TCP.Close()
		}()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.refused) != 0 {
		t.Errorf("got refusals %q, want every session let in", g.refused)
	}
}
