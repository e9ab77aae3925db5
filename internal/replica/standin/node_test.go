package standin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// quick timers, with Iggy's proportions.
var quick = Timers{
	Commit: 50 * time.Millisecond, Heartbeat: 500 * time.Millisecond, Prepare: 50 * time.Millisecond, ViewChange: 50 * time.Millisecond,
	ViewStatus: 500 * time.Millisecond, Probe: 100 * time.Millisecond, Repair: 200 * time.Millisecond,
}

// cluster is three nodes in this process.
type cluster struct {
	t         *testing.T
	set       func(*NodeConfig)
	addresses []string
	first     []net.Listener      // of everybody's first life
	via       map[[2]uint8]string // address a dialer uses for a peer, where it is another
	nodes     []*Node
	kill      []func()
	faults    chan error
	lives     [3]uint32
	gone      [][]Ack // acknowledged by nodes that are no more
}

func newCluster(t *testing.T, set func(*NodeConfig)) *cluster {
	c := &cluster{t: t, set: set, nodes: make([]*Node, 3), kill: make([]func(), 3), faults: make(chan error, 99), via: map[[2]uint8]string{}}
	for range 3 {
		// Nobody's own address, so that no dialer's port takes it while a killed one is away.
		l := listen(t, fmt.Sprintf("127.%d.%d.1:0", 100+os.Getpid()%100, os.Getpid()/100%256))
		c.addresses, c.first = append(c.addresses, l.Addr().String()), append(c.first, l)
	}
	return c
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; {
		l, err := net.Listen("tcp", address)
		if err == nil {
			return l
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // real time: the port of the killed one is still bound
	}
}

func (c *cluster) start(id uint8) {
	cfg := NodeConfig{
		Config: Config{ID: id, Replicas: 3, Cluster: testCluster, Seed: 11, Life: c.lives[id], Groups: 5, Timers: quick},
		Peers:  map[uint8]string{}, Redial: 20 * time.Millisecond,
		Load: Load{Rate: 400, Messages: 2, Payload: 100, Metadata: 0.2, Offsets: 0.2, SignIns: 0.1},
	}
	if c.lives[id]++; c.lives[id] == 1 {
		cfg.Listener = c.first[id]
	} else {
		cfg.Listener = listen(c.t, c.addresses[id])
	}
	for peer, address := range c.addresses {
		cfg.Peers[uint8(peer)] = address
		if via, ok := c.via[[2]uint8{id, uint8(peer)}]; ok {
			cfg.Peers[uint8(peer)] = via
		}
	}
	c.set(&cfg)
	n, err := NewNode(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := n.Run(ctx); err != nil {
			c.faults <- err
		}
	})
	c.nodes[id] = n
	c.kill[id] = func() { cancel(); running.Wait() }
	c.t.Cleanup(c.kill[id])
}

// until waits for something to hold, and fails at the first fault.
func (c *cluster) until(what string, holds func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		select {
		case err := <-c.faults:
			c.t.Fatalf("waiting for %s: %v", what, err)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			for _, n := range c.nodes {
				c.t.Logf("%+v", n.Status())
			}
			c.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// agree waits, without load, for three equal logs, then looks for every
// acknowledged op in each.
func (c *cluster) agree() {
	c.t.Helper()
	for _, n := range c.nodes {
		n.SetLoad(Load{})
	}
	c.until("equal logs", func() bool {
		first := c.nodes[0].Status().Groups
		for _, n := range c.nodes {
			for i, g := range n.Status().Groups {
				if !g.Normal || g != first[i] || g.Op != g.Commit {
					return false
				}
			}
		}
		return true
	})
	all := c.gone
	for _, n := range c.nodes {
		all = append(all, n.Acked())
	}
	count := 0
	for _, acks := range all {
		for _, a := range acks {
			count++
			for id, n := range c.nodes {
				if got, ok := n.Identity(a.Group, a.Op); !ok || got != a.Identity {
					c.t.Fatalf("replica %d has lost op %d of group %x", id, a.Op, a.Group)
				}
			}
		}
	}
	if count == 0 {
		c.t.Fatal("got no acknowledged op: the test shows nothing")
	}
}

// normal tells whether a replica takes part in every group: before that the loss
// of another one is one too many.
func (c *cluster) normal(id uint8) bool {
	for _, g := range c.nodes[id].Status().Groups {
		if !g.Normal {
			return false
		}
	}
	return true
}

func (c *cluster) leads(id uint8) bool {
	for _, g := range c.nodes[(id+1)%3].Status().Groups {
		if !g.Normal || g.Primary != id || g.Commit == 0 {
			return false
		}
	}
	return true
}

// securities are the three ways to speak.
func securities(t *testing.T) map[string]func(*NodeConfig) {
	keys, err := mac.NewKeyring([]byte("a secret for stand-ins, 32+ bytes long"), nil)
	if err != nil {
		t.Fatal(err)
	}
	set, err := certs.SelfSigned([]string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return map[string]func(*NodeConfig){
		"plaintext": func(*NodeConfig) {},
		"psk":       func(c *NodeConfig) { c.Keys = keys },
		"tls": func(c *NodeConfig) {
			c.Keys, c.ServerTLS = keys, set.Server()
			c.ClientTLS = func(uint8) *tls.Config { return set.Client("127.0.0.1") }
		},
	}
}

func TestNodes(t *testing.T) {
	for name, set := range securities(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, set)
			for id := range uint8(3) {
				c.start(id)
			}
			c.until("replica 0 to lead", func() bool { return c.leads(0) })

			c.gone = append(c.gone, c.nodes[2].Acked())
			c.kill[2]()
			c.start(2)
			c.until("replica 2 to be back", func() bool { return c.normal(2) })

			c.kill[0]()
			c.gone = append(c.gone, c.nodes[0].Acked())
			before := c.nodes[1].Status().Groups[0].Commit
			c.until("another primary", func() bool {
				g := c.nodes[1].Status().Groups[0]
				return g.Normal && g.Primary != 0 && g.Commit > before
			})
			c.start(0)
			c.until("replica 0 to be back", func() bool { return c.nodes[0].Status().Groups[0].Commit > before })
			c.agree()
			s := c.nodes[1].Status()
			if s.Acked == 0 || len(s.Links) != 2 || s.Received[wire.PrepareOk] == 0 {
				t.Errorf("got %+v, want acks, two links and PrepareOks", s)
			}
			c.until("a gap between heartbeats", func() bool {
				return max(c.nodes[0].Status().HeartbeatGap, c.nodes[2].Status().HeartbeatGap) > 0
			})
		})
	}
}

