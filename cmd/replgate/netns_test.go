//go:build linux

package main

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
)

// needSea skips a test where there can be no hosts of their own.
func needSea(t *testing.T) *sea {
	t.Helper()
	if !canSail() {
		// Network namespaces and packet filters take root, ip and nft; CI has all three.
		t.Skip("no root, or no ip, or no nft")
	}
	return newSea(t)
}

// straits is a link through two gates on two hosts: replica 0 with its gate on
// the first, replica 1 with its gate on the second.
type straits struct {
	a, b           *stage
	islandA        *island
	islandB        *island
	dialer, behind *replica.Conn // the two local ends of the link
}

func openStraits(t *testing.T, security string) *straits {
	t.Helper()
	s := needSea(t)
	x := &straits{islandA: s.island(1), islandB: s.island(2)}
	own := lab.NewNet()
	x.b = raise(t, stageOptions{id: 1, replicas: 2, far: security, net: &own, at: x.islandB, listen: x.islandB.address(9190)})
	x.a = raise(t, stageOptions{id: 0, replicas: 2, far: security, net: &own, at: x.islandA,
		peer: func(int) string { return x.islandB.address(9190) }})
	return x
}

// connect makes the link.
func (x *straits) connect() error {
	c := caller{pair: mac.Pair{Dialer: 0, Acceptor: 1}, security: "plaintext",
		dial: func(address string) (net.Conn, error) { return x.islandA.dial(address, "") }}
	var err error
	if x.dialer, err = x.a.ring(c, x.a.egressAddr(1)); err != nil {
		return err
	}
	if x.behind, err = x.b.local.next(0); err != nil {
		return err
	}
	x.a.t.Cleanup(func() { x.dialer.TCP.Close(); x.behind.TCP.Close() })
	return nil
}

// TestVanishedPackets throws away what goes over the network, in one direction or
// both, while the link is idle and while it is used: both gates find out inside
// the heartbeat window, and their replicas with them (T23).
func TestVanishedPackets(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(*straits){
		// What a host sends is dropped where it arrives: a filter on its own way out
		// would tell it so.
		"both directions":   func(x *straits) { x.islandA.drop("in", "iifname eth0"); x.islandB.drop("in", "iifname eth0") },
		"from dialer alone": func(x *straits) { x.islandB.drop("in", "iifname eth0") },
		"to dialer alone":   func(x *straits) { x.islandA.drop("in", "iifname eth0") },
	} {
		for _, used := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/used=%v", name, used), func(t *testing.T) {
				t.Parallel()
				x := openStraits(t, "psk")
				if err := x.connect(); err != nil {
					t.Fatal(err)
				}
				stop := make(chan struct{})
				if used {
					go beatAlone(x.dialer, 0, stop)
					go beatAlone(x.behind, 1, stop)
					time.Sleep(4 * beat) // real time: the link is in use
				}
				eventually(t, "a link through both gates", func() bool { return x.a.linksOf(1) == 1 && x.b.linksOf(0) == 1 })
				cut(x)
				var both sync.WaitGroup
				for end, c := range map[string]*replica.Conn{"dialer": x.dialer, "acceptor": x.behind} {
					both.Go(func() {
						if how, _, took := endOf(c, playLimit); how == byTime || took > deadWindow+endSlack || took < 2*time.Second {
							t.Errorf("got %s after %v at the %s's near leg, want its end within the heartbeat timeout, %v", how, took, end, deadWindow)
						}
					})
				}
				both.Wait()
				close(stop)
				// Where one direction is open, the reset of whoever finds out first passes.
				eventually(t, "peer_unreachable, or once a reset that passed", func() bool {
					unreachable := x.a.closedBy("peer_unreachable") + x.b.closedBy("peer_unreachable")
					return unreachable == 2 || name != "both directions" && unreachable+x.a.closedBy("peer_reset")+x.b.closedBy("peer_reset") == 2 && unreachable > 0
				})
			})
		}
	}
}

// beatAlone says a Commit every beat until stop or the end of the link.
func beatAlone(c *replica.Conn, id uint8, stop <-chan struct{}) {
	for token := uint64(1); ; token++ {
		select {
		case <-stop:
			return
		case <-time.After(beat):
		}
		if _, err := c.Write(commit(id, token)); err != nil {
			return
		}
	}
}

