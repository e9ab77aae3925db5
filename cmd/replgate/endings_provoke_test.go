//go:build linux

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// hello is a Hello of a replica, with a nonce where it can read an answer.
func hello(id uint8, nonce bool) []byte {
	var n []byte
	if nonce {
		n = slices.Repeat([]byte{7}, wire.NonceSize)
	}
	h := wire.NewHello(stageCluster, id, n)
	return h[:]
}

// send connects to where peers come in, from a source if one is given, and says
// some bytes. The connection stays open until the test ends.
func (s *stage) send(source string, b []byte) (*net.TCPConn, error) {
	c, err := caller{source: source}.connect(s.ingressAddr())
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(playLimit))
	_, err = c.Write(b)
	return c, err
}

// saying is a provocation by bytes alone.
func (e *endings) saying(ending proxy.Ending, b []byte) provocation {
	return provocation{ending: ending, provoke: func() error {
		_, err := e.send("", b)
		return err
	}}
}

// openings are what comes instead of a Hello.
func (e *endings) openings() []provocation {
	return []provocation{
		{ending: proxy.Probe, provoke: func() error {
			c, err := e.send("", nil)
			if err == nil {
				c.Close()
			}
			return err
		}},
		e.saying(proxy.NotAFrame, []byte("GET / HTTP/1.1\r\nHost: gate\r\n\r\n")),
		e.saying(proxy.ClientFrame, speech(wire.Request, 0, nil)),
		e.saying(proxy.TLSPlaintext, hello(cleanPeer, true)),
		{ending: proxy.PlaintextRefused, provoke: func() error {
			c, err := net.Dial("tcp", e.egressAddr(higherPeer))
			if err != nil {
				return err
			}
			defer c.Close()
			if err := tls.Client(c, e.certs.Client(lab.ServerName)).Handshake(); err == nil {
				return errors.New("got a TLS handshake from a plaintext port, want none")
			}
			return nil
		}},
	}
}

// handshakes are what the handshake refuses.
func (e *endings) handshakes() []provocation {
	dirty := hello(honestPeer, true)
	dirty[250] = 1
	other := wire.NewHello(wire.ClusterIDOf("another-cluster"), honestPeer, slices.Repeat([]byte{7}, wire.NonceSize))
	return []provocation{
		e.saying(proxy.HelloCommand, speech(wire.Commit, honestPeer, nil)),
		e.saying(proxy.HelloMalformed, dirty),
		e.saying(proxy.ClusterMismatch, other[:]),
		e.saying(proxy.DirectionalRule, hello(higherPeer, true)),
		e.saying(proxy.UnknownReplica, hello(200, true)),
		e.saying(proxy.AuthRequired, hello(honestPeer, false)),
		{ending: proxy.MACMismatch, provoke: func() error {
			c, err := e.send("", hello(honestPeer, true))
			if err != nil {
				return err
			}
			if _, err := io.ReadFull(c, make([]byte, wire.HeaderSize)); err != nil {
				return fmt.Errorf("challenge: %w", err)
			}
			finish := wire.NewFinish(stageCluster, honestPeer, make([]byte, wire.MACSize))
			_, err = c.Write(finish[:])
			return err
		}},
		{ending: proxy.Rejected, provoke: func() error {
			return e.faultyPeer(e.certs.Server(), func(c net.Conn) error {
				if _, err := io.ReadFull(c, make([]byte, wire.HeaderSize)); err != nil {
					return err
				}
				reject := wire.NewReject(stageCluster, higherPeer, wire.StatusClusterMismatch)
				_, err := c.Write(reject[:])
				return err
			})
		}},
	}
}

// faultyPeer lets the local replica dial a peer that takes the connection with a
// TLS configuration and then does something else. The near side is reset.
func (e *endings) faultyPeer(config *tls.Config, then func(net.Conn) error) error {
	near, err := e.ring(caller{pair: mac.Pair{Dialer: endingsSelf, Acceptor: higherPeer}, security: "plaintext"}, e.egressAddr(higherPeer))
	if err != nil {
		return err
	}
	defer near.Close()
	e.higher.SetDeadline(time.Now().Add(playLimit))
	tcp, err := e.higher.Accept()
	if err != nil {
		return err
	}
	defer tcp.Close()
	tcp.SetDeadline(time.Now().Add(playLimit))
	c := tls.Server(tcp, config)
	if c.Handshake() == nil && then != nil { // some faults are the handshake's own
		if err := then(c); err != nil {
			return err
		}
	}
	if how, n, took := endOf(near, playLimit); how != byReset || n != 0 || took > 200*time.Millisecond {
		return fmt.Errorf("got %s after %d bytes and %v at the near leg of a refused far side, want RST, 0 and at most 200ms", how, n, took)
	}
	return nil
}

