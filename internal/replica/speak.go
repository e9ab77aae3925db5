package replica

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// Voice is how a stand-in speaks on a connection.
type Voice struct {
	Cluster wire.ClusterID
	Pair    mac.Pair
	// Keys is nil for plaintext.
	Keys *mac.Keyring
	// TLS is nil for plaintext and psk: a client configuration for the dialer,
	// a server one for the acceptor.
	TLS *tls.Config
}

// Conn is a connection after its handshake. Reads and writes go through TLS
// where there is one.
type Conn struct {
	net.Conn
	TCP *net.TCPConn
}

// Dial connects to addr and takes the dialer's half of the handshake, both before
// ctx ends.
func (v Voice) Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	conn := &Conn{Conn: c, TCP: c.(*net.TCPConn)}
	if deadline, ok := ctx.Deadline(); ok { // for who does not answer a Hello
		c.SetDeadline(deadline)
	}
	if err := v.dial(ctx, conn); err != nil {
		c.Close()
		return nil, err
	}
	return conn, c.SetDeadline(time.Time{})
}

func (v Voice) dial(ctx context.Context, c *Conn) error {
	binding := mac.Binding{}
	if v.TLS != nil {
		t := tls.Client(c.TCP, v.TLS)
		var err error
		if binding, err = secure(ctx, t); err != nil {
			return err
		}
		c.Conn = t
	}
	d := mac.NewDialer(v.Pair, v.options(binding))
	hello := d.Hello(nonce())
	if _, err := c.Write(hello[:]); err != nil {
		return fmt.Errorf("replica: hello: %w", err)
	}
	if v.Keys == nil {
		return nil
	}
	challenge, err := readHeader(c)
	if err != nil {
		return fmt.Errorf("replica: challenge: %w", err)
	}
	finish, _, err := d.Challenge(challenge)
	if err != nil {
		return err
	}
	_, err = c.Write(finish[:])
	return err
}

// Accept takes the acceptor's half of the handshake on an accepted connection.
func (v Voice) Accept(ctx context.Context, tcp *net.TCPConn) (*Conn, error) {
	c := &Conn{Conn: tcp, TCP: tcp}
	binding := mac.Binding{}
	if v.TLS != nil {
		t := tls.Server(tcp, v.TLS)
		var err error
		if binding, err = secure(ctx, t); err != nil {
			return nil, err
		}
		c.Conn = t
	}
	a := mac.NewAcceptor(v.Pair.Acceptor, v.options(binding))
	hello, err := readHeader(c)
	if err != nil {
		return nil, fmt.Errorf("replica: hello: %w", err)
	}
	if err := a.Hello(hello); err != nil {
		return nil, err
	}
	if got := wire.Replica.Get(hello); got != v.Pair.Dialer || hello.ClusterID() != v.Cluster {
		return nil, fmt.Errorf("replica: got a Hello from replica %d of cluster %x, want replica %d", got, hello.ClusterID(), v.Pair.Dialer)
	}
	if err := a.Accept(); err != nil || v.Keys == nil {
		return c, err
	}
	challenge := a.Challenge(nonce())
	if _, err := c.Write(challenge[:]); err != nil {
		return nil, fmt.Errorf("replica: challenge: %w", err)
	}
	finish, err := readHeader(c)
	if err != nil {
		return nil, fmt.Errorf("replica: finish: %w", err)
	}
	_, err = a.Finish(finish)
	return c, err
}

func (v Voice) options(binding mac.Binding) mac.Options {
	return mac.Options{Cluster: v.Cluster, Keys: v.Keys, Binding: binding, Strict: true}
}

func secure(ctx context.Context, t *tls.Conn) (mac.Binding, error) {
	if err := t.HandshakeContext(ctx); err != nil {
		return mac.Binding{}, fmt.Errorf("replica: tls: %w", err)
	}
	state := t.ConnectionState()
	exporter, err := state.ExportKeyingMaterial(mac.ExporterLabel, nil, mac.ExporterSize)
	if err != nil {
		return mac.Binding{}, err
	}
	return mac.TLS([mac.ExporterSize]byte(exporter)), nil
}

func readHeader(r io.Reader) (*wire.Header, error) {
	h := new(wire.Header)
	_, err := io.ReadFull(r, h[:])
	return h, err
}

func nonce() (n [wire.NonceSize]byte) {
	rand.Read(n[:])
	return n
}
