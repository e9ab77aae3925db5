package standin

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// peer is a connection after its handshake.
type peer struct {
	id    uint8
	conn  net.Conn
	queue chan []byte
}

// errHandshake is a handshake that ends without a reason of package mac.
var errHandshake = errors.New("standin: the handshake was refused")

// dial keeps a connection to a peer: dial, serve to its end, pause, again.
func (n *Node) dial(ctx context.Context, id uint8, address string) {
	for {
		if conn, err := n.dialOnce(ctx, id, address); err == nil {
			n.serve(ctx, &peer{id: id, conn: conn, queue: make(chan []byte, n.cfg.Queue)})
		}
		if !n.pause(ctx) {
			return
		}
	}
}

// pause lets the redial period pass, false when it is time to end.
func (n *Node) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(n.cfg.Redial):
		return true
	}
}

func (n *Node) dialOnce(ctx context.Context, id uint8, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Handshake)
	defer cancel()
	tcp, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	var secure *tls.Conn
	if n.cfg.ClientTLS != nil {
		secure = tls.Client(tcp, n.cfg.ClientTLS(id))
	}
	conn, err := n.shake(ctx, tcp, secure, func(conn net.Conn, opts mac.Options) error { return n.hello(conn, id, opts) })
	if err != nil {
		n.refused()
	}
	return conn, err
}

func (n *Node) accept(ctx context.Context) {
	for {
		tcp, err := n.cfg.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !n.pause(ctx) {
				return
			}
			continue
		}
		n.tasks.Go(func() { n.welcome(ctx, tcp) })
	}
}

func (n *Node) welcome(ctx context.Context, tcp net.Conn) {
	shaking, cancel := context.WithTimeout(ctx, n.cfg.Handshake)
	defer cancel()
	var secure *tls.Conn
	if n.cfg.ServerTLS != nil {
		secure = tls.Server(tcp, n.cfg.ServerTLS)
	}
	var id uint8
	conn, err := n.shake(shaking, tcp, secure, func(conn net.Conn, opts mac.Options) (err error) {
		id, err = n.challenge(conn, opts)
		return err
	})
	if err != nil {
		n.refused()
		return
	}
	n.serve(ctx, &peer{id: id, conn: conn, queue: make(chan []byte, n.cfg.Queue)})
}

// shake secures a connection and runs one side's handshake; whatever fails, the
// connection is closed.
func (n *Node) shake(ctx context.Context, tcp net.Conn, secure *tls.Conn, side func(net.Conn, mac.Options) error) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { tcp.Close() })
	conn, opts := tcp, mac.Options{Cluster: n.cfg.Cluster, Keys: n.cfg.Keys, Strict: true}
	err := error(nil)
	if secure != nil {
		conn = secure
		if err = secure.HandshakeContext(ctx); err == nil {
			opts.Binding, err = binding(secure)
		}
	}
	if err == nil {
		err = side(conn, opts)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		tcp.Close()
		return nil, err
	}
	return conn, nil
}

func binding(secure *tls.Conn) (mac.Binding, error) {
	state := secure.ConnectionState()
	exporter, err := state.ExportKeyingMaterial(mac.ExporterLabel, nil, mac.ExporterSize)
	if err != nil {
		return mac.Binding{}, err
	}
	return mac.TLS([mac.ExporterSize]byte(exporter)), nil
}

// hello is the dialer's side.
func (n *Node) hello(conn net.Conn, id uint8, opts mac.Options) error {
	d := mac.NewDialer(mac.Pair{Dialer: n.cfg.ID, Acceptor: id}, opts)
	hello := d.Hello(nonce())
	if _, err := conn.Write(hello[:]); err != nil || n.cfg.Keys == nil {
		return err
	}
	var h wire.Header
	if _, err := io.ReadFull(conn, h[:]); err != nil {
		return err
	}
	finish, _, err := d.Challenge(&h)
	if err == nil {
		_, err = conn.Write(finish[:])
	}
	return err
}

