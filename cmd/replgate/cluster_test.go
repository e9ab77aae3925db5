package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/lab"
)

// replgateBinary is built once, by TestMain: tests from outside run the program
// that users run.
var replgateBinary string

// What the tests are told from outside. TestMain takes the variables out of the
// environment: a program that inherits them warns of keys it does not know.
var (
	captures = os.Getenv("REPLGATE_CAPTURES")   // the folder of the full set of recordings
	witness  = os.Getenv("REPLGATE_WITNESS")    // the program of an independent checker
	soak     = os.Getenv("REPLGATE_SOAK") != "" // the long variants run
)

func TestMain(m *testing.M) {
	for _, name := range []string{"REPLGATE_CAPTURES", "REPLGATE_WITNESS", "REPLGATE_SOAK"} {
		os.Unsetenv(name)
	}
	dir, err := os.MkdirTemp("", "replgate-test")
	if err != nil {
		panic(err)
	}
	replgateBinary = filepath.Join(dir, "replgate")
	build := exec.Command("go", "build", "-o", replgateBinary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n", out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// recordingsDir is the full set of recordings where there is one, else the
// project's own subset.
func recordingsDir() string {
	if captures != "" {
		return captures
	}
	return "../../internal/replica/testdata/recordings"
}

const secretOne = "capture secret one, 32+ bytes long!"

// startGate starts a gate for the length of a test and expects it to exit 0.
func startGate(t *testing.T, c lab.Config) *lab.Gate {
	t.Helper()
	path, err := c.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g, err := lab.Start(replgateBinary, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(40 * time.Second); err != nil {
			t.Errorf("the gate ended with %v, want exit 0:\n%s", err, g.Log())
		}
	})
	return g
}

func scrape(t *testing.T, address string) lab.Samples {
	t.Helper()
	samples, err := lab.Scrape(address)
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

// eventually waits until cond holds, for at most ten seconds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // real time: another process is watched
	}
}
