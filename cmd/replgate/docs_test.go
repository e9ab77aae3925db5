package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/internal/manual"
	"github.com/replgate/replgate/metrics"
	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/proxy"
)

// docsDir is the manual, seen from this package.
const docsDir = "../../docs"

// What is generated is checked in, and is what this program generates: neither
// stale nor left over.
func TestGeneratedDocs(t *testing.T) {
	files, err := generated()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(docsDir, name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s: got a stale file (%v), want what `make docs` writes", name, err)
		}
	}
	for _, dir := range generatedDirs() {
		there, err := os.ReadDir(filepath.Join(docsDir, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range there {
			if files[dir+"/"+f.Name()] == nil {
				t.Errorf("docs/%s/%s: got a file that nothing generates, want it gone: run `make docs`", dir, f.Name())
			}
		}
	}
	again, err := generated()
	if err != nil || !maps.EqualFunc(files, again, bytes.Equal) {
		t.Errorf("got two different manuals from one program (%v), want the same bytes", err)
	}
}

// Every page that the command line has is there, and none for what is hidden.
func TestManualPages(t *testing.T) {
	files := map[string][]byte{}
	manPages(files)
	for _, name := range []string{"replgate.1", "replgate-run.1", "replgate-config-print.1"} {
		if files["man/"+name] == nil {
			t.Errorf("got no page %s, want one", name)
		}
	}
	if files["man/replgate-docs.1"] != nil {
		t.Error("got a page for a hidden command, want none")
	}
	if page := string(files["man/replgate.1"]); !strings.Contains(page, exitCodes()[exitNotReady]) {
		t.Errorf("got a page without exit codes:\n%s", page)
	}
}

// The environment's names on the page are the names that a configuration takes,
// and all of them: a variable that is none is a warning.
func TestManualEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "replgate.toml")
	if err := os.WriteFile(file, configs.Example(), 0o600); err != nil {
		t.Fatal(err)
	}
	var env []string
	for _, k := range manual.Keys() {
		if k.Env != "" {
			env = append(env, k.Env+"=")
		}
	}
	for _, r := range policy.Rules() {
		if len(r.Allowed) > 0 {
			env = append(env, manual.Env("frames.rules."+r.Name)+"=")
		}
	}
	load := func(env []string) []string {
		t.Helper()
		loaded, err := configs.Load(file, configs.Options{Env: env, Rules: ruleSpecs(), ReadFile: func(name string) ([]byte, error) {
			if name == file {
				return configs.Example(), nil
			}
			return []byte(secretOne), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		return loaded.Warnings
	}
	if got := load(env); len(got) > 0 {
		t.Errorf("got %q, want no warning about a name of the page", got)
	}
	if got := load([]string{"REPLGATE_NOBODY="}); len(got) != 1 {
		t.Errorf("got %q, want a warning: this test must see a wrong name", got)
	}
	var defaults bytes.Buffer
	c := configs.Default()
	if err := configs.Print(&defaults, &c, configs.PrintOptions{}); err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`(?m)^(# )?[a-z_]+ = `).FindAllString(strings.ReplaceAll(defaults.String(), " =\n", " = \n"), -1)
	if got, want := len(manual.Keys()), len(keys); got != want {
		t.Logf("%s", defaults.String())
		t.Errorf("got %d keys on the page, want %d as in the printed schema", got, want)
	}
}

// ENDINGS has a section for each ending and each rule, and for nothing else, and
// says of each what the code says.
func TestEndingsPage(t *testing.T) {
	want := map[string]string{}
	for _, r := range policy.Rules() {
		compared := "as Iggy"
		if r.Stricter {
			compared = "stricter than Iggy"
		}
		want[r.Name] = fmt.Sprintf("Default: %v, %s.\n", r.Default, compared)
	}
	for _, e := range proxy.Endings() {
		want[string(e.Name)] = fmt.Sprintf("Level: %s.\n", strings.ToLower(e.Level.String()))
	}
	page, err := os.ReadFile(filepath.Join(docsDir, "ENDINGS.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(page), "\n### ")[1:]
	seen := map[string]bool{}
	for _, s := range sections {
		name, text, _ := strings.Cut(s, "\n")
		name = strings.Trim(name, "`")
		if seen[name] {
			t.Errorf("%s: got two sections, want one", name)
		}
		seen[name] = true
		fact, known := want[name]
		switch {
		case !known:
			t.Errorf("%s: got a section for what is neither an ending nor a rule, want none", name)
		case !strings.HasPrefix(text, "\n"+fact):
			t.Errorf("%s: got a section that begins with %.60q, want %q", name, strings.TrimSpace(text), fact)
		case !strings.Contains(text, "\n**Look at** ") || !strings.Contains(text, "\n**Do** "):
			t.Errorf("%s: got a section without what to look at or what to do, want both", name)
		}
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("%s: got no section in docs/ENDINGS.md, want one", name)
		}
	}
}

// handwritten are the pages that name things of the code.
func handwritten() []string { return []string{"OPERATIONS.md", "ENDINGS.md", "SECURITY.md"} }

// Metrics, labels, keys, commands and flags that the manual names are there.
func TestManualNames(t *testing.T) {
	labels := map[string][]string{}
	for _, f := range newRegistry(&configs.Config{}, metrics.Labels{}).List() {
		labels[f.Name] = f.Labels
		if f.Type == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				labels[f.Name+suffix] = append(f.Labels, "le")
			}
		}
	}
	keys := map[string]bool{}
	for _, k := range manual.Keys() {
		keys[k.Path] = true
	}
	for _, r := range policy.Rules() {
		keys["frames.rules."+r.Name] = true
	}
	metric := regexp.MustCompile(`\breplgate_[a-z_]+\b(\{[^}\n]*\})?`)
	label := regexp.MustCompile(`([a-z_]+)(=|!=|,|\}|$)`)
	key := regexp.MustCompile("`((?:cluster|message_bus|gate|ingress|egress|peers|security|frames|timeouts|limits|admin|metrics|log|chaos)(?:\\.[a-z_]+)+)[` ]")
	iggys := map[string]bool{"message_bus.reconnect_period": true} // Iggy's own, and named as such
	for _, name := range handwritten() {
		page, err := os.ReadFile(filepath.Join(docsDir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range metric.FindAllStringSubmatch(string(page), -1) {
			bare, _, _ := strings.Cut(m[0], "{")
			allowed, ok := labels[bare]
			if !ok {
				t.Errorf("%s: got metric %s, want one of the registry", name, bare)
				continue
			}
			for _, l := range label.FindAllStringSubmatch(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(strings.Trim(m[1], "{}"), ""), -1) {
				if l[1] != "" && !slices.Contains(allowed, l[1]) {
					t.Errorf("%s: got label %s on %s, want one of %q", name, l[1], bare, allowed)
				}
			}
		}
		for _, m := range key.FindAllStringSubmatch(string(page), -1) {
			table := slices.ContainsFunc(slices.Collect(maps.Keys(keys)), func(k string) bool { return strings.HasPrefix(k, m[1]+".") })
			if !keys[m[1]] && !table && !iggys[m[1]] {
				t.Errorf("%s: got key %s, want one of the schema", name, m[1])
			}
		}
	}
}

// Links between the pages lead somewhere.
func TestManualLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, name := range append(handwritten(), "CONFIGURATION.md") {
		page, err := os.ReadFile(filepath.Join(docsDir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(page), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			target := page
			if file != "" {
				if target, err = os.ReadFile(filepath.Join(docsDir, file)); err != nil {
					t.Errorf("%s: got a link to %s, want a file: %v", name, m[1], err)
					continue
				}
			}
			if anchor != "" && !slices.Contains(anchors(string(target)), anchor) {
				t.Errorf("%s: got a link to %s, want a heading of that page", name, m[1])
			}
		}
	}
}

// anchors are the names by which headings are linked to.
func anchors(page string) (all []string) {
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && line[0] == '#' {
			text = strings.ToLower(strings.TrimSpace(text))
			text = regexp.MustCompile(`[^a-z0-9_ -]`).ReplaceAllString(text, "")
			all = append(all, strings.ReplaceAll(text, " ", "-"))
		}
	}
	return all
}
