package proxy

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/policy"
)

// Server is the gate: its listeners, the connections in handshake and the links.
// New, then Start, then Shutdown, each once.
type Server struct {
	settings  atomic.Pointer[Settings] // of whoever comes next; a link keeps those it was admitted under
	applying  sync.Mutex               // one Apply at a time
	chain     policy.Chain
	admitting context.Context // done when no connection is admitted any more
	refuseAll context.CancelFunc
	accepting sync.WaitGroup // accept loops
	work      sync.WaitGroup // visits and links
	doors     []door
	drained   atomic.Bool
	lobbies   [2]lobby // by the side of the accepted connection, so that strangers outside do not touch the local replica
	repeats   repeats
	memory    *memory      // which security each peer has proved
	findings  findings     // what they spoke when this gate dialed them
	buffered  atomic.Int64 // bytes that the pumps' readers hold
	open      atomic.Int64 // accepted connections that have not ended

	mu    sync.Mutex
	links map[*link]struct{}
	seats map[uint8]*seat
	near  int // near legs of links
	// proofs are what each replica has proved of our secrets, by id; born is the
	// order in which those appeared, the same for what came at one moment.
	proofs map[uint8]*proofs
	born   map[mac.Fingerprint]int
	// entered is closed, and replaced, whenever a link has entered.
	entered chan struct{}

	judged         chan struct{} // wakes remakeLoop: links may be no longer supported
	secretsChanged chan struct{} // wakes showLoop
}

// New checks the settings and returns a server that is not yet listening.
func New(settings Settings) (*Server, error) {
	if err := settings.prepare(); err != nil {
		return nil, err
	}
	s := &Server{links: map[*link]struct{}{}, seats: map[uint8]*seat{}, proofs: map[uint8]*proofs{}, born: map[mac.Fingerprint]int{},
		entered: make(chan struct{}), judged: make(chan struct{}, 1), secretsChanged: make(chan struct{}, 1), memory: newMemory(settings.Memory)}
	s.meet(&settings)
	s.settings.Store(&settings)
	for i := range s.lobbies {
		s.lobbies[i].all, s.lobbies[i].perSource = settings.Handshakes, settings.PerSource
	}
	// All of the local replica's own dials come from one address.
	s.lobbies[near].perSource = settings.Handshakes
	s.admitting, s.refuseAll = context.WithCancel(context.Background())
	return s, nil
}

// Start binds every listener and begins to accept. It returns when all are bound,
// or an error and nothing is.
func (s *Server) Start(ctx context.Context) error {
	set := s.settings.Load()
	doors, err := bindAll(ctx, set)
	if err != nil {
		return err
	}
	s.doors = doors
	for _, d := range doors {
		direction, to := ingress, "the local replica"
		if d.peer != nil {
			direction, to = egress, "replica "+decimal(d.peer.ID)
		}
		set.Log.Info("listening", "direction", direction, "listen", d.ln.Addr().String(), "to", to)
		s.accepting.Go(func() { s.acceptLoop(d) })
	}
	s.work.Go(s.remakeLoop)
	s.work.Go(s.showLoop)
	return nil
}

// Buffered returns the memory that frames under way are held in, in bytes.
func (s *Server) Buffered() int64 { return s.buffered.Load() }

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

// Shutdown goes on for DrainMinDelay, then stops accepting, ends every link
// between frames, and waits. When ctx is done first it cuts what is left and
// returns ErrDeadline.
func (s *Server) Shutdown(ctx context.Context) error {
	select {
	case <-time.After(s.settings.Load().DrainMinDelay):
	case <-ctx.Done():
	}
	s.mu.Lock() // no link enters between this and the orders below
	s.drained.Store(true)
	s.mu.Unlock()
	for _, d := range s.doors {
		d.ln.Close()
	}
	s.refuseAll()
	s.accepting.Wait()
	for _, l := range s.current() {
		l.order(Drain, drainGrace)
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
	select { // links that stand at a boundary are only closing
	case <-done:
		return nil
	case <-time.After(closeGrace):
	}
	var err error
	for _, l := range s.current() {
		if l.cut(DrainDeadline) {
			err = ErrDeadline
		}
	}
	<-done
	return err
}

// stopping reports whether the gate is shutting down.
func (s *Server) stopping() bool { return s.drained.Load() }

func (s *Server) current() []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.links))
}

// enter takes a link in and gives it its peer's seat. It returns why not: the
// gate is shutting down, or another newcomer was faster.
func (s *Server) enter(l *link) (refused Ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.seat(l.peer.ID)
	switch {
	case s.stopping():
		return Drain
	case at.link != nil || at.claim != l.visit:
		return Superseded
	}
	at.link, at.claim = l, nil
	s.links[l] = struct{}{}
	s.near++
	close(s.entered)
	s.entered = make(chan struct{})
	if p := s.proofsOf(l.peer.ID); p.kind == KindNative {
		p.kind = KindUnknown // somebody else may answer there by now
	}
	if l.settings != s.settings.Load() {
		wake(s.judged) // it was being made when others were applied
	}
	return ""
}

// wake wakes the one goroutine that waits on a channel with room for one word.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has been woken already
	}
}

// nearEnded frees the seat: the local replica no longer has this connection. With
// the last one it has no leg left here. What comes next may have another log, so
// its chain is forgotten.
func (s *Server) nearEnded(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seat(l.peer.ID).link = nil
	if s.near--; s.near == 0 {
		s.chain.Reset()
	}
}

// leave lets a link go.
func (s *Server) leave(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, l)
}
