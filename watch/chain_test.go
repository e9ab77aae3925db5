package watch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The entries of each chain: every link, then the file or what is not there.
func TestFollow(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in := func(path string) string { return top + "/" + path }
	err = errors.Join(
		os.MkdirAll(in("a/b/c"), 0o755), os.WriteFile(in("a/b/c/file"), nil, 0o600),
		os.Symlink("a/b", in("relative")), os.Symlink(in("a/b/c"), in("absolute")),
		os.Symlink("../b/../../relative/c/file", in("a/b/up")),
		os.Symlink("loop", in("loop")), os.Symlink("nowhere/x", in("dangling")),
		os.Symlink("/", in("root")),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(in("a"))
	for _, c := range []struct {
		path string
		want string // below top, separated by spaces
	}{
		{in("a/b/c/file"), "a/b/c/file"},
		{in("a//./b/c/file"), "a/b/c/file"},
		{in("relative/c/file"), "relative a/b/c/file"},
		{in("absolute/file"), "absolute a/b/c/file"},
		// What .. leads to is decided by the folder that the link leads to.
		{in("absolute/../c/file"), "absolute a/b/c/file"},
		{in("a/b/up"), "a/b/up relative a/b/c/file"},
		{in("none/below/x"), "none"},
		{in("a/none"), "a/none"},
		{in("a/b/c/file/x"), "a/b/c/file/x"},
		{in("dangling"), "dangling nowhere"},
		{"b/c/file", "a/b/c/file"},
		{"../absolute/file", "absolute a/b/c/file"},
		{in("absolute/.."), "absolute a/b"},
		{in("root") + in("absolute/file"), "root absolute a/b/c/file"},
	} {
		var want []string
		for entry := range strings.FieldsSeq(c.want) {
			want = append(want, in(entry))
		}
		if got := follow(c.path); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", c.path, got, want)
		}
	}
	if got := follow(in("loop")); len(got) != maxLinks+1 || got[0] != in("loop") {
		t.Errorf("got %d entries of a loop, want an end after %d links", len(got), maxLinks)
	}
	if got := follow("/"); !slices.Equal(got, []string{"/"}) {
		t.Errorf("got %q, want the root", got)
	}
}
