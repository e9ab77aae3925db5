//go:build linux

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// residentMemory is what a process holds, in bytes.
func residentMemory(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// The bound on what strangers cost: sixty-four handshakes of 52 KiB are 3.4 MB;
// the rest is the runtime's.
const strangersMemory = 40 << 20

// TestStrangersKeepNobodyOut fills the gate with connections that get nowhere,
// from many addresses and from one, also a known peer's own: the peers that are
// known connect and exchange a frame within a second, and memory stays flat (T36).
// The normal run has two thousand strangers, soak ten thousand.
func TestStrangersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	strangers := 500
	if soaking() {
		strangers = 2500
	}
	s := raise(t, stageOptions{id: 2, replicas: 3, far: "tls", extra: "[[peers]]\nreplica_id = 0\nsecurity = \"psk\"\n"})
	clientHello := firstFlight(s.certs.Client(lab.ServerName))
	before := residentMemory(t, s.pid)
	for _, c := range []struct {
		name    string
		sources int
		says    []byte
	}{
		{"silent/200 addresses", 200, nil},
		{"silent/one address", 1, nil},
		{"part of a ClientHello/200 addresses", 200, clientHello[:len(clientHello)-1]},
		{"part of a Hello/200 addresses", 200, hello(0, true)[:255]},
		{"a ClientHello and no more/200 addresses", 200, clientHello},
		{"a Hello and no more/200 addresses", 200, hello(0, true)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []net.Conn
			for i := range strangers {
				source := fmt.Sprintf("127.0.9.%d", 1+i%c.sources)
				conn, err := caller{source: source}.connect(s.ingressAddr())
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, conn)
				conn.Write(c.says)
			}
			time.Sleep(500 * time.Millisecond) // real time: what they said is to be read, and the places are taken
			for _, source := range []string{"127.0.0.1", "127.0.9.1"} {
				for id, security := range []string{"psk", "tls"} {
					if err := s.knownPeer(uint8(id), security, source, time.Second); err != nil {
						t.Errorf("a known peer from %s: %v", source, err)
					}
				}
			}
			for _, conn := range all {
				conn.Close()
			}
			eventually(t, "the strangers to be gone", func() bool { return s.metrics().Sum("replgate_unauthenticated_inflight") == 0 })
		})
	}
	if s.closedBy("unauth_limit") == 0 {
		t.Error("got no connection closed by unauth_limit, want the strangers'")
	}
	if grown := residentMemory(t, s.pid) - before; grown > strangersMemory {
		t.Errorf("got %d MiB more after the strangers, want at most %d MiB", grown>>20, strangersMemory>>20)
	}
}

// redial is how soon a replica tries again.
const redial = 100 * time.Millisecond

// knownPeer connects, dialing again as a replica does, says a frame and ends, all
// within a time.
func (s *stage) knownPeer(id uint8, security, source string, within time.Duration) error {
	began := time.Now()
	b, err := s.tryArrive(caller{pair: mac.Pair{Dialer: id, Acceptor: uint8(s.id)}, security: security, source: source})
	for err != nil && time.Since(began) < within {
		time.Sleep(redial) // real time: a dialer's own pace
		b, err = s.tryArrive(caller{pair: mac.Pair{Dialer: id, Acceptor: uint8(s.id)}, security: security, source: source})
	}
	if err != nil {
		return fmt.Errorf("replica %d, %s, after %v: %w", id, security, time.Since(began), err)
	}
	defer b.close()
	if _, err := b.far.Write(commit(id, 1)); err != nil {
		return err
	}
	b.near.TCP.SetReadDeadline(began.Add(playLimit))
	if _, err := b.near.ReadFrame(1 << 20); err != nil {
		return err
	}
	if took := time.Since(began); took > within {
		return fmt.Errorf("replica %d, %s: got a frame through after %v, want at most %v", id, security, took, within)
	}
	b.close()
	eventually(s.t, "the known peer's link to be gone", func() bool { return s.linksOf(id) == 0 })
	return nil
}

// flightTaker takes what a TLS client says first, and answers nothing.
type flightTaker struct {
	net.Conn
	took []byte
}

func (f *flightTaker) Write(b []byte) (int, error) { f.took = append(f.took, b...); return len(b), nil }
func (f *flightTaker) Read([]byte) (int, error)    { return 0, io.EOF }
func (f *flightTaker) Close() error                { return nil }

func firstFlight(config *tls.Config) []byte {
	f := new(flightTaker)
	if err := tls.Client(f, config).Handshake(); !errors.Is(err, io.EOF) {
		panic(fmt.Sprintf("got %v from a handshake with nobody, want EOF", err))
	}
	return f.took
}

// helloOfSize is a configuration whose ClientHello, with a post-quantum key share,
// has exactly n bytes.
func helloOfSize(t *testing.T, s *stage, n int) *tls.Config {
	t.Helper()
	config := s.certs.Client(lab.ServerName)
	config.NextProtos = []string{certs.ALPN}
	for missing := n - len(firstFlight(config)); missing > 0; missing = n - len(firstFlight(config)) {
		// A name has a byte of length before it; one of a few bytes is left for the end.
		length := min(missing-1, 200)
		if rest := missing - 1 - length; rest > 0 && rest < 2 {
			length -= 10
		}
		config.NextProtos = append(config.NextProtos, fmt.Sprintf("%0*d", length, len(config.NextProtos)))
	}
	if got := len(firstFlight(config)); got != n {
		t.Fatalf("got a ClientHello of %d bytes, want %d", got, n)
	}
	return config
}

// split writes the first n bytes of a connection as a segment of their own.
type split struct {
	net.Conn
	n int
}