// TestSilentNetwork drops the dial: the near leg is reset when a proof may take no
// longer, and so it is for a name that nobody resolves.
func TestSilentNetwork(t *testing.T) {
	t.Parallel()
	x := openStraits(t, "psk")
	x.islandB.drop("in", "tcp dport 9190")
	near, err := x.a.ring(caller{pair: mac.Pair{Dialer: 0, Acceptor: 1}, security: "plaintext",
		dial: func(address string) (net.Conn, error) { return x.islandA.dial(address, "") }}, x.a.egressAddr(1))
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	if how, n, took := endOf(near, playLimit); how != byReset || n != 0 || took > 2200*time.Millisecond+endSlack {
		t.Errorf("got %s after %d bytes and %v at the near leg, want RST after the 2s of a proof", how, n, took)
	}
	if x.a.closedBy("dial_timeout") != 1 {
		t.Errorf("got no connection closed by dial_timeout, want one: %s", tail(x.a.gate.Log(), 2))
	}
	x.islandB.heal()
	if err := x.connect(); err != nil {
		t.Errorf("when the network is back: %v", err)
	}
}

// TestShortOutage loses packets for less than the window: the link lives, and
// every frame arrives in its order.
func TestShortOutage(t *testing.T) {
	t.Parallel()
	x := openStraits(t, "psk")
	if err := x.connect(); err != nil {
		t.Fatal(err)
	}
	x.islandB.cutOff()
	for token := uint64(1); token <= 20; token++ {
		if _, err := x.dialer.Write(commit(0, token)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * time.Second) // real time: the outage
	x.islandB.heal()
	x.behind.TCP.SetReadDeadline(time.Now().Add(playLimit))
	for token := uint64(1); token <= 20; token++ {
		frame, err := x.behind.ReadFrame(1 << 20)
		if err != nil {
			t.Fatalf("frame %d: %v", token, err)
		}
		if string(frame) != string(commit(0, token)) {
			t.Fatalf("got another frame %d than was said", token)
		}
	}
	if x.a.linksOf(1) != 1 || x.b.linksOf(0) != 1 {
		t.Errorf("got %d and %d links after an outage of 2 s, want the one", x.a.linksOf(1), x.b.linksOf(0))
	}
}

// TestReplacedPeer cuts a peer's host off and lets the peer come back from another
// host before anybody has noticed: the old near leg is closed first, the new one
// dialed, and frames go again within a second of the newcomer's proof (T24).
func TestReplacedPeer(t *testing.T) {
	t.Parallel()
	for _, security := range []string{"psk", "tls"} {
		t.Run(security, func(t *testing.T) {
			t.Parallel()
			s := needSea(t)
			home, before, after := s.island(1), s.island(2), s.island(3)
			g := raise(t, stageOptions{id: 1, replicas: 2, far: security, at: home, listen: home.address(9190)})
			from := func(i *island) caller {
				return caller{pair: mac.Pair{Dialer: 0, Acceptor: 1}, security: security,
					dial: func(address string) (net.Conn, error) { return i.dial(address, "") }}
			}
			old, err := g.tryArrive(from(before))
			if err != nil {
				t.Fatal(err)
			}
			go beatAlone(old.near, 1, t.Context().Done())
			eventually(t, "a link", func() bool { return g.linksOf(0) == 1 })
			before.cutOff()
			time.Sleep(500 * time.Millisecond) // real time: half-open, with data on its way
			far, err := g.ring(from(after), g.ingressAddr())
			if err != nil {
				t.Fatal(err)
			}
			defer far.TCP.Close()
			proven := time.Now()
			if how, _, took := endOf(old.near, playLimit); how != byFIN || took > 500*time.Millisecond {
				t.Errorf("got %s after %v at the old near leg, want a FIN at once", how, took)
			}
			if len(g.local.of(0)) != 0 {
				t.Error("got a new near leg before the old one has ended, want it after")
			}
			old.near.TCP.Close()
			near, err := g.local.next(0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := far.Write(commit(0, 1)); err != nil {
				t.Fatal(err)
			}
			if _, err := near.ReadFrame(1 << 20); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(proven); took > time.Second {
				t.Errorf("got a frame through %v after the newcomer's proof, want it within 1s", took)
			}
			eventually(t, "the old link's end", func() bool { return g.closedBy("superseded") == 1 && g.linksOf(0) == 1 })
		})
	}
}
