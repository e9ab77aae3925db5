// Command demo shows what a gate does, on this machine and in half a minute: it
// builds replgate, starts three gates in processes of their own with TLS and a
// secret between them, plays a recorded Iggy cluster through all three links, and
// then tries three things that must not pass. The replicas are stand-ins.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

const (
	recordingsDir = "internal/replica/testdata/recordings"
	scenario      = "election"
	replicas      = 3
	secret        = "the demo's shared secret, 32 bytes and more"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
	cluster, err := lab.NewCluster(lab.Options{Binary: binary, Dir: dir, Replicas: replicas, Near: "plaintext", Far: "tls", Secret: secret})
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "three gates run, each in front of a stand-in replica: plaintext inside, TLS 1.3 and a shared secret between them\n\n")
	for _, step := range []func(context.Context, io.Writer, *lab.Cluster) error{
		traffic, wrongSecret, request, poison,
	} {
		if err := step(ctx, out, cluster); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\ndone in %.1f s: what is valid went through byte-identical, what is not stopped at the gate\n", time.Since(began).Seconds())
	return nil
}

// traffic plays the recorded cluster and prints what went through.
func traffic(ctx context.Context, out io.Writer, c *lab.Cluster) error {
	all, err := replica.Recordings(recordingsDir)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r replica.Recording) bool { return r.Scenario != scenario })
	frames, err := c.Scenario(ctx, all)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "played a recording of a real Iggy cluster (primary killed, another elected): %d connections, %d frames, every byte compared\n\n",
		len(all), frames)
	samples := make([]lab.Samples, replicas)
	for i := range samples {
		if samples[i], err = lab.Scrape(c.Net.Metrics(i)); err != nil {
			return err
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "frames forwarded\tlink 0-1\tlink 0-2\tlink 1-2\t")
	totals := map[string][replicas]float64{}
	for i, p := range []mac.Pair{{Dialer: 0, Acceptor: 1}, {Dialer: 0, Acceptor: 2}, {Dialer: 1, Acceptor: 2}} {
		peer := fmt.Sprintf(`peer="%d"`, p.Acceptor)
		for command, n := range samples[p.Dialer].Label("replgate_frames_total", "command", peer, `result="forwarded"`) {
			row := totals[command]
			row[i] = n
			totals[command] = row
		}
	}
	for _, command := range slices.Sorted(maps.Keys(totals)) {
		if row := totals[command]; row != [replicas]float64{} {
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t\n", command, row[0], row[1], row[2])
		}
	}
	return w.Flush()
}

// wrongSecret speaks to gate 1 as replica 0 would, over TLS, and sends a proof that
// it cannot have.
func wrongSecret(ctx context.Context, out io.Writer, c *lab.Cluster) error {
	voice := c.Voice(mac.Pair{Dialer: 0, Acceptor: 1}, "tls", true)
	dialer := tls.Dialer{Config: voice.TLS}
	conn, err := dialer.DialContext(ctx, "tcp", c.Net.Ingress(1))
	if err != nil {
		return err
	}
	defer conn.Close()
	hello := wire.NewHello(voice.Cluster, 0, []byte("a nonce of thirty-two bytes, OK?"))
	finish := wire.NewFinish(voice.Cluster, 0, []byte("no MAC that any of us could make"))
	if _, err := conn.Write(append(hello[:], finish[:]...)); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if err != nil || len(answer) != wire.HeaderSize {
		return fmt.Errorf("got %d bytes and %v, want a Challenge and the end", len(answer), err)
	}
	return shown(ctx, out, c.Gates[1], "a peer without the secret", "ending", "mac_mismatch")
}

// request sends a client's Request from replica 0 to replica 1, as anybody could
// who reaches a plaintext replica port: Iggy would execute it as root.
func request(ctx context.Context, out io.Writer, c *lab.Cluster) error {
	return forbidden(ctx, out, c, "request-create-stream.bin", "a client's Request on the replica port", "client_request")
}

// poison sends a well-sealed frame that makes a replica's thread panic.
func poison(ctx context.Context, out io.Writer, c *lab.Cluster) error {
	return forbidden(ctx, out, c, "dvc-replica-200.bin", "a well-sealed frame that kills a replica's shard", "replica_range")
}

// forbidden sends a recorded frame through the link from 0 to 1 with an honest one
// behind it: only the honest one arrives.
func forbidden(ctx context.Context, out io.Writer, c *lab.Cluster, file, what, rule string) error {
	bad, err := os.ReadFile(filepath.Join(recordingsDir, "frames", file))
	if err != nil {
		return err
	}
	honest, err := os.ReadFile(filepath.Join(recordingsDir, "frames", "commit-token-from-the-future.bin"))
	if err != nil {
		return err
	}
	wire.CommitToken.Set((*wire.Header)(honest), 1)
	wire.Seal((*wire.Header)(honest))
	dialer, acceptor, err := c.Connect(ctx, mac.Pair{Dialer: 0, Acceptor: 1})
	if err != nil {
		return err
	}
	defer dialer.Close()
	defer acceptor.Close()
	if _, err := dialer.Write(append(bad, honest...)); err != nil {
		return err
	}
	got, err := acceptor.ReadFrame(1 << 20)
	if err != nil {
		return err
	}
	if string(got) != string(honest) {
		return fmt.Errorf("got %v at the other side, want only the honest Commit", (*wire.Header)(got).Command())
	}
	return shown(ctx, out, c.Gates[0], what, "rule", rule)
}

// shown prints a gate's own line about a refusal.
func shown(ctx context.Context, out io.Writer, gate *lab.Gate, what, field, word string) error {
	line, err := gate.Await(ctx, field, word)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nrefused: %s\n  the gate says: %s=%s, got %v, want %v\n", what, field, word, line["got"], line["want"])
	return nil
}
