//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNewcomersPath is a newcomer's first ten minutes: a fresh clone, in a network
// namespace with nothing but loopback, with a home of its own and no cache but
// Go's; then what the README says, word for word. `make check` is left out: it is
// what runs this.
func TestNewcomersPath(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	clone, home := filepath.Join(t.TempDir(), "replgate"), t.TempDir()
	if out, err := exec.Command("git", "-c", "safe.directory=*", "clone", "-q", root, clone).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	env := []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GOFLAGS=-mod=readonly", "GOPROXY=off"}
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	run := func(command string) string {
		t.Helper()
		cmd := exec.Command("sh", "-c", command)
		if os.Geteuid() == 0 && command != "make build" {
			// A namespace of its own, where loopback has to be raised first.
			cmd = exec.Command("unshare", "--net", "sh", "-c", "ip link set lo up && "+command)
		}
		cmd.Dir, cmd.Env = clone, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		return string(out)
	}
	commands := readmeCommands(t, filepath.Join(clone, "README.md"))
	for _, want := range []string{"make demo", "make check", "make build"} {
		if !commands[want] {
			t.Errorf("got no %q in the README's blocks, want it", want)
		}
	}
	if out := run("make demo"); !strings.Contains(out, "all three stand-ins agree") {
		t.Errorf("got a demo that ends with:\n%s", out)
	}
	run("make build")
	if out := run("bin/replgate secret generate"); len(strings.TrimSpace(out)) < 32 {
		t.Errorf("got the secret %q, want 32 bytes and more", out)
	}
	config := readmeBlock(t, filepath.Join(clone, "README.md"), "```toml")
	if err := os.WriteFile(filepath.Join(clone, "replgate.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run("bin/replgate secret generate > secret && chmod 600 secret")
	if out := run("bin/replgate check --config replgate.toml"); !strings.HasSuffix(out, "ok\n") || strings.Contains(out, "warning") {
		t.Errorf("got of check:\n%s\nwant ok and no warning", out)
	}
	if out := run("timeout --preserve-status -s TERM 1 bin/replgate run --config replgate.toml"); !strings.Contains(out, `"msg":"ended"`) {
		t.Errorf("got of run:\n%s\nwant it to end in order", out)
	}
	if out := run("bin/replgate version"); !strings.HasPrefix(out, "replgate ") {
		t.Errorf("got the version %q", out)
	}
}

// readmeBlock is the first block of the README that opens with fence.
func readmeBlock(t *testing.T, path, fence string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), fence+"\n")
	block, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatalf("got no %s block in %s", fence, path)
	}
	return block
}

// readmeCommands are the lines of the README's blocks without a language, less
// their comments.
func readmeCommands(t *testing.T, path string) map[string]bool {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	commands, open, inside := map[string]bool{}, false, false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "```") {
			open = !open
			inside = open && strings.TrimSpace(line) == "```"
			continue
		}
		if command, _, _ := strings.Cut(line, " #"); inside {
			commands[strings.TrimSpace(command)] = true
		}
	}
	if len(commands) == 0 {
		t.Fatal(fmt.Errorf("got no commands in %s", path))
	}
	return commands
}
