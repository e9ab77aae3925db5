package watch

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks is how many symbolic links may lead to a file, as many as Linux follows.
const maxLinks = 40

// chains follows the links of each path.
func chains(paths []string) map[string][]string {
	out := make(map[string][]string, len(paths))
	for _, path := range paths {
		out[path] = follow(path)
	}
	return out
}

// follow walks a path as the kernel does and returns the entries of folders that
// decide where it leads: each symbolic link on the way, then the file, or the first
// entry that is not there or cannot be looked at. Each is an absolute path whose
// folder is free of links. The last one tells two generations of a kubelet's volume
// from each other even where their files hold the same.
//
// The chain is for watches and for that comparison. Files are opened by the path
// that was given: in one walk of the kernel's there is less room for a change.
func follow(path string) (chain []string) {
	if !filepath.IsAbs(path) {
		// Without a working folder the chain begins at the root and finds nothing;
		// the content is read all the same.
		dir, _ := os.Getwd()
		path = dir + "/" + path
	}
	at, rest := "/", split(path)
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			at = filepath.Dir(at) // no link is left in at: this is the parent
			continue
		}
		entry := filepath.Join(at, part)
		info, err := os.Lstat(entry)
		if err != nil || len(chain) == maxLinks {
			return append(chain, entry)
		}
		if info.Mode().Type() != fs.ModeSymlink {
			at = entry
			continue
		}
		target, err := os.Readlink(entry)
		chain = append(chain, entry)
		if err != nil {
			return chain
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = slices.Concat(split(target), rest)
	}
	return append(chain, at)
}

// split cuts a path into its parts, without those that lead nowhere.
func split(path string) []string {
	parts := strings.Split(path, "/")
	return slices.DeleteFunc(parts, func(part string) bool { return part == "" || part == "." })
}
