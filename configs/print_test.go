package configs

import (
	"reflect"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func printed(t *testing.T, c *Config) string {
	t.Helper()
	var b strings.Builder
	if err := Print(&b, c, PrintOptions{Rules: testRules()}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What is printed loads as the same configuration.
func TestPrintRoundTrip(t *testing.T) {
	quoted := strings.Replace(base, `name = "c"`, `name = "\"c\\ \u0000\u007f ☃\""`, 1)
	docs := map[string]string{"example": string(Example()), "base": base, "quoted": quoted, "iggy": withIggy}
	for name, doc := range docs {
		t.Run(name, func(t *testing.T) {
			f := iggyFiles(t, doc)
			f["/etc/replgate/secret"] = canary
			want := mustLoad(t, f, "/etc/r/r.toml").Config
			f["/else/p.toml"] = printed(t, &want)
			mustNotLeak(t, f["/else/p.toml"])
			got := mustLoad(t, f, "/else/p.toml").Config
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v\nfrom\n%s", got, want, f["/else/p.toml"])
			}
		})
	}
}

// The inline secret is the one thing that does not survive.
func TestPrintRedacts(t *testing.T) {
	f := files{"r.toml": pskHead + "shared_secret = \"" + canary + "\"\n" + base}
	c := mustLoad(t, f, "r.toml").Config
	text := printed(t, &c)
	mustNotLeak(t, text)
	if !hasLine(text, `# shared_secret = "`+redacted+`"`) {
		t.Errorf("got\n%s", text)
	}
	f["p.toml"] = text
	got := mustLoad(t, f, "p.toml", "REPLGATE_CLUSTER_AUTH_SHARED_SECRET="+canary).Config
	if !reflect.DeepEqual(got, c) {
		t.Errorf("got  %+v\nwant %+v", got, c)
	}
}

// The defaults show every key, and nothing but what is missing is wrong with them.
func TestPrintDefaults(t *testing.T) {
	c := Default()
	text := printed(t, &c)
	got := faultsOf(files{"d.toml": text}, "d.toml")
	if strings.Count(got, "\n") != 1 || !hasLine(got, "cluster.nodes:", "found 0") || !hasLine(got, "gate.replica_id:", "found none") {
		t.Errorf("got %s\nfrom\n%s", got, text)
	}
	for path := range schemaKeys() {
		if key := path[strings.LastIndexByte(path, '.')+1:]; !strings.Contains(text, key+" =") && !strings.Contains(text, "[["+path+"]]") && !strings.Contains(text, "["+path+"]") {
			if path != "cluster.nodes.ports.tcp_replica" {
				t.Errorf("%s is missing", path)
			}
		}
	}
	for _, want := range []string{
		`sender = "drop"  # stricter than Iggy`,
		`client_request = "drop"  # stricter than Iggy; Iggy executes it as root`,
		`command_unexpected = "drop"  # as Iggy`,
		`identity_absent_repair = "observe"  # stricter than Iggy`,
		`# frame_command is always close, it has no switch  # as Iggy; above 29`,
		`heartbeat_timeout = "5s"`, `max_message_size = "64MiB"`, `# replica_id =  # required`, `# [[peers]]`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("got no line %q in\n%s", want, text)
		}
	}
	var v map[string]any
	if _, err := toml.Decode(text, &v); err != nil {
		t.Error(err)
	}
}
