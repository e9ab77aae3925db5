package house

import (
	"fmt"
	"slices"
	"strings"
)

const module = "github.com/replgate/replgate"

// door says what a room may import, and why no more.
type door struct {
	room string
	// opens are the rooms that its code may import, each with all that lies below it.
	opens []string
	// tests are the rooms that its tests may import besides.
	tests []string
	why   string
}

// doors is the closed list of rooms. A folder belongs to the longest room that its path begins with.
func doors() []door {
	pure := "rules live in pure code that anybody can test: the bytes are all it may know"
	apart := "it is handed strings, bytes and functions, so that it can be read and replaced without the rest"
	road := []string{"wire", "mac", "policy", "chaos", "consensus"}
	all := append([]string{"proxy", "certs", "watch", "state", "metrics", "admin", "configs", "probe", "harden", "internal/replica", "internal/manual"}, road...)
	return []door{
		{"", nil, nil, "the top folder has no code that needs a room"},
		{"wire", nil, nil, "it is the bytes; everything else stands on it"},
		{"mac", []string{"wire"}, nil, pure},
		{"policy", []string{"wire"}, nil, pure},
		{"chaos", []string{"wire"}, nil, pure},
		{"consensus", []string{"wire"}, nil, pure},
		{"certs", nil, []string{"internal/tlspeer"}, apart},
		{"watch", nil, nil, apart},
		{"metrics", nil, nil, apart},
		{"admin", nil, nil, apart},
		{"state", nil, nil, apart},
		{"configs", nil, nil, "it is the shape of a file; what the values mean belongs to the constructors of other rooms"},
		{"proxy", road, []string{"certs", "state", "internal/replica", "internal/tlspeer"},
			"it is the road and only the road: certificates, metrics and logging come in as small interfaces"},
		{"probe", []string{"wire", "mac"}, []string{"certs", "internal/replica", "proxy", "policy"},
			"it asks from outside, as another replica would: a gate's own code would believe the gate"},
		{"harden", nil, []string{"configs", "internal/lab", "internal/replica"}, "a plan is data: it is handed a roster, and carries nothing out"},
		{"internal/replica", []string{"wire", "mac", "certs"}, []string{"internal/tlspeer"},
			"a stand-in for Iggy must not lean on the gate that it is there to test"},
		{"internal/manual", []string{"configs"}, nil, "a page about the schema needs the schema and nothing else"},
		{"internal/tlspeer", nil, []string{"certs"}, "a peer's TLS that shares code with ours would share its faults"},
		{"internal/house", nil, nil, "it reads the rooms as text"},
		{"internal/lab", []string{"internal/replica", "certs", "wire", "mac", "configs"}, nil, "it runs the program from outside, as a user would"},
		{"internal/demo", append([]string{"internal/lab"}, all...), nil, "it stands where cmd stands"},
		{"internal/bench", []string{"internal/replica", "certs", "wire", "mac"}, nil, "it runs the program from outside, beside others"},
		{"cmd", append([]string{"internal/lab"}, all...), []string{"internal/lab", "internal/tlspeer"}, "build.go names every room; nothing else does"},
		{"deploy", nil, []string{"configs", "metrics"}, "it is files; its tests hold them against the code"},
	}
}

