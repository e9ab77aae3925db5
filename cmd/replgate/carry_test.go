package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
)

// replicasInTest is the roster's length: enough for the five-node recording.
const replicasInTest = 5

// TestCarriage plays every recording through gates in processes of their own: in
// every near and far security, through a pair and through one gate against a
// native far side. What comes out is byte for byte what went in, and no frame is
// refused. Each scenario is a cluster of its own with the same name, so every one
// but the first meets gates that have carried another log.
func TestCarriage(t *testing.T) {
	recordings, err := replica.Recordings(recordingsDir())
	if err != nil {
		t.Fatal(err)
	}
	securities := []string{"plaintext", "psk", "tls"}
	for _, top := range []struct {
		name                     string
		onlyDialer, onlyAcceptor bool
	}{{"pair", false, false}, {"dialer", true, false}, {"acceptor", false, true}} {
		for _, near := range securities {
			for _, far := range securities {
				t.Run(fmt.Sprintf("%s/near=%s/far=%s", top.name, near, far), func(t *testing.T) {
					carry(t, recordings, lab.Options{Replicas: replicasInTest, Near: near, Far: far,
						OnlyDialer: top.onlyDialer, OnlyAcceptor: top.onlyAcceptor})
				})
			}
		}
	}
}

func carry(t *testing.T, recordings []replica.Recording, o lab.Options) {
	o.Binary, o.Dir, o.Secret = replgateBinary, t.TempDir(), secretOne
	c, err := lab.NewCluster(o)
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, scenario := range scenarios(recordings) {
		frames, err := c.Scenario(context.Background(), scenario)
		if err != nil {
			t.Error(err)
		}
		want += frames
	}
	if !o.OnlyDialer && !o.OnlyAcceptor {
		want *= 2 // every frame goes through both gates
	}
	var forwarded, others, refused float64
	for i := range c.Gates {
		samples := scrape(t, c.Net.Metrics(i))
		forwarded += samples.Sum("replgate_frames_total", `result="forwarded"`)
		others += samples.Sum("replgate_frames_total") - samples.Sum("replgate_frames_total", `result="forwarded"`)
		refused += samples.Sum("replgate_frames_rejected_total")
	}
	if int(forwarded) != want || others != 0 || refused != 0 {
		t.Errorf("got %v frames forwarded, %v dropped or lost and %v against a rule, want %v, 0 and 0", forwarded, others, refused, want)
		for i, g := range c.Gates {
			for line := range strings.Lines(g.Log()) {
				if strings.Contains(line, `"frame refused"`) {
					t.Logf("gate %d: %s", i, line)
				}
			}
		}
	}
}

// scenarios groups recordings, which come in order of scenario.
func scenarios(recordings []replica.Recording) (groups [][]replica.Recording) {
	for i, r := range recordings {
		if i == 0 || r.Scenario != recordings[i-1].Scenario {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], r)
	}
	return groups
}
