package tlspeer_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/tlspeer"
)

var _ net.Conn = (*tlspeer.Conn)(nil)

// A request is answered once, before the next byte of data.
func TestUpdateIsAnswered(t *testing.T) {
	clientRaw, serverRaw := link(t)
	client, server := pairOver(t, clientRaw, serverRaw)
	buf := make([]byte, 4)
	for round := 1; round <= 3; round++ {
		check(t, client.KeyUpdate(round != 3)) // the last one asks for nothing
		must[int](t)(client.Write([]byte("ask")))
		if n := must[int](t)(server.Read(buf)); string(buf[:n]) != "ask" {
			t.Fatalf("got %q, want ask", buf[:n])
		}
		must[int](t)(server.Write([]byte("tell")))
		if n := must[int](t)(client.Read(buf)); string(buf[:n]) != "tell" {
			t.Fatalf("got %q, want tell", buf[:n])
		}
		if got, want := client.Updates(), min(round, 2); got != want {
			t.Errorf("round %d: client got %d updates, want %d", round, got, want)
		}
		if got := server.Updates(); got != round {
			t.Errorf("round %d: server got %d updates, want %d", round, got, round)
		}
	}
}

func TestExporter(t *testing.T) {
	ours, stock, _ := withStockServer(t)
	if ours.State().NegotiatedProtocol == "" || ours.State().Version != tls.VersionTLS13 {
		t.Errorf("got %x %q, want TLS 1.3 with its protocol", ours.State().Version, ours.State().NegotiatedProtocol)
	}
	state := stock.ConnectionState()
	want := must[[]byte](t)(state.ExportKeyingMaterial("label", nil, 32))
	for range 2 {
		if got := must[[]byte](t)(ours.Exporter("label", 32)); !bytes.Equal(got, want) {
			t.Errorf("got %x, want %x", got, want)
		}
		check(t, ours.KeyUpdate(false)) // and it stays so
	}
}

// held keeps back all writes but the first, so that the client's Finished and
// its first data arrive as one piece.
type held struct {
	net.Conn
	first bool
	kept  []byte
}

func (h *held) Write(p []byte) (int, error) {
	if !h.first {
		h.first = true
		return h.Conn.Write(p)
	}
	h.kept = append(h.kept, p...)
	return len(p), nil
}

// Data that arrives with the end of the handshake is not lost at the take-over.
func TestEarlyData(t *testing.T) {
	clientRaw, serverRaw := link(t)
	clientCfg, serverCfg := configs(t)
	done := async(func() (*tlspeer.Conn, error) { return tlspeer.Accept(serverRaw, serverCfg) })
	holding := &held{Conn: clientRaw}
	client := tls.Client(holding, clientCfg)
	check(t, client.Handshake())
	must[int](t)(client.Write([]byte("early")))
	must[int](t)(clientRaw.Write(holding.kept))
	accepted := <-done
	check(t, accepted.err)
	buf := make([]byte, 5)
	if must[int](t)(io.ReadFull(accepted.value, buf)); string(buf) != "early" {
		t.Errorf("got %q, want early", buf)
	}
}

// A server that issues tickets sends them behind the handshake: they are skipped.
func TestTicketsAreSkipped(t *testing.T) {
	clientRaw, serverRaw := link(t)
	clientCfg, serverCfg := configs(t)
	serverCfg.SessionTicketsDisabled = false
	clientCfg.SessionTicketsDisabled = false
	clientCfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	server := tls.Server(serverRaw, serverCfg)
	wrote := async(func() (int, error) { return server.Write([]byte("behind")) })
	ours := must[*tlspeer.Conn](t)(tlspeer.Dial(clientRaw, clientCfg))
	check(t, (<-wrote).err)
	buf := make([]byte, 6)
	if must[int](t)(io.ReadFull(ours, buf)); string(buf) != "behind" {
		t.Errorf("got %q, want behind", buf)
	}
}

