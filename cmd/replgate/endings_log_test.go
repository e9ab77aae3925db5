//go:build linux

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// TestRepeatsAreCounted lets one fault happen many times: there is one line at
// once, and after the window one that says how many were not told.
func TestRepeatsAreCounted(t *testing.T) {
	t.Parallel()
	const window = 10 * time.Second
	s := raise(t, stageOptions{id: 0, replicas: 2, far: "plaintext", noLocal: true})
	refuse := func() {
		t.Helper()
		near, err := s.ring(caller{pair: mac.Pair{Dialer: 0, Acceptor: 1}, security: "plaintext"}, s.egressAddr(1))
		if err != nil {
			t.Fatal(err)
		}
		defer near.Close()
		if how, _, took := endOf(near, playLimit); how != byReset || took > 200*time.Millisecond {
			t.Fatalf("got %s after %v, want RST within 200ms", how, took)
		}
	}
	began := time.Now()
	for range 50 {
		refuse()
	}
	if took := time.Since(began); took > window/2 {
		t.Fatalf("50 refusals took %v, too long for this test", took)
	}
	if lines := logLines(s.gate, "ending", "dial_refused"); len(lines) != 1 || lines[0]["level"] != "WARN" {
		t.Errorf("got %d lines for 50 refusals, want one warning: %v", len(lines), lines)
	}
	if n := s.closedBy("dial_refused"); n != 50 {
		t.Errorf("got %d connections closed by dial_refused, want 50", n)
	}
	time.Sleep(window + 200*time.Millisecond - time.Since(began)) // real time: the gate's window is what is tested
	refuse()
	eventually(t, "a line that counts the repeats", func() bool {
		lines := logLines(s.gate, "ending", "dial_refused")
		return len(lines) == 2 && lines[1]["repeats"] == 49.0
	})
}

// TestProbesAreQuiet probes as a kubelet does: nothing of it is in a log at the
// usual level, and at debug no line is a warning (T39).
func TestProbesAreQuiet(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"info", "debug"} {
		s := raise(t, stageOptions{id: 1, replicas: 2, far: "tls", extra: "[log]\nlevel = \"" + level + "\"\n"})
		for i := range 20 {
			c, err := net.Dial("tcp", s.ingressAddr())
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				c.(*net.TCPConn).SetLinger(0) // the kubelet's way
			}
			c.Close()
			eventually(t, "one more probe", func() bool { return s.closedBy("probe") == i+1 })
		}
		if lines := logLines(s.gate, "ending", "probe"); (len(lines) > 0) != (level == "debug") {
			t.Errorf("level %s: got %d lines about probes, want one at debug and none at info", level, len(lines))
		}
		if lines := logLines(s.gate, "level", "WARN"); len(lines) > 0 {
			t.Errorf("level %s: got a warning about a probe, want none: %v", level, lines[0])
		}
	}
}

// strangers in the normal run; soak has T43's ten thousand.
const strangersShort = 1000

// TestSeriesAreBounded lets strangers from everywhere do everything they can: the
// series are those of the closed sets, however many come (T43).
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	strangers := strangersShort
	if soaking() {
		strangers = 10_000
	}
	s := raise(t, stageOptions{id: 1, replicas: 3, far: "tls"})
	kinds := strangeFlights()
	visit := func(kind int, source string) {
		c, err := caller{source: source}.connect(s.ingressAddr())
		if err != nil {
			t.Fatal(err)
		}
		c.Write(kinds[kind]) // what it says is refused, and when is the gate's affair
		c.SetReadDeadline(time.Now().Add(playLimit))
		if len(kinds[kind]) > 0 {
			c.CloseWrite()
		}
		drainBytes(c)
		c.Close()
	}
	for kind := range kinds[1:] {
		visit(kind+1, "127.0.0.1")
	}
	c, err := s.send("127.0.0.1", nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	eventually(t, "the first probe", func() bool { return s.closedBy("probe") > 0 })
	before := s.metrics()
	random := rand.New(rand.NewPCG(43, 43))
	for range strangers {
		visit(1+random.IntN(len(kinds)-1), fmt.Sprintf("127.%d.%d.%d", random.IntN(256), random.IntN(256), 1+random.IntN(254)))
	}
	eventually(t, "every stranger's end", func() bool {
		return s.metrics().Sum("replgate_links_closed_total") >= float64(strangers)
	})
	known := vocabulary()
	for series := range s.metrics() {
		if _, was := before[series]; was || !strings.HasPrefix(series, "replgate_") {
			continue
		}
		// Timing may bring an ending that the first round had not; nothing else.
		_, reason, _ := strings.Cut(series, `reason="`)
		reason, _, _ = strings.Cut(reason, `"`)
		_, result, _ := strings.Cut(series, `result="`)
		result, _, _ = strings.Cut(result, `"`)
		if !known[reason] && !known[result] {
			t.Errorf("got the new series %s, want none but of the closed sets", series)
		}
	}
	if b, a := len(before), len(s.metrics()); a > b+len(kinds) {
		t.Errorf("got %d series after %d strangers, want about the %d there were", a, strangers, b)
	}
	lines := strings.Count(s.gate.Log(), "\n")
	if most := 20 * len(known); lines > most {
		t.Errorf("got %d lines about %d strangers, want repeats counted and not told", lines, strangers)
	}
}

// strangeFlights are the first bytes of those who have no business here.
func strangeFlights() [][]byte {
	other := wire.NewHello(wire.ClusterIDOf("other"), 0, slices.Repeat([]byte{1}, wire.NonceSize))
	return [][]byte{
		nil,
		[]byte("GET /metrics HTTP/1.0\r\n\r\n"),
		[]byte("SSH-2.0-scanner\r\n"),
		speech(wire.Request, 0, nil),
		hello(0, true),
		hello(250, true),
		other[:],
		speech(wire.Commit, 0, nil),
		claiming(commit(0, 1), 7),
		{22, 3, 1, 255, 255},
		slices.Repeat([]byte{0xff}, 300),
	}
}

// TestMetricsLint holds /metrics against the rules of Prometheus, on a gate whose
// series have values (T42).
func TestMetricsLint(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: 1, replicas: 3, far: "psk"})
	b := s.arrive(0, "psk")
	if _, err := b.far.Write(commit(0, 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.near.ReadFrame(1 << 20); err != nil {
		t.Fatal(err)
	}
	for _, flight := range strangeFlights() {
		if _, err := s.send("", flight); err != nil {
			t.Fatal(err)
		}
	}
	resp, err := http.Get("http://" + s.net.Metrics(s.id) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	problems, err := promlint.New(resp.Body).Lint()
	if err != nil {
		t.Fatalf("got %v, want text that Prometheus reads", err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "replgate_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for _, series := range slices.Sorted(maps.Keys(s.metrics())) {
		if strings.Contains(series, `="other"`) {
			t.Errorf("got the series %s, want every value in its set", series)
		}
	}
	if lab.Samples(s.metrics()).Sum("replgate_build_info") != 1 {
		t.Error("got no replgate_build_info, want one")
	}
}
