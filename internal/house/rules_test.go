package house

import (
	"strings"
	"testing"
	"testing/fstest"
)

// one checks a rule against an example: complaints must be as many as want, and name the reason.
func one(t *testing.T, complaints []string, want int, reason string) {
	t.Helper()
	if len(complaints) != want || (want > 0 && !strings.Contains(strings.Join(complaints, "\n"), reason)) {
		t.Errorf("got %d complaints %q, want %d with %q", len(complaints), complaints, want, reason)
	}
}

func src(t *testing.T, name, text string) source {
	t.Helper()
	s, err := parseSource(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDoorRules(t *testing.T) {
	in := func(from string, imports ...string) packageInfo {
		p := packageInfo{ImportPath: module + "/" + from}
		for _, i := range imports {
			p.Imports = append(p.Imports, module+"/"+i)
		}
		return p
	}
	one(t, checkDoors(in("wire", "mac")), 1, "it is the bytes")
	one(t, checkDoors(in("policy", "wire")), 0, "")
	one(t, checkDoors(in("policy", "mac", "proxy")), 2, "pure code")
	one(t, checkDoors(in("proxy", "wire", "mac", "policy", "proxy/internal")), 0, "")
	one(t, checkDoors(in("proxy", "metrics", "configs", "certs")), 3, "only the road")
	one(t, checkDoors(in("internal/replica", "proxy")), 1, "stand-in")
	one(t, checkDoors(in("internal/replica/kit", "certs", "internal/replica")), 0, "")
	one(t, checkDoors(in("cmd/replgate", "proxy", "metrics", "configs")), 0, "")
	one(t, checkDoors(in("internal/demo", "cmd/replgate")), 1, "nobody imports cmd")
	one(t, checkDoors(in("wirebox")), 1, "no such room")
	one(t, checkDoors(in("internal/attic")), 1, "no such room")
	one(t, checkDoors(packageInfo{ImportPath: module, Imports: []string{module + "/wire"}}), 1, "top folder")

	test := packageInfo{ImportPath: module + "/proxy", XTestImports: []string{module + "/internal/replica", module + "/certs"}}
	one(t, checkDoors(test), 0, "")
	test.TestImports = []string{module + "/configs"}
	one(t, checkDoors(test), 1, "a test imports")
	one(t, checkDoors(packageInfo{ImportPath: module + "/wire", TestImports: []string{module + "/mac"}}), 1, "a test imports")
}

// Every door leads into a room that the list knows.
func TestDoorsLeadSomewhere(t *testing.T) {
	rooms := map[string]bool{}
	for _, d := range doors() {
		if rooms[d.room] || d.why == "" {
			t.Errorf("room %q: twice, or without a reason", d.room)
		}
		rooms[d.room] = true
	}
	for _, d := range doors() {
		for _, to := range append(d.opens, d.tests...) {
			if !rooms[to] || to == "cmd" {
				t.Errorf("room %q: a door to %q", d.room, to)
			}
		}
	}
	for _, g := range guests() {
		for _, room := range g.rooms {
			if !rooms[room] || g.why == "" {
				t.Errorf("guest %s: in room %q, because %q", g.path, room, g.why)
			}
		}
	}
}

func TestGuestRules(t *testing.T) {
	in := func(from string, imports ...string) []string {
		return checkGuests(packageInfo{ImportPath: module + "/" + from, Imports: imports})
	}
	one(t, in("mac", "lukechampine.com/blake3", "fmt", "crypto/subtle"), 0, "")
	one(t, in("proxy", "lukechampine.com/blake3"), 1, "only wire, mac may")
	one(t, in("mac", "github.com/zeebo/xxh3"), 1, "asks wire")
	one(t, in("cmd/replgate", "github.com/BurntSushi/toml"), 1, "second schema")
	one(t, in("proxy", "github.com/prometheus/client_golang/prometheus"), 1, "without bound")
	one(t, in("metrics", "github.com/prometheus/client_golang/prometheus/promhttp"), 0, "")
	one(t, in("proxy", "golang.org/x/sys/unix"), 0, "")
	one(t, in("wire", "golang.org/x/sysadmin"), 1, "not a guest")
	one(t, in("configs", "gopkg.in/yaml.v3"), 1, "not a guest")
	one(t, checkGuests(packageInfo{ImportPath: module + "/wire", TestImports: []string{"gopkg.in/yaml.v3"}}), 0, "")
}

func TestPureRules(t *testing.T) {
	in := func(from string, imports, deps []string) []string {
		return checkPure(packageInfo{ImportPath: module + "/" + from, Imports: imports, Deps: deps})
	}
	one(t, in("policy", []string{"net/netip", "network"}, nil), 0, "")
	one(t, in("policy", []string{"net"}, []string{"net"}), 1, "without a network")
	one(t, in("wire", nil, []string{"net/http"}), 1, "without a network")
	one(t, in("proxy", []string{"net"}, nil), 0, "")

	clock := `package p
import "time"
func f(now time.Time) time.Duration { go f(now); return time.Since(now) }
`
	one(t, checkClocks(src(t, "policy/a.go", clock)), 2, "looks at a clock")
	one(t, checkClocks(src(t, "policy/a_test.go", clock)), 0, "")
	one(t, checkClocks(src(t, "proxy/a.go", clock)), 0, "")
	one(t, checkClocks(src(t, "wire/a.go", "package p\nimport clock \"time\"\nvar x = clock.Now()\n")), 1, "looks at a clock")
	one(t, checkClocks(src(t, "wire/a.go", "package p\nimport \"time\"\ntype t struct{ at time.Time }\n")), 0, "")
}

func TestLengthRules(t *testing.T) {
	function := func(lines int) string {
		return "package p\n\nfunc f() {\n" + strings.Repeat("\tprintln()\n", lines-2) + "}\n"
	}
	one(t, checkLengths(src(t, "a/a.go", function(60))), 0, "")
	one(t, checkLengths(src(t, "a/a.go", function(61))), 1, "f has 61 lines")
	one(t, checkLengths(src(t, "a/a_test.go", function(61))), 0, "")
	one(t, checkLengths(src(t, "a/a.go", "// Code generated by x. DO NOT EDIT.\n\n"+function(61))), 0, "")
	one(t, checkLengths(src(t, "a/a.go", "package p\n"+strings.Repeat("\n", 399))), 0, "")
	one(t, checkLengths(src(t, "a/a.go", "package p\n"+strings.Repeat("\n", 400))), 1, "401 lines")
	one(t, checkInit(src(t, "a/a.go", "package p\nfunc init() {}\n")), 1, "before main")
	one(t, checkInit(src(t, "a/a.go", "package p\ntype t struct{}\nfunc (t) init() {}\n")), 0, "")
}

func TestCommentRules(t *testing.T) {
	good := src(t, "a/doc.go", "// Package p is good.\npackage p\n")
	bare := src(t, "a/a.go", "package p\n")
	other := src(t, "a/b.go", "// Helpers.\npackage p\n")
	test := src(t, "a/a_test.go", "// Package p is tested.\npackage p\n")
	one(t, checkPackageComment("a", []source{bare, good}), 0, "")
	one(t, checkPackageComment("a", []source{bare, other}), 1, "no package comment")
	one(t, checkPackageComment("a", []source{bare, test}), 1, "no package comment")
	one(t, checkPackageComment("a", []source{test}), 0, "")
	one(t, checkPackageComment("a", []source{src(t, "a/main.go", "// Replgate is a gate.\npackage main\n")}), 0, "")
}

func TestSleepRules(t *testing.T) {
	body := func(s string) source {
		return src(t, "a/a_test.go", "package p\nimport (\n\"testing/synctest\"\n\"time\"\n)\nfunc f() {\n"+s+"\n}\n")
	}
	one(t, checkSleeps(body("time.Sleep(1)")), 1, "outside a bubble")
	one(t, checkSleeps(body("synctest.Test(nil, func(t *testing.T) { time.Sleep(1) })")), 0, "")
	one(t, checkSleeps(body("// real time: the kernel's own timer is what is tested\ntime.Sleep(1)")), 0, "")
	one(t, checkSleeps(body("time.Sleep(1) // virtual time: the caller's bubble")), 0, "")
	one(t, checkSleeps(body("// real time:\ntime.Sleep(1)")), 1, "outside a bubble")
	one(t, checkSleeps(body("// a nap\ntime.Sleep(1)")), 1, "outside a bubble")
	one(t, checkSleeps(body("// real time: far above\n\n\ntime.Sleep(1)")), 1, "outside a bubble")
	one(t, checkSleeps(src(t, "a/a.go", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }\n")), 0, "")
}

func TestSkipRules(t *testing.T) {
	body := func(s string) source { return src(t, "a/a_test.go", "package p\nfunc f() {\n"+s+"\n}\n") }
	one(t, checkSkips(body("\n\nt.Skip()")), 1, "without a comment")
	one(t, checkSkips(body("\n\nb.Skipf(`x`)")), 1, "without a comment")
	one(t, checkSkips(body("// Without a kernel there is nothing to ask.\nif x {\nt.Skip()\n}")), 0, "")
	one(t, checkSkips(body("t.SkipNow() // the nightly run does it")), 0, "")
	one(t, checkSkips(body("scanner.Skip()")), 0, "")
}

func TestWordRules(t *testing.T) {
	one(t, checkWords("a/a.go", "// TO"+"DO: later\n"), 1, "open an issue")
	one(t, checkWords("a/Makefile", "# FIX"+"ME\n\n# XX"+"X\n"), 2, "a/Makefile:3")
	one(t, checkWords("a/a.sh", "mktemp -d x.XX"+"XXXX; echo todo mastodons\n"), 0, "")
	one(t, checkWords("docs/a.md", "the TO"+"DO in its source is stale\n"), 0, "")
	one(t, checkWords("docs/a.md", "see /wo"+"rk/x/y and \"/ro"+"ot/z\"\n"), 1, "one machine")
	one(t, checkWords("a/a.go", "path := \"/etc/replgate/wo"+"rk/x\" // ./home/x\n"), 0, "")
}

// Recordings, builds and git's files are not text of the project; everything else is, wherever it lies.
func TestFiles(t *testing.T) {
	file := &fstest.MapFile{}
	names, err := files(fstest.MapFS{
		"a.go": file, ".ci/run": file, ".git/HEAD": file, "bin/replgate": file,
		"internal/x/.git": file, "internal/x/testdata/a.go": file, "internal/x/b.go": file,
	})
	if got := strings.Join(names, " "); err != nil || got != ".ci/run a.go internal/x/b.go" {
		t.Errorf("got %q, %v", got, err)
	}
}
