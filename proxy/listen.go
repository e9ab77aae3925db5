package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// door is one listener: where lower ids come in, or where the local replica dials
// one higher id.
type door struct {
	ln   *net.TCPListener
	peer *Peer // the one peer that is reached through it, nil for ingress
}

// open binds every listener, or none.
func (s *Server) open(ctx context.Context, set *Settings) ([]door, error) {
	var doors []door
	bind := func(addr string, peer *Peer) error {
		config := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: false}, KeepAlive: -1}
		ln, err := config.Listen(ctx, "tcp", addr)
		if err != nil {
			return fmt.Errorf("proxy: got no listener on %s, want one: %w", addr, err)
		}
		doors = append(doors, door{ln.(*net.TCPListener), peer})
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
			v := s.newVisit(c, d.peer)
			s.work.Go(v.serve)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		s.settings.Log.Warn("accept failed", "listen", d.ln.Addr().String(), "got", err.Error(), "retry_ms", pause.Milliseconds())
		select {
		case <-time.After(pause):
		case <-s.admitting.Done():
			return
		}
		pause = min(2*pause, acceptRetryMax)
	}
}
