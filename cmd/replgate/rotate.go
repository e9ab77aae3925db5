package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/admin"
	"github.com/replgate/replgate/proxy"
)

func newRotate() *cobra.Command {
	cmd := &cobra.Command{Use: "rotate", Short: "Rotations of the shared secret", Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(newRotateStatus())
	return cmd
}

// rotateEvery is how often --wait asks.
const rotateEvery = 200 * time.Millisecond

func newRotateStatus() *cobra.Command {
	var where socketFlags
	var step string
	var wait time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status [--step begin|swap|remove] [--wait DURATION] [--json]",
		Short: "Say how far a rotation of the secret is and whether the next step cuts anybody: exit 0 when not, else 4",
		Long: "Say how far a rotation of the shared secret is, as this gate knows: who signs with which secret, who is awaited, and whether the\n" +
			"next step cuts a link. Exit 0 only when it cuts none, else 4; with --wait it asks until then, and exits 6 when the time is up.\n" +
			"With --step it also wants the gate to stand before that step: a secret that has not reached this gate yet is no rotation.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, known := steps()[step]; step != "" && !known {
				return fmt.Errorf("got --step %s, want begin, swap or remove", step)
			}
			client, err := where.client()
			if err != nil {
				return err
			}
			r, err := rotation(cmd.Context(), client, step, wait)
			if err != nil {
				return failure(noGate(err))
			}
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			} else {
				err = printRotation(cmd.OutOrStdout(), r, time.Now())
			}
			if why := unsafe(r, step); err == nil && why != "" {
				return &unsafeError{why, wait}
			}
			return failure(err)
		},
	}
	where.add(cmd)
	cmd.Flags().StringVar(&step, "step", "", "the step that is meant: begin, swap or remove (default: whichever is next)")
	cmd.Flags().DurationVar(&wait, "wait", 0, "ask until it is safe, for so long")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON, one object")
	return cmd
}

// unsafeError: the next step has to wait, or has had to for longer than was given.
type unsafeError struct {
	why    string
	waited time.Duration
}

func (e *unsafeError) Error() string {
	if e.waited > 0 {
		return fmt.Sprintf("got no safe step within %v: %s", e.waited, e.why)
	}
	return "got a step that is not safe, want to wait: " + e.why
}

// Is chooses the exit code.
func (e *unsafeError) Is(target error) bool {
	return target == errFault && e.waited == 0 || target == errNotReady && e.waited > 0
}

// steps are the phases in which a step is the next one.
func steps() map[string][]proxy.Phase {
	return map[string][]proxy.Phase{
		"begin":  {proxy.PhaseNone},
		"swap":   {proxy.PhaseOne, proxy.PhaseUnknown},
		"remove": {proxy.PhaseTwo, proxy.PhaseUnknown},
	}
}

// unsafe says why a step must wait, empty when it need not.
func unsafe(r proxy.Rotation, step string) string {
	switch {
	case step != "" && !slices.Contains(steps()[step], r.Phase):
		return fmt.Sprintf("the gate is in phase %s, and the step %s is not the next one there", r.Phase, step)
	case !r.Safe:
		return r.Why
	}
	return ""
}

// rotation asks a gate, until it is safe or the time is up.
func rotation(ctx context.Context, client *admin.Client, step string, wait time.Duration) (r proxy.Rotation, err error) {
	until := time.Now().Add(wait)
	for {
		r = proxy.Rotation{}
		err = client.Rotation(ctx, &r)
		if wait == 0 || err == nil && unsafe(r, step) == "" || time.Now().After(until) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(rotateEvery):
		}
	}
}

func printRotation(out io.Writer, r proxy.Rotation, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "phase %s\n", r.Phase)
	if len(r.Peers) > 0 {
		fmt.Fprintln(w, "PEER\tKIND\tSIGNS WITH\tHOLDS\tLINK PROVEN")
	}
	for _, p := range r.Peers {
		who, signs, link := fmt.Sprint(p.Peer), "-", "no link"
		if p.Local {
			who += " (local)"
		}
		if p.Signed != nil {
			signs = fmt.Sprintf("%s, %s ago", p.Signs, age(now, *p.Signed))
		}
		var holds []string
		for _, h := range p.Holds {
			holds = append(holds, h.Name)
		}
		if p.Linked {
			link = map[bool]string{true: "yes", false: "by the other secret"}[p.LinkProven]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", who, dash(string(p.Kind)), signs, dash(strings.Join(holds, " ")), link)
	}
	for _, a := range r.Awaited {
		fmt.Fprintf(w, "awaited: replica %d: %s\n", a.Peer, a.For)
	}
	word := "safe"
	if !r.Safe {
		word = "not safe"
	}
	fmt.Fprintf(w, "%s: %s\n", word, r.Why)
	return w.Flush()
}

// dash stands for nothing.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
