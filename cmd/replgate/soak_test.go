//go:build linux

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// soaking says whether the long variants run: REPLGATE_SOAK=1, as `make soak`
// sets it. The normal run has the same tests with smaller numbers.
func soaking() bool { return soak }

// The gate of the leak test is replica 1 of four: 0 comes in by psk, the local
// replica dials 2, which the test plays, and 3, where nobody is.
const leakSelf = 1

const leakExtra = "[timeouts]\nhandshake = \"1s\"\nprove = \"900ms\"\n[limits]\nhandshakes_per_source = 64\n"

// TestNothingLeaks goes through every kind of failure again and again: goroutines,
// descriptors and memory are what they were (T33). The normal run has 3,000
// cycles with 150 of TLS, soak 100,000 with 5,000.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	cycles := 3000
	if soaking() {
		cycles = 100_000
	}
	l := &leaks{stage: raise(t, stageOptions{id: leakSelf, replicas: 4, far: "tls", extra: leakExtra + "[[peers]]\nreplica_id = 0\nsecurity = \"psk\"\n"})}
	l.peer = l.listenAs(2)
	go l.serveBadly()
	l.warmUp()
	before := l.readings()
	var done atomic.Int64
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for i := w; done.Add(1) <= int64(cycles); i++ {
				if err := l.cycle(i, w); err != nil {
					t.Errorf("cycle %d: %v", i, err)
					return
				}
			}
		})
	}
	workers.Wait()
	l.silence()
	eventually(t, "every connection's end", func() bool {
		m := l.metrics()
		return m.Sum("replgate_links") == 0 && m.Sum("replgate_unauthenticated_inflight") == 0
	})
	var after readings
	eventually(t, "the goroutines and descriptors there were", func() bool {
		after = l.readings()
		return after.goroutines <= before.goroutines+4 && after.descriptors <= before.descriptors+4
	})
	t.Logf("before %+v, after %d cycles %+v", before, cycles, after)
	if grown := after.heap - before.heap; grown > leakSlack {
		t.Errorf("got %v MiB more of heap, want at most %d MiB", grown/(1<<20), leakSlack>>20)
	}
	if code := l.exit(playLimit); code != exitOK {
		t.Errorf("got exit code %d, want %d", code, exitOK)
	}
}

// leakSlack is what the heap may have grown: garbage that was not collected yet.
const leakSlack = 24 << 20

type leaks struct {
	*stage
	peer *net.TCPListener
}

type readings struct{ goroutines, descriptors, heap float64 }

func (l *leaks) readings() readings {
	m := l.metrics()
	return readings{m.Sum("go_goroutines"), m.Sum("process_open_fds"), m.Sum("go_memstats_heap_inuse_bytes")}
}

// warmUp goes through every kind once, and lets the pools fill.
func (l *leaks) warmUp() {
	for i := range 100 {
		if err := l.cycle(i, 0); err != nil {
			l.t.Fatal(err)
		}
	}
	l.silence()
	eventually(l.t, "the end of the warm-up", func() bool {
		m := l.metrics()
		return m.Sum("replgate_links") == 0 && m.Sum("replgate_unauthenticated_inflight") == 0
	})
}

// serveBadly is a peer that fails in a different way every time.
func (l *leaks) serveBadly() {
	for i := 0; ; i++ {
		c, err := l.peer.AcceptTCP()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			c.SetDeadline(time.Now().Add(playLimit))
			switch i % 4 {
			case 0: // an end at once
			case 1:
				c.SetLinger(0)
			case 2:
				c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
				drainBytes(c)
			case 3: // an old TLS
				config := l.certs.Server()
				config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
				tls.Server(c, config).Handshake()
			}
		}()
	}
}

// cycle is one failure. Kinds that cost much come seldom.
func (l *leaks) cycle(i, worker int) error {
	flights := strangeFlights()
	source := fmt.Sprintf("127.0.5.%d", 1+worker)
	switch {
	case i%20 == 0: // TLS that ends early
		c, err := (caller{source: source}).connect(l.ingressAddr())
		if err != nil {
			return err
		}
		defer c.Close()
		config := l.certs.Client([]string{lab.ServerName, "another.test"}[i/20%2])
		if i%3 == 0 {
			config.NextProtos = []string{"h2"}
		}
		tls.Client(c, config).Handshake()
		return nil
	case i%20 == 1: // the way out fails
		to := uint8(2 + i/20%2)
		near, err := l.ring(caller{pair: mac.Pair{Dialer: leakSelf, Acceptor: to}, security: "plaintext"}, l.egressAddr(to))
		if err != nil {
			return err
		}
		defer near.Close()
		if how, _, took := endOf(near, playLimit); how == byTime {
			return fmt.Errorf("got %s after %v at a near leg, want its end", how, took)
		}
		return nil
	case i%50 == 2 && worker == 0:
		return l.link(i)
	case i%20 == 3: // a wrong proof
		c, err := l.send2(source, hello(0, true))
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, wire.HeaderSize)); err != nil {
			return nil // a newcomer in a full lobby has had to go
		}
		c.Write(make([]byte, wire.HeaderSize))
		drainBytes(c)
		return nil
	}
	c, err := l.send2(source, flights[i%len(flights)])
	if err != nil {
		return err
	}
	defer c.Close()
	switch i % 3 {
	case 0:
		c.SetLinger(0)
	case 1:
		c.CloseWrite()
		drainBytes(c)
	}
	return nil
}

