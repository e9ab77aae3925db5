package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// Who is told what in which order: nobody hears yes before the other side is
// proven.

// A psk or tls replica gets no Challenge before the far leg is proven; a
// plaintext one has nothing to wait for, and its bytes none to read them.
func TestLifetimeEgressOrder(t *testing.T) {
	for _, s := range []proxy.Security{proxy.PSK, proxy.TLS} {
		t.Run(string(s), func(t *testing.T) {
			g := start(t, spec{near: s, far: proxy.PSK})
			near := g.knock("egress")
			d := mac.NewDialer(g.outPair(), mac.Options{Cluster: cluster, Keys: secret, Binding: near.binding, Strict: true})
			first := d.Hello(nonce(7))
			send(t, near, first[:])

			far := g.dialed()
			a := mac.NewAcceptor(g.higher(), mac.Options{Cluster: cluster, Keys: secret, Strict: true})
			if err := a.Hello(readHeader(t, far)); err != nil {
				t.Fatal(err)
			}
			silent(t, near.tcp, 200*time.Millisecond, "the far leg is not proven yet")
			challenge := a.Challenge(nonce(9))
			send(t, far, challenge[:])
			if _, err := a.Finish(readHeader(t, far)); err != nil {
				t.Fatal(err)
			}
			finish, _, err := d.Challenge(readHeader(t, near))
			if err != nil {
				t.Fatal(err)
			}
			send(t, near, finish[:], commit(1, 5))
			receive(t, far, commit(1, 5))
		})
	}
}

// fastest is the least time that one of three tries takes: the machine under a
// test may be busy, the promise is the gate's.
func fastest(t *testing.T, try func(t *testing.T) time.Duration) time.Duration {
	t.Helper()
	var all []time.Duration
	for range 3 {
		all = append(all, try(t))
	}
	return slices.Min(all)
}

// A peer that cannot be reached resets the near leg within 200 ms, whatever it
// speaks: for a plaintext replica, which believes since connect, that is the only
// way to be told.
func TestLifetimeFarRefused(t *testing.T) {
	for _, s := range []proxy.Security{proxy.Plaintext, proxy.PSK, proxy.TLS} {
		t.Run(string(s), func(t *testing.T) {
			took := fastest(t, func(t *testing.T) time.Duration {
				g := start(t, spec{near: s, far: proxy.PSK})
				g.peers.Close()
				near := g.knock("egress")
				h := hello(1, nil)
				if s == proxy.Plaintext {
					h = hello(1, withoutNonce)
				}
				began := time.Now()
				send(t, near, h)
				if got, err := rest(near.tcp); len(got) != 0 || !isReset(err) {
					t.Errorf("got %d bytes and %v, want none and a reset", len(got), err)
				}
				took := time.Since(began)
				g.wantRefused("egress", "dial_refused")
				return took
			})
			if took > 200*time.Millisecond {
				t.Errorf("got a reset after %v, want one within 200ms", took)
			}
		})
	}
}

// A peer that takes the connection and closes it, as a native Iggy does that has
// one of ours: a plaintext leg is not proven before it has stayed.
func TestLifetimeFarClosesAtOnce(t *testing.T) {
	g := start(t, spec{})
	near := g.knock("egress")
	send(t, near, hello(1, withoutNonce), commit(1, 1))
	far := accept(t, g.peers)
	readHeader(t, far)
	far.CloseWrite()
	if got, err := rest(near); len(got) != 0 || !isReset(err) {
		t.Errorf("got %d bytes and %v, want none and a reset", len(got), err)
	}
	if got, _ := rest(far); len(got) != 0 {
		t.Errorf("got %d bytes behind the Hello, want none: the leg was not proven", len(got))
	}
	g.wantRefused("egress", "peer_eof")
}

