package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

// top is the repository, seen from this folder.
const top = "../.."

// The rules on imports, for every package there is.
func TestDoors(t *testing.T) {
	// Reading the sources is what tells the test cache that this test depends on them; go list alone does not.
	readSources(t)
	packages := listPackages(t)
	if len(packages) < 2 {
		t.Fatalf("go list found %d packages, want the repository's", len(packages))
	}
	for _, p := range packages {
		report(t, checkDoors(p))
		report(t, checkGuests(p))
		report(t, checkPure(p))
	}
}

// The rules on single files, for every Go file there is, whatever system it is for.
func TestSources(t *testing.T) {
	for _, s := range readSources(t) {
		report(t, checkLengths(s))
		report(t, checkInit(s))
		report(t, checkSleeps(s))
		report(t, checkSkips(s))
		report(t, checkClocks(s))
	}
}

func TestPackageComments(t *testing.T) {
	folders := map[string][]source{}
	for _, s := range readSources(t) {
		folders[path.Dir(s.name)] = append(folders[path.Dir(s.name)], s)
	}
	for folder, in := range folders {
		report(t, checkPackageComment(folder, in))
	}
}

func TestWords(t *testing.T) {
	root := os.DirFS(top)
	names, err := files(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.ContainsRune(text, 0) {
			report(t, checkWords(name, string(text)))
		}
	}
}

func report(t *testing.T, complaints []string) {
	t.Helper()
	for _, c := range complaints {
		t.Error(c)
	}
}

func readSources(t *testing.T) (out []source) {
	t.Helper()
	root := os.DirFS(top)
	names, err := files(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if path.Ext(name) != ".go" {
			continue
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseSource(name, string(text))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func listPackages(t *testing.T) (out []packageInfo) {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = top
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		var p packageInfo
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(p.ImportPath, module) {
			t.Fatalf("go list: got package %s, want those of %s", p.ImportPath, module)
		}
		out = append(out, p)
	}
}
