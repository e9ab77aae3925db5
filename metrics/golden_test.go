package metrics

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

var update = flag.Bool("update", false, "write the golden files anew")

const golden = "testdata/metrics.golden"

// used is a registry in which every family has at least one series.
func used() *Registry {
	l := testLabels()
	l.PeerCertificates = func() map[string]time.Time { return map[string]time.Time{"0": time.Unix(1, 0)} }
	r := New(l)
	touchAll(r, "0", 0)
	return r
}

// T42: names, types and labels are a contract with dashboards and alerts. Who renames one changes the golden file by
// hand (or with -update) and writes an entry about it; the file keeps renames from happening by accident.
func TestNamesAreFrozen(t *testing.T) {
	got := strings.Join(shown(t, used()), "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs.\ngot:\n%s\nwant:\n%s", golden, got, want)
	}
}

// What List says is what a scrape shows.
func TestListIsTheScrape(t *testing.T) {
	r := used()
	var listed []string
	for _, f := range r.List() {
		labels := slices.Sorted(slices.Values(f.Labels))
		listed = append(listed, strings.TrimSpace(fmt.Sprintf("%s %s %s", f.Name, f.Type, strings.Join(labels, ","))))
		if f.Help == "" || f.Bound < 1 {
			t.Errorf("%s: got help %q and bound %d", f.Name, f.Help, f.Bound)
		}
	}
	if got := shown(t, r); !slices.Equal(listed, got) {
		t.Errorf("List:\n%s\nscrape:\n%s", strings.Join(listed, "\n"), strings.Join(got, "\n"))
	}
}

// shown lists the gate's families of a scrape: name, type, sorted labels.
func shown(t *testing.T, r *Registry) (out []string) {
	body, samples := scrape(t, r)
	for line := range strings.Lines(body) {
		f := strings.Fields(line)
		if len(f) != 4 || f[1] != "TYPE" || !strings.HasPrefix(f[2], "replgate_") {
			continue
		}
		labels := map[string]bool{}
		for _, s := range samples {
			base := s.name
			if f[3] == "histogram" {
				base = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(base, "_bucket"), "_sum"), "_count")
			}
			for k := range s.labels {
				if base == f[2] && k != "le" {
					labels[k] = true
				}
			}
		}
		keys := strings.Join(slices.Sorted(maps.Keys(labels)), ",")
		out = append(out, strings.TrimSpace(f[2]+" "+f[3]+" "+keys))
	}
	return out
}

// T42: what `promtool check metrics` would say, runtime and process series included.
func TestLint(t *testing.T) {
	families, err := used().gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) < 20 {
		t.Fatalf("got %d families, want the gate's, the runtime's and the process's", len(families))
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
