package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// volume is a folder of files that a kubelet's AtomicWriter would keep: the files are
// links through ..data, which is a link to the folder of a generation.
type volume struct {
	t     testing.TB
	dir   string
	files []string
	// content is what a file holds in a generation; nil: its name and the number.
	content func(name string, generation int) string
	now     string // the folder that ..data leads to
	made    int
}

func newVolume(t testing.TB, dir string, files ...string) *volume {
	t.Helper()
	v := &volume{t: t, dir: dir, files: files}
	v.check(os.MkdirAll(dir, 0o755))
	return v
}

// check fails the test, from whatever goroutine writes.
func (v *volume) check(err error) {
	if err != nil {
		v.t.Helper()
		v.t.Error(err)
	}
}

func (v *volume) path(name string) string { return filepath.Join(v.dir, name) }

// text is what a file holds in a generation.
func (v *volume) text(name string, generation int) string {
	if v.content != nil {
		return v.content(name, generation)
	}
	return fmt.Sprintf("%s of generation %d", name, generation)
}

// rotate takes the AtomicWriter's steps: a new folder, the files in it, ..data_tmp, its
// rename to ..data, then the old folder goes. No folder's name is used twice.
func (v *volume) rotate(generation int) {
	v.made++
	next := fmt.Sprintf("..2026_01_02_03_04_05.%09d", v.made)
	v.check(os.Mkdir(v.path(next), 0o755))
	for _, name := range v.files {
		v.check(os.WriteFile(filepath.Join(v.path(next), name), []byte(v.text(name, generation)), 0o644))
	}
	v.check(os.Symlink(next, v.path("..data_tmp")))
	v.check(os.Rename(v.path("..data_tmp"), v.path("..data")))
	if v.now == "" {
		for _, name := range v.files {
			v.check(os.Symlink("..data/"+name, v.path(name)))
		}
	} else {
		v.check(os.RemoveAll(v.path(v.now)))
	}
	v.now = next
}

// linked makes a folder with links to the files in another one, and returns it.
func (v *volume) linked(from, dir string) string {
	v.check(os.MkdirAll(dir, 0o755))
	for _, name := range v.files {
		v.check(os.Symlink(filepath.Join(from, name), filepath.Join(dir, name)))
	}
	return dir
}

// generation tells which generation a set is; an error where it is none or a mixture.
func (v *volume) generation(s Snapshot, dir string) (int, error) {
	found := -1
	for _, name := range v.files {
		data, err := s.Read(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		g, err := strconv.Atoi(string(data[strings.LastIndexByte(string(data), ' ')+1:]))
		if err != nil || string(data) != v.text(name, g) || found >= 0 && g != found {
			return 0, fmt.Errorf("got %q in %s beside generation %d, want one generation", data, name, found)
		}
		found = g
	}
	return found, nil
}

func (v *volume) paths(dir string) (paths []string) {
	for _, name := range v.files {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// running is a Run in a goroutine of its own.
type running struct {
	t    testing.TB
	sets chan handed // what it handed on
	stop func()      // ends it and waits for its end
}

// handed is a set, and how many looks had begun when it was handed on.
type handed struct {
	Snapshot
	looks uint64
}

// start runs a watcher. Every set has to be taken from the channel.
func start(t testing.TB, w *Watcher, known Snapshot) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{t: t, sets: make(chan handed)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, known, func(s Snapshot) {
			select {
			case r.sets <- handed{s, w.Looks()}:
			case <-ctx.Done():
			}
		})
	}()
	r.stop = func() { cancel(); <-ended }
	t.Cleanup(r.stop)
	return r
}

// patience is how long a machine may be busy with other things before a test that
// waits for something gives up. Nothing is measured with it.
const patience = time.Minute

// next waits for the next set.
func (r *running) next() (handed, error) {
	select {
	case s := <-r.sets:
		return s, nil
	case <-time.After(patience):
		return handed{}, errors.New("got no set, want one: a change was missed")
	}
}

// until takes sets until one satisfies.
func (r *running) until(what string, satisfies func(Snapshot) bool) Snapshot {
	r.t.Helper()
	for {
		s, err := r.next()
		if err != nil {
			r.t.Fatalf("%v: %s", err, what)
		}
		if satisfies(s.Snapshot) {
			return s.Snapshot
		}
	}
}

// holds tells whether a file of a set has a content.
func holds(path, content string) func(Snapshot) bool {
	return func(s Snapshot) bool {
		data, err := s.Read(path)
		return err == nil && string(data) == content
	}
}

// write replaces a file as one should: beside it, then by rename.
func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
