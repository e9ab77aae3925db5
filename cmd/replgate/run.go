package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/metrics"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/state"
	"github.com/replgate/replgate/watch"
)

func newRun() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "run --config FILE",
		Short: "Run the gate until SIGTERM or SIGINT; SIGHUP reloads",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			// Registered until the end: without it the signal kills, also in a drain.
			hangup := make(chan os.Signal, 1)
			signal.Notify(hangup, syscall.SIGHUP)
			defer signal.Stop(hangup)
			first, err := read(path)
			if err != nil {
				return err
			}
			p, err := newProcess(path, first, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = p.try(first)
			if faults, ok := errors.AsType[configs.Faults](err); err != nil && !(ok && faults.OnlyMissing()) {
				return err
			}
			return p.run(ctx, stop, hangup, err)
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

// process is a running gate: what lives as long as the program, while
// configurations come and go.
type process struct {
	path     string
	out      *logPath
	log      *slog.Logger
	level    *slog.LevelVar
	registry *metrics.Registry
	health   *health
	manager  *notifier
	memory   proxy.Memory // nil: as long as the process lives
	watcher  *watch.Watcher
	server   atomic.Pointer[proxy.Server] // nil until the first gate that is whole
	now      atomic.Pointer[gate]         // what applies; nil until the first one that is whole
	began    chan error                   // what became of the first one's start, once
	ended    atomic.Bool                  // nothing is taken any more
	first    *configs.Config              // what needs a restart is as it says

	asked sync.Mutex    // one request at a time
	taken atomic.Uint64 // readings

	mu     sync.Mutex      // one reload at a time
	files  reading         // what it was made of, or what is waited for
	inUse  inUse           // of now
	looked bool            // the watcher has looked once
	wrong  map[wrong]bool  // that has been logged and is still there
	told   map[string]bool // warnings and notes of now
}

// newProcess makes what does not change any more: where it logs to, and the sets
// that series are made of.
func newProcess(path string, r reading, w io.Writer) (*process, error) {
	c := &r.loaded.Config
	p := &process{path: path, out: &logPath{to: w}, level: new(slog.LevelVar), health: &health{}, manager: newNotifier(os.Getenv),
		began: make(chan error, 1), first: c, files: r, inUse: inUse{changes: map[string]uint64{}}}
	p.log = newLog(p.out, c.Log.Format, p.level)
	p.setLevel(c)
	p.registry = newRegistry(c, metrics.Labels{BufferedBytes: p.buffered, PeerCertificates: p.peerCertificates,
		StrictReady: p.strictReady, WatchDegraded: func() bool { return p.watcher.Degraded() }})
	p.watcher = watch.New(watch.Options{Paths: credentialPaths(c), Interval: c.Reload.Interval.Std(), NoWatch: !c.Reload.Watch, Log: p.log})
	if c.Gate.StateDir != "" {
		proofs, found, err := state.Open(c.Gate.StateDir, proxy.PSK, proxy.TLS)
		if err != nil {
			return nil, &configError{fmt.Errorf("gate.state_dir: %w", err)}
		}
		p.memory = proofs
		p.remembers(found)
	}
	return p, nil
}

// remembers says in the log when nothing is known of what peers have proved.
func (p *process) remembers(found state.Found) {
	switch {
	case found.Broken != nil:
		p.log.Warn("memory lost", "got", found.Broken.Error(), "want", "what peers have proved", "do", "nothing: no peer counts as proved until it proves itself again; the old file is "+found.Aside)
	case found.Missing:
		p.log.Info("no memory", "got", "an empty gate.state_dir, as at a first start", "want", "what peers have proved: none counts as proved")
	}
}

func newLog(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

func (p *process) setLevel(c *configs.Config) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Log.Level)); err != nil {
		panic(err) // configs.Load accepts the four levels only
	}
	p.level.Set(level)
}

