package deploy

import (
	"encoding/json"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/replgate/replgate/configs"
)

// instructions reads a container file: what each instruction is given.
func instructions(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	text := strings.ReplaceAll(read(t, "container/Containerfile"), "\\\n", " ")
	for line := range strings.Lines(text) {
		word, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && !strings.HasPrefix(word, "#") {
			all[word] = append(all[word], strings.TrimSpace(rest))
		}
	}
	return all
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestContainer(t *testing.T) {
	in := instructions(t)
	if got := one(t, in, "FROM"); got != "scratch" {
		t.Errorf("got FROM %s, want scratch", got)
	}
	if got := one(t, in, "USER"); !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(got) {
		t.Errorf("got USER %s, want numbers other than 0", got)
	}
	if len(in["RUN"])+len(in["SHELL"])+len(in["ADD"]) > 0 {
		t.Error("got RUN, SHELL or ADD, want an image without a shell")
	}
	if slices.ContainsFunc(in["ARG"], func(a string) bool { return strings.HasPrefix(a, "TARGETARCH=") }) {
		t.Error("got a default for TARGETARCH, which wins over the builder's word")
	}
	var entry, command []string
	if err := json.Unmarshal([]byte(one(t, in, "ENTRYPOINT")), &entry); err != nil || len(entry) != 1 {
		t.Fatalf("got entry point %q and %v, want the program as JSON", entry, err)
	}
	if err := json.Unmarshal([]byte(one(t, in, "CMD")), &command); err != nil {
		t.Fatalf("got %v, want the arguments as JSON", err)
	}
	checkCommand(t, command)
	if got, want := strings.Join(slices.Concat(entry, command), " "), one(t, unit(t), "ExecStart"); got != want {
		t.Errorf("got command line %s, want the unit's: %s", got, want)
	}
	if !slices.ContainsFunc(in["COPY"], func(c string) bool { return strings.HasSuffix(c, "dist/replgate-linux-${TARGETARCH} "+entry[0]) }) {
		t.Errorf("got COPY %q, want what `make dist` builds at %s", in["COPY"], entry[0])
	}
	if one(t, in, "STOPSIGNAL") != "SIGTERM" || !slices.Contains(in["ENV"], "GOTRACEBACK=crash") {
		t.Error("got another stop signal or no GOTRACEBACK=crash")
	}
}

// TestContainerPorts: the ports that the annotated example listens on.
func TestContainerPorts(t *testing.T) {
	secret := t.TempDir() + "/secret"
	if err := os.WriteFile(secret, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := configs.Load("../configs/replgate.toml", configs.Options{Rules: rules, Env: []string{"REPLGATE_CLUSTER_AUTH_SHARED_SECRET_FILE=" + secret}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{port(t, loaded.Config.Ingress.Listen), port(t, configs.Default().Metrics.Listen)}
	if got := strings.Fields(one(t, instructions(t), "EXPOSE")); !slices.Equal(got, want) {
		t.Errorf("got EXPOSE %q, want %q", got, want)
	}
}
