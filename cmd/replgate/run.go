package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/admin"
	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/proxy"
)

func newRun() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "run --config FILE",
		Short: "Run the gate until SIGTERM or SIGINT",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			loaded, err := load(path)
			if err != nil {
				return err
			}
			out := &logPath{to: cmd.ErrOrStderr()}
			log := newLog(out, loaded.Config.Log)
			g, err := build(loaded, log)
			if err != nil {
				return err
			}
			return g.run(ctx, stop, log, out)
		},
	}
	configFlag(cmd, &path)
	return cmd
}

// configFlag adds the one flag that every command on a configuration has.
func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "config", "", "the configuration file (TOML)")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag was defined one line above
	}
}

func newLog(w io.Writer, c configs.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		panic(err) // configs.Load accepts the four levels only
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// run serves until ctx is done, then drains. A signal after that, which stop has
// been called for, cuts the drain short.
func (g *gate) run(ctx context.Context, stop func(), log *slog.Logger, out *logPath) error {
	server, err := proxy.New(g.settings)
	if err != nil {
		return &configError{err}
	}
	g.server.Store(server)
	g.tell(log)
	health := &health{}
	web, err := serveMetrics(g.config.Metrics.Listen, health, g.registry.Handler())
	if err != nil {
		return failure(err)
	}
	defer web.Close()
	door, err := g.serveAdmin(server, health, log)
	if err != nil {
		return failure(err)
	}
	defer door.Close()
	if err := server.Start(ctx); err != nil {
		return failure(withHolder(err))
	}
	manager := newNotifier(os.Getenv)
	defer manager.close()
	health.ready.Store(true)
	manager.ready(vitals(server, g.registry, out))
	log.Info("ready", "replica", g.config.Gate.ReplicaID, "version", buildVersion())
	<-ctx.Done()
	health.ready.Store(false)
	manager.stopping()
	log.Info("draining", "deadline", g.config.Timeouts.Drain.String())
	err = g.drain(server, stop)
	log.Info("ended")
	return failure(err)
}

// untilSignal is a context that SIGTERM and SIGINT end.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
}

// drain ends the links, bounded by timeouts.drain and by a second signal.
func (g *gate) drain(server *proxy.Server, stop func()) error {
	second, release := untilSignal(context.Background())
	defer release()
	stop() // only now: between the two no signal finds its default action, which kills
	ctx, cancel := context.WithTimeout(second, g.config.Timeouts.Drain.Std())
	defer cancel()
	return server.Shutdown(ctx)
}

// tell logs what was read other than written and what should be looked at.
func (g *gate) tell(log *slog.Logger) {
	for _, w := range g.warnings() {
		log.Warn("configuration", "warning", w)
	}
	for _, n := range g.loaded.Notes {
		log.Info("configuration", "note", n)
	}
}

func (g *gate) warnings() []string {
	warnings := append(leftOut(), g.loaded.Warnings...)
	if g.certs != nil {
		warnings = append(warnings, g.certs.Notes(time.Now())...)
	}
	return warnings
}

// health answers probes from the gate's own state; it dials nobody.
type health struct{ ready atomic.Bool }

func (h *health) live(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

func (h *health) readiness(w http.ResponseWriter, _ *http.Request) {
	if !h.ready.Load() {
		http.Error(w, "starting or draining", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// serveAdmin opens the admin socket. Where nobody has asked for it and its usual
// place cannot be used, the gate goes without.
func (g *gate) serveAdmin(server *proxy.Server, h *health, log *slog.Logger) (io.Closer, error) {
	listen := g.config.Admin.Listen
	if listen == "" {
		return io.NopCloser(nil), nil
	}
	path, err := admin.Path(listen)
	if err != nil {
		return nil, err
	}
	door, err := admin.Serve(path, admin.Functions{Status: func() any { return server.Status() }, Ready: h.ready.Load})
	if err != nil && listen == configs.Default().Admin.Listen {
		log.Warn("no admin socket", "got", err.Error(), "want", "a place for it", "do", "set admin.listen, or make its folder")
		return io.NopCloser(nil), nil
	}
	if err != nil {
		return nil, err
	}
	return door, nil
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
