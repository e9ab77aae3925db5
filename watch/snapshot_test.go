package watch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// read1 reads one path with a watcher's Read.
func read1(path string) Snapshot {
	return New(Options{Paths: []string{path}, Interval: pollInterval}).Read()
}

// What is not a file of a bearable size is an entry with its reason, and holds nothing
// up: a pipe without a writer would.
func TestReasonsForNoContent(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("loop", path("loop")); err != nil {
		t.Fatal(err)
	}
	write(t, path("large"), strings.Repeat("x", MaxSize+1))
	for _, c := range []struct {
		path string
		want error
	}{
		{path("none"), fs.ErrNotExist},
		{path("none/below"), fs.ErrNotExist},
		{path("large/below"), syscall.ENOTDIR},
		{path("loop"), syscall.ELOOP},
		{path("pipe"), ErrNotRegular},
		{dir, ErrNotRegular},
		{"/", ErrNotRegular},
		{path("large"), ErrTooLarge},
	} {
		s := read1(c.path)
		data, err := s.Read(c.path)
		if !errors.Is(err, c.want) || data != nil {
			t.Errorf("%s: got %d bytes, %v, want %v", c.path, len(data), err, c.want)
		}
		if named := (*fs.PathError)(nil); !errors.As(err, &named) || named.Path != c.path {
			t.Errorf("%s: got %v, want an error with the path as it was given", c.path, err)
		}
		if _, err := s.Mode(c.path); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v for its mode, want %v", c.path, err, c.want)
		}
	}
}

// The largest file that is read, an empty one, and two of the kernel's that say they
// have no size: one is small, one too large.
func TestSizes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, MaxSize} {
		write(t, path, strings.Repeat("x", size))
		if data, err := read1(path).Read(path); len(data) != size || err != nil {
			t.Errorf("got %d bytes, %v, want %d", len(data), err, size)
		}
	}
	const symbols = "/proc/kallsyms"
	// Where there is no /proc, there is no file without a size to read.
	if _, err := os.Stat(symbols); err != nil {
		t.Skip(err)
	}
	if data, err := read1(symbols).Read(symbols); len(data) != 0 || !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %d bytes, %v, want %v", len(data), err, ErrTooLarge)
	}
	if data, err := read1(mountTable).Read(mountTable); len(data) == 0 || err != nil {
		t.Errorf("got %d bytes, %v, want the table of mounts", len(data), err)
	}
}

func TestMode(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	write(t, path, "x")
	if err := errors.Join(os.Chmod(path, 0o604), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	if mode, err := read1(link).Mode(link); mode != 0o604 || err != nil {
		t.Errorf("got %v, %v, want the mode of the file behind the link", mode, err)
	}
}

// Differ is about content: paths, bytes, reasons.
func TestDiffer(t *testing.T) {
	path := func(err error) error { return &fs.PathError{Op: "read", Path: "p", Err: err} }
	set := func(files map[string]file) Snapshot { return Snapshot{files: files} }
	base := set(map[string]file{
		"a": {data: []byte("1"), chain: []string{"/x"}}, "b": {err: path(syscall.ENOENT)}, "c": {data: []byte{}},
	})
	for _, c := range []struct {
		name  string
		other Snapshot
		want  []string
	}{
		{"the same by another chain", set(map[string]file{
			"a": {data: []byte("1"), chain: []string{"/y"}, mode: 1}, "b": {err: path(syscall.ENOENT)}, "c": {}}), nil},
		{"other bytes", set(map[string]file{
			"a": {data: []byte("2")}, "b": {err: path(syscall.ENOENT)}, "c": {}}), []string{"a"}},
		{"another reason", set(map[string]file{
			"a": {data: []byte("1")}, "b": {err: path(syscall.EACCES)}, "c": {}}), []string{"b"}},
		{"a reason for an empty file, a file for a reason", set(map[string]file{
			"a": {data: []byte("1")}, "b": {}, "c": {err: path(syscall.ENOENT)}}), []string{"b", "c"}},
		{"another path", set(map[string]file{
			"a": {data: []byte("1")}, "d": {}, "c": {}}), []string{"b", "d"}},
		{"nothing", Snapshot{}, []string{"a", "b", "c"}},
	} {
		for _, got := range [][]string{base.Differ(c.other), c.other.Differ(base)} {
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q", c.name, got, c.want)
			}
		}
		if got, want := base.Equal(c.other), c.want == nil; got != want {
			t.Errorf("%s: got equal %v, want %v", c.name, got, want)
		}
	}
}

// Where only the chains of two readings differ, nobody knows which files belong
// together, and none has a content.
func TestUnsettledChains(t *testing.T) {
	a := Snapshot{files: map[string]file{"a": {data: []byte("1"), chain: []string{"/x"}}, "b": {data: []byte("1")}}}
	b := Snapshot{files: map[string]file{"a": {data: []byte("1"), chain: []string{"/y"}}, "b": {data: []byte("1")}}}
	for _, path := range []string{"a", "b"} {
		if data, err := a.unsettled(b).Read(path); data != nil || !errors.Is(err, ErrUnsettled) {
			t.Errorf("%s: got %q, %v, want %v", path, data, err, ErrUnsettled)
		}
	}
}

// Empty names and repetitions are no files of the set; the names that were given are
// what it is asked by.
func TestPaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, filepath.Join(dir, "file"), "x")
	given := []string{"file", "", "./file", "file"}
	s := New(Options{Paths: given, Interval: pollInterval}).Read()
	if got := s.Differ(Snapshot{}); !slices.Equal(got, []string{"./file", "file"}) {
		t.Errorf("got the paths %q, want each once and as it was given", got)
	}
	if !holds("file", "x")(s) || !holds("./file", "x")(s) {
		t.Error("got another content, want that of the file")
	}
	if given[1] != "" {
		t.Error("got the caller's list changed, want it left alone")
	}
}

// A set holds secrets: no print and no log has a byte of them.
func TestNothingIsPrinted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	const secret = "canary"
	write(t, path, secret)
	s := read1(path)
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb, s)
		fmt.Fprintf(&out, verb, &s)
		fmt.Fprintf(&out, verb, struct{ S Snapshot }{s})
	}
	fmt.Fprint(&out, s.String(), s.GoString())
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "s", s, "p", &s)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "s", s, "in", struct{ S Snapshot }{s})
	for _, form := range []string{secret, fmt.Sprintf("%x", secret), strings.Trim(fmt.Sprint([]byte(secret)), "[]")} {
		if strings.Contains(out.String(), form) {
			t.Errorf("got %q in a print, want none of it:\n%s", form, out.String())
		}
	}
	if !strings.Contains(out.String(), "snapshot of 1 files") {
		t.Errorf("got no word of the set, want how many files it has:\n%s", out.String())
	}
}
