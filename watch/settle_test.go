package watch

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// alternate is a content that two generations apart is the same again.
func alternate(name string, generation int) string {
	return [2]string{"even ", "odd "}[generation%2] + name + " " + [2]string{"0", "1"}[generation%2]
}

// together makes one reading of two: what a reading finds when the volume rotates
// while it goes through the files.
func together(a, b Snapshot) Snapshot {
	files := maps.Clone(a.files)
	maps.Copy(files, b.files)
	return Snapshot{files: files}
}

// Two readings with the same bytes are one set only if the links led to the same
// place: contents may come back, a kubelet's folders do not.
func TestSameBytesOfTwoGenerationsDoNotAgree(t *testing.T) {
	v := newVolume(t, t.TempDir(), "tls.crt", "tls.key")
	v.content = alternate
	cert, key := []string{v.path("tls.crt")}, []string{v.path("tls.key")}
	var mixed [2]Snapshot
	for i := range mixed {
		v.rotate(2 * i)
		a := take(cert)
		v.rotate(2*i + 1)
		mixed[i] = together(a, take(key))
	}
	if !mixed[0].Equal(mixed[1]) {
		t.Fatal("got other bytes in the second reading, want the case that bytes alone do not show")
	}
	if mixed[0].agrees(mixed[1]) {
		t.Error("got two readings that agree on certificate 0 with key 1, want them refused")
	}
	before := chains(v.paths(v.dir))
	v.rotate(4)
	if take(v.paths(v.dir)).along(before) {
		t.Error("got a reading along the chains of a generation before, want another one")
	}
	if whole := take(v.paths(v.dir)); !whole.agrees(take(v.paths(v.dir))) {
		t.Error("got readings of a volume at rest that do not agree, want that they do")
	}
}

// A writer swaps as fast as it can. Single readings catch it in the middle; two that
// agree never do.
func TestNoSetIsAMixture(t *testing.T) {
	t.Parallel()
	v := newVolume(t, t.TempDir(), three...)
	v.content = alternate
	v.rotate(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for g := 1; ; g++ {
			select {
			case <-stop:
				return
			default:
				v.rotate(g)
			}
		}
	}()
	torn, agreed := 0, 0
	paths := v.paths(v.dir)
	for began := time.Now(); (torn < 20 || agreed < 20) && time.Since(began) < patience; {
		first := take(paths)
		if _, err := v.generation(first, v.dir); err != nil {
			torn++
		}
		if !first.agrees(take(paths)) {
			continue
		}
		agreed++
		if _, err := v.generation(first, v.dir); err != nil {
			t.Errorf("two readings agree: %v", err)
		}
	}
	close(stop)
	<-stopped
	if torn < 20 || agreed < 20 {
		t.Errorf("got %d torn readings and %d pairs that agree, want 20 of each", torn, agreed)
	}
}

// restless writes other bytes into a file at each step of virtual time, shorter than
// the pause between two readings.
func restless(t *testing.T, path string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
			write(t, path, strconv.Itoa(i))
		}
	}
}

// Files that do not hold still are no set: Run waits and says so once, Read gives up
// and names them. What holds still beside them is read.
func TestUnsettled(t *testing.T) {
	dir := t.TempDir()
	moving, still := filepath.Join(dir, "moving"), filepath.Join(dir, "still")
	write(t, moving, "known")
	write(t, still, "still")
	var log strings.Builder
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Paths: []string{moving, still}, Interval: maxSettle * 10, NoWatch: true, Log: textLog(&log)})
		known := w.Read()
		stop := make(chan struct{})
		go restless(t, moving, stop)
		time.Sleep(5 * time.Millisecond)
		s := w.Read()
		if _, err := s.Read(moving); !errors.Is(err, ErrUnsettled) {
			t.Errorf("got %v for the file that moves, want %v", err, ErrUnsettled)
		}
		if !holds(still, "still")(s) {
			t.Error("got no content of the file that holds still, want it")
		}
		r := start(t, w, known)
		time.Sleep(time.Second)
		select {
		case s := <-r.sets:
			t.Errorf("got %v of files that do not hold still, want none", s.Differ(known))
		default:
		}
		close(stop)
		synctest.Wait()
		write(t, moving, "at rest")
		if s := <-r.sets; !holds(moving, "at rest")(s.Snapshot) {
			t.Error("got another content, want the one at rest")
		}
		r.stop()
	})
	if n := strings.Count(log.String(), "do not hold still"); n != 1 {
		t.Errorf("got %d lines of log, want one:\n%s", n, log.String())
	}
}

// A program that writes in place is not read half way: its file is empty for a moment,
// and full again before the second reading.
func TestWritingInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, "old")
	synctest.Test(t, func(t *testing.T) {
		w := New(Options{Paths: []string{path}, Interval: time.Second, NoWatch: true})
		r := start(t, w, w.Read())
		// Between two looks; the next one comes a moment after the file was emptied.
		time.Sleep(time.Second - time.Millisecond)
		if err := os.Truncate(path, 0); err != nil {
			t.Error(err)
		}
		go func() {
			time.Sleep(10 * time.Millisecond)
			if err := os.WriteFile(path, []byte("new"), 0o600); err != nil {
				t.Error(err)
			}
		}()
		if s := <-r.sets; !holds(path, "new")(s.Snapshot) {
			data, err := s.Read(path)
			t.Errorf("got %q, %v, want the whole new content", data, err)
		}
		r.stop()
	})
}
