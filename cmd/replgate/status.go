package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/admin"
	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/proxy"
)

// socketFlags say which gate is asked.
type socketFlags struct{ socket, config string }

func (f *socketFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.socket, "socket", "", "the gate's admin socket (default: admin.listen of --config, or of the defaults)")
	cmd.Flags().StringVar(&f.config, "config", "", "the gate's configuration file (TOML)")
	cmd.MarkFlagsMutuallyExclusive("socket", "config")
}

// client finds the gate's door.
func (f *socketFlags) client() (*admin.Client, error) {
	if f.socket != "" {
		return admin.NewClient(f.socket), nil
	}
	listen := cmp.Or(os.Getenv("REPLGATE_ADMIN_LISTEN"), configs.Default().Admin.Listen)
	if f.config != "" {
		loaded, err := loadFor(f.config, true) // a gate that waits for a secret can be asked why
		if err != nil {
			return nil, err
		}
		if listen = loaded.Config.Admin.Listen; listen == "" {
			return nil, errors.New("got no admin.listen in the configuration, want one: the gate has no admin socket")
		}
	}
	path, err := admin.Path(listen)
	if err != nil {
		return nil, err
	}
	return admin.NewClient(path), nil
}

// watchEvery is how often --watch asks.
const watchEvery = time.Second

func newStatus() *cobra.Command {
	var where socketFlags
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "status [--json] [--watch]",
		Short: "Show a running gate's links: security, age, traffic, last frame, last ending",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := where.client()
			if err != nil {
				return err
			}
			for {
				var st proxy.Status
				if err := client.Status(cmd.Context(), &st); err != nil {
					return failure(noGate(err))
				}
				if err := printStatus(cmd.OutOrStdout(), st, asJSON, time.Now()); err != nil || !watch {
					return failure(err)
				}
				select {
				case <-time.After(watchEvery):
				case <-cmd.Context().Done():
					return nil
				}
			}
		},
	}
	where.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON, one object a line")
	cmd.Flags().BoolVar(&watch, "watch", false, "again every second, until interrupted")
	return cmd
}

// noGate explains an admin socket that does not answer, or says no. What net/http adds of a
// made-up address would only confuse.
func noGate(err error) error {
	if refused, ok := errors.AsType[*admin.RefusedError](err); ok {
		return errors.New("the gate says: " + refused.Why)
	}
	if operation, ok := errors.AsType[*net.OpError](err); ok {
		err = operation
	}
	return fmt.Errorf("got no gate (%w), want one that runs: look whether it does, or say where with --socket or --config", err)
}

func printStatus(out io.Writer, st proxy.Status, asJSON bool, now time.Time) error {
	if asJSON {
		return json.NewEncoder(out).Encode(st)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	state := "serving"
	if st.Draining {
		state = "draining"
	}
	fmt.Fprintf(w, "replica %d of %d, %s, %d connections\n", st.Replica, st.Replicas, state, st.Connections)
	if st.Mode == proxy.Permissive {
		fmt.Fprintf(w, "permissive, ready for strict: %v\n", st.StrictReady)
		for _, n := range st.NotReady {
			fmt.Fprintf(w, "not ready for strict: %v\n", n)
		}
	}
	fmt.Fprintln(w, "PEER\tDIRECTION\tSECURITY\tIDENTITY\tAGE\tFRAMES IN\tOUT\tBYTES IN\tOUT\tDROPPED\tLAST FRAME\tLAST ENDING")
	for _, p := range st.Peers {
		last := "-"
		if p.LastEnded != nil {
			last = fmt.Sprintf("%s %s ago", p.LastEnding, age(now, *p.LastEnded))
		}
		if len(p.Links) == 0 {
			fmt.Fprintf(w, "%d\t%s\t%s\t-\tdown\t\t\t\t\t\t\t%s\n", p.Peer, p.Direction, p.Security, last)
		}
		for _, l := range p.Links {
			fmt.Fprintf(w, "%d\t%s\t%s>%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", p.Peer, p.Direction, l.Near, l.Far, dash(l.Identity), age(now, l.Since),
				l.In.Frames, l.Out.Frames, l.In.Bytes, l.Out.Bytes, l.In.Dropped+l.Out.Dropped, lastFrame(now, l), last)
		}
	}
	return w.Flush()
}

// lastFrame tells the newest frame of a link, whichever way it went.
func lastFrame(now time.Time, l proxy.LinkStatus) string {
	way, last := "in", l.In
	if last.Last == nil || l.Out.Last != nil && l.Out.Last.After(*last.Last) {
		way, last = "out", l.Out
	}
	if last.Last == nil {
		return "none yet"
	}
	return fmt.Sprintf("%s %s, %s ago", way, last.Command, age(now, *last.Last))
}

func age(now, then time.Time) time.Duration {
	d := now.Sub(then)
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// waitEvery is how often wait asks.
const waitEvery = 100 * time.Millisecond

func newWait() *cobra.Command {
	var where socketFlags
	var ready bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait --ready [--timeout 30s]",
		Short: "Wait until a gate is ready: exit 0, or 6 when it is not in time",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := where.client()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			last := errors.New("no answer")
			for {
				err := client.Ready(ctx)
				if err == nil {
					return nil
				}
				if ctx.Err() == nil {
					last = noGate(err)
				}
				select {
				case <-ctx.Done():
					return fmt.Errorf("%w within %v: %w", errNotReady, timeout, last)
				case <-time.After(waitEvery):
				}
			}
		},
	}
	where.add(cmd)
	cmd.Flags().BoolVar(&ready, "ready", false, "wait for readiness: listeners bound, not draining")
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait")
	if err := cmd.MarkFlagRequired("ready"); err != nil {
		panic(err) // the flag was defined above
	}
	return cmd
}
