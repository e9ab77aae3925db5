package configs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// schemaKeys lists every key of the schema, without indices.
func schemaKeys() map[string]bool {
	keys := map[string]bool{}
	var walk func(at string, t reflect.Type)
	walk = func(at string, t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			path := join(at, f.Tag.Get("toml"))
			keys[path] = true
			switch {
			case f.Type.Kind() == reflect.Slice:
				walk(path, f.Type.Elem())
			case f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Secret]():
				walk(path, f.Type)
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
	return keys
}

func TestExampleHasEveryKey(t *testing.T) {
	var root map[string]any
	if _, err := toml.Decode(string(Example()), &root); err != nil {
		t.Fatal(err)
	}
	want := schemaKeys()
	if len(want) < 55 {
		t.Fatalf("got %d keys, the walk lost some", len(want))
	}
	got := map[string]bool{}
	paths("", root, func(path, key string) {
		path = regexp.MustCompile(`\[\d+\]`).ReplaceAllString(path, "")
		got[path] = true
		if !want[path] && !strings.HasPrefix(path, "frames.rules.") {
			t.Errorf("%s is in replgate.toml, not in the schema", path)
		}
	})
	for key := range want {
		if !got[key] {
			t.Errorf("%s is in the schema, not in replgate.toml", key)
		}
	}
}

// Where replgate.toml says "default", it shows the default.
func TestExampleDefaults(t *testing.T) {
	c := mustLoad(t, files{"r.toml": string(Example()), "/etc/replgate/secret": canary}, "r.toml").Config
	defaults := flat(Default())
	lines := strings.Split(string(Example()), "\n")
	checked := 0
	for path, v := range flat(c) {
		line := lines[keyLines(string(Example()))[path]-1]
		if regexp.MustCompile(`# default(;|$| 0:|: no|: spiffe)`).MatchString(line) {
			checked++
			if defaults[path] != v {
				t.Errorf("%s: got %v, the default is %v", path, v, defaults[path])
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d defaults were compared", checked)
	}
}

// Each example is a configuration, with the secret and Iggy's file beside it.
func TestExamplesLoad(t *testing.T) {
	const iggy = `[cluster]
enabled = true
[[cluster.nodes]]
ip = "127.0.50.1"
replica_id = 0
ports = { tcp = 8090, tcp_replica = 9090 }
[[cluster.nodes]]
ip = "127.0.50.2"
replica_id = 1
ports = { tcp = 8090, tcp_replica = 9090 }
[[cluster.nodes]]
ip = "127.0.50.3"
replica_id = 2
ports = { tcp = 8090, tcp_replica = 9090 }
`
	type leg struct{ in, up, out, peer Security }
	want := map[string]leg{
		"replgate.toml":            {TLS, Plaintext, Plaintext, TLS},
		"examples/hardening.toml":  {TLS, Plaintext, Plaintext, TLS},
		"examples/kubernetes.toml": {TLS, Plaintext, Plaintext, TLS},
		"examples/psk.toml":        {PSK, Plaintext, Plaintext, PSK},
	}
	confs, err := filepath.Glob("examples/*.toml")
	if err != nil || len(confs)+1 != len(want) {
		t.Fatalf("got %q, %v", confs, err)
	}
	for _, path := range append(confs, "replgate.toml") {
		t.Run(path, func(t *testing.T) {
			doc, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f := files{
				"x.toml": string(doc), "/etc/iggy/config.toml": iggy, "/etc/replgate/secret": canary,
				"/var/run/replgate/secret/current": canary,
			}
			l := mustLoad(t, f, "x.toml")
			c := l.Config
			last := c.Peers[len(c.Peers)-1]
			if got := (leg{c.Ingress.Security, c.Ingress.UpstreamSecurity, c.Egress.Security, last.Security}); got != want[path] {
				t.Errorf("got %v, want %v", got, want[path])
			}
			if last.Address == "" || last.ServerName == "" || last.Listen == "" || !c.UsesSecret() || len(l.Warnings) != 0 {
				t.Errorf("got %+v, %q", last, l.Warnings)
			}
		})
	}
}
