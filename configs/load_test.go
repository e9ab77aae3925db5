package configs

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/bad/*.want")

// Every bad configuration gives exactly the faults beside it. A line such as
// "# env: NAME=value" in front sets the environment.
func TestBad(t *testing.T) {
	confs, err := filepath.Glob("testdata/bad/*.toml")
	if err != nil || len(confs) < 10 {
		t.Fatalf("got %d bad configurations, %v", len(confs), err)
	}
	read := func(path string) ([]byte, error) { return os.ReadFile(filepath.Join("testdata/bad", path)) }
	for _, path := range confs {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			doc, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var env []string
			for line := range strings.Lines(string(doc)) {
				if e, ok := strings.CutPrefix(line, "# env: "); ok {
					env = append(env, strings.TrimSpace(e))
				}
			}
			l, err := Load(name, Options{Env: env, Rules: testRules(), ReadFile: read})
			var faults Faults
			if l != nil || !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("got %v, %v, want faults", l, err)
			}
			wantPath := strings.TrimSuffix(path, ".toml") + ".want"
			if *update {
				if err := os.WriteFile(wantPath, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, rerr := os.ReadFile(wantPath)
			if rerr != nil || err.Error()+"\n" != string(want) {
				t.Errorf("got\n%v\nwant\n%s%v", err, want, rerr)
			}
			for _, f := range faults {
				if !strings.Contains(f.Text, "expected ") || !strings.Contains(f.Text, ", found ") || strings.ContainsAny(f.Text, "\n") {
					t.Errorf("%q does not say what was expected and found, in one line", f)
				}
			}
		})
	}
}

func TestLoadFillsIn(t *testing.T) {
	l := mustLoad(t, files{"r.toml": base}, "r.toml")
	c := l.Config
	if c.Ingress.Upstream != "127.0.50.2:9090" || c.Ingress.Security != Plaintext || c.Ingress.UpstreamSecurity != Plaintext || c.Egress.Security != Plaintext {
		t.Errorf("got %+v %+v", c.Ingress, c.Egress)
	}
	want := []Peer{
		{ReplicaID: 0, Security: Plaintext},
		{ReplicaID: 2, Listen: "127.0.50.3:9090", Address: "iggy-2.iggy:9190", Security: Plaintext, ServerName: "iggy-2.iggy"},
	}
	if !slices.Equal(c.Peers, want) {
		t.Errorf("got %+v\nwant %+v", c.Peers, want)
	}
	if c.Frames.Rules["sender"] != "drop" || c.Frames.Rules["identity_absent_repair"] != "observe" || len(c.Frames.Rules) != 6 {
		t.Errorf("got rules %v", c.Frames.Rules)
	}
	if c.UsesTLS() || c.UsesSecret() {
		t.Error("a plaintext gate uses no credentials")
	}
	if n, ok := c.Node(2); !ok || n.IP != "127.0.50.3" {
		t.Errorf("got %+v, %v", n, ok)
	}
	if !slices.Equal(l.Files, []string{"r.toml"}) || len(l.Warnings)+len(l.Notes) != 0 {
		t.Errorf("got %+v", l)
	}
}

// The words that nobody wrote follow [cluster.tls] and [cluster.auth], and only
// on the far legs; a lower peer follows the ingress.
func TestSecurityDefaults(t *testing.T) {
	const head = "[cluster.auth]\nshared_secret = \"" + canary + "\"\n"
	tls := "[cluster.tls]\nself_signed = true\n"
	tests := []struct {
		name, conf         string
		ingress, low, high Security
		usesTLS, usesKey   bool
	}{
		{"nothing enabled", head, Plaintext, Plaintext, Plaintext, false, false},
		{"auth", head + "enabled = true\n", PSK, PSK, PSK, false, true},
		{"tls", head + tls + "enabled = true\n", TLS, TLS, TLS, true, true},
		{"present but not enabled", head + tls, Plaintext, Plaintext, Plaintext, false, false},
		{"near legs", head + tls + "[egress]\nsecurity = \"tls\"\n", Plaintext, Plaintext, Plaintext, true, true},
		{"upstream", head + "[ingress]\nupstream_security = \"psk\"\nlisten = \":9190\"\n", Plaintext, Plaintext, Plaintext, false, true},
		{"lower follows ingress", head + "[ingress]\nsecurity = \"psk\"\nlisten = \":9190\"\n", PSK, PSK, Plaintext, false, true},
		{"lower follows ingress with an entry", head + "[ingress]\nsecurity = \"psk\"\nlisten = \":9190\"\n[[peers]]\nreplica_id = 0\n", PSK, PSK, Plaintext, false, true},
		{"lower differs", head + "enabled = true\n[[peers]]\nreplica_id = 0\nsecurity = \"plaintext\"\n", PSK, Plaintext, PSK, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc := base
			if strings.Contains(tt.conf, "[ingress]") {
				doc = strings.Replace(doc, "[ingress]\nlisten = \"10.0.1.6:9190\"\n", "", 1)
			}
			c := mustLoad(t, files{"r.toml": tt.conf + doc}, "r.toml").Config
			if c.Ingress.Security != tt.ingress || c.Peers[0].Security != tt.low || c.Peers[1].Security != tt.high {
				t.Errorf("got %s %s %s", c.Ingress.Security, c.Peers[0].Security, c.Peers[1].Security)
			}
			if c.UsesTLS() != tt.usesTLS || c.UsesSecret() != tt.usesKey {
				t.Errorf("got tls %v, secret %v", c.UsesTLS(), c.UsesSecret())
			}
		})
	}
}

// A leg that does not exist asks for nothing: replica 0 has no ingress, the
// last one no egress.
func TestAbsentLegs(t *testing.T) {
	first := strings.NewReplacer("[gate]\nreplica_id = 1", "[gate]\nreplica_id = 0", "listen = \"10.0.1.6:9190\"", "security = \"tls\"").Replace(base) +
		"[[peers]]\nreplica_id = 1\naddress = \"10.0.1.6:9190\"\n"
	if c := mustLoad(t, files{"r.toml": first}, "r.toml").Config; c.UsesTLS() || c.Peers[0].ReplicaID != 1 || c.Peers[1].ReplicaID != 2 {
		t.Errorf("got %+v", c.Peers)
	}
	last := base[:strings.Index(base, "[gate]")] + "[gate]\nreplica_id = 2\n[egress]\nsecurity = \"tls\"\n[ingress]\nlisten = \":9190\"\n"
	if c := mustLoad(t, files{"r.toml": last}, "r.toml").Config; c.UsesTLS() || len(c.Peers) != 2 {
		t.Errorf("got %+v", c.Peers)
	}
}

// Only cluster_from depends on where the file lies.
func TestRelativePaths(t *testing.T) {
	doc := "[cluster.tls]\ncert_file = \"c\"\nkey_file = \"/k\"\n" + strings.Replace(base, "[gate]\n", "[gate]\nstate_dir = \"s\"\n", 1)
	f := files{"/etc/r/r.toml": "cluster_from = \"i/iggy.toml\"\n" + doc, "/etc/r/i/iggy.toml": "[cluster]\nenabled = true\n[cluster.tls]\nca_file = \"ca\"\n"}
	c := mustLoad(t, f, "/etc/r/r.toml").Config
	got := []string{c.Cluster.TLS.CertFile, c.Cluster.TLS.KeyFile, c.Cluster.TLS.CAFile, c.Gate.StateDir, c.ClusterFrom}
	if want := []string{"c", "/k", "ca", "s", "/etc/r/i/iggy.toml"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRealFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("secret", canary, 0o644)
	path := write("r.toml", fmt.Sprintf("%sshared_secret_file = %q\n%s", pskHead, filepath.Join(dir, "secret"), base), 0o600)
	l, err := Load(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "mode 0644") {
		t.Errorf("got %q, want a warning about the mode", l.Warnings)
	}
	if want := []string{path, filepath.Join(dir, "secret")}; !slices.Equal(l.Files, want) {
		t.Errorf("got %q, want %q", l.Files, want)
	}
	if _, err := Load(filepath.Join(dir, "none.toml"), Options{}); err == nil || !strings.Contains(err.Error(), "none.toml: expected a readable file, found no such file") {
		t.Errorf("got %v", err)
	}
}

// A syntax fault stands alone, and on the line where a person would look.
func TestSyntaxLines(t *testing.T) {
	for doc, want := range map[string]string{
		"[a\nb=1":              "r.toml:1: ",
		"a = 1\na = 2\n":       "r.toml:2: ",
		"a = \nb = 2":          "r.toml:1: ",
		"\n\n= 3":              "r.toml:3: ",
		"a = 1\r\nb=1 b=2\r\n": "r.toml:2: ",
		"\na=\"\\q\"\n":        "r.toml:2: ",
		"x=1\ny=\"s\n\"":       "r.toml:2: ",
		"x=1\ny=[1\n,\n=":      "r.toml:4: ",
		"x = \"\xff\"":         "r.toml:1: ",
	} {
		if got := faultsOf(files{"r.toml": doc}, "r.toml"); !strings.HasPrefix(got, want+"expected TOML, found a syntax error (") || strings.Contains(got, "\n") {
			t.Errorf("%q: got %q, want %s…", doc, got, want)
		}
	}
}

// An array of tables may also be written in line.
func TestInlineArrays(t *testing.T) {
	const doc = `cluster.nodes = [
  { ip = "127.0.50.1", replica_id = 0, ports.tcp_replica = 9090 },
  { ip = "127.0.50.2", replica_id = 1, ports = { tcp_replica = 9090 } },
]
peers = [{ replica_id = 1, address = "h:1" }]
gate.replica_id = 0
`
	if c := mustLoad(t, files{"r.toml": doc}, "r.toml").Config; len(c.Cluster.Nodes) != 2 || c.Peers[0].Address != "h:1" {
		t.Errorf("got %+v %+v", c.Cluster.Nodes, c.Peers)
	}
	wrong := strings.NewReplacer(`"127.0.50.2"`, `"localhost"`, `[{ replica_id = 1, address = "h:1" }]`, `[{ replica_id = 1 }, 7]`).Replace(doc)
	got := faultsOf(files{"r.toml": wrong}, "r.toml")
	if strings.Count(got, "\n") != 1 || !hasLine(got, "r.toml:3: cluster.nodes[1].ip:") || !hasLine(got, "r.toml:5: peers: expected an array of tables, found an array") {
		t.Errorf("got %q", got)
	}
}

// TestExposedNearLegs: a plaintext near leg that leaves the host is told.
func TestExposedNearLegs(t *testing.T) {
	for _, c := range []struct {
		address string
		on      bool
	}{
		{"127.0.50.3:9090", true}, {"[::1]:9090", true}, {"localhost:9090", true}, {"[::ffff:127.0.0.1]:9090", true},
		{"10.0.1.6:9090", false}, {":9090", false}, {"iggy-1:9090", false},
	} {
		if got := onLoopback(c.address); got != c.on {
			t.Errorf("got %v for %s, want %v", got, c.address, c.on)
		}
	}
	f := files{"r.toml": base}
	l := mustLoad(t, f, "r.toml", "REPLGATE_INGRESS_UPSTREAM=10.9.9.9:9090")
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "ingress.upstream: 10.9.9.9:9090") {
		t.Errorf("got warnings %q, want one about the upstream", l.Warnings)
	}
}
