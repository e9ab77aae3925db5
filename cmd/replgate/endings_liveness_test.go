//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// silence reads for a while and wants nothing: no byte and no end.
func silence(c *replica.Conn, for_ time.Duration) error {
	c.TCP.SetReadDeadline(time.Now().Add(for_))
	defer c.TCP.SetReadDeadline(time.Time{})
	n, err := c.TCP.Read(make([]byte, 1))
	if timeout, ok := errors.AsType[net.Error](err); n == 0 && ok && timeout.Timeout() {
		return nil
	}
	return fmt.Errorf("got %d bytes and %v, want silence for %v", n, err, for_)
}

// TestNearIsToldNothingBeforeFarIsProven lets the far side take its time over its
// proof: a psk replica gets no Challenge meanwhile, and then at once.
func TestNearIsToldNothingBeforeFarIsProven(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 0, replicas: 2, far: "psk", near: "psk", noLocal: true})
	ln := s.listenAs(1)
	tcp, err := (caller{}).connect(s.egressAddr(1))
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	d := mac.NewDialer(mac.Pair{Dialer: 0, Acceptor: 1}, mac.Options{Cluster: stageCluster, Keys: s.keys, Strict: true})
	first := d.Hello([wire.NonceSize]byte{1})
	if _, err := tcp.Write(first[:]); err != nil {
		t.Fatal(err)
	}
	near := &replica.Conn{Conn: tcp, TCP: tcp}
	if err := silence(near, 700*time.Millisecond); err != nil { // the peer has not even taken the connection
		t.Fatalf("before the far side is proven: %v", err)
	}
	if n := s.linksOf(1); n != 0 {
		t.Errorf("got %d links before the far side is proven, want none", n)
	}
	far, err := s.greet(ln, 1, "psk")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	tcp.SetReadDeadline(time.Now().Add(200*time.Millisecond + endSlack))
	challenge := new(wire.Header)
	if _, err := io.ReadFull(tcp, challenge[:]); err != nil {
		t.Fatalf("got %v after the far side was proven, want a Challenge at once", err)
	}
	finish, _, err := d.Challenge(challenge)
	if err != nil {
		t.Fatal(err)
	}
	tcp.Write(finish[:])
	eventually(t, "a link", func() bool { return s.linksOf(1) == 1 })
}

// TestFarThatProvesNothing takes the connection and is silent: the near leg is
// reset at prove_timeout, and not a byte of its was read until then.
func TestFarThatProvesNothing(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 0, replicas: 2, far: "psk", noLocal: true})
	ln := s.listenAs(1)
	near, err := s.ring(caller{pair: mac.Pair{Dialer: 0, Acceptor: 1}, security: "plaintext"}, s.egressAddr(1))
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	began := time.Now()
	if _, err := near.Write(commit(0, 1)); err != nil {
		t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	how, n, _ := endOf(near, playLimit)
	took := time.Since(began)
	if how != byReset || n != 0 || took < 1900*time.Millisecond || took > 2200*time.Millisecond+endSlack {
		t.Errorf("got %s after %d bytes and %v at the near leg, want RST after the 2s that a proof may take", how, n, took)
	}
	far.SetReadDeadline(time.Now().Add(time.Second))
	if got, _ := io.ReadAll(far); len(got) != wire.HeaderSize {
		t.Errorf("got %d bytes at a far side that proved nothing, want the Hello alone", len(got))
	}
	eventually(t, "handshake_timeout", func() bool { return s.closedBy("handshake_timeout") == 1 })
}

// TestWholeFramesBeforeAnEndArrive says many frames and ends at once, at a
// boundary and inside a frame: what was whole arrives, nothing else does, and then
// the end, within half a second.
func TestWholeFramesBeforeAnEndArrive(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 1, replicas: 2, far: "tls"})
	for _, c := range []struct {
		name string
		part int // bytes of one frame more
	}{{"between frames", 0}, {"inside a header", 100}, {"inside a body", 5000}} {
		for _, inward := range []bool{true, false} {
			eventually(t, "the last link to be gone", func() bool { return s.linksOf(0) == 0 })
			b := s.arrive(0, "tls")
			from, to, id := b.far, b.near, uint8(0)
			if !inward {
				from, to, id = b.near, b.far, 1
			}
			var said []byte
			for i := range 200 {
				said = append(said, offset(id, uint64(i+1), make([]byte, 10_000))...)
			}
			part := offset(id, 201, make([]byte, 10_000))[:c.part]
			if _, err := from.Write(append(said[:len(said):len(said)], part...)); err != nil {
				t.Fatal(err)
			}
			if err := closeWrite(from); err != nil {
				t.Fatal(err)
			}
			how, n, took := endOf(to, playLimit)
			if how != byFIN || n != int64(len(said)) || took > finPassed {
				t.Errorf("%s, inward %v: got %s after %d bytes and %v, want a FIN after %d within 500ms", c.name, inward, how, n, took, len(said))
			}
			b.close()
		}
	}
}

