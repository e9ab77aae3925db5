package tlspeer_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/replgate/replgate/internal/tlspeer"
)

const mebi = 1 << 20

// stream is endless content that both ends can make.
func stream(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

// pour writes n MiB of a stream in uneven pieces, with a request for new keys
// behind each MiB when update is set.
func pour(to io.Writer, from io.Reader, n int, update func(bool) error) error {
	buf := make([]byte, mebi)
	for range n {
		if _, err := io.ReadFull(from, buf); err != nil {
			return err
		}
		for at, size := 0, 1; at < mebi; at, size = at+size, size*3+1 {
			size = min(size, mebi-at)
			if _, err := to.Write(buf[at : at+size]); err != nil {
				return err
			}
		}
		if update == nil {
			continue
		}
		if err := update(true); err != nil {
			return err
		}
	}
	return nil
}

// drink reads n MiB and compares them with a stream.
func drink(from io.Reader, want io.Reader, n int) error {
	got, expected := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := 0; at < n*mebi; at += len(got) {
		if _, err := io.ReadFull(from, got); err != nil {
			return fmt.Errorf("at byte %d: %w", at, err)
		}
		if _, err := io.ReadFull(want, expected); err != nil {
			return err
		}
		if !bytes.Equal(got, expected) {
			return fmt.Errorf("got other bytes between %d and %d, want the stream", at, at+len(got))
		}
	}
	return nil
}

// both pours and drinks at once.
func both(t *testing.T, conn io.ReadWriter, send, receive byte, n int, update func(bool) error) {
	t.Helper()
	poured := async(func() (any, error) { return nil, pour(conn, stream(send), n, update) })
	if err := drink(conn, stream(receive), n); err != nil {
		t.Errorf("receiving: %v", err)
	}
	if err := (<-poured).err; err != nil {
		t.Errorf("sending: %v", err)
	}
}

// 50 MiB through a stock server and back, new keys asked for each MiB: the keys
// of both directions change 50 times.
func TestEchoAgainstStockServer(t *testing.T) {
	const size = 50
	ours, server, _ := withStockServer(t)
	echoed := async(func() (int64, error) { return io.Copy(server, struct{ io.Reader }{server}) })
	both(t, ours, 1, 1, size, ours.KeyUpdate)
	check(t, ours.CloseNotify())
	if echo := <-echoed; echo.err != nil || echo.value != size*mebi {
		t.Errorf("server: got %d bytes and %v, want %d and its end by close_notify", echo.value, echo.err, size*mebi)
	}
	// The last answer lies behind the last byte; the end comes behind it.
	check(t, server.CloseWrite())
	if _, err := ours.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %v, want io.EOF", err)
	}
	if got := ours.Updates(); got != size {
		t.Errorf("got %d updates of the server's key, want %d", got, size)
	}
}

// The server's role: 8 MiB each way at once against a stock client.
func TestStreamsAgainstStockClient(t *testing.T) {
	const size = 8
	clientRaw, serverRaw := link(t)
	clientCfg, serverCfg := configs(t)
	client := tls.Client(clientRaw, clientCfg)
	done := async(func() (*tls.Conn, error) { return client, client.Handshake() })
	ours := must[*tlspeer.Conn](t)(tlspeer.Accept(serverRaw, serverCfg))
	check(t, (<-done).err)
	theirs := async(func() (any, error) { both(t, client, 2, 3, size, nil); return nil, client.CloseWrite() })
	both(t, ours, 3, 2, size, ours.KeyUpdate)
	check(t, (<-theirs).err)
	if _, err := ours.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("got %v, want io.EOF", err)
	}
	if got := ours.Updates(); got < 1 || got > size {
		t.Errorf("got %d updates of the client's key, want 1 to %d", got, size)
	}
}

// talk pours and drinks at once and goes on reading until the other side's end.
func talk(conn *tlspeer.Conn, send, receive byte, n int) error {
	poured := async(func() (any, error) {
		return nil, errors.Join(pour(conn, stream(send), n, conn.KeyUpdate), conn.CloseNotify())
	})
	err := drink(conn, stream(receive), n)
	if _, end := conn.Read(make([]byte, 1)); err == nil && end != io.EOF {
		err = fmt.Errorf("got %v, want io.EOF: %w", end, end)
	}
	return errors.Join(err, (<-poured).err)
}

// Both ends ask all the time over a pipe that holds no byte: an end that stopped
// reading to write its answer would stand still here.
func TestStreamsWithoutRoom(t *testing.T) {
	const size = 4
	clientRaw, serverRaw := net.Pipe()
	watch(t, clientRaw, serverRaw)
	client, server := pairOver(t, clientRaw, serverRaw)
	theirs := async(func() (any, error) { return nil, talk(server, 5, 4, size) })
	if err := talk(client, 4, 5, size); err != nil {
		t.Errorf("client: %v", err)
	}
	if err := (<-theirs).err; err != nil {
		t.Errorf("server: %v", err)
	}
	for _, end := range []*tlspeer.Conn{client, server} {
		if got := end.Updates(); got < size || got > 2*size {
			t.Errorf("got %d updates, want %d of its own will and at most as many answers", got, size)
		}
		check(t, end.Close())
	}
}

// entering tells when a write has begun, once it is armed.
type entering struct {
	net.Conn
	begun chan struct{}
}

func (e *entering) Write(p []byte) (int, error) {
	select {
	case e.begun <- struct{}{}: // nil before it is armed: never ready
	default:
	}
	return e.Conn.Write(p)
}

// Two requests meet where there is no room: both ends are inside the write of
// theirs before either reads. A reader that wrote its answer itself would wait
// for the other reader, which waits for it.
func TestRequestsMeet(t *testing.T) {
	clientRaw, serverRaw := net.Pipe()
	watch(t, clientRaw, serverRaw)
	ends := []*entering{{Conn: clientRaw}, {Conn: serverRaw}}
	client, server := pairOver(t, ends[0], ends[1])
	var asked []<-chan result[int]
	for i, conn := range []*tlspeer.Conn{client, server} {
		ends[i].begun = make(chan struct{}, 1)
		asked = append(asked, async(func() (int, error) {
			if err := conn.KeyUpdate(true); err != nil {
				return 0, err
			}
			return conn.Write([]byte("x"))
		}))
		<-ends[i].begun
	}
	read := func(conn *tlspeer.Conn) func() (int, error) {
		return func() (int, error) { return conn.Read(make([]byte, 1)) }
	}
	for _, done := range append(asked, async(read(client)), async(read(server))) {
		if got := <-done; got.err != nil || got.value != 1 {
			t.Errorf("got %d bytes and %v, want 1 and none", got.value, got.err)
		}
	}
}
