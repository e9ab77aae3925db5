package tlspeer_test

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/tlspeer"
)

// guard ends a test that hangs; no result depends on it.
const guard = 60 * time.Second

// must ends the test on an error.
func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// check ends the test on an error.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// configs are a client's and a server's configuration as replicas have them.
func configs(t *testing.T) (client, server *tls.Config) {
	t.Helper()
	set := must[*certs.Set](t)(certs.SelfSigned([]string{"127.0.0.1"}, time.Now()))
	return set.Client("127.0.0.1"), set.Server()
}

// link is two ends of one loopback connection.
func link(t *testing.T) (client, server net.Conn) {
	t.Helper()
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	client = must[net.Conn](t)(net.Dial("tcp", listener.Addr().String()))
	server = must[net.Conn](t)(listener.Accept())
	watch(t, client, server)
	return client, server
}

// watch gives both ends a deadline and an end.
func watch(t *testing.T, ends ...net.Conn) {
	t.Helper()
	deadline := time.Now().Add(guard)
	for _, conn := range ends {
		check(t, conn.SetDeadline(deadline))
		t.Cleanup(func() { conn.Close() })
	}
}

// result is what one end's goroutine leaves behind.
type result[T any] struct {
	value T
	err   error
}

// async runs one end beside the other.
func async[T any](run func() (T, error)) <-chan result[T] {
	done := make(chan result[T], 1)
	go func() {
		value, err := run()
		done <- result[T]{value, err}
	}()
	return done
}

// withStockServer is a client of ours on a server of crypto/tls.
func withStockServer(t *testing.T) (*tlspeer.Conn, *tls.Conn, net.Conn) {
	t.Helper()
	clientRaw, serverRaw := link(t)
	clientCfg, serverCfg := configs(t)
	stock := tls.Server(serverRaw, serverCfg)
	done := async(func() (*tls.Conn, error) { return stock, stock.Handshake() })
	ours := must[*tlspeer.Conn](t)(tlspeer.Dial(clientRaw, clientCfg))
	check(t, (<-done).err)
	return ours, stock, serverRaw
}

// pairOver is both roles of ours over two raw ends.
func pairOver(t *testing.T, clientRaw, serverRaw net.Conn) (client, server *tlspeer.Conn) {
	t.Helper()
	clientCfg, serverCfg := configs(t)
	done := async(func() (*tlspeer.Conn, error) { return tlspeer.Accept(serverRaw, serverCfg) })
	client = must[*tlspeer.Conn](t)(tlspeer.Dial(clientRaw, clientCfg))
	accepted := <-done
	check(t, accepted.err)
	return client, accepted.value
}