// closeWrite ends a connection's sending half, under TLS with its notice.
func closeWrite(c *replica.Conn) error {
	if t, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.Conn != net.Conn(c.TCP) {
		if err := t.CloseWrite(); err != nil {
			return err
		}
	}
	return c.TCP.CloseWrite()
}

// TestGateThatIsKilled kills one of two gates: the near leg at the other ends
// within half a second.
func TestGateThatIsKilled(t *testing.T) {
	t.Parallel()
	for _, far := range []string{"plaintext", "tls"} {
		c, err := lab.NewCluster(lab.Options{Binary: replgateBinary, Dir: t.TempDir(), Replicas: 2, Near: "plaintext", Far: far, Secret: secretOne})
		t.Cleanup(func() { c.Stop() })
		if err != nil {
			t.Fatal(err)
		}
		dialer, acceptor, err := c.Connect(t.Context(), mac.Pair{Dialer: 0, Acceptor: 1})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "a link through both gates", func() bool {
			n, err := c.Links(mac.Pair{Dialer: 0, Acceptor: 1})
			return err == nil && n == 2
		})
		c.Gates[1].Signal(os.Kill)
		if how, _, took := endOf(dialer, playLimit); how == byTime || took > 500*time.Millisecond+endSlack {
			t.Errorf("%s: got %s after %v at the near leg of the other gate, want an end within 500ms", far, how, took)
		}
		dialer.Close()
		acceptor.Close()
	}
}

// TestUnprovenNewcomersCostNothing lets newcomers try what they can without a
// proof: the link that is there carries on without a frame's delay (T25).
func TestUnprovenNewcomersCostNothing(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 1, replicas: 2, far: "tls"})
	p := beatOn(t, s.arrive(0, "tls"), 0, 1)
	wrong, err := mac.NewKeyring([]byte("another secret of more than 32 bytes"), nil)
	if err != nil {
		t.Fatal(err)
	}
	pair := mac.Pair{Dialer: 0, Acceptor: 1}
	for i, began := 0, time.Now(); time.Since(began) < 1500*time.Millisecond && i < 50; i++ { // fewer than limits.handshakes
		source := fmt.Sprintf("127.4.5.%d", 1+i%250)
		if _, err := s.ring(caller{pair: pair, security: "tls", keys: wrong, source: source}, s.ingressAddr()); err == nil {
			t.Error("got a proof with a wrong secret, want none")
		}
		if _, err := s.ring(caller{pair: pair, security: "psk", source: source}, s.ingressAddr()); err == nil {
			t.Error("got a psk link where TLS is required, want none")
		}
		if c, err := s.ring(caller{pair: pair, security: "plaintext", source: source}, s.ingressAddr()); err == nil {
			c.Close()
		}
		helloOnly(t, s, source)
	}
	p.end()
	if p.worst > 3*beat+endSlack {
		t.Errorf("got a silence of %v on the link, want no delay by the unproven", p.worst)
	}
	if n := s.closedBy("superseded") + s.closedBy("duplicate_identity"); n != 0 || s.linksOf(0) != 1 {
		t.Errorf("got %d displacements and %d links, want none and one", n, s.linksOf(0))
	}
}