// run serves until ctx is done, then drains. A signal after that, which stop has
// been called for, cuts the drain short. A gate that waits for credentials has
// missing.
func (p *process) run(ctx context.Context, stop func(), hangup <-chan os.Signal, missing error) error {
	web, err := serveMetrics(p.first.Metrics.Listen, p.health, p.registry.Handler())
	if err != nil {
		return failure(err)
	}
	defer web.Close()
	door, err := p.serveAdmin()
	if err != nil {
		return failure(err)
	}
	defer door.Close()
	defer p.manager.close()
	if err := p.serve(ctx, hangup, missing); err != nil {
		return err
	}
	p.manager.stopping()
	err = p.drain(stop)
	p.log.Info("ended")
	return failure(err)
}

// serve starts the gate, as soon as it is whole, and keeps it up to date until ctx
// is done.
func (p *process) serve(ctx context.Context, hangup <-chan os.Signal, missing error) error {
	control, cancel := context.WithCancel(ctx)
	defer cancel()
	defer p.ended.Store(true)
	p.begin(missing)
	// Nobody waits for their ends: a file system that hangs must not hold up a drain.
	go p.follow(control)
	go p.obey(control, hangup)
	if began, err := p.await(ctx); !began || err != nil {
		return err
	}
	p.health.say("")
	p.manager.ready(vitals(p))
	p.log.Info("ready", "replica", p.first.Gate.ReplicaID, "version", buildVersion())
	<-ctx.Done()
	return nil
}

// untilSignal is a context that SIGTERM and SIGINT end.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
}

// await waits until the gate has begun, or ctx is done.
func (p *process) await(ctx context.Context) (began bool, err error) {
	patience := time.NewTicker(notifyPatience / 3)
	defer patience.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, nil
		case err := <-p.began:
			return true, failure(withHolder(err))
		case <-patience.C:
			p.manager.patience()
		}
	}
}

// drain ends the links, bounded by timeouts.drain and by a second signal.
func (p *process) drain(stop func()) error {
	p.health.say("draining")
	second, release := untilSignal(context.Background())
	defer release()
	stop() // only now: between the two no signal finds its default action, which kills
	server := p.server.Load()
	if server == nil {
		return nil // it never served
	}
	deadline := p.now.Load().config.Timeouts.Drain.Std()
	p.log.Info("draining", "deadline", deadline.String())
	ctx, cancel := context.WithTimeout(second, deadline)
	defer cancel()
	return server.Shutdown(ctx)
}

func (g *gate) warnings() []string {
	warnings := append(leftOut(), g.loaded.Warnings...)
	if g.certs != nil {
		warnings = append(warnings, g.certs.Notes(time.Now())...)
	}
	return append(warnings, frozen(g.config)...)
}

// frozen warns about files that no rotation will ever reach.
func frozen(c *configs.Config) (warnings []string) {
	for _, f := range c.CredentialFiles() {
		if yes, err := watch.Mounted(f.Path); err == nil && yes {
			warnings = append(warnings, fmt.Sprintf("%s: %s is a mount of its own (a subPath, in Kubernetes); this mount will never rotate, mount the folder", f.Key, f.Path))
		}
	}
	return warnings
}

// buffered is asked at a scrape; before the gate serves it holds nothing.
func (p *process) buffered() int64 {
	if s := p.server.Load(); s != nil {
		return s.Buffered()
	}
	return 0
}

// strictReady is asked at a scrape.
func (p *process) strictReady() bool {
	s := p.server.Load()
	return s != nil && s.StrictReady().Ready
}

// peerCertificates is when the certificate of each linked peer ends.
func (p *process) peerCertificates() map[string]time.Time {
	ends := map[string]time.Time{}
	if s := p.server.Load(); s != nil {
		for _, peer := range s.Status().Peers {
			for _, l := range peer.Links {
				if l.PeerNotAfter != nil {
					ends[strconv.Itoa(peer.Peer)] = *l.PeerNotAfter
				}
			}
		}
	}
	return ends
}
