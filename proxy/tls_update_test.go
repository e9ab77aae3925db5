package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/tlspeer"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
)

// updater is the far end of a TLS link that changes its keys, and asks for the
// gate's, behind every MiB that it has said: what rustls does after 2^24 records.
type updater struct {
	*tlspeer.Conn
	said, asked int
}

func (u *updater) Write(p []byte) (int, error) {
	n, err := u.Conn.Write(p)
	u.said += n
	if err == nil && u.said >= (u.asked+1)<<20 {
		u.asked++
		err = u.KeyUpdate(true)
	}
	return n, err
}

// openUpdating makes a link whose far end is an updater.
func (g *gate) openUpdating(egress bool) (near net.Conn, far *updater) {
	t := g.t
	t.Helper()
	options := func(c *tlspeer.Conn) mac.Options {
		b, err := c.Exporter(mac.ExporterLabel, mac.ExporterSize)
		if err != nil {
			t.Fatal(err)
		}
		return mac.Options{Cluster: cluster, Keys: secret, Strict: true, Binding: mac.TLS([mac.ExporterSize]byte(b))}
	}
	if !egress {
		c, err := tlspeer.Dial(raw(t, g.ingress()), g.certs.Client("127.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		d := mac.NewDialer(g.inPair(), options(c))
		first := d.Hello(nonce(7))
		send(t, c, first[:])
		finish, _, err := d.Challenge(readHeader(t, c))
		if err != nil {
			t.Fatal(err)
		}
		send(t, c, finish[:])
		n := accept(t, g.upstream)
		readHeader(t, n)
		return n, &updater{Conn: c}
	}
	n := raw(t, g.egress())
	send(t, n, hello(g.local, withoutNonce))
	c, err := tlspeer.Accept(accept(t, g.peers), g.certs.Server())
	if err != nil {
		t.Fatal(err)
	}
	a := mac.NewAcceptor(g.higher(), options(c))
	if err := a.Hello(readHeader(t, c)); err != nil {
		t.Fatal(err)
	}
	challenge := a.Challenge(nonce(9))
	send(t, c, challenge[:])
	if _, err := a.Finish(readHeader(t, c)); err != nil {
		t.Fatal(err)
	}
	return n, &updater{Conn: c}
}

// stream is many frames of all sizes, stored ones and longer ones.
func stream(sender uint8, bytes int, seed uint64) []byte {
	var all []byte
	for op := uint64(1); len(all) < bytes; op++ {
		all = append(all, commit(sender, op)...)
		all = append(all, messages(op, noise(int(op*7919)%20_000, seed+op))...)
		if op%16 == 0 {
			all = append(all, messages(op, noise(3*storeLimit+int(op), seed^op))...)
		}
	}
	return all
}

// talk says all of say on c while it holds what it hears against want.
func talk(c io.ReadWriter, say, want []byte) error {
	var both sync.WaitGroup
	var said error
	both.Go(func() {
		for at := 0; at < len(say) && said == nil; at += 50_000 {
			_, said = c.Write(say[at:min(at+50_000, len(say))])
		}
	})
	got := make([]byte, len(want))
	n, heard := io.ReadFull(c, got)
	both.Wait()
	switch {
	case heard != nil:
		return fmt.Errorf("got %d bytes of %d: %w", n, len(want), heard)
	case !bytes.Equal(got, want):
		return fmt.Errorf("got %d other bytes than were said", n)
	}
	return said
}

// A peer that asks for new keys at every MiB, in both roles, while both directions
// are full: every byte arrives, and every request is answered.
func TestTLSKeyUpdateUnderLoad(t *testing.T) {
	const volume = 12 << 20
	for _, egress := range []bool{false, true} {
		t.Run(fmt.Sprintf("egress %v", egress), func(t *testing.T) {
			g := start(t, spec{far: proxy.TLS})
			near, far := g.openUpdating(egress)
			g.await("an opened link", func() bool { return len(g.opened) == 1 })
			peer := g.lower()
			if egress {
				peer = g.higher()
			}
			in, out := stream(peer, volume, 1), stream(g.local, volume, 2)
			var both sync.WaitGroup
			var nearErr, farErr error
			both.Go(func() { nearErr = talk(near, out, in) })
			both.Go(func() { farErr = talk(far, in, out) })
			both.Wait()
			if nearErr != nil || farErr != nil {
				t.Fatalf("near: %v; far: %v; log:\n%s", nearErr, farErr, g.text())
			}
			if far.asked < volume>>20 {
				t.Errorf("got %d requests for new keys, want one for each MiB", far.asked)
			}
			// The answers to the last requests may lie behind the last frame.
			token := commit(g.local, 5000)
			send(t, near, token)
			receive(t, far, token)
			if n := far.Updates(); n < 1 || n > far.asked {
				t.Errorf("got %d answers to %d requests", n, far.asked)
			}
			g.wantRejected()
		})
	}
}

// An update without a request is followed and not answered.
func TestTLSKeyUpdateUnasked(t *testing.T) {
	g := start(t, spec{far: proxy.TLS})
	near, far := g.openUpdating(false)
	for token := range uint64(20) {
		if err := far.KeyUpdate(false); err != nil {
			t.Fatal(err)
		}
		send(t, far, commit(0, token))
		receive(t, near, commit(0, token))
		send(t, near, commit(1, token))
		receive(t, far, commit(1, token))
	}
	if n := far.Updates(); n != 0 {
		t.Errorf("got %d updates of the gate's keys, want none: nobody asked", n)
	}
}

// An update in the middle of a frame is none of the frame's business.
func TestTLSKeyUpdateInsideFrame(t *testing.T) {
	g := start(t, spec{far: proxy.TLS})
	near, far := g.openUpdating(false)
	for _, frame := range [][]byte{commit(0, 1), messages(2, noise(20_000, 1)), messages(3, noise(4*storeLimit, 2)), commit(0, 4)} {
		for at := 0; at < len(frame); at += 1 + len(frame)/5 {
			send(t, far.Conn, frame[at:min(at+1+len(frame)/5, len(frame))])
			if err := far.KeyUpdate(true); err != nil {
				t.Fatal(err)
			}
		}
		receive(t, near, frame)
	}
	send(t, near, commit(1, 9))
	receive(t, far, commit(1, 9))
	if far.Updates() == 0 {
		t.Error("got no update of the gate's keys, want one for what was asked")
	}
}

// What a peer sees when a link ends in order: close_notify, then
// the end.
func TestTLSEndsWithCloseNotify(t *testing.T) {
	for _, egress := range []bool{false, true} {
		t.Run(fmt.Sprintf("egress %v", egress), func(t *testing.T) {
			g := start(t, spec{far: proxy.TLS})
			near, far := g.openUpdating(egress)
			peer := map[bool]uint8{false: g.lower(), true: g.higher()}[egress]
			send(t, far.Conn, commit(peer, 1))
			receive(t, near, commit(peer, 1)) // the link is up: one that ends sooner than it is proven is none
			send(t, near, commit(1, 1))
			near.(*net.TCPConn).CloseWrite()
			receive(t, far, commit(1, 1))
			if got, err := rest(far); len(got) != 0 || err != nil {
				t.Errorf("got %d bytes and %v, want a close_notify", len(got), err)
			}
			far.Close()
			near.Close()
			g.wantClosed("local_eof")
		})
	}
}

// holding keeps what is written until it is let go, so that it leaves in one
// packet.
type holding struct {
	net.Conn
	held []byte
}

func (h *holding) Write(b []byte) (int, error) {
	h.held = append(h.held, b...)
	return len(b), nil
}

// A KeyUpdate behind a frame in the same packet, and then silence: the frame is not
// kept until something else comes. The gate reads many records at once, and one
// without data must not make it wait for the next.
func TestUpdateBehindAFrame(t *testing.T) {
	g := start(t, spec{far: proxy.TLS})
	near, far := g.openUpdating(false)
	grow := stream(0, 4<<20, 1) // a buffer that has room for many records
	go far.Conn.Write(grow)
	if _, err := io.CopyN(io.Discard, near, int64(len(grow))); err != nil {
		t.Fatal(err)
	}
	h := &holding{Conn: far.Conn.Conn}
	far.Conn.Conn = h
	frame := commit(0, 1)
	send(t, far.Conn, frame)
	if err := far.KeyUpdate(false); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Conn.Write(h.held); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(frame))
	near.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(near, got); err != nil || !bytes.Equal(got, frame) {
		t.Errorf("got %v in place of the frame before the KeyUpdate, want it at once", err)
	}
}