// tlsFaults are those of the other side, as a server and as a client.
func (e *endings) tlsFaults() []provocation {
	now := time.Now()
	presents := func(ending proxy.Ending, host string, from, to time.Time) provocation {
		return provocation{ending: ending, provoke: func() error {
			pki, err := replica.Mint(e.t.TempDir(), []string{host}, from, to)
			if err != nil {
				return err
			}
			pair, err := tls.LoadX509KeyPair(pki.Cert, pki.Key)
			if err != nil {
				return err
			}
			config := e.certs.Server()
			config.Certificates = []tls.Certificate{pair}
			return e.faultyPeer(config, nil)
		}}
	}
	dials := func(ending proxy.Ending, set func(*tls.Config)) provocation {
		return provocation{ending: ending, provoke: func() error {
			c, err := e.send("", nil)
			if err != nil {
				return err
			}
			config := e.certs.Client(lab.ServerName)
			set(config)
			if tls.Client(c, config).Handshake() == nil {
				return errors.New("got a TLS handshake, want none")
			}
			return nil
		}}
	}
	return []provocation{
		presents(proxy.TLSUnknownCA, lab.ServerName, now.Add(-time.Hour), now.Add(time.Hour)),
		presents(proxy.TLSExpired, lab.ServerName, now.Add(-2*time.Hour), now.Add(-time.Hour)),
		presents(proxy.TLSNotYetValid, lab.ServerName, now.Add(time.Hour), now.Add(2*time.Hour)),
		presents(proxy.TLSNameMismatch, "another.test", now.Add(-time.Hour), now.Add(time.Hour)),
		dials(proxy.TLSVersion, func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }),
		dials(proxy.TLSALPN, func(c *tls.Config) { c.NextProtos = []string{"h2"} }),
		dials(proxy.TLSAlert, func(c *tls.Config) { c.NextProtos = longNames(5000) }),
	}
}

// longNames are protocols that make a ClientHello longer by about n bytes.
func longNames(n int) (names []string) {
	for ; n > 200; n -= 200 {
		names = append(names, strings.Repeat("x", 190)+fmt.Sprint(n))
	}
	return names
}

// dials are peers and a local replica that cannot be reached.
func (e *endings) dials() []provocation {
	leave := func(ending proxy.Ending, peer uint8, slow bool) provocation {
		return provocation{ending: ending, slow: slow, provoke: func() error {
			near, err := e.ring(caller{pair: mac.Pair{Dialer: endingsSelf, Acceptor: peer}, security: "plaintext"}, e.egressAddr(peer))
			if err != nil {
				return err
			}
			defer near.Close()
			if how, n, took := endOf(near, playLimit); how != byReset || n != 0 || !slow && took > 200*time.Millisecond {
				return fmt.Errorf("got %s after %d bytes and %v at the near leg, want RST and nothing before it", how, n, took)
			}
			return nil
		}}
	}
	refused := leave(proxy.DialRefused, higherPeer, false)
	return []provocation{
		{ending: proxy.DialRefused, provoke: func() error {
			e.higher.Close()
			err := refused.provoke()
			e.higher = e.listenAs(higherPeer)
			return err
		}},
		leave(proxy.DialTimeout, deafPeer, true),
		leave(proxy.DNSFailed, nobodyPeer, true),
		{ending: proxy.LocalDown, provoke: func() error {
			e.local.ln.Close()
			defer func() { e.local = openHall(e.t, e.net.Replica(endingsSelf)) }()
			c, err := e.ring(caller{pair: mac.Pair{Dialer: cleanPeer, Acceptor: endingsSelf}, security: "tls"}, e.ingressAddr())
			if err != nil {
				return err
			}
			defer c.Close()
			if how, n, took := endOf(c, playLimit); how == byTime || n != 0 || took > 200*time.Millisecond {
				return fmt.Errorf("got %s after %d bytes and %v at the far leg, want its end at once", how, n, took)
			}
			return nil
		}},
	}
}
