package watch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// textLog writes log lines as text.
func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// Files written anew with the same content are no news, by whatever way they got there
// (what T10 needs); the change behind them is.
func TestSameContentIsNoNews(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "secret")
	write(t, path, "same")
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Paths: []string{path}, Interval: pollInterval, NoWatch: true})
		r := start(t, w, w.Read())
		rewrite := []func() error{
			func() error { write(t, path, "same"); return nil },
			func() error { return os.WriteFile(path, []byte("same"), 0o600) },
			func() error { return os.Chmod(path, 0o640) },
			func() error { return os.Chtimes(path, time.Now(), time.Now()) },
			func() error { return os.Rename(path, path+".real") },
			func() error { return os.Symlink(path+".real", path) },
		}
		for i, change := range rewrite {
			if err := change(); err != nil {
				t.Fatal(err)
			}
			if i == 4 {
				continue // the file is away until the link is there
			}
			time.Sleep(3 * pollInterval)
			select {
			case <-r.sets:
				t.Errorf("change %d: got a set, want none: the content is the same", i)
			default:
			}
		}
		write(t, path, "other")
		if s := <-r.sets; !holds(path, "other")(s.Snapshot) {
			t.Error("got another content, want the one written last")
		}
		r.stop()
	})
}

// What the caller knows is not handed on again; what it does not know is, at once.
func TestKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, "a")
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Paths: []string{path}, Interval: time.Hour, NoWatch: true})
		known := w.Read()
		write(t, path, "b")
		began := time.Now()
		r := start(t, w, known)
		if s := <-r.sets; !holds(path, "b")(s.Snapshot) || time.Since(began) > maxSettle {
			t.Errorf("got another content or got it after %v, want what changed since it was read", time.Since(began))
		}
		r.stop()
	})
}

// A poke is a look now, and its channel says that it is over, news or not.
func TestPoke(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, "a")
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Paths: []string{path}, Interval: time.Hour, NoWatch: true})
		var got []Snapshot
		ctx, cancel := context.WithCancel(t.Context())
		early := w.Poke() // before there is a Run: its first look is the answer
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(ctx, w.Read(), func(s Snapshot) { got = append(got, s) })
		}()
		<-early
		began, looks := time.Now(), w.Looks()
		write(t, path, "b")
		first, second := w.Poke(), w.Poke()
		<-first
		<-second
		if len(got) != 1 || !holds(path, "b")(got[0]) {
			t.Errorf("got %d sets when the pokes were over, want the one with the new content", len(got))
		}
		<-w.Poke()
		if len(got) != 1 || w.Looks() < looks+2 {
			t.Errorf("got %d sets and %d looks, want no set but a look of a poke without news", len(got), w.Looks()-looks)
		}
		if took := time.Since(began); took > 3*maxSettle {
			t.Errorf("got the answers after %v, want them at once", took)
		}
		cancel()
		<-ended
	})
}

// Other paths are looked at when they are set, and watched from then on; the old ones
// no longer are.
func TestSetPaths(t *testing.T) {
	t.Parallel()
	v := newVolume(t, filepath.Join(t.TempDir(), "volume"), three...)
	v.rotate(0)
	old := filepath.Join(t.TempDir(), "old")
	write(t, old, "old")
	w := New(Options{Paths: []string{old}, Interval: time.Hour})
	r := start(t, w, w.Read())
	w.SetPaths(v.paths(v.dir))
	s := r.until("the new paths", func(Snapshot) bool { return true })
	if g, err := v.generation(s, v.dir); g != 0 || err != nil {
		t.Errorf("got generation %d, %v, want 0", g, err)
	}
	if _, err := s.Read(old); !errors.Is(err, ErrNotInSet) {
		t.Errorf("got %v for a path of before, want %v", err, ErrNotInSet)
	}
	if got, want := s.Differ(w.Read()), []string(nil); !slices.Equal(got, want) {
		t.Errorf("got a set that differs from Read's in %q, want the same", got)
	}
	for g := 1; g <= 3; g++ {
		write(t, old, "changed")
		v.rotate(g)
		s := r.until("a generation of the new paths", func(Snapshot) bool { return true })
		if got, err := v.generation(s, v.dir); got != g || err != nil {
			t.Errorf("got generation %d, %v, want %d", got, err, g)
		}
	}
}

// A function that Run calls may set other paths itself, as a new configuration does.
func TestSetPathsWithinTheCall(t *testing.T) {
	dir := t.TempDir()
	config, named := filepath.Join(dir, "config"), filepath.Join(dir, "named")
	write(t, config, named)
	write(t, named, "secret")
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Paths: []string{config}, Interval: time.Hour, NoWatch: true})
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		w.Run(ctx, Snapshot{}, func(s Snapshot) {
			if calls++; holds(named, "secret")(s) {
				cancel()
				return
			}
			name, err := s.Read(config)
			if err != nil {
				t.Error(err)
			}
			w.SetPaths([]string{config, string(name)})
		})
		if calls != 2 {
			t.Errorf("got %d calls, want one for the configuration and one for what it names", calls)
		}
	})
}

