package proxy

import (
	"context"
	"net"
	"testing"
	"time"
)

// TestPing asks a gate with two listeners while it serves, while its lock is held,
// while an accept loop is stuck, and after its shutdown. Sockets are real, and so
// is time.
func TestPing(t *testing.T) {
	s, err := New(Settings{MaxFrame: 64 << 20, StoreLimit: 256 << 10, Local: 1, Replicas: 3, Listen: "127.0.0.1:0", Upstream: "127.0.0.1:1", UpstreamSecurity: Plaintext,
		EgressSecurity: Plaintext, Peers: []Peer{{ID: 0, Security: Plaintext}, {ID: 2, Security: Plaintext, Listen: "127.0.0.1:0", Address: "127.0.0.1:1"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	ping := func() <-chan struct{} {
		done := make(chan struct{})
		go func() { s.Ping(); close(done) }()
		return done
	}
	moved := func(what string, done <-chan struct{}) {
		t.Helper()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("got no answer %s, want one", what)
		}
	}
	stuck := func(what string, done <-chan struct{}) {
		t.Helper()
		select {
		case <-done:
			t.Fatalf("got an answer %s, want none", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
	moved("from a serving gate", ping())
	moved("the second time", ping())
	if c, err := net.Dial("tcp", s.Addr(nil).String()); err != nil {
		t.Errorf("got %v after a ping, want a gate that accepts", err)
	} else {
		c.Close()
	}

	s.mu.Lock()
	done := ping()
	stuck("while the table of links is held", done)
	s.mu.Unlock()
	moved("when it is free", done)

	s.lobbies[far].mu.Lock() // where an accept loop gives a newcomer its place
	c, err := net.Dial("tcp", s.Addr(nil).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for s.open.Load() == 0 {
		time.Sleep(time.Millisecond) // real time: until the kernel has handed it to the loop
	}
	done = ping()
	stuck("while an accept loop is stuck", done)
	s.lobbies[far].mu.Unlock()
	moved("when the accept loop goes on", done)

	c.Close()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	moved("after the shutdown", ping())
}