// packageInfo is what `go list -json` says about a package.
type packageInfo struct {
	ImportPath   string
	Dir          string
	Name         string
	Doc          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// under tells whether path is room or lies below it.
func under(path, room string) bool {
	return path == room || room == "" || strings.HasPrefix(path, room+"/")
}

// doorOf finds the room that a package of this module belongs to; all code lies in a room of the list. Only the top
// folder itself belongs to the room without a name.
func doorOf(importPath string) (door, bool) {
	path := strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
	var best door
	found := false
	for _, d := range doors() {
		if d.room == "" && path != "" {
			continue
		}
		if under(path, d.room) && (!found || len(d.room) > len(best.room)) {
			best, found = d, true
		}
	}
	return best, found
}

// checkDoors finds imports of rooms that the importing room has no door to.
func checkDoors(p packageInfo) (complaints []string) {
	from, ok := doorOf(p.ImportPath)
	if !ok {
		return []string{fmt.Sprintf("%s: no such room; say in internal/house/doors.go what it may import", p.ImportPath)}
	}
	look := func(imports []string, open []string, what string) {
		for _, imp := range imports {
			if !under(imp, module) {
				continue
			}
			to, _ := doorOf(imp)
			if to.room == from.room || slices.Contains(open, to.room) {
				continue
			}
			why := from.why
			if to.room == "cmd" {
				why = "nobody imports cmd"
			}
			complaints = append(complaints, fmt.Sprintf("%s: %s imports %s: %s", p.ImportPath, what, imp, why))
		}
	}
	look(p.Imports, from.opens, "code")
	look(slices.Concat(p.TestImports, p.XTestImports), slices.Concat(from.opens, from.tests), "a test")
	return complaints
}

// guest is a foreign package, or all packages below a path, and the rooms whose code may import it.
type guest struct {
	path  string
	rooms []string
	why   string
}

// guests is the closed list of foreign code. Tests are free in what they use, within go.mod.
func guests() []guest {
	return []guest{
		{"lukechampine.com/blake3", []string{"wire", "mac"}, "BLAKE3 names clusters and proves secrets, nothing else"},
		{"github.com/zeebo/xxh3", []string{"wire"}, "seals are bytes: whoever needs one asks wire"},
		{"github.com/BurntSushi/toml", []string{"configs"}, "a TOML key that another room knows is a second schema"},
		{"github.com/prometheus", []string{"metrics"}, "a label that another room makes up is a series without bound"},
		{"github.com/fsnotify/fsnotify", []string{"watch"}, "a file that changes is read in one way: twice, and with its set"},
		{"github.com/charmbracelet/bubbletea", []string{"cmd"}, "a screen is for people at a command line"},
		{"github.com/mattn/go-isatty", []string{"cmd"}, "so is the question whether there is one"},
		{"github.com/spf13/cobra", []string{"cmd"}, "the command line ends in cmd"},
		{"github.com/spf13/pflag", []string{"cmd"}, "the command line ends in cmd"},
		{"golang.org/x/sys", []string{"proxy", "cmd", "internal/bench"}, "socket options belong to the road, signals to the program, processors to a measurement"},
	}
}

// checkGuests finds foreign packages in rooms that are not to know them. The standard library has no dot in the first
// part of a path.
func checkGuests(p packageInfo) (complaints []string) {
	from, _ := doorOf(p.ImportPath)
	for _, imp := range p.Imports {
		first, _, _ := strings.Cut(imp, "/")
		if !strings.Contains(first, ".") || under(imp, module) {
			continue
		}
		all := guests()
		i := slices.IndexFunc(all, func(g guest) bool { return under(imp, g.path) })
		switch {
		case i < 0:
			complaints = append(complaints, fmt.Sprintf(
				"%s: imports %s: not a guest of the house; say in internal/house/doors.go who may use it and why", p.ImportPath, imp))
		case !slices.Contains(all[i].rooms, from.room):
			complaints = append(complaints, fmt.Sprintf("%s: imports %s: only %s may: %s",
				p.ImportPath, imp, strings.Join(all[i].rooms, ", "), all[i].why))
		}
	}
	return complaints
}

// checkPure finds the network in rooms that are to work without it, at any depth: a helper that opens a socket for
// them is a socket of theirs.
func checkPure(p packageInfo) (complaints []string) {
	from, _ := doorOf(p.ImportPath)
	if !isPure(from.room) {
		return nil
	}
	for _, dep := range slices.Concat(p.Imports, p.Deps) {
		if under(dep, "net") && dep != "net/netip" {
			complaints = append(complaints, fmt.Sprintf(
				"%s: depends on %s: bytes, keys and rules work without a network (net/netip may)", p.ImportPath, dep))
		}
	}
	slices.Sort(complaints)
	return slices.Compact(complaints)
}

// isPure tells the rooms without network, clock and randomness of their own.
func isPure(room string) bool {
	return slices.Contains([]string{"wire", "mac", "policy", "chaos", "consensus", "harden"}, room)
}
