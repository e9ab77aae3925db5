package metrics

import (
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// sample is one line of a scrape.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// scrape asks the handler as Prometheus would. The label values of these tests hold no quotes and no commas.
func scrape(t testing.TB, r *Registry) (body string, samples []sample) {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("scrape: status %d: %s", w.Code, w.Body)
	}
	body = w.Body.String()
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, value, ok := cutLast(line)
		v, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil {
			t.Fatalf("scrape: cannot read line %q: %v", line, err)
		}
		name, rest, _ := strings.Cut(key, "{")
		samples = append(samples, sample{name, labelsOf(strings.TrimSuffix(rest, "}")), v})
	}
	return body, samples
}

func cutLast(line string) (key, value string, ok bool) {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

func labelsOf(s string) map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(s, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			out[k] = strings.Trim(v, `"`)
		}
	}
	return out
}

// find returns the value of the series with exactly these labels, given as key, value, key, value.
func find(samples []sample, name string, labels ...string) (float64, bool) {
	for _, s := range samples {
		if s.name != name || len(s.labels)*2 != len(labels) {
			continue
		}
		same := true
		for i := 0; i < len(labels); i += 2 {
			same = same && s.labels[labels[i]] == labels[i+1]
		}
		if same {
			return s.value, true
		}
	}
	return 0, false
}

func expect(t *testing.T, samples []sample, want float64, name string, labels ...string) {
	t.Helper()
	got, ok := find(samples, name, labels...)
	if !ok || got != want {
		t.Errorf("%s%v: got %v (shown %v), want %v", name, labels, got, ok, want)
	}
}

func absent(t *testing.T, samples []sample, name string, labels ...string) {
	t.Helper()
	if got, ok := find(samples, name, labels...); ok {
		t.Errorf("%s%v: got %v, want no such series", name, labels, got)
	}
}

func testLabels() Labels {
	return Labels{
		Peers:     []string{"0", "2"},
		Commands:  []string{"Reserved", "Ping", "Commit"},
		Rules:     []string{"seal", "sender"},
		Endings:   []string{"peer_eof", "drain", "mac_mismatch"},
		Version:   "v1",
		GoVersion: "go1.26",
	}
}