// helloOnly proves TLS and says a Hello, and never a Finish.
func helloOnly(t *testing.T, s *stage, source string) {
	t.Helper()
	tcp, err := caller{source: source}.connect(s.ingressAddr())
	if err != nil {
		t.Fatal(err)
	}
	c := &replica.Conn{Conn: tcp, TCP: tcp}
	t.Cleanup(func() { tcp.Close() })
	tcp.SetDeadline(time.Now().Add(playLimit))
	secured, err := replicaTLS(s, tcp)
	if err != nil {
		t.Fatal(err)
	}
	c.Conn = secured
	if _, err := c.Write(hello(0, true)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, wire.HeaderSize)); err != nil {
		t.Fatalf("got %v, want a Challenge", err)
	}
}

// TestOptionsOfLegs reads the options of the gate's own sockets: TCP_NODELAY on
// all; keepalive and TCP_USER_TIMEOUT on far legs and nowhere else.
func TestOptionsOfLegs(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 1, replicas: 3, far: "psk"})
	in := s.arrive(0, "psk")
	out := s.leaveFor(2, s.listenAs(2), "psk")
	eventually(t, "two links", func() bool { return s.metrics().Sum("replgate_links") == 2 })
	for _, leg := range []struct {
		name string
		end  *replica.Conn
		far  bool
	}{{"ingress far", in.far, true}, {"ingress near", in.near, false}, {"egress far", out.far, true}, {"egress near", out.near, false}} {
		fd, err := socketOf(s.pid, leg.end.TCP.LocalAddr().String())
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			// The kernel lends out another process's sockets only to those who may trace it.
			t.Skipf("no right to look at the gate's sockets: %v", err)
		}
		if err != nil {
			t.Fatalf("%s: %v", leg.name, err)
		}
		want := map[string]int{"TCP_NODELAY": 1, "SO_KEEPALIVE": 0, "TCP_USER_TIMEOUT": 0}
		if leg.far {
			want["SO_KEEPALIVE"], want["TCP_USER_TIMEOUT"] = 1, 4000
		}
		for option, at := range map[string][2]int{"TCP_NODELAY": {unix.IPPROTO_TCP, unix.TCP_NODELAY},
			"SO_KEEPALIVE": {unix.SOL_SOCKET, unix.SO_KEEPALIVE}, "TCP_USER_TIMEOUT": {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT}} {
			got, err := unix.GetsockoptInt(fd, at[0], at[1])
			if err != nil || got != want[option] {
				t.Errorf("%s: got %s = %d and %v, want %d", leg.name, option, got, err, want[option])
			}
		}
		unix.Close(fd)
	}
}

// socketOf borrows the socket of a process that is connected to an address.
func socketOf(pid int, peer string) (int, error) {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(handle)
	for n := range 256 {
		fd, err := unix.PidfdGetfd(handle, n, 0)
		if errors.Is(err, unix.EBADF) {
			continue
		}
		if err != nil {
			return -1, err
		}
		if name, err := unix.Getpeername(fd); err == nil {
			if a, ok := name.(*unix.SockaddrInet4); ok && fmt.Sprintf("%s:%d", net.IP(a.Addr[:]), a.Port) == peer {
				return fd, nil
			}
			if a, ok := name.(*unix.SockaddrInet6); ok && fmt.Sprintf("%s:%d", strings.TrimPrefix(net.IP(a.Addr[:]).String(), "::ffff:"), a.Port) == peer {
				return fd, nil
			}
		}
		unix.Close(fd)
	}
	return -1, fmt.Errorf("got no socket of process %d that is connected to %s, want one", pid, peer)
}

// TestIdleLinkLives says nothing for longer than any timeout of a handshake, a
// write or the network, and then something: the link is there. Soak is silent for
// ten minutes (T27 in real time; a day of it is the bubble's).
func TestIdleLinkLives(t *testing.T) {
	t.Parallel()
	idle := 12 * time.Second
	if soaking() {
		idle = 10 * time.Minute
	}
	s := raise(t, stageOptions{id: 1, replicas: 3, far: "tls"})
	in, out := s.arrive(0, "tls"), s.leaveFor(2, s.listenAs(2), "tls")
	time.Sleep(idle) // real time: silence is what is tested
	beatIn, beatOut := beatOn(t, in, 0, 1), beatOn(t, out, 2, 1)
	time.Sleep(4 * beat) // real time: a few frames each way
	beatIn.end()
	beatOut.end()
	if n := s.metrics().Sum("replgate_links_closed_total"); n != 0 {
		t.Errorf("got %v connections ended, want none", n)
	}
}