func TestEnds(t *testing.T) {
	buf := make([]byte, 8)

	ours, stock, _ := withStockServer(t)
	check(t, ours.CloseNotify())
	if _, err := stock.Read(buf); err != io.EOF {
		t.Errorf("stock server: got %v, want io.EOF", err)
	}
	if _, err := ours.Write(buf); err == nil {
		t.Error("got a write behind close_notify, want an error")
	}
	check(t, stock.CloseWrite())
	for range 2 { // an end is final
		if _, err := ours.Read(buf); err != io.EOF {
			t.Errorf("got %v, want io.EOF", err)
		}
	}

	ours, _, raw := withStockServer(t)
	check(t, raw.Close())
	if _, err := ours.Read(buf); err != io.ErrUnexpectedEOF {
		t.Errorf("cut: got %v, want io.ErrUnexpectedEOF", err)
	}

	ours, _, _ = withStockServer(t)
	check(t, ours.Close())
	if _, err := ours.Read(buf); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: got %v, want net.ErrClosed", err)
	}
}

// spoiled changes one bit of the next write.
type spoiled struct {
	net.Conn
	armed bool
}

func (s *spoiled) Write(p []byte) (int, error) {
	if s.armed {
		p = bytes.Clone(p)
		p[len(p)-1] ^= 1
	}
	return s.Conn.Write(p)
}

// A record that does not open ends the reading, and the stock server's alert for
// one of ours arrives as what it is.
func TestBadRecord(t *testing.T) {
	clientRaw, serverRaw := link(t)
	clientCfg, serverCfg := configs(t)
	stock := tls.Server(serverRaw, serverCfg)
	done := async(func() (*tls.Conn, error) { return stock, stock.Handshake() })
	spoiling := &spoiled{Conn: clientRaw}
	ours := must[*tlspeer.Conn](t)(tlspeer.Dial(spoiling, clientCfg))
	check(t, (<-done).err)
	spoiling.armed = true
	must[int](t)(ours.Write([]byte("x")))
	if _, err := stock.Read(make([]byte, 1)); err == nil {
		t.Error("stock server: got a spoiled record, want an error")
	}
	_, err := ours.Read(make([]byte, 1))
	var code tls.AlertError
	if !errors.As(err, &code) || code != 20 { // bad_record_mac
		t.Errorf("got %v, want alert 20", err)
	}

	ours, _, raw := withStockServer(t)
	must[int](t)(raw.Write([]byte{23, 3, 3, 0, 17, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}))
	for range 2 {
		if _, err := ours.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "record 0") {
			t.Errorf("got %v, want a refusal of record 0, twice", err)
		}
	}
	ours, _, raw = withStockServer(t)
	must[int](t)(raw.Write([]byte("HTTP/1.1 400")))
	if _, err := ours.Read(make([]byte, 1)); err == nil {
		t.Error("got plaintext through, want an error")
	}
}

// cutter lets the first bytes of the next write through, the rest later.
type cutter struct {
	net.Conn
	cut  int
	rest []byte
}

func (c *cutter) Write(p []byte) (int, error) {
	if c.cut == 0 {
		return c.Conn.Write(p)
	}
	c.rest = bytes.Clone(p[c.cut:])
	_, err := c.Conn.Write(p[:c.cut])
	c.cut = 0
	return len(p), err
}

// A deadline inside a record loses nothing.
func TestDeadlineInsideRecord(t *testing.T) {
	clientRaw, serverRaw := link(t)
	cutting := &cutter{Conn: clientRaw}
	client, server := pairOver(t, cutting, serverRaw)
	for _, cut := range []int{2, 9} {
		cutting.cut = cut
		must[int](t)(client.Write([]byte("whole")))
		check(t, server.SetReadDeadline(time.Unix(1, 0)))
		if _, err := server.Read(make([]byte, 8)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("got %v, want the deadline", err)
		}
		check(t, server.SetReadDeadline(time.Now().Add(guard)))
		must[int](t)(clientRaw.Write(cutting.rest))
		buf := make([]byte, 5)
		if must[int](t)(io.ReadFull(server, buf)); string(buf) != "whole" {
			t.Errorf("got %q, want whole", buf)
		}
	}
}

func TestHandshakeFails(t *testing.T) {
	if _, err := tlspeer.Dial(nil, nil); err == nil {
		t.Error("got a connection without a configuration, want an error")
	}
	clientRaw, serverRaw := link(t)
	clientCfg, serverCfg := configs(t)
	serverCfg.MinVersion, serverCfg.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	done := async(func() (any, error) { return nil, tls.Server(serverRaw, serverCfg).Handshake() })
	if _, err := tlspeer.Dial(clientRaw, clientCfg); err == nil {
		t.Error("got a handshake with TLS 1.2, want an error")
	}
	if (<-done).err == nil {
		t.Error("stock server: got a handshake, want an error")
	}
}
