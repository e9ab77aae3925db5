//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// hall is where a local replica, or a peer that speaks plaintext, is dialed: it
// takes the Hello and hands out connections by the id that it names.
type hall struct {
	ln   *net.TCPListener
	mu   sync.Mutex
	came map[uint8]chan *replica.Conn
	all  []*net.TCPConn // a connection that nobody holds any more would be closed
}

func openHall(t *testing.T, address string) *hall {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return hallOn(t, ln)
}

func hallOn(t *testing.T, ln net.Listener) *hall {
	h := &hall{ln: ln.(*net.TCPListener), came: map[uint8]chan *replica.Conn{}}
	t.Cleanup(h.close)
	go h.receive()
	return h
}

func (h *hall) close() {
	h.ln.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.all {
		c.Close()
	}
}

func (h *hall) of(id uint8) chan *replica.Conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.came[id] == nil {
		h.came[id] = make(chan *replica.Conn, 1024)
	}
	return h.came[id]
}

func (h *hall) receive() {
	for {
		tcp, err := h.ln.AcceptTCP()
		if err != nil {
			return
		}
		h.mu.Lock()
		h.all = append(h.all, tcp)
		h.mu.Unlock()
		go func() {
			hello := new(wire.Header)
			tcp.SetReadDeadline(time.Now().Add(playLimit))
			if _, err := io.ReadFull(tcp, hello[:]); err != nil {
				tcp.Close()
				return
			}
			tcp.SetReadDeadline(time.Time{})
			h.of(wire.Replica.Get(hello)) <- &replica.Conn{Conn: tcp, TCP: tcp}
		}()
	}
}

// next waits for the connection that comes for a peer.
func (h *hall) next(id uint8) (*replica.Conn, error) {
	select {
	case c := <-h.of(id):
		return c, nil
	case <-time.After(playLimit):
		return nil, fmt.Errorf("got no connection for replica %d, want one", id)
	}
}

// caller is how a stand-in of a peer comes to a gate.
type caller struct {
	pair     mac.Pair
	security string
	source   string         // the address it comes from; any where empty
	keys     *mac.Keyring   // the stage's where nil
	cluster  wire.ClusterID // the recordings' where zero
	dial     func(address string) (net.Conn, error)
}

// connect opens the TCP connection alone.
func (c caller) connect(address string) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: playLimit}
	if c.source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(c.source)}
	}
	dial := c.dial
	if dial == nil {
		dial = func(address string) (net.Conn, error) { return d.Dial("tcp", address) }
	}
	tcp, err := dial(address)
	if err != nil {
		return nil, err
	}
	return tcp.(*net.TCPConn), nil
}

// ring connects and takes the dialer's half of the handshake; keys are the
// stage's unless the caller has others.
func (s *stage) ring(c caller, address string) (*replica.Conn, error) {
	tcp, err := c.connect(address)
	if err != nil {
		return nil, err
	}
	conn := &replica.Conn{Conn: tcp, TCP: tcp}
	tcp.SetDeadline(time.Now().Add(playLimit))
	if err := s.shake(c, conn); err != nil {
		tcp.Close()
		return nil, err
	}
	tcp.SetDeadline(time.Time{})
	return conn, nil
}

func (s *stage) shake(c caller, conn *replica.Conn) error {
	o := mac.Options{Cluster: c.cluster, Strict: true}
	if o.Cluster == (wire.ClusterID{}) {
		o.Cluster = stageCluster
	}
	if c.security == "tls" {
		t := tls.Client(conn.TCP, s.certs.Client(lab.ServerName))
		if err := t.Handshake(); err != nil {
			return err
		}
		state := t.ConnectionState()
		exporter, err := state.ExportKeyingMaterial(mac.ExporterLabel, nil, mac.ExporterSize)
		if err != nil {
			return err
		}
		conn.Conn, o.Binding = t, mac.TLS([mac.ExporterSize]byte(exporter))
	}
	if c.security != "plaintext" {
		if o.Keys = c.keys; o.Keys == nil {
			o.Keys = s.keys
		}
	}
	var nonce [wire.NonceSize]byte
	rand.Read(nonce[:])
	d := mac.NewDialer(c.pair, o)
	hello := d.Hello(nonce)
	if _, err := conn.Write(hello[:]); err != nil || o.Keys == nil {
		return err
	}
	challenge := new(wire.Header)
	if _, err := io.ReadFull(conn, challenge[:]); err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	finish, _, err := d.Challenge(challenge)
	if err != nil {
		return err
	}
	_, err = conn.Write(finish[:])
	return err
}

// bond is both ends of one link through the gate.
type bond struct{ far, near *replica.Conn }

func (b bond) close() {
	b.far.TCP.Close()
	b.near.TCP.Close()
}

// arrive makes an ingress link: a peer with a lower id comes in. security is what
// the stage was told for that peer.
func (s *stage) arrive(id uint8, security string) bond {
	s.t.Helper()
	b, err := s.tryArrive(caller{pair: mac.Pair{Dialer: id, Acceptor: uint8(s.id)}, security: security})
	if err != nil {
		s.t.Fatalf("an ingress link of replica %d: %v", id, err)
	}
	return b
}

func (s *stage) tryArrive(c caller) (bond, error) {
	far, err := s.ring(c, s.ingressAddr())
	if err != nil {
		return bond{}, err
	}
	near, err := s.local.next(c.pair.Dialer)
	if err != nil {
		far.TCP.Close()
		return bond{}, err
	}
	b := bond{far, near}
	s.t.Cleanup(b.close)
	return b, nil
}

// leaveFor makes an egress link: the local replica dials a higher id, whose
// listener is given.
func (s *stage) leaveFor(id uint8, ln *net.TCPListener, security string) bond {
	s.t.Helper()
	near, err := s.ring(caller{pair: mac.Pair{Dialer: uint8(s.id), Acceptor: id}, security: "plaintext"}, s.egressAddr(id))
	if err != nil {
		s.t.Fatal(err)
	}
	far, err := s.greet(ln, id, security)
	if err != nil {
		s.t.Fatalf("an egress link to replica %d: %v", id, err)
	}
	b := bond{far, near}
	s.t.Cleanup(b.close)
	return b
}

// greet accepts a connection as peer id and takes the acceptor's half.
func (s *stage) greet(ln *net.TCPListener, id uint8, security string) (*replica.Conn, error) {
	ln.SetDeadline(time.Now().Add(playLimit))
	tcp, err := ln.AcceptTCP()
	if err != nil {
		return nil, err
	}
	v := replica.Voice{Cluster: stageCluster, Pair: mac.Pair{Dialer: uint8(s.id), Acceptor: id}}
	if security != "plaintext" {
		v.Keys = s.keys
	}
	if security == "tls" {
		v.TLS = s.certs.Server()
	}
	tcp.SetDeadline(time.Now().Add(playLimit))
	c, err := v.Accept(context.Background(), tcp)
	if err != nil {
		tcp.Close()
		return nil, err
	}
	tcp.SetDeadline(time.Time{})
	return c, nil
}

// listenAs opens the listener of a peer with a higher id.
func (s *stage) listenAs(id uint8) *net.TCPListener {
	s.t.Helper()
	ln, err := net.Listen("tcp", s.net.Ingress(int(id)))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { ln.Close() })
	return ln.(*net.TCPListener)
}

var stageCluster = wire.ClusterIDOf("iggy-cluster")

// replicaTLS takes the client's half of TLS as a replica does.
func replicaTLS(s *stage, tcp *net.TCPConn) (net.Conn, error) {
	c := tls.Client(tcp, s.certs.Client(lab.ServerName))
	return c, c.Handshake()
}
