package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/replgate/replgate/internal/lab"
)

// labFlags are the lab's.
type labFlags struct {
	plan     lab.Plan
	duration time.Duration
	keep     bool
	asJSON   bool
	view     *labView // that watch went on with, nil on a terminal
}

func newLab() *cobra.Command {
	var f labFlags
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Run a whole cluster on this machine: stand-in replicas (or real servers) behind gates",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return f.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.plan.Replicas, "replicas", 3, "3 or 5 replicas")
	flags.StringVar(&f.plan.Far, "security", "tls", "between gates: plaintext, psk or tls")
	flags.StringVar(&f.plan.Near, "near", "plaintext", "between a replica and its gate: plaintext, psk or tls")
	flags.Float64Var(&f.plan.Rate, "rate", 200, "operations per second")
	flags.IntVar(&f.plan.Payload, "payload", 256, "bytes of a message")
	flags.IntVar(&f.plan.Groups, "groups", 8, "partition groups beside the metadata group")
	flags.Uint64Var(&f.plan.Seed, "seed", 1, "what the stand-ins draw from")
	flags.DurationVar(&f.duration, "duration", 10*time.Second, "how long traffic flows; 0: until interrupted")
	flags.BoolVar(&f.keep, "keep", false, "leave it running until interrupted, keep its files, and print where everything is")
	flags.StringVar(&f.plan.Iggy, "iggy", "", "path of an iggy-server, to run in place of stand-ins")
	flags.BoolVar(&f.asJSON, "json", false, "a JSON object a second")
	return cmd
}

func (f *labFlags) check() error {
	p := &f.plan
	security := map[string]bool{"plaintext": true, "psk": true, "tls": true}
	switch {
	case p.Replicas != 3 && p.Replicas != 5:
		return fmt.Errorf("got --replicas %d, want 3 or 5", p.Replicas)
	case !security[p.Far] || !security[p.Near]:
		return fmt.Errorf("got --security %s --near %s, want plaintext, psk or tls", p.Far, p.Near)
	case f.duration < 0:
		return fmt.Errorf("got --duration %v, want 0 or more", f.duration)
	case p.Rate < 0 || p.Payload < 1 || p.Groups < 1 || p.Groups > 1000:
		return fmt.Errorf("got --rate %v --payload %d --groups %d, want a rate of 0 or more, a payload and 1..1000 groups", p.Rate, p.Payload, p.Groups)
	}
	return nil
}

// run is the lab from start to summary.
func (f *labFlags) run(ctx context.Context, out, complaints io.Writer) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	if f.plan.Binary, err = os.Executable(); err != nil {
		return failure(err)
	}
	if f.plan.Dir, err = os.MkdirTemp("", "replgate-lab"); err != nil {
		return failure(err)
	}
	if !f.keep {
		defer os.RemoveAll(f.plan.Dir)
	}
	f.plan.Complaints = complaints
	l, err := lab.New(f.plan)
	defer func() {
		if stopped := l.Stop(); stopped != nil && err == nil {
			err = failure(stopped)
		}
	}()
	if err != nil {
		return failure(err)
	}
	if f.keep || f.plan.Iggy != "" {
		where(complaints, l) // standard output is for what is measured
	}
	if f.keep {
		f.duration = 0
	}
	if err := f.watch(ctx, out, l); err != nil {
		return err
	}
	return f.finish(out, l)
}

// where prints the places of a lab.
func where(out io.Writer, l *lab.Lab) {
	fmt.Fprintf(out, "files: %s (configurations, certificates, sockets)\n", l.Dir)
	for i := range l.Gates {
		fmt.Fprintf(out, "gate %d: ingress %s, replica at %s, metrics http://%s/metrics, status: replgate status --socket %s\n",
			i, l.Net.Ingress(i), l.Net.Replica(i), l.Net.Metrics(i), l.Socket(i))
	}
	for i, s := range l.Servers {
		fmt.Fprintf(out, "server %d: clients at %s (iggy/iggy), log %s\n", i, s.Client, s.Log)
	}
}

// watch shows the lab until its time is up.
func (f *labFlags) watch(ctx context.Context, out io.Writer, l *lab.Lab) error {
	if f.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.duration)
		defer cancel()
	}
	if file, ok := out.(*os.File); ok && isatty.IsTerminal(file.Fd()) && !f.asJSON {
		return failure(watchLive(ctx, l))
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	view := newLabView(l)
	f.view = view
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			s := view.snapshot(now)
			if f.asJSON {
				if err := json.NewEncoder(out).Encode(s); err != nil {
					return failure(err)
				}
			} else {
				fmt.Fprintln(out, s.line())
			}
			if s.Fault != "" {
				return fmt.Errorf("%w: %s", errFault, s.Fault)
			}
		}
	}
}

// settleTime is how long stand-ins may take to agree once their clients stop.
const settleTime = 30 * time.Second

// finish stops the clients, holds the logs against each other, and says how it
// went.
func (f *labFlags) finish(out io.Writer, l *lab.Lab) error {
	if f.plan.Iggy != "" {
		if meshed := newLabView(l).snapshot(time.Now()).Meshed; meshed != f.plan.Replicas {
			return fmt.Errorf("%w: got %d servers with every link, want %d", errFault, meshed, f.plan.Replicas)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	if err := l.Settle(ctx); err != nil {
		return fmt.Errorf("%w: %w", errFault, err)
	}
	if f.view == nil {
		f.view = newLabView(l)
	}
	s := f.view.snapshot(time.Now())
	if f.asJSON {
		return failure(json.NewEncoder(out).Encode(s))
	}
	fmt.Fprintf(out, "all %d stand-ins agree: commit points %d, log %s; %d operations acknowledged, %d frames through gates, %d refused\n",
		f.plan.Replicas, s.Replicas[0].Commit, s.Replicas[0].Hash, s.Acked, s.Frames, s.Refused)
	return nil
}

// newStandIn is the process of one stand-in; `lab` starts it.
func newStandIn() *cobra.Command {
	return &cobra.Command{
		Use:    "stand-in FILE",
		Short:  "Run one stand-in replica of a lab",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			config, err := os.Open(args[0])
			if err != nil {
				return failure(err)
			}
			defer config.Close()
			return failure(lab.RunStandIn(ctx, config, cmd.OutOrStdout()))
		},
	}
}
