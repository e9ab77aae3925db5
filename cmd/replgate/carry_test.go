package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

var securities = []string{"plaintext", "psk", "tls"}

// A topology says which of a link's two gates there are.
type topology struct {
	name                   string
	dialerGate, acceptGate bool
}

// TestCarriage plays every recording through gates in processes of their own: in
// every near and far security, through a pair and through one gate against a
// native far side. What comes out is byte for byte what went in, and no frame is
// refused.
func TestCarriage(t *testing.T) {
	recordings, err := replica.Recordings(recordingsDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range []topology{{"pair", true, true}, {"dialer", true, false}, {"acceptor", false, true}} {
		for _, near := range securities {
			for _, far := range securities {
				t.Run(fmt.Sprintf("%s/near=%s/far=%s", top.name, near, far), func(t *testing.T) {
					newCarriage(t, top, near, far).carry(t, recordings)
				})
			}
		}
	}
}

// replicasInTest is the roster's length: enough for the five-node recording.
const replicasInTest = 5

// carriage is a cluster of stand-ins with gates between them.
type carriage struct {
	topology
	net       network
	near, far string
	keys      *mac.Keyring
	certs     *certs.Set
	gates     []*process
	upstream  []*net.TCPListener // where stand-in i is dialed
	arriving  [replicasInTest]sync.Mutex
}

func newCarriage(t *testing.T, top topology, near, far string) *carriage {
	c := &carriage{topology: top, net: newNetwork(), near: near, far: far}
	pki, err := replica.Mint(t.TempDir(), c.net.hosts(), time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if c.certs, err = certs.Load(certs.Files{Cert: pki.Cert, Key: pki.Key, CA: pki.CA}, nil); err != nil {
		t.Fatal(err)
	}
	if c.keys, err = mac.NewKeyring([]byte(secretOne), nil); err != nil {
		t.Fatal(err)
	}
	for i := range replicasInTest {
		ln, err := net.Listen("tcp", c.net.replica(i))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		c.upstream = append(c.upstream, ln.(*net.TCPListener))
		peer := c.net.ingress
		if !top.acceptGate {
			peer = c.net.replica
		}
		c.gates = append(c.gates, startGate(t, gateConfig{Network: c.net, ID: i, Replicas: replicasInTest,
			Near: near, Far: far, PKI: pki, Secret: secretOne, Peer: peer}))
	}
	return c
}

// dialed is where the dialer of a pair reaches the acceptor, and in which
// security; accepted is the security in which the acceptor is reached.
func (c *carriage) dialed(p mac.Pair) (address, security string) {
	if c.dialerGate {
		return c.net.egress(int(p.Dialer), int(p.Acceptor)), c.near
	}
	return c.net.ingress(int(p.Acceptor)), c.far
}

func (c *carriage) accepted() string {
	if c.acceptGate {
		return c.near
	}
	return c.far
}

func (c *carriage) voice(p mac.Pair, security string, dialer bool) replica.Voice {
	v := replica.Voice{Cluster: wire.ClusterIDOf("iggy-cluster"), Pair: p}
	if security != "plaintext" {
		v.Keys = c.keys
	}
	if security == "tls" {
		v.TLS = c.certs.Server()
		if dialer {
			v.TLS = c.certs.Client(certName)
		}
	}
	return v
}

// carry plays the scenarios one after the other: each is a cluster of its own
// with the same name. Within one, the links run at once and each link's
// connections in their order.
func (c *carriage) carry(t *testing.T, recordings []replica.Recording) {
	var frames float64
	for start := 0; start < len(recordings); {
		end := start
		links := map[mac.Pair][]replica.Recording{}
		for ; end < len(recordings) && recordings[end].Scenario == recordings[start].Scenario; end++ {
			links[recordings[end].Pair] = append(links[recordings[end].Pair], recordings[end])
		}
		frames += c.scenario(t, links)
		start = end
	}
	var forwarded, refused float64
	for i := range c.gates {
		samples := scrape(t, c.net.metrics(i))
		forwarded += sum(samples, "replgate_frames_total", `result="forwarded"`)
		refused += sum(samples, "replgate_frames_rejected_total")
		refused += sum(samples, "replgate_frames_total", `result="dropped"`) + sum(samples, "replgate_frames_total", `result="lost"`)
	}
	if c.dialerGate && c.acceptGate {
		frames *= 2
	}
	if forwarded != frames || refused != 0 {
		t.Errorf("got %v frames forwarded and %v refused, want %v and 0", forwarded, refused, frames)
		for i, g := range c.gates {
			for line := range strings.Lines(g.logText()) {
				if strings.Contains(line, `"frame refused"`) {
					t.Logf("gate %d: %s", i, line)
				}
			}
		}
	}
}

// scenario plays one scenario and waits until no gate has a link left.
func (c *carriage) scenario(t *testing.T, links map[mac.Pair][]replica.Recording) float64 {
	var mu sync.Mutex
	var frames float64
	var all sync.WaitGroup
	for pair, connections := range links {
		all.Go(func() {
			for _, r := range connections {
				n, err := c.play(t, pair, r)
				if err != nil {
					t.Errorf("%s: %v", r.Name, err)
					return
				}
				mu.Lock()
				frames += float64(n)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for i := range c.gates {
		eventually(t, "every link of a played scenario ends", func() bool {
			return sum(scrape(t, c.net.metrics(i)), "replgate_links") == 0
		})
	}
	return frames
}

// play carries one recorded connection and returns how many frames it had.
func (c *carriage) play(t *testing.T, pair mac.Pair, r replica.Recording) (int, error) {
	say, err := replica.Traffic(r.Dialer)
	if err != nil {
		return 0, err
	}
	back, err := replica.Traffic(r.Acceptor)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dialer, acceptor, err := c.connect(ctx, pair)
	if err != nil {
		return 0, err
	}
	defer dialer.Close()
	defer acceptor.Close()
	dialer.SetDeadline(time.Now().Add(time.Minute))
	acceptor.SetDeadline(time.Now().Add(time.Minute))
	var both sync.WaitGroup
	var one, other error
	both.Go(func() { one = dialer.Play(say, back, rand.New(rand.NewPCG(1, uint64(len(say))))) })
	both.Go(func() { other = acceptor.Play(back, say, rand.New(rand.NewPCG(2, uint64(len(say))))) })
	both.Wait()
	if err := errors.Join(one, other); err != nil {
		return 0, err
	}
	if len(say)+len(back) == 0 {
		c.silent(t, pair)
	}
	// The dialer's end arrives as an end, and nothing else does.
	dialer.Close()
	if n, err := acceptor.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return 0, fmt.Errorf("got %d bytes and %v behind the last frame, want the end", n, err)
	}
	ahead, _, err := replica.Frames(say)
	if err != nil {
		return 0, err
	}
	behind, _, err := replica.Frames(back)
	return len(ahead) + len(behind), err
}

// silent waits until a link on which nothing is ever said is up: a plaintext one
// that ends sooner than it is proven is no link.
func (c *carriage) silent(t *testing.T, pair mac.Pair) {
	if c.dialerGate {
		eventually(t, "a silent link is up", func() bool {
			return sum(scrape(t, c.net.metrics(int(pair.Dialer))), "replgate_links", `direction="egress"`, fmt.Sprintf("peer=%q", fmt.Sprint(pair.Acceptor))) == 1
		})
	}
	if c.acceptGate {
		eventually(t, "a silent link is up", func() bool {
			return sum(scrape(t, c.net.metrics(int(pair.Acceptor))), "replgate_links", `direction="ingress"`, fmt.Sprintf("peer=%q", fmt.Sprint(pair.Dialer))) == 1
		})
	}
}

// connect makes both ends of one link, one at a time for each acceptor, so that
// what arrives there is the other end of what was dialed.
func (c *carriage) connect(ctx context.Context, pair mac.Pair) (dialer, acceptor *replica.Conn, err error) {
	c.arriving[pair.Acceptor].Lock()
	defer c.arriving[pair.Acceptor].Unlock()
	address, security := c.dialed(pair)
	var both sync.WaitGroup
	var dialErr, acceptErr error
	both.Go(func() { dialer, dialErr = c.voice(pair, security, true).Dial(ctx, address) })
	both.Go(func() { acceptor, acceptErr = c.accept(ctx, pair) })
	both.Wait()
	return dialer, acceptor, errors.Join(dialErr, acceptErr)
}

// accept takes the next connection to a stand-in.
func (c *carriage) accept(ctx context.Context, pair mac.Pair) (*replica.Conn, error) {
	ln := c.upstream[pair.Acceptor]
	ln.SetDeadline(time.Now().Add(30 * time.Second))
	tcp, err := ln.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return c.voice(pair, c.accepted(), false).Accept(ctx, tcp)
}
