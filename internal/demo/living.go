package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// living is the second act.
func living(ctx context.Context, out io.Writer, binary, dir string) (err error) {
	l, err := lab.New(lab.Plan{Binary: binary, Dir: dir, Replicas: replicas, Near: "plaintext", Far: "tls",
		Rate: 200, Payload: 256, Groups: 8, Seed: 1, Complaints: os.Stderr})
	defer func() { err = errors.Join(err, l.Stop()) }()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "\n2. A living cluster of stand-in replicas behind gates, 200 operations a second:")
	for _, step := range []func(context.Context, io.Writer, *lab.Lab) error{
		flows, gateKilled, wrongSecret, wrongCluster, wrongDirection, insider, agreed,
	} {
		if err := step(ctx, out, l); err != nil {
			return err
		}
	}
	return nil
}

// flows waits for the mesh and for acknowledged operations.
func flows(ctx context.Context, out io.Writer, l *lab.Lab) error {
	if err := l.Until(ctx, "every link is up", l.Meshed); err != nil {
		return err
	}
	if err := more(ctx, l, 200); err != nil {
		return err
	}
	fmt.Fprintf(out, "   every link is up and %d operations are acknowledged\n", acked(l))
	return nil
}

func acked(l *lab.Lab) (n int) {
	for _, r := range l.Reports() {
		n += r.Acked
	}
	return n
}

// more waits until n more operations are acknowledged.
func more(ctx context.Context, l *lab.Lab, n int) error {
	want := acked(l) + n
	return l.Until(ctx, "traffic flows", func() bool { return acked(l) >= want })
}

// gateKilled takes gate 1 away without a word, and brings it back.
func gateKilled(ctx context.Context, out io.Writer, l *lab.Lab) error {
	view := l.Reports()[0].View
	l.Gates[1].Signal(os.Kill)
	<-l.Gates[1].Done()
	began := time.Now()
	if err := l.Until(ctx, "the links of the dead gate are gone", func() bool { return !l.Meshed() }); err != nil {
		return err
	}
	if err := l.StartGate(1); err != nil {
		return err
	}
	if err := l.Until(ctx, "every link is back", l.Meshed); err != nil {
		return err
	}
	took := time.Since(began)
	if err := more(ctx, l, 200); err != nil {
		return err
	}
	fmt.Fprintf(out, "   gate 1 killed and started again: every link back after %.1f s, view %d before and %d after, traffic goes on\n",
		took.Seconds(), view, l.Reports()[0].View)
	return nil
}

// voice is a stranger at gate 1's door, over TLS.
func voice(l *lab.Lab, p mac.Pair) (replica.Voice, error) {
	c, err := lab.Stranger(l.PKI)
	if err != nil {
		return replica.Voice{}, err
	}
	keys, err := mac.NewKeyring([]byte(l.Secret), nil)
	return replica.Voice{Cluster: wire.ClusterIDOf("iggy-cluster"), Pair: p, Keys: keys, TLS: c}, err
}

// wrongSecret sends a proof that it cannot have.
func wrongSecret(ctx context.Context, out io.Writer, l *lab.Lab) error {
	v, err := voice(l, mac.Pair{Dialer: 0, Acceptor: 1})
	if err != nil {
		return err
	}
	dialer := tls.Dialer{Config: v.TLS}
	conn, err := dialer.DialContext(ctx, "tcp", l.Net.Ingress(1))
	if err != nil {
		return err
	}
	defer conn.Close()
	hello := wire.NewHello(v.Cluster, 0, []byte("a nonce of thirty-two bytes, OK?"))
	finish := wire.NewFinish(v.Cluster, 0, []byte("no MAC that any of us could make"))
	if _, err := conn.Write(append(hello[:], finish[:]...)); err != nil {
		return err
	}
	if answer, err := io.ReadAll(conn); err != nil || len(answer) != wire.HeaderSize {
		return fmt.Errorf("got %d bytes and %v, want a Challenge and the end", len(answer), err)
	}
	return shown(ctx, out, l.Gates[1], "a peer without the secret", "ending", "mac_mismatch")
}

// wrongCluster is a replica of another cluster that has the secret.
func wrongCluster(ctx context.Context, out io.Writer, l *lab.Lab) error {
	v, err := voice(l, mac.Pair{Dialer: 0, Acceptor: 1})
	if err != nil {
		return err
	}
	v.Cluster = wire.ClusterIDOf("another-cluster")
	return turnedAway(ctx, out, l, v, "a peer of another cluster", "cluster_mismatch")
}

// wrongDirection is a higher id that dials a lower one.
func wrongDirection(ctx context.Context, out io.Writer, l *lab.Lab) error {
	v, err := voice(l, mac.Pair{Dialer: 2, Acceptor: 1})
	if err != nil {
		return err
	}
	return turnedAway(ctx, out, l, v, "replica 2 dialing replica 1", "directional_rule")
}

func turnedAway(ctx context.Context, out io.Writer, l *lab.Lab, v replica.Voice, what, ending string) error {
	_, err := v.Dial(ctx, l.Net.Ingress(1))
	if _, ok := errors.AsType[*mac.RejectedError](err); !ok {
		return fmt.Errorf("got %v, want a reject frame", err)
	}
	return shown(ctx, out, l.Gates[1], what, "ending", ending)
}

// insider has the secret and takes replica 0's place for a moment: what it sends
// is judged all the same. The true replica 0 is back at its next dial.
func insider(ctx context.Context, out io.Writer, l *lab.Lab) error {
	v, err := voice(l, mac.Pair{Dialer: 0, Acceptor: 1})
	if err != nil {
		return err
	}
	conn, err := v.Dial(ctx, l.Net.Ingress(1))
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, bad := range []struct{ file, what, rule string }{
		{"request-create-stream.bin", "a client's Request, which Iggy executes as root", "client_request"},
		{"dvc-replica-200.bin", "a well-sealed frame that kills a replica's shard", "replica_range"},
	} {
		frame, err := os.ReadFile(filepath.Join(recordingsDir, "frames", bad.file))
		if err != nil {
			return err
		}
		if _, err := conn.Write(frame); err != nil {
			return err
		}
		if err := shown(ctx, out, l.Gates[1], bad.what, "rule", bad.rule); err != nil {
			return err
		}
	}
	conn.Close()
	return l.Until(ctx, "the true replica 0 is back", l.Meshed)
}

// agreed stops the clients and holds the logs against each other.
func agreed(ctx context.Context, out io.Writer, l *lab.Lab) error {
	if err := more(ctx, l, 100); err != nil {
		return err
	}
	if err := l.Settle(ctx); err != nil {
		return err
	}
	r := l.Reports()[0]
	fmt.Fprintf(out, "   all three stand-ins agree: commit points %d, log %s, and none found a fault in what it received\n", r.Commit, r.Hash)
	return nil
}

// shown prints a gate's own line about a refusal.
func shown(ctx context.Context, out io.Writer, gate *lab.Gate, what, field, word string) error {
	line, err := gate.Await(ctx, field, word)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "   refused: %s\n      %s=%s, got %v, want %v\n", what, field, word, line["got"], line["want"])
	return nil
}