// relay copies frames from one dialer to one acceptor and back; change may touch
// those of the way forth, handshake included.
func relay(t *testing.T, to string, change func(frame []byte)) string {
	l := listen(t, "127.0.0.1:0")
	var tasks sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); l.Close(); tasks.Wait() })
	tasks.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() {
				stop := context.AfterFunc(ctx, func() { near.Close() })
				defer stop()
				defer near.Close()
				far, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				stopFar := context.AfterFunc(ctx, func() { far.Close() })
				defer stopFar()
				tasks.Go(func() { defer near.Close(); _, _ = io.Copy(near, far) })
				defer far.Close()
				for {
					var h wire.Header
					if _, err := io.ReadFull(near, h[:]); err != nil {
						return
					}
					frame := append(h[:], make([]byte, wire.Size.Get(&h)-wire.HeaderSize)...)
					if _, err := io.ReadFull(near, frame[wire.HeaderSize:]); err != nil {
						return
					}
					change(frame)
					if _, err := far.Write(frame); err != nil {
						return
					}
				}
			})
		}
	})
	return l.Addr().String()
}

// The flips of flip_test.go that the shell has to find, by sockets: framing is
// lost, a size grows, a handshake is touched.
func TestFlippedByteOnTheWayIsAFault(t *testing.T) {
	t.Parallel()
	handshake := errors.New("refused handshake")
	isCommand := func(err error) bool { _, ok := errors.AsType[*wire.CommandError](err); return ok }
	isSize := func(err error) bool { _, ok := errors.AsType[*wire.SizeError](err); return ok }
	for name, flip := range map[string]struct {
		security string
		command  wire.Command
		at       int
		xor      byte
		want     func(error) bool
	}{
		"command above 29":    {"psk", wire.Commit, int(wire.CommandAt), 0xf0, isCommand},
		"size above the max":  {"psk", wire.Commit, int(wire.Size) + 3, 0x80, isSize},
		"size below 256":      {"plaintext", wire.Commit, int(wire.Size) + 1, 0x01, isSize},
		"size of a Commit":    {"plaintext", wire.Commit, int(wire.Size) + 2, 0x01, func(err error) bool { return errors.Is(err, errSeal) }},
		"size of a Prepare":   {"psk", wire.Prepare, int(wire.Size) + 2, 0x10, func(err error) bool { return errors.Is(err, errIdentity) }},
		"view of a Prepare":   {"psk", wire.Prepare, int(wire.View), 0x03, func(err error) bool { return errors.Is(err, errViewBack) }},
		"view not its sender": {"psk", wire.Prepare, int(wire.View), 0x01, func(err error) bool { return errors.Is(err, errRestamp) }},
		"Hello":               {"plaintext", wire.ReplicaHello, 200, 0x01, func(err error) bool { return err == handshake }},
		"nonce":               {"psk", wire.ReplicaHello, wire.HelloNonce, 0x01, func(err error) bool { return err == handshake }},
		"Finish":              {"psk", wire.ReplicaFinish, wire.HelloMAC, 0x01, func(err error) bool { return err == handshake }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, securities(t)[flip.security])
			var done atomic.Bool
			c.via[[2]uint8{0, 1}] = relay(t, c.addresses[1], func(frame []byte) {
				if (*wire.Header)(frame).Command() == flip.command && !done.Swap(true) {
					frame[flip.at] ^= flip.xor
				}
			})
			for id := range uint8(3) {
				c.start(id)
			}
			var err error
			for deadline := time.Now().Add(10 * time.Second); err == nil; {
				select {
				case err = <-c.faults:
				case <-time.After(10 * time.Millisecond):
				}
				if flip.command >= wire.ReplicaHello && c.nodes[0].Status().Refused+c.nodes[1].Status().Refused > 0 {
					err = handshake
				}
				if time.Now().After(deadline) {
					t.Fatal("got no fault")
				}
			}
			if !flip.want(err) {
				t.Errorf("got %v, want the fault of this flip", err)
			}
		})
	}
}

// A second connection of a registered peer ends, the first stays (§7.4).
func TestOldConnectionWins(t *testing.T) {
	t.Parallel()
	c := newCluster(t, func(*NodeConfig) {})
	for id := range uint8(3) {
		c.start(id)
	}
	c.until("links", func() bool { return len(c.nodes[1].Status().Links) == 2 })
	conn, err := net.Dial("tcp", c.addresses[1])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	d := mac.NewDialer(mac.Pair{Dialer: 0, Acceptor: 1}, mac.Options{Cluster: testCluster})
	hello := d.Hello([wire.NonceSize]byte{})
	if _, err := conn.Write(hello[:]); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("got %d bytes and %v, want the end of the stream", n, err)
	}
	if got := c.nodes[1].Status(); got.Opened != 2 {
		t.Errorf("got %d connections that stood, want the first two", got.Opened)
	}
}