// A silent peer costs a near leg prove_timeout and no more.
func TestLifetimeFarSilent(t *testing.T) {
	for _, s := range []proxy.Security{proxy.Plaintext, proxy.PSK, proxy.TLS} {
		t.Run(string(s), func(t *testing.T) {
			g := start(t, spec{near: s, far: proxy.PSK, change: func(s *proxy.Settings) { s.ProveTimeout = quarter }})
			near := g.knock("egress")
			h := hello(1, nil)
			if s == proxy.Plaintext {
				h = slices.Concat(hello(1, withoutNonce), commit(1, 1))
			}
			began := time.Now()
			send(t, near, h)
			far := accept(t, g.peers)
			if got, err := rest(near.tcp); len(got) != 0 || !isReset(err) {
				t.Errorf("got %d bytes and %v, want none and a reset", len(got), err)
			}
			wantTimely(t, began, quarter)
			if took := time.Since(began); took > quarter+time.Second {
				t.Errorf("got a reset after %v, want one soon after %v", took, quarter)
			}
			g.wantRefused("egress", "handshake_timeout")
			if got, _ := rest(far); len(got) != wire.HeaderSize {
				t.Errorf("got %d bytes at the silent peer, want a Hello", len(got))
			}
		})
	}
}

// What a plaintext replica says before the peer is proven stays unread: it fills
// the kernel's buffers and no more, and arrives whole once the peer is proven.
func TestLifetimePlaintextWaits(t *testing.T) {
	g := start(t, spec{far: proxy.PSK, change: func(s *proxy.Settings) { s.ProveTimeout = patience }})
	near := g.knock("egress")
	send(t, near, hello(1, withoutNonce))
	far := g.dialed()
	a := mac.NewAcceptor(g.higher(), mac.Options{Cluster: cluster, Keys: secret, Strict: true})
	if err := a.Hello(readHeader(t, far)); err != nil {
		t.Fatal(err)
	}
	near.tcp.SetWriteBuffer(64 << 10)
	say := stream(1, 16<<20, 1)
	near.tcp.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	n, err := near.tcp.Write(say)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("got %d bytes of %d taken (%v), want the buffers full and the rest waiting", n, len(say), err)
	}
	near.tcp.SetWriteDeadline(time.Now().Add(patience))
	silent(t, far, 50*time.Millisecond, "the near replica's bytes stay unread")
	challenge := a.Challenge(nonce(9))
	send(t, far, challenge[:])
	if _, err := a.Finish(readHeader(t, far)); err != nil {
		t.Fatal(err)
	}
	said := make(chan error, 1)
	go func() {
		_, err := near.tcp.Write(say[n:])
		said <- err
	}()
	receive(t, far, say)
	if err := <-said; err != nil {
		t.Fatal(err)
	}
}

// The local replica sees no connection before the peer has given its last proof.
func TestLifetimeIngressOrder(t *testing.T) {
	for _, s := range []proxy.Security{proxy.PSK, proxy.TLS} {
		t.Run(string(s), func(t *testing.T) {
			g := start(t, spec{far: s})
			far := g.knock("ingress")
			finish := g.challenged(far, secret)
			nobody(t, g.upstream, 200*time.Millisecond, "the peer has not proven itself yet")
			send(t, far, finish[:255])
			nobody(t, g.upstream, 100*time.Millisecond, "the peer has not proven itself yet")
			send(t, far, finish[255:])
			readHeader(t, accept(t, g.upstream))
		})
	}
	t.Run("plaintext", func(t *testing.T) {
		g := start(t, spec{})
		far := g.knock("ingress")
		nobody(t, g.upstream, 50*time.Millisecond, "there was no Hello yet")
		send(t, far, hello(0, withoutNonce))
		readHeader(t, accept(t, g.upstream))
	})
}

// A plaintext peer that goes as soon as it came reaches nobody.
func TestLifetimeIngressGone(t *testing.T) {
	g := start(t, spec{})
	far := g.knock("ingress")
	send(t, far, hello(0, withoutNonce))
	far.tcp.CloseWrite()
	g.wantRefused("ingress", "peer_eof")
	nobody(t, g.upstream, 50*time.Millisecond, "the peer was gone")
}

