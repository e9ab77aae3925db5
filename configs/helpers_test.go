package configs

import (
	"io/fs"
	"strings"
	"testing"
)

// canary is a secret that must never be seen in any output.
const canary = "canary-canary-canary-canary-canary-0"

// testRules stands in for the rules that the caller hands in: the table of the
// product, with a rule that has no switch and one that is not for closing.
func testRules() []RuleSpec {
	all := []string{"drop", "close", "observe"}
	return []RuleSpec{
		{Name: "frame_size", Default: "close"},
		{Name: "frame_command", Default: "close", Note: "above 29"},
		{Name: "command_unexpected", Default: "drop", Allowed: all},
		{Name: "client_request", Default: "drop", Allowed: all, Stricter: true, Note: "Iggy executes it as root"},
		{Name: "identity_absent", Default: "drop", Allowed: all, Stricter: true},
		{Name: "identity_absent_repair", Default: "observe", Allowed: all, Stricter: true},
		{Name: "sender", Default: "drop", Allowed: all, Stricter: true},
		{Name: "hello_strict", Default: "close", Allowed: []string{"close", "observe"}, Stricter: true},
	}
}

// files are fake files, by path.
type files map[string]string

func (f files) read(path string) ([]byte, error) {
	if text, ok := f[path]; ok {
		return []byte(text), nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

func (f files) load(path string, env ...string) (*Loaded, error) {
	return Load(path, Options{Env: env, Rules: testRules(), ReadFile: f.read})
}

func mustLoad(t *testing.T, f files, path string, env ...string) *Loaded {
	t.Helper()
	l, err := f.load(path, env...)
	if err != nil {
		t.Fatalf("load %s:\n%v", path, err)
	}
	return l
}

// faultsOf loads and returns the faults' text, empty when there is none.
func faultsOf(f files, path string, env ...string) string {
	if _, err := f.load(path, env...); err != nil {
		return err.Error()
	}
	return ""
}

// base is a plaintext configuration of replica 1 of 3 without faults; extra
// text goes in front, where root keys and tables may stand.
const base = `
[cluster]
name = "c"
[[cluster.nodes]]
ip = "127.0.50.1"
replica_id = 0
ports = { tcp_replica = 9090 }
[[cluster.nodes]]
ip = "127.0.50.2"
replica_id = 1
ports = { tcp_replica = 9090 }
[[cluster.nodes]]
ip = "127.0.50.3"
replica_id = 2
ports = { tcp_replica = 9090 }
[gate]
replica_id = 1
[ingress]
listen = "10.0.1.6:9190"
[[peers]]
replica_id = 2
address = "iggy-2.iggy:9190"
`

// hasLine reports whether one line of text contains all the words.
func hasLine(text string, words ...string) bool {
	for line := range strings.Lines(text) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}
