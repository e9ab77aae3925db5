package watch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"syscall"
)

// MaxSize is how many bytes a file of a set may have. A key, a chain or a
// configuration has a few thousand.
const MaxSize = 1 << 20

// Why a file has no content, beside the system's own reasons. [Snapshot.Read]
// wraps each in a *[fs.PathError].
var (
	ErrTooLarge   = errors.New("got more than 1 MiB, want a smaller file")
	ErrNotRegular = errors.New("got a folder, a pipe or a device, want a regular file")
	ErrUnsettled  = errors.New("got other bytes at each reading, want a file that holds still")
	ErrNotInSet   = errors.New("got a path that is not of this set, want one of its files")
)

// Snapshot is what a set of files held at one time, or why a file held nothing. It
// does not change. The zero Snapshot is the empty set. It may hold secrets, so
// nothing of a content is in any print of it.
type Snapshot struct{ files map[string]file }

// file is what one reading found at one path.
type file struct {
	chain []string // see follow
	data  []byte
	mode  fs.FileMode
	err   error // nil, or a *fs.PathError with the path as it was given
}

// Read returns the content of one file, which the caller must not change. A path
// that is not of the set is [ErrNotInSet]. It serves where a constructor of another
// room asks for a function like os.ReadFile.
func (s Snapshot) Read(path string) ([]byte, error) {
	f := s.at(path)
	return f.data, f.err
}

// Mode returns the mode of a file, its links followed, as it was when the content
// was read. Only the mode's change is no change of the content.
func (s Snapshot) Mode(path string) (fs.FileMode, error) {
	f := s.at(path)
	return f.mode, f.err
}

func (s Snapshot) at(path string) file {
	f, ok := s.files[path]
	if !ok {
		f.err = &fs.PathError{Op: "read", Path: path, Err: ErrNotInSet}
	}
	return f
}

// Equal reports whether both are sets of the same paths with the same content or
// the same reason for none. Which links led to a file does not matter.
func (s Snapshot) Equal(other Snapshot) bool { return len(s.Differ(other)) == 0 }

// Differ names the paths, in order of name, that only one of both has or that hold
// other content in each.
func (s Snapshot) Differ(other Snapshot) (paths []string) {
	for path, f := range s.files {
		if g, ok := other.files[path]; !ok || !f.same(g) {
			paths = append(paths, path)
		}
	}
	for path := range other.files {
		if _, ok := s.files[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// same compares content. Errors are the same if their causes are: the system's
// numbers, or this package's own.
func (f file) same(g file) bool {
	if f.err != nil && g.err != nil {
		return errors.Is(errors.Unwrap(f.err), errors.Unwrap(g.err))
	}
	return f.err == nil && g.err == nil && bytes.Equal(f.data, g.data)
}

// agrees reports whether two readings of the same paths found the same content by
// the same chains. The chains are what makes it one set. A kubelet's links never lead
// back to a folder that they have left: if they lead to the same one in both readings
// of the first file, they did so all the time between, while the others were read.
func (s Snapshot) agrees(other Snapshot) bool {
	return s.Equal(other) && s.along(other.chains())
}

// along reports whether the chains to the files were these.
func (s Snapshot) along(chains map[string][]string) bool {
	for path, f := range s.files {
		if !slices.Equal(f.chain, chains[path]) {
			return false
		}
	}
	return true
}

func (s Snapshot) chains() map[string][]string {
	out := make(map[string][]string, len(s.files))
	for path, f := range s.files {
		out[path] = f.chain
	}
	return out
}

// unsettled makes a set of two readings that do not agree: what differs has no
// content. Where only the chains differ, none of the files is known to belong to the
// others, and so none has.
func (s Snapshot) unsettled(other Snapshot) Snapshot {
	differ := s.Differ(other)
	out := Snapshot{files: make(map[string]file, len(s.files))}
	for path, f := range s.files {
		if len(differ) == 0 || slices.Contains(differ, path) {
			f = file{chain: f.chain, err: &fs.PathError{Op: "read", Path: path, Err: ErrUnsettled}}
		}
		out.files[path] = f
	}
	return out
}

// String, GoString, Format and LogValue keep the content out of every print and log.
func (s Snapshot) String() string             { return fmt.Sprintf("snapshot of %d files", len(s.files)) }
func (s Snapshot) GoString() string           { return s.String() }
func (s Snapshot) LogValue() slog.Value       { return slog.StringValue(s.String()) }
func (s Snapshot) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// take reads every path once.
func take(paths []string) Snapshot {
	s := Snapshot{files: make(map[string]file, len(paths))}
	for _, path := range paths {
		f := file{chain: follow(path)}
		var err error
		if f.data, f.mode, err = read(path); err != nil {
			f = file{chain: f.chain, err: &fs.PathError{Op: "read", Path: path, Err: cause(err)}}
		}
		s.files[path] = f
	}
	return s
}

// read returns the content of a regular file within bounds. Without O_NONBLOCK a
// pipe that nobody writes to would hold up the whole set.
func read(path string) ([]byte, fs.FileMode, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, 0, err
	case !info.Mode().IsRegular():
		return nil, 0, ErrNotRegular
	case info.Size() > MaxSize:
		return nil, 0, ErrTooLarge
	}
	// A file may grow after Stat, and those of /proc have no size at all.
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if len(data) > MaxSize {
		return nil, 0, ErrTooLarge
	}
	return data, info.Mode(), err
}

// cause takes the system's reason out of an error of package os.
func cause(err error) error {
	if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
		return inner.Err
	}
	return err
}
