// Command demo shows what a gate does, on this machine and in half a minute. It
// builds replgate and plays two acts with gates in processes of their own, TLS and
// a secret between them: a recorded Iggy cluster goes through all three links byte
// for byte; then a living cluster of stand-in replicas loses a gate and gets it
// back, and five things that must not pass are tried on it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
)

const (
	recordingsDir = "internal/replica/testdata/recordings"
	scenario      = "election"
	replicas      = 3
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "replgate-demo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "replgate")
	if text, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/replgate").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text)
	}
	began := time.Now()
	if err := recorded(ctx, out, binary, dir); err != nil {
		return err
	}
	if err := living(ctx, out, binary, dir); err != nil {
		return err
	}
	fmt.Fprintf(out, "\ndone in %.1f s: what is valid went through, what is not stopped at a gate\n", time.Since(began).Seconds())
	return nil
}

// recorded is the first act.
func recorded(ctx context.Context, out io.Writer, binary, dir string) (err error) {
	c, err := lab.NewCluster(lab.Options{Binary: binary, Dir: dir, Replicas: replicas, Near: "plaintext", Far: "tls",
		Secret: "the demo's shared secret, 32 bytes and more"})
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err != nil {
		return err
	}
	all, err := replica.Recordings(recordingsDir)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r replica.Recording) bool { return r.Scenario != scenario })
	frames, err := c.Scenario(ctx, all)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "1. A recording of a real Iggy cluster (its primary is killed, another elected) through three gates, TLS 1.3 between them:")
	fmt.Fprintf(out, "   %d connections, %d frames, every byte compared\n\n", len(all), frames)
	samples := make([]lab.Samples, replicas)
	for i := range samples {
		if samples[i], err = lab.Scrape(c.Net.Metrics(i)); err != nil {
			return err
		}
	}
	return table(out, samples)
}
