package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/replgate/replgate/admin"
	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/proxy"
)

// health answers probes from the gate's own state; it dials nobody.
type health struct{ why atomic.Pointer[string] } // why it is not ready; empty: it is; nil: it starts

// say sets why the gate is not ready, empty for ready.
func (h *health) say(why string) { h.why.Store(&why) }

// ready returns nil, or why the gate is not ready.
func (h *health) ready() error {
	why := h.why.Load()
	switch {
	case why == nil:
		return errors.New("starting")
	case *why != "":
		return errors.New(*why)
	}
	return nil
}

func (h *health) live(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

func (h *health) readiness(w http.ResponseWriter, _ *http.Request) {
	if err := h.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// serveAdmin opens the admin socket. Where nobody has asked for it and its usual
// place cannot be used, the gate goes without.
func (p *process) serveAdmin() (io.Closer, error) {
	listen := p.first.Admin.Listen
	if listen == "" {
		return io.NopCloser(nil), nil
	}
	path, err := admin.Path(listen)
	if err != nil {
		return nil, err
	}
	door, err := admin.Serve(path, admin.Functions{Ready: p.health.ready,
		Status:    func() (any, error) { return ask(p, (*proxy.Server).Status) },
		Reload:    func(context.Context) (any, error) { return p.reload() },
		Rotation:  func() (any, error) { return ask(p, (*proxy.Server).Rotation) },
		ResetPeer: p.resetPeer})
	if err != nil && listen == configs.Default().Admin.Listen {
		p.log.Warn("no admin socket", "got", err.Error(), "want", "a place for it", "do", "set admin.listen, or make its folder")
		return io.NopCloser(nil), nil
	}
	if err != nil {
		return nil, err
	}
	return door, nil
}

// ask asks the server, if there is one already.
func ask[T any](p *process, question func(*proxy.Server) T) (any, error) {
	if s := p.server.Load(); s != nil {
		return question(s), nil
	}
	return nil, p.health.ready()
}

// resetPeer forgets what a peer has proved.
func (p *process) resetPeer(id int) error {
	s := p.server.Load()
	switch {
	case s == nil:
		return p.health.ready()
	case id < 0 || id >= nobody:
		return fmt.Errorf("got peer %d, want the id of another replica", id)
	}
	return s.ResetPeer(uint8(id))
}

// serveMetrics starts the HTTP listener, or nothing when listen is empty.
func serveMetrics(listen string, h *health, metrics http.Handler) (io.Closer, error) {
	if listen == "" {
		return io.NopCloser(nil), nil
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, withHolder(&proxy.BindError{Address: listen, Err: err})
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", h.live)
	mux.HandleFunc("GET /readyz", h.readiness)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go serve(server, ln)
	return server, nil
}

// serve ends when the server is closed.
func serve(s *http.Server, ln net.Listener) {
	if err := s.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
		slog.Error("metrics listener failed", "got", err.Error())
	}
}
