package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing wrong with a configuration.
type Fault struct {
	File string // the file, or the environment variable; empty when the Config was built in code
	Line int    // 0: unknown
	Key  string // the key path, such as cluster.nodes[1].ip
	Text string // expected X, found Y; do Z
	// Reason is the fault of a credential's file in one word: of a secret's one of
	// the Reason constants. It is empty for every other fault.
	Reason string
}

// What can be wrong with a secret's file: a closed list, fit for a metric label.
const (
	ReasonMissing    = "missing"    // it is not there
	ReasonUnreadable = "unreadable" // it is there and cannot be read: its mode, or a folder
	ReasonEmpty      = "empty"      // it holds nothing, or a line end alone
	ReasonShort      = "short"      // fewer bytes than Iggy takes: truncated, most of the time
	ReasonInvalid    = "invalid"    // it cannot be what its key says: previous is current
)

// String is the line for people: file:line: key: text.
func (f Fault) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	return b.String() + f.Text
}

// Faults are all faults of a configuration, sorted by file and line.
type Faults []Fault

// Error has one line per fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// report collects faults and knows where each key came from. The zero value
// locates nothing, which is right for a Config built in code.
type report struct {
	file     string            // the configuration file
	lines    map[string]int    // its keys
	iggyFile string            // the file that cluster_from names
	iggy     map[string]int    // its keys, under replgate's names
	env      map[string]string // keys that the environment set, with the variable
	list     Faults
}

// add records a fault of a key. Only the first one of a key counts: the ones
// behind it are consequences.
func (r *report) add(key, format string, args ...any) { r.addFor("", key, format, args...) }

// addFor records a fault with its reason.
func (r *report) addFor(reason, key, format string, args ...any) {
	if !r.given(key) && r.parentFaulty(key) {
		return // missing only because its table is no table
	}
	file, line := r.locate(key)
	r.addFault(Fault{File: file, Line: line, Key: key, Text: fmt.Sprintf(format, args...), Reason: reason})
}

func (r *report) addFault(f Fault) {
	if f.Key != "" && slices.ContainsFunc(r.list, func(o Fault) bool { return o.Key == f.Key }) {
		return
	}
	r.list = append(r.list, f)
}

// faulty reports whether a key that begins so has a fault already.
func (r *report) faulty(prefix string) bool {
	return slices.ContainsFunc(r.list, func(f Fault) bool { return strings.HasPrefix(f.Key, prefix) })
}

// forget drops the fault of a key that a later layer replaced.
func (r *report) forget(key string) {
	r.list = slices.DeleteFunc(r.list, func(f Fault) bool { return f.Key == key })
}

// locate finds the source of a key; a missing key is reported at its table.
func (r *report) locate(key string) (string, int) {
	if v, ok := r.env[key]; ok {
		return v, 0
	}
	if n, ok := r.lines[key]; ok {
		return r.file, n
	}
	if n, ok := r.iggy[key]; ok {
		return r.iggyFile, n
	}
	for key = parent(key); key != ""; key = parent(key) {
		if n, ok := r.lines[key]; ok {
			return r.file, n
		}
		if n, ok := r.iggy[key]; ok {
			return r.iggyFile, n
		}
	}
	return r.file, 0
}

// parent cuts the last key or index off a path.
func parent(key string) string {
	return key[:max(strings.LastIndexAny(key, ".["), 0)]
}

func (r *report) parentFaulty(key string) bool {
	for key = parent(key); key != ""; key = parent(key) {
		if slices.ContainsFunc(r.list, func(f Fault) bool { return f.Key == key }) {
			return true
		}
	}
	return false
}

// given reports whether anybody wrote the key.
func (r *report) given(key string) bool {
	_, env := r.env[key]
	_, own := r.lines[key]
	_, iggy := r.iggy[key]
	return env || own || iggy
}

// OnlyMissing reports whether all that is wrong is credentials that are not there.
func (fs Faults) OnlyMissing() bool {
	return !slices.ContainsFunc(fs, func(f Fault) bool { return f.Reason != ReasonMissing })
}

// err returns the faults, sorted, or nil. The configuration file comes first.
func (r *report) err() error {
	if len(r.list) == 0 {
		return nil
	}
	slices.SortStableFunc(r.list, func(a, b Fault) int {
		if (a.File == r.file) != (b.File == r.file) {
			if a.File == r.file {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
	return r.list
}
