package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/replgate/replgate/policy"
)

// Server is the gate: its listeners, the connections in handshake and the links.
// New, then Start, then Shutdown, each once.
type Server struct {
	settings  *Settings
	chain     policy.Chain
	admitting context.Context // done when no connection is admitted any more
	refuseAll context.CancelFunc
	accepting sync.WaitGroup // accept loops
	work      sync.WaitGroup // visits and links
	doors     []door
	drained   atomic.Bool

	mu    sync.Mutex
	links map[*link]struct{}
}

// New checks the settings and returns a server that is not yet listening.
func New(settings Settings) (*Server, error) {
	if err := settings.prepare(); err != nil {
		return nil, err
	}
	s := &Server{settings: &settings, links: map[*link]struct{}{}}
	s.admitting, s.refuseAll = context.WithCancel(context.Background())
	return s, nil
}

// Start binds every listener and begins to accept. It returns when all are bound,
// or an error and nothing is.
func (s *Server) Start(ctx context.Context) error {
	doors, err := s.open(ctx, s.settings)
	if err != nil {
		return err
	}
	s.doors = doors
	for _, d := range doors {
		direction, to := ingress, "the local replica"
		if d.peer != nil {
			direction, to = egress, "replica "+decimal(d.peer.ID)
		}
		s.settings.Log.Info("listening", "direction", direction, "listen", d.ln.Addr().String(), "to", to)
		s.accepting.Go(func() { s.acceptLoop(d) })
	}
	return nil
}

// Addr returns where peers with lower ids are accepted, or with a peer's id where
// the local replica dials that peer; nil when there is no such listener.
func (s *Server) Addr(peer *uint8) net.Addr {
	for _, d := range s.doors {
		if peer == nil && d.peer == nil || peer != nil && d.peer != nil && d.peer.ID == *peer {
			return d.ln.Addr()
		}
	}
	return nil
}

// ErrDeadline is returned by Shutdown when links had to be cut inside a frame.
var ErrDeadline = errors.New("proxy: got links that did not reach a frame's end in time, want every link closed between frames")

// Shutdown stops accepting, ends every link between frames, and waits. When ctx
// is done first it cuts what is left and returns ErrDeadline.
func (s *Server) Shutdown(ctx context.Context) error {
	s.drained.Store(true)
	for _, d := range s.doors {
		d.ln.Close()
	}
	s.refuseAll()
	s.accepting.Wait()
	for _, l := range s.current() {
		l.order(Drain)
	}
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, l := range s.current() {
		l.cut(DrainDeadline)
	}
	<-done
	return ErrDeadline
}

// stopping reports whether the gate is shutting down.
func (s *Server) stopping() bool { return s.drained.Load() }

func (s *Server) current() []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*link, 0, len(s.links))
	for l := range s.links {
		all = append(all, l)
	}
	return all
}

// enter takes a link in, unless the gate is shutting down.
func (s *Server) enter(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping() {
		return false
	}
	s.links[l] = struct{}{}
	return true
}

// leave lets a link go. With the last one the local replica has no leg left here:
// what comes next may have another log, so its chain is forgotten.
func (s *Server) leave(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, l)
	if len(s.links) == 0 {
		s.chain.Reset()
	}
}
