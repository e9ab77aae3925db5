package deploy

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/metrics"
)

// binary is built by whichever test comes first.
var binary struct {
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(binary.dir)
	os.Exit(code)
}

// replgate runs the program and returns what it says, and its exit code.
func replgate(t *testing.T, args ...string) (string, int) {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "replgate-deploy"); binary.err == nil {
			build := exec.Command("go", "build", "-o", binary.dir, "../cmd/replgate")
			build.Stderr = t.Output()
			binary.err = build.Run()
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	cmd := exec.Command(filepath.Join(binary.dir, "replgate"), args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// rules are those that the annotated example names.
var rules = []configs.RuleSpec{{Name: "sender", Default: "drop", Allowed: []string{"drop"}}}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkCommand holds a command line, without the program, against its help.
func checkCommand(t *testing.T, words []string) {
	t.Helper()
	var command, flags []string
	for i, w := range words {
		if strings.HasPrefix(w, "-") {
			flags = words[i:]
			break
		}
		command = append(command, w)
	}
	help, code := replgate(t, append(command, "--help")...)
	if code != 0 || !strings.Contains(help, "replgate "+strings.Join(command, " ")) {
		t.Fatalf("got exit code %d and %q of %q, want its help", code, help, command)
	}
	for _, f := range flags {
		if name, _, _ := strings.Cut(f, "="); strings.HasPrefix(name, "-") && !regexp.MustCompile(`(?m)^\s+(-\w, )?`+name+`\b`).MatchString(help) {
			t.Errorf("got flag %s in %q, want one of\n%s", name, words, help)
		}
	}
}

// deployed are the texts of this folder that are not tests of it.
func deployed(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Ext(name) != ".go" {
			texts[name] = read(t, name)
		}
		return err
	})
	if err != nil || len(texts) == 0 {
		t.Fatalf("got %d files and %v, want some", len(texts), err)
	}
	return texts
}

// strangers returns the metrics in a text that the program does not have.
func strangers(text string) (unknown []string) {
	var known []string
	for _, f := range metrics.New(metrics.Labels{}).List() {
		known = append(known, f.Name, f.Name+"_bucket", f.Name+"_sum", f.Name+"_count")
	}
	for _, name := range regexp.MustCompile(`\breplgate_[a-z0-9_]+`).FindAllString(text, -1) {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

func TestMetricNames(t *testing.T) {
	if got := strangers("rate(replgate_frames_total[5m]) / replgate_frames; replgate_handshake_seconds_bucket"); !slices.Equal(got, []string{"replgate_frames"}) {
		t.Fatalf("got %q, want the one name that there is not", got)
	}
	for name, text := range deployed(t) {
		if got := strangers(text); len(got) > 0 {
			t.Errorf("%s: got %q, want metrics of the program", name, got)
		}
	}
}

// TestEnvironmentNames: a name that is no key is only a warning of the program, so
// a typing error in a file here would go unseen.
func TestEnvironmentNames(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("x", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	warnings := func(names ...string) string {
		env := []string{"REPLGATE_CLUSTER_AUTH_SHARED_SECRET_FILE=" + secret}
		for _, n := range names {
			env = append(env, n+"="+secret)
		}
		loaded, err := configs.Load("../configs/replgate.toml", configs.Options{Rules: rules, Env: env})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(loaded.Warnings, "\n")
	}
	if got := warnings("REPLGATE_NOBODY"); !strings.Contains(got, "REPLGATE_NOBODY") {
		t.Fatalf("got warnings %q, want one of a name that there is not", got)
	}
	for name, text := range deployed(t) {
		for _, env := range regexp.MustCompile(`\bREPLGATE_[A-Z0-9_]+`).FindAllString(text, -1) {
			if got := warnings(env); strings.Contains(got, env) {
				t.Errorf("%s: got %s, want a key of the configuration: %s", name, env, got)
			}
		}
	}
}

// TestScripts: a shell reads every script to its end.
func TestScripts(t *testing.T) {
	for name, shell := range map[string]string{"dist.sh": "bash", "package/postinstall.sh": "sh", "package/preremove.sh": "sh", "package/postremove.sh": "sh"} {
		if !strings.HasPrefix(read(t, name), "#!/") {
			t.Errorf("%s: got no first line for the kernel", name)
		}
		if out, err := exec.Command(shell, "-n", name).CombinedOutput(); err != nil {
			t.Errorf("%s: got %v: %s", name, err, out)
		}
	}
}
