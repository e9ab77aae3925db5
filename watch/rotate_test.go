package watch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// The swaps of T1; 1000 take a few seconds, so there is no shorter variant.
const swaps = 1000

// pollInterval is the interval of the tests.
const pollInterval = 20 * time.Millisecond

// three are the files of a set: a mixture of generations has more than one place.
var three = []string{"ca.pem", "tls.crt", "tls.key"}

// TestEveryGenerationIsLive: T1, with watches and an interval of 20 ms. Every
// generation arrives whole and in its turn, within two looks of the watcher. The
// looks are counted, not the milliseconds: a busy machine makes time pass.
func TestEveryGenerationIsLive(t *testing.T) {
	t.Parallel()
	v := newVolume(t, t.TempDir(), three...)
	v.rotate(0)
	w := New(Options{Paths: v.paths(v.dir), Interval: pollInterval})
	known := w.Read()
	r := start(t, w, known)
	began, slowest := time.Now(), time.Duration(0)
	for g := 1; g <= swaps; g++ {
		v.rotate(g)
		swapped, looks := time.Now(), w.Looks()
		s, err := r.next()
		if err != nil {
			t.Fatalf("generation %d: %v", g, err)
		}
		if got, err := v.generation(s.Snapshot, v.dir); got != g || err != nil {
			t.Fatalf("got generation %d, %v, want %d", got, err, g)
		}
		if took := s.looks - looks; took > 2 {
			t.Fatalf("generation %d: got it at look %d after the swap, want the second at the latest", g, took)
		}
		slowest = max(slowest, time.Since(swapped))
	}
	t.Logf("%d swaps in %v, the slowest live after %v", swaps, time.Since(began), slowest)
	if w.Degraded() {
		t.Error("got degraded, want watches")
	}
}

// TestPollAlone: T3. Without watches the interval finds every generation, by the clock
// within two intervals, wherever in an interval the swap falls. Time is virtual.
func TestPollAlone(t *testing.T) {
	t.Parallel()
	for _, links := range []int{1, 3} {
		t.Run(fmt.Sprintf("links=%d", links), func(t *testing.T) {
			t.Parallel()
			v := newVolume(t, filepath.Join(t.TempDir(), "volume"), three...)
			dir := chained(v, links)
			v.rotate(0)
			synctest.Test(t, func(t *testing.T) { pollAlone(t, v, dir) })
		})
	}
}

func pollAlone(t *testing.T, v *volume, dir string) {
	w := New(Options{Paths: v.paths(dir), Interval: pollInterval, NoWatch: true})
	r := start(t, w, w.Read())
	for g := 1; g <= swaps; g++ {
		time.Sleep(time.Duration(g*7%23) * time.Millisecond) // virtual time: in the bubble of the caller
		v.rotate(g)
		swapped := time.Now()
		s := <-r.sets
		if got, err := v.generation(s.Snapshot, dir); got != g || err != nil {
			t.Fatalf("got generation %d, %v, want %d", got, err, g)
		}
		if took := time.Since(swapped); took > 2*pollInterval {
			t.Fatalf("generation %d: got it after %v, want it within %v", g, took, 2*pollInterval)
		}
	}
	if !w.Degraded() {
		t.Error("got watches, want degraded: they are switched off")
	}
	r.stop()
}

// chained puts more links before a volume's own two, each in a folder of its own, and
// returns the folder of the paths to be watched.
func chained(v *volume, links int) string {
	from := v.dir
	for i := 1; i < links; i++ {
		from = v.linked(from, filepath.Join(filepath.Dir(v.dir), fmt.Sprintf("links%d", i)))
	}
	return from
}

// TestWatchesFollowChains: T2. The interval is an hour, so a generation that the
// watches miss is missed for good. The chains lead through one, two and three folders
// of links into the volume, or past its own links into ..data.
func TestWatchesFollowChains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		dir  func(v *volume) string
	}{
		{"1 link and the volume", func(v *volume) string { return chained(v, 1) }},
		{"2 links and the volume", func(v *volume) string { return chained(v, 2) }},
		{"3 links and the volume", func(v *volume) string { return chained(v, 3) }},
		{"1 link into data", func(v *volume) string { return v.linked(v.path("..data"), filepath.Dir(v.dir)+"/a") }},
		{"2 links into data", func(v *volume) string {
			return v.linked(v.linked(v.path("..data"), filepath.Dir(v.dir)+"/a"), filepath.Dir(v.dir)+"/b")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := newVolume(t, filepath.Join(t.TempDir(), "volume"), three...)
			dir := c.dir(v)
			v.rotate(0)
			watchAlone(t, v, dir, swaps/20)
		})
	}
}

// watchAlone swaps inside the call that hands on the generation before: the next one
// is there, and the old folder gone, before the watcher can do anything about it.
func watchAlone(t *testing.T, v *volume, dir string, swaps int) {
	w := New(Options{Paths: v.paths(dir), Interval: time.Hour})
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("a generation was missed"))
	defer cancel()
	want := 0
	w.Run(ctx, Snapshot{}, func(s Snapshot) {
		got, err := v.generation(s, dir)
		if got != want || err != nil {
			t.Errorf("got generation %d, %v, want %d", got, err, want)
			cancel()
			return
		}
		if want++; want > swaps {
			cancel()
			return
		}
		v.rotate(want)
	})
	if want <= swaps {
		t.Errorf("got no generation %d, want it: %v", want, context.Cause(ctx))
	}
	if w.Degraded() {
		t.Error("got degraded, want watches")
	}
}
