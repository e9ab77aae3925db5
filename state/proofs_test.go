package state_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/replgate/replgate/state"
)

// security stands for the caller's type.
type security string

func open(t *testing.T, dir string) (*state.Proofs[security], state.Found) {
	t.Helper()
	p, found, err := state.Open(dir, security("psk"), security("tls"))
	if err != nil {
		t.Fatal(err)
	}
	return p, found
}

// wantProved holds what two peers have proved.
func wantProved(t *testing.T, p *state.Proofs[security], zero, two security) {
	t.Helper()
	if p.Proved(0) != zero || p.Proved(2) != two {
		t.Errorf("got %q and %q, want %q and %q", p.Proved(0), p.Proved(2), zero, two)
	}
}

// A memory survives its process, the directory is made, and the file is the
// owner's alone.
func TestProofsSurvive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet")
	p, found := open(t, dir)
	if !found.Missing || found.Broken != nil {
		t.Errorf("got %+v in a new directory, want it missing", found)
	}
	wantProved(t, p, "", "")
	for _, err := range []error{p.Prove(0, "psk"), p.Prove(2, "tls"), p.Prove(0, "tls"), p.Reset(1)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p, found = open(t, dir)
	if found != (state.Found{}) {
		t.Errorf("got %+v, want a file that holds", found)
	}
	wantProved(t, p, "tls", "tls")
	if err := p.Reset(2); err != nil {
		t.Fatal(err)
	}
	p, _ = open(t, dir)
	wantProved(t, p, "tls", "")

	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "proofs.json" {
		t.Errorf("got %v, %v, want proofs.json and nothing beside it", entries, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "proofs.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
}

// What a crash has left beside the file is in nobody's way, whatever its mode.
func TestProofsAfterACrash(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "proofs.json.new"), []byte("half of"), 0o666); err != nil {
		t.Fatal(err)
	}
	p, found := open(t, dir)
	if err := p.Prove(0, "tls"); err != nil || found != (state.Found{}) {
		t.Fatal(err, found)
	}
	p, _ = open(t, dir)
	wantProved(t, p, "tls", "")
	if info, err := os.Stat(filepath.Join(dir, "proofs.json")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
}

// A file that does not hold is reported and kept aside; nobody has proved anything
// then, and the next start finds a file that holds.
func TestProofsBroken(t *testing.T) {
	for name, text := range map[string]string{
		"empty":               "",
		"torn":                `{"version":1,"proved":{"0":"tls"`,
		"text behind":         `{"version":1,"proved":{"0":"tls"}} and more`,
		"another version":     `{"version":2,"proved":{"0":"tls"}}`,
		"no proofs":           `{"version":1}`,
		"no security of ours": `{"version":1,"proved":{"0":"ssl"}}`,
		"plaintext":           `{"version":1,"proved":{"0":"plaintext"}}`,
		"no id":               `{"version":1,"proved":{"256":"tls"}}`,
		"too large":           `{"version":1,"proved":{"0":"tls"}}` + strings.Repeat(" ", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "proofs.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p, found := open(t, dir)
			if found.Broken == nil || found.Missing || found.Aside != path+".broken" {
				t.Errorf("got %+v, want it broken and aside", found)
			}
			wantProved(t, p, "", "")
			if kept, err := os.ReadFile(found.Aside); err != nil || string(kept) != text {
				t.Errorf("got %d bytes aside, %v, want all %d", len(kept), err, len(text))
			}
			if _, found := open(t, dir); found != (state.Found{}) {
				t.Errorf("at the next start: got %+v, want a file that holds", found)
			}
		})
	}
}

// A place that cannot be used is an error at the start, and no reason to throw
// anything away.
func TestProofsUnusable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken := t.TempDir()
	if err := os.Mkdir(filepath.Join(taken, "proofs.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), taken} {
		if p, _, err := state.Open(dir, security("tls")); err == nil || p != nil || !strings.HasPrefix(err.Error(), "state: got ") {
			t.Errorf("%s: got %v, want an error that says what was found", dir, err)
		}
	}
}

// The process remembers what the file does not take, and says so.
func TestProofsWithoutADisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	p, _ := open(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := p.Prove(0, "tls"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want an error that names the cause", err)
	}
	wantProved(t, p, "tls", "")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.Prove(2, "psk"); err != nil {
		t.Fatal(err)
	}
	p, _ = open(t, dir)
	wantProved(t, p, "tls", "psk")
}

// Many at once: the file is whole and has everything in the end.
func TestProofsAtOnce(t *testing.T) {
	dir := t.TempDir()
	p, _ := open(t, dir)
	var all sync.WaitGroup
	for id := range uint8(20) {
		all.Go(func() {
			if err := p.Prove(id, "tls"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	p, found := open(t, dir)
	if found != (state.Found{}) {
		t.Fatalf("got %+v, want a file that holds", found)
	}
	for id := range uint8(20) {
		if p.Proved(id) != "tls" {
			t.Errorf("peer %d: got %q, want tls", id, p.Proved(id))
		}
	}
}