// send2 is send for a connection that its caller closes.
func (l *leaks) send2(source string, b []byte) (*net.TCPConn, error) {
	c, err := caller{source: source}.connect(l.ingressAddr())
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(playLimit))
	c.Write(b) // whether it was read is the gate's affair
	return c, nil
}

// link makes a link and ends it in one of many ways.
func (l *leaks) link(i int) error {
	eventually(l.t, "the last link to be gone", func() bool { return l.linksOf(0) == 0 })
	far, err := l.ring(caller{pair: mac.Pair{Dialer: 0, Acceptor: leakSelf}, security: "psk"}, l.ingressAddr())
	if err != nil {
		return nil // the lobby was full
	}
	defer far.TCP.Close()
	near, err := l.local.next(0)
	if err != nil {
		return err
	}
	defer near.TCP.Close()
	b := bond{far, near}
	switch i / 50 % 5 {
	case 0:
		return reset(b.far)
	case 1:
		return reset(b.near)
	case 2:
		_, err = b.far.Write(claiming(commit(0, 1), 3))
	case 3:
		_, err = b.near.Write(offset(leakSelf, 1, make([]byte, 3000))[:2000])
	case 4:
		_, err = b.far.Write(commit(0, 1))
	}
	return err
}

// silence lets connections run into the handshake's timeout, in every state.
func (l *leaks) silence() {
	var all []*net.TCPConn
	for i := range 40 {
		c, err := l.send2("127.0.5.100", [][]byte{nil, {22, 3}, hello(0, true)[:99], hello(0, true)}[i%4])
		if err != nil {
			l.t.Fatal(err)
		}
		all = append(all, c)
	}
	for _, c := range all {
		drainBytes(c)
		c.Close()
	}
}

// memoryLine is what check says about links: per link, and for all peers.
var memoryLine = regexp.MustCompile(`memory: at most (\d+) bytes a link`)

// TestBackpressureIsBounded sends a frame of 64 MiB over each of 64 links, in both
// directions, to readers that do not read: the gate holds no more than the formula
// that check prints (T35).
func TestBackpressureIsBounded(t *testing.T) {
	t.Parallel()
	const peers = 64
	s := raise(t, stageOptions{id: peers + 1, replicas: peers + 2, far: "psk", extra: "[timeouts]\nwrite_stall = \"60s\"\n"})
	out, err := exec.Command(replgateBinary, "check", "--config", s.path).CombinedOutput()
	found := memoryLine.FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("got %v and %s from check, want a line on memory", err, out)
	}
	perLink, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	base := residentMemory(t, s.pid)
	bonds := make([]bond, peers)
	var made sync.WaitGroup
	for i := range bonds {
		made.Go(func() {
			b, err := s.tryArrive(caller{pair: mac.Pair{Dialer: uint8(i), Acceptor: peers + 1}, security: "psk", source: fmt.Sprintf("127.0.6.%d", 1+i)})
			if err != nil {
				t.Errorf("replica %d: %v", i, err)
			}
			bonds[i] = b
		})
	}
	made.Wait()
	if t.Failed() {
		t.FailNow()
	}
	body := make([]byte, 64<<20-wire.HeaderSize) // one body for all: only its header differs
	for i, b := range bonds {
		for id, c := range map[uint8]*replica.Conn{uint8(i): b.far, peers + 1: b.near} {
			header := offset(id, 1, nil)
			wire.Size.Set((*wire.Header)(header), 64<<20)
			wire.Seal((*wire.Header)(header))
			go func() {
				if _, err := c.Write(header); err == nil {
					c.Write(body)
				}
			}()
		}
	}
	most, limit := int64(0), base+peers*perLink+peers*perLink/10
	for began := time.Now(); time.Since(began) < 4*time.Second; {
		most = max(most, residentMemory(t, s.pid))
		time.Sleep(20 * time.Millisecond) // real time: the memory is watched while nothing moves
	}
	if n := s.metrics().Sum("replgate_links"); n != peers {
		t.Errorf("got %v links, want all %d", n, peers)
	}
	t.Logf("base %d MiB, most %d MiB, %d bytes a link by check, limit %d MiB", base>>20, most>>20, perLink, limit>>20)
	if most > limit {
		t.Errorf("got %d MiB, want at most %d: %d links of %d bytes and a tenth, on %d MiB", most>>20, limit>>20, peers, perLink, base>>20)
	}
}
