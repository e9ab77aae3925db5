package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// door is one listener: where lower ids come in, or where the local replica dials
// one higher id.
type door struct {
	ln   *net.TCPListener
	peer *Peer // the one peer that is reached through it, as it was bound; nil for ingress
	// turned takes a word from the accept loop that Ping has woken.
	turned chan struct{}
}

// A BindError is an address that could not be bound.
type BindError struct {
	Address string
	Err     error
}

func (e *BindError) Error() string {
	return fmt.Sprintf("proxy: got no listener on %s, want one: %v", e.Address, e.Err)
}

func (e *BindError) Unwrap() error { return e.Err }

// bindAll binds every listener, or none.
func bindAll(ctx context.Context, set *Settings) ([]door, error) {
	var doors []door
	bind := func(addr string, peer *Peer) error {
		config := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: false}, KeepAlive: -1}
		ln, err := config.Listen(ctx, "tcp", addr)
		if err != nil {
			return &BindError{Address: addr, Err: err}
		}
		doors = append(doors, door{ln.(*net.TCPListener), peer, make(chan struct{}, 1)})
		return nil
	}
	var failed error
	if set.Listen != "" {
		failed = bind(set.Listen, nil)
	}
	for i := range set.Peers {
		if p := &set.Peers[i]; p.ID > set.Local && failed == nil {
			failed = bind(p.Listen, p)
		}
	}
	if failed != nil {
		for _, d := range doors {
			d.ln.Close()
		}
		return nil, failed
	}
	return doors, nil
}

// receive gives a connection its place among those that are not yet proven, and
// starts it.
func (s *Server) receive(v *visit) {
	if r := s.place(v); r != nil {
		s.open.Add(-1)
		v.cancel(nil)
		v.refuse(r)
		return
	}
	s.work.Go(v.serve)
}

// place counts a connection and takes it into its lobby, before anything is read.
func (s *Server) place(v *visit) *refusal {
	limit := int64(v.settings.Connections)
	if n := s.open.Add(1); limit > 0 && n > limit {
		return &refusal{ending: ConnLimit, got: "one connection more", want: fmt.Sprintf("at most limits.connections, %d", limit)}
	}
	victim, ok := v.lobby.enter(v, v.since)
	if victim != nil {
		victim.evict()
	}
	if !ok {
		return evicted
	}
	return nil
}

// evictTime bounds the wait for a connection that gives way. It takes that long
// only where something hangs that cannot be woken.
const evictTime = 100 * time.Millisecond

// evict wakes a connection that gives way and waits until its memory is free: a
// flood is taken in no faster than it is put out.
func (v *visit) evict() {
	v.cancel(evicted)
	select {
	case <-v.gone:
	case <-time.After(evictTime):
	}
}

// acceptRetry bounds the pause after an accept that failed, for want of file
// descriptors for example.
const (
	acceptRetryMin = 5 * time.Millisecond
	acceptRetryMax = time.Second
)

// acceptLoop takes connections until the listener is closed.
func (s *Server) acceptLoop(d door) {
	pause := acceptRetryMin
	for {
		c, err := d.ln.AcceptTCP()
		if err == nil {
			pause = acceptRetryMin
			s.receive(s.newVisit(c, d.peer))
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			d.turn()
			continue
		}
		s.settings.Load().Log.Warn("accept failed", "listen", d.ln.Addr().String(), "got", err.Error(), "retry_ms", pause.Milliseconds())
		select {
		case <-time.After(pause):
		case <-s.admitting.Done():
			return
		}
		pause = min(2*pause, acceptRetryMax)
	}
}