// A local replica that is down ends the proven peer's leg at once.
func TestLifetimeLocalDown(t *testing.T) {
	for _, s := range []proxy.Security{proxy.Plaintext, proxy.PSK, proxy.TLS} {
		t.Run(string(s), func(t *testing.T) {
			took := fastest(t, func(t *testing.T) time.Duration {
				g := start(t, spec{far: s})
				g.upstream.Close()
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				far, err := g.dialing(g.inPair(), g.far).Dial(ctx, g.ingress())
				if err != nil {
					t.Fatal(err)
				}
				bound(t, far.TCP)
				began := time.Now()
				ended(t, far.TCP)
				took := time.Since(began)
				g.wantClosed("local_down") // the peer was proven: the ending is counted as its
				return took
			})
			if took > 200*time.Millisecond {
				t.Errorf("got an end after %v, want one at once", took)
			}
		})
	}
}

// Frames that lie behind the last handshake frame in the very same packet are the
// first of the link.
func TestLifetimePipelined(t *testing.T) {
	say := slices.Concat(commit(0, 1), messages(2, noise(3000, 1)), messages(3, noise(3*storeLimit, 1)), commit(0, 4))
	for _, s := range []proxy.Security{proxy.Plaintext, proxy.PSK, proxy.TLS} {
		t.Run(fmt.Sprintf("ingress/%s", s), func(t *testing.T) {
			g := start(t, spec{far: s})
			far := g.knock("ingress")
			last := hello(0, withoutNonce)
			if s != proxy.Plaintext {
				finish := g.challenged(far, secret)
				last = finish[:]
			}
			send(t, far, last, say)
			near := accept(t, g.upstream)
			first := wire.NewHello(cluster, 0, nil)
			receive(t, near, first[:], say)
		})
		t.Run(fmt.Sprintf("egress/%s", s), func(t *testing.T) {
			g := start(t, spec{near: s})
			near := g.knock("egress")
			if s == proxy.Plaintext {
				send(t, near, hello(1, withoutNonce), say)
			} else {
				d := mac.NewDialer(g.outPair(), mac.Options{Cluster: cluster, Keys: secret, Binding: near.binding, Strict: true})
				first := d.Hello(nonce(7))
				send(t, near, first[:])
				finish, _, err := d.Challenge(readHeader(t, near))
				if err != nil {
					t.Fatal(err)
				}
				send(t, near, finish[:], say)
			}
			far := accept(t, g.peers)
			first := wire.NewHello(cluster, 1, nil)
			// Prepares keep their builder's id; Commits of replica 0 are not the
			// local replica's, so they are dropped here.
			want := slices.Concat(messages(2, noise(3000, 1)), messages(3, noise(3*storeLimit, 1)))
			receive(t, far, first[:], want)
		})
	}
}

// The acceptor may be faster too: what lies behind its Challenge, or comes to a
// plaintext dialer at once, is kept.
func TestLifetimePipelinedByAcceptor(t *testing.T) {
	for _, s := range []proxy.Security{proxy.Plaintext, proxy.PSK} {
		t.Run(string(s), func(t *testing.T) {
			g := start(t, spec{far: s})
			near := g.knock("egress")
			send(t, near, hello(1, withoutNonce))
			far := g.dialed()
			first := readHeader(t, far)
			var challenge wire.Header
			if s == proxy.PSK {
				a := mac.NewAcceptor(g.higher(), mac.Options{Cluster: cluster, Keys: secret, Strict: true})
				if err := a.Hello(first); err != nil {
					t.Fatal(err)
				}
				challenge = a.Challenge(nonce(9))
				send(t, far, challenge[:], commit(2, 7))
			} else {
				send(t, far, commit(2, 7))
			}
			receive(t, near, commit(2, 7))
		})
	}
}