// challenge is the acceptor's side; it returns who dialed.
func (n *Node) challenge(conn net.Conn, opts mac.Options) (uint8, error) {
	a := mac.NewAcceptor(n.cfg.ID, opts)
	var h wire.Header
	if _, err := io.ReadFull(conn, h[:]); err != nil {
		return 0, err
	}
	if err := a.Hello(&h); err != nil {
		return 0, n.reject(conn, a, wire.StatusUnknownCommand, err)
	}
	id := wire.Replica.Get(&h)
	switch {
	case h.ClusterID() != n.cfg.Cluster:
		return 0, n.reject(conn, a, wire.StatusClusterMismatch, errHandshake)
	case id >= n.cfg.ID:
		return 0, n.reject(conn, a, wire.StatusDirectionalRule, errHandshake)
	}
	if err := a.Accept(); err != nil || n.cfg.Keys == nil {
		return id, err
	}
	challenge := a.Challenge(nonce())
	if _, err := conn.Write(challenge[:]); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(conn, h[:]); err != nil {
		return 0, err
	}
	_, err := a.Finish(&h)
	return id, err
}

// reject tells a dialer that can read it why (§7.1), and returns err.
func (n *Node) reject(conn net.Conn, a *mac.Acceptor, status wire.Status, err error) error {
	if frame, ok := a.Reject(status); ok {
		_, _ = conn.Write(frame[:])
	}
	return fmt.Errorf("standin: status %v: %w", status, err)
}

func nonce() (b [wire.NonceSize]byte) {
	rand.Read(b[:])
	return b
}

// serve is a connection's life after its handshake: this goroutine reads, one
// more writes; the end of either is the end of both.
func (n *Node) serve(ctx context.Context, p *peer) {
	defer p.conn.Close()
	stop := context.AfterFunc(ctx, func() { p.conn.Close() })
	defer stop()
	if !n.register(p) {
		return
	}
	done := make(chan struct{})
	n.tasks.Go(func() { n.write(p, done) })
	cut, err := n.read(p)
	n.unregister(p, cut)
	close(done)
	if fault, ok := errors.AsType[*Fault](err); ok {
		n.stop(fault)
	}
}

func (n *Node) write(p *peer, done <-chan struct{}) {
	defer p.conn.Close()
	w := bufio.NewWriterSize(p.conn, 64<<10)
	for {
		select {
		case <-done:
			return
		case frame := <-p.queue:
			if _, err := w.Write(frame); err != nil {
				return
			}
			if len(p.queue) == 0 && w.Flush() != nil {
				return
			}
		}
	}
}

// read takes frames to the connection's end and says whether that cut one. A
// header is judged before a byte of its body is awaited: nothing vouches for the
// size of one that does not hold.
func (n *Node) read(p *peer) (cut bool, err error) {
	r := wire.NewReader(wire.Limits{MaxFrame: n.cfg.MaxFrame, Store: wire.HeaderSize, Buffer: 64 << 10})
	var frame []byte // one whose body is under way
	for {
		got, err := p.conn.Read(r.Free())
		r.Filled(got)
		if fault := n.frames(p, r, &frame); fault != nil {
			return false, fault
		}
		if err != nil {
			return r.Inside() || frame != nil, err
		}
	}
}

// frames hands on all that is whole.
func (n *Node) frames(p *peer, r *wire.Reader, frame *[]byte) error {
	for {
		if *frame == nil {
			next, err := r.Next()
			if err == nil && next.Head() != nil {
				err = header(next.Head())
			}
			if err != nil {
				fault := &Fault{Replica: n.cfg.ID, Peer: p.id, Err: err}
				if next.Head() != nil {
					fault.Head = *next.Head()
				}
				return fault
			}
			if next.Head() == nil {
				return nil
			}
			*frame = append(make([]byte, 0, wire.Size.Get(next.Head())), next.Bytes...)
		}
		for len(*frame) < cap(*frame) {
			more := r.Take(cap(*frame) - len(*frame))
			if len(more) == 0 {
				return nil
			}
			*frame = append(*frame, more...)
		}
		whole := *frame
		*frame = nil
		if err := n.receive(p, whole); err != nil {
			return err
		}
	}
}