func (s *split) Write(b []byte) (int, error) {
	if s.n == 0 || s.n >= len(b) {
		return s.Conn.Write(b)
	}
	n, err := s.Conn.Write(b[:s.n])
	if err != nil {
		return n, err
	}
	time.Sleep(30 * time.Millisecond) // real time: the first segment is to arrive alone
	m, err := s.Conn.Write(b[s.n:])
	s.n = 0
	return n + m, err
}

// TestClientHelloSizes takes a ClientHello up to 4 KiB, however it is cut, and not
// a byte more (T38, T60).
func TestClientHelloSizes(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 1, replicas: 2, far: "tls"})
	if n := len(firstFlight(s.certs.Client(lab.ServerName))); n < 1300 {
		t.Fatalf("got a ClientHello of %d bytes, want one with a post-quantum key share", n)
	}
	const most = 4 << 10
	for _, c := range []struct{ size, cut int }{{0, 0}, {0, 1}, {0, 5}, {0, 700}, {most, 0}, {most, 3}, {most, 4095}, {most - 1, 1460}, {most + 1, 0}, {most + 1, 1460}, {most * 3, 0}} {
		config := s.certs.Client(lab.ServerName)
		if c.size > 0 {
			config = helloOfSize(t, s, c.size)
		}
		refused := s.closedBy("tls_alert")
		tcp, err := (caller{}).connect(s.ingressAddr())
		if err != nil {
			t.Fatal(err)
		}
		tcp.SetDeadline(time.Now().Add(playLimit))
		client := tls.Client(&split{tcp, c.cut}, config)
		err = client.Handshake()
		if ok := c.size <= most; (err == nil) != ok {
			t.Errorf("%d bytes cut at %d: got %v, want a handshake: %v", c.size, c.cut, err, ok)
		}
		if err == nil && client.ConnectionState().CurveID != tls.X25519MLKEM768 {
			t.Errorf("%d bytes cut at %d: got key exchange %v, want the post-quantum one", c.size, c.cut, client.ConnectionState().CurveID)
		}
		tcp.Close()
		if c.size > most {
			eventually(t, "tls_alert", func() bool { return s.closedBy("tls_alert") == refused+1 })
		}
	}
}

// TestClaimsCostNothing claims every size there is before any proof: nobody gets
// memory for a claim (T38).
func TestClaimsCostNothing(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 1, replicas: 2, far: "psk", extra: "[frames.rules]\nhello_strict = \"observe\"\n[limits]\nhandshakes_per_source = 64\n"})
	before := residentMemory(t, s.pid)
	for _, size := range []uint32{0, 255, 257, 64 << 20, 64<<20 + 1, 1 << 31, 1<<32 - 1} {
		for range 8 {
			h := slices.Clone(hello(0, true))
			wire.Size.Set((*wire.Header)(h), size)
			if _, err := s.send("", h); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.knownPeer(0, "psk", "127.0.9.1", time.Second); err != nil {
		t.Error(err)
	}
	if n := s.closedBy("frame_size"); n != 5*8 {
		t.Errorf("got %d Hellos closed by frame_size, want all that claim an impossible size", n)
	}
	if grown := residentMemory(t, s.pid) - before; grown > strangersMemory {
		t.Errorf("got %d MiB more, want at most %d MiB", grown>>20, strangersMemory>>20)
	}
}

// TestConnectionsLimit fills limits.connections: one more is refused, what is
// there lives, and a place that is left can be taken.
func TestConnectionsLimit(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 2, replicas: 3, far: "psk", extra: "[limits]\nconnections = 3\n"})
	p := beatOn(t, s.arrive(0, "psk"), 0, 2)
	eventually(t, "a link", func() bool { return s.linksOf(0) == 1 })
	idle := make([]*net.TCPConn, 2)
	for i := range idle {
		var err error
		if idle[i], err = s.send(fmt.Sprintf("127.0.8.%d", i+1), nil); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "a full gate", func() bool { return s.metrics().Sum("replgate_unauthenticated_inflight") == 2 })
	if _, err := s.ring(caller{pair: mac.Pair{Dialer: 1, Acceptor: 2}, security: "psk"}, s.ingressAddr()); err == nil {
		t.Error("got a connection more than limits.connections, want it refused")
	}
	eventually(t, "conn_limit", func() bool { return s.closedBy("conn_limit") == 1 })
	idle[0].Close()
	eventually(t, "a place", func() bool { return s.closedBy("probe") == 1 })
	if err := s.knownPeer(1, "psk", "", time.Second); err != nil {
		t.Error(err)
	}
	p.end()
}

// TestNoDescriptorsLeft takes every file descriptor that the gate may have: the
// link that is there lives, accept backs off instead of running hot, and when
// there are descriptors again so are new links (T40).
func TestNoDescriptorsLeft(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 2, replicas: 3, far: "psk", before: "ulimit -n 40"})
	p := beatOn(t, s.arrive(0, "psk"), 0, 2)
	eventually(t, "a link", func() bool { return s.linksOf(0) == 1 })
	var all []*replica.Conn
	for i := range 60 {
		c, err := caller{source: fmt.Sprintf("127.0.7.%d", i+1)}.connect(s.ingressAddr())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &replica.Conn{Conn: c, TCP: c})
	}
	if _, err := s.gate.Await(t.Context(), "msg", "accept failed"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // real time: without descriptors for a while
	for _, c := range all {
		c.Close()
	}
	deadline := time.Now().Add(5 * time.Second)
	for {
		err := s.knownPeer(1, "psk", "", 5*time.Second)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %v when there were descriptors again, want a link", err)
		}
	}
	p.end()
	if n := len(logLines(s.gate, "msg", "accept failed")); n > 20 {
		t.Errorf("got %d failed accepts in about two seconds, want them backed off", n)
	}
}