// A file that is not there is an entry of its own, and found when it appears (what T4
// needs), also when its folder is not there either. The interval is an hour.
func TestAbsentFileAppears(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := filepath.Join(top, "etc", "replgate")
	path, there := filepath.Join(dir, "secret"), filepath.Join(top, "there")
	write(t, there, "there")
	w := New(Options{Paths: []string{path, there}, Interval: time.Hour})
	r := start(t, w, Snapshot{})
	missing := func(s Snapshot) bool {
		_, err := s.Read(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	s := r.until("the set without the file", missing)
	if !holds(there, "there")(s) {
		t.Error("got nothing of the other file, want its content: one that is missing is no failure of the set")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, path, "secret")
	r.until("the file that appeared", holds(path, "secret"))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.until("the file that went away", missing)
	if err := os.RemoveAll(filepath.Join(top, "etc")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, path, "again")
	r.until("the file in a folder made anew", holds(path, "again"))
}

// The files' own folder may be exchanged as a whole, again and again: its name is then
// that of another folder, which has no watch yet.
func TestFolderIsExchanged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "tls")
	path := filepath.Join(dir, "secret")
	fill := func(dir, content string) {
		t.Helper()
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "secret"), content)
	}
	fill(dir, "0")
	w := New(Options{Paths: []string{path}, Interval: time.Hour})
	r := start(t, w, w.Read())
	for _, content := range []string{"1", "2", "3"} {
		fill(dir+".next", content)
		for _, step := range []error{os.Rename(dir, dir+".old"), os.Rename(dir+".next", dir), os.RemoveAll(dir + ".old")} {
			if step != nil {
				t.Fatal(step)
			}
		}
		r.until("the folder of "+content, holds(path, content))
		write(t, path, content+" within")
		r.until("a file of the folder of "+content, holds(path, content+" within"))
	}
}

// A link is exchanged while a watcher sets its first watches. Wherever it is then, it
// ends with watches where the link leads at last. The interval is an hour.
func TestLinkMovesWhileWatchesAreSet(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	path := filepath.Join(top, "link", "secret")
	for i := range 20 {
		for _, side := range []string{"a", "b"} {
			if err := os.MkdirAll(filepath.Join(top, side), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(top, side, "secret"), side)
		}
		relink(t, "a", filepath.Join(top, "link"))
		w := New(Options{Paths: []string{path}, Interval: time.Hour})
		r := start(t, w, w.Read())
		relink(t, "b", filepath.Join(top, "link"))
		r.until("what the link leads to", holds(path, "b"))
		content := strconv.Itoa(i)
		write(t, filepath.Join(top, "b", "secret"), content)
		r.until("a change where the link leads", holds(path, content))
		r.stop()
	}
}

// relink replaces a link by rename.
func relink(t *testing.T, target, link string) {
	t.Helper()
	if err := errors.Join(os.Symlink(target, link+".new"), os.Rename(link+".new", link)); err != nil {
		t.Fatal(err)
	}
}

// Two paths to one file: leaving one does not leave the other.
func TestTwoPathsToOneFile(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	real := filepath.Join(top, "real")
	if err := os.Mkdir(real, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(real, "secret"), "0")
	link := filepath.Join(top, "link")
	if err := os.Symlink("real", link); err != nil {
		t.Fatal(err)
	}
	a, b := filepath.Join(link, "secret"), filepath.Join(real, "..", "real", "secret")
	w := New(Options{Paths: []string{a, b}, Interval: time.Hour})
	r := start(t, w, w.Read())
	write(t, filepath.Join(real, "secret"), "1")
	r.until("the change by both names", func(s Snapshot) bool { return holds(a, "1")(s) && holds(b, "1")(s) })
	w.SetPaths([]string{b})
	r.until("one name less", func(s Snapshot) bool { _, err := s.Read(a); return errors.Is(err, ErrNotInSet) })
	write(t, filepath.Join(real, "secret"), "2")
	r.until("the change by the name that is left", holds(b, "2"))
}

// All that a Run started ends before it returns. Not in parallel with tests that run
// watchers of their own.
func TestRunEndsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, "a")
	w := New(Options{Paths: []string{path}, Interval: pollInterval})
	r := start(t, w, Snapshot{})
	r.until("the first set", holds(path, "a"))
	if !strings.Contains(stacks(), "fsnotify") {
		t.Fatal("got no goroutine of a watch while Run runs, want one: this test sees nothing")
	}
	r.stop()
	// The last steps of a goroutine come after it has said that it is at its end.
	for began := time.Now(); strings.Contains(stacks(), "fsnotify") || strings.Contains(stacks(), ".forward("); {
		if time.Since(began) > patience {
			t.Fatalf("got goroutines after Run has returned, want none:\n%s", stacks())
		}
		runtime.Gosched()
	}
}

func stacks() string {
	buffer := make([]byte, 1<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}
