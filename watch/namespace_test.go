//go:build linux

package watch

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// childEnv names the test that a process was started for, in namespaces of its own.
const childEnv = "REPLGATE_WATCH_NAMESPACE"

// apart runs the calling test in a process of its own that is root in a new user
// namespace and has its own mounts, so that limits and mounts are nobody else's. It
// reports whether this is that process.
func apart(t *testing.T) bool {
	t.Helper()
	if os.Getenv(childEnv) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), childEnv+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		// Some systems and containers give out no namespaces; what the test is about is
		// not tested there.
		t.Skipf("no namespaces: %v", err)
	}
	err := cmd.Wait()
	// Nor is it where namespaces have no rights over what is theirs.
	if strings.Contains(out.String(), "--- SKIP: "+t.Name()) {
		t.Skip(out.String())
	}
	if err != nil {
		t.Errorf("in namespaces of its own: %v\n%s", err, out.String())
	} else if !strings.Contains(out.String(), "--- PASS: "+t.Name()) {
		t.Errorf("got no test that passed in namespaces of its own, want one:\n%s", out.String())
	}
	return false
}

// limit sets one of the system's limits for this user namespace.
func limit(t *testing.T, name, value string) {
	t.Helper()
	granted(t, os.WriteFile("/proc/sys/user/"+name, []byte(value), 0))
}

// granted ends the test when something failed, and skips it when that is so because
// the namespace has no right to it.
func granted(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		t.Skip(err) // not tested on this system: apart says the same outside
	}
	if err != nil {
		t.Fatal(err)
	}
}

// T3: the limit of instances is reached. Each generation is found by the interval, the
// watcher says that it is degraded, and logs it once.
func TestNoInstances(t *testing.T) {
	t.Parallel()
	if !apart(t) {
		return
	}
	limit(t, "max_inotify_instances", "0")
	v := newVolume(t, filepath.Join(t.TempDir(), "volume"), three...)
	v.rotate(0)
	dir := chained(v, 3)
	var log strings.Builder
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Paths: v.paths(dir), Interval: pollInterval, Log: textLog(&log)})
		if w.Degraded() {
			t.Error("got degraded before anything was tried, want not")
		}
		r := start(t, w, w.Read())
		for g := 1; g <= 100; g++ {
			v.rotate(g)
			swapped := time.Now()
			s := <-r.sets
			if got, err := v.generation(s.Snapshot, dir); got != g || err != nil || time.Since(swapped) > 2*pollInterval {
				t.Fatalf("got generation %d, %v after %v, want %d within two intervals", got, err, time.Since(swapped), g)
			}
		}
		if !w.Degraded() {
			t.Error("got not degraded without an instance, want degraded")
		}
		r.stop()
	})
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "file watches failed") || !strings.Contains(got, "interval=20ms") {
		t.Errorf("got this log, want one line on watches that failed:\n%s", got)
	}
}

// The limit of watches leaves some folders without one. What they hold is found by the
// interval, and when there is room again the watcher is no longer degraded.
func TestTooFewWatches(t *testing.T) {
	t.Parallel()
	if !apart(t) {
		return
	}
	limit(t, "max_inotify_watches", "1")
	v := newVolume(t, filepath.Join(t.TempDir(), "volume"), three...)
	v.rotate(0)
	dir := chained(v, 2)
	var log strings.Builder
	w := New(Options{Paths: v.paths(dir), Interval: pollInterval, Log: textLog(&log)})
	r := start(t, w, w.Read())
	next := func(g int) {
		t.Helper()
		v.rotate(g)
		s, err := r.next()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.generation(s.Snapshot, dir); got != g || err != nil {
			t.Errorf("got generation %d, %v, want %d", got, err, g)
		}
	}
	for g := 1; g <= 3; g++ {
		next(g)
	}
	if !w.Degraded() {
		t.Error("got not degraded with one watch for three folders, want degraded")
	}
	limit(t, "max_inotify_watches", "100")
	<-w.Poke()
	if w.Degraded() {
		t.Error("got degraded with room for all watches, want not")
	}
	next(4)
	r.stop()
	got := log.String()
	if strings.Count(got, "file watches failed") != 1 || strings.Count(got, "file watches work again") != 1 {
		t.Errorf("got this log, want one line on the failure and one on its end:\n%s", got)
	}
}

// T7 on the table of this process: a file under a bind mount is one, also through
// links; a file in a mounted folder is not, unless that is a generation's.
func TestMounted(t *testing.T) {
	if !apart(t) {
		return
	}
	v := newVolume(t, filepath.Join(t.TempDir(), "a volume"), three...)
	v.rotate(0)
	frozen := filepath.Join(t.TempDir(), "tls.crt")
	write(t, frozen, "")
	whole, folder := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(frozen, link); err != nil {
		t.Fatal(err)
	}
	check := func(path string, want bool) {
		t.Helper()
		if got, err := Mounted(path); got != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", path, got, err, want)
		}
	}
	check(frozen, false)
	bind(t, v.path("tls.crt"), frozen)
	bind(t, v.dir, whole)
	bind(t, v.path("..data"), folder)
	check(frozen, true)
	check(link, true)
	check(filepath.Join(whole, "tls.crt"), false)
	check(filepath.Join(folder, "tls.crt"), true)
	check(v.path("tls.crt"), false)
}

// bind mounts a file or folder at another place until the test ends.
func bind(t *testing.T, from, at string) {
	t.Helper()
	granted(t, syscall.Mount(from, at, "", syscall.MS_BIND, ""))
	t.Cleanup(func() {
		if err := syscall.Unmount(at, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// Two mounts of one folder are one watch for the system, under the name that came
// first. Both are followed, and leaving one does not leave the other.
func TestTwoMountsOfOneFolder(t *testing.T) {
	t.Parallel()
	if !apart(t) {
		return
	}
	a, b := t.TempDir(), t.TempDir()
	bind(t, a, b)
	inA, inB := filepath.Join(a, "secret"), filepath.Join(b, "other")
	write(t, inA, "0")
	write(t, inB, "0")
	w := New(Options{Paths: []string{inA, inB}, Interval: time.Hour})
	r := start(t, w, w.Read())
	write(t, inB, "1")
	r.until("a change in the second mount", holds(inB, "1"))
	write(t, inA, "1")
	r.until("a change in the first mount", holds(inA, "1"))
	for i, path := range []string{inB, inA, inB} {
		w.SetPaths([]string{path})
		r.until("the other path alone", func(s Snapshot) bool { return len(s.Differ(Snapshot{})) == 1 })
		content := strings.Repeat("2", i+1)
		write(t, path, content)
		r.until("a change by the path that is left", holds(path, content))
	}
}
