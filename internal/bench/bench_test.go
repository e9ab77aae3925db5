//go:build linux

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// framesOf cuts a train with the reader that the sink uses.
func framesOf(t *testing.T, b []byte) (frames []wire.Frame) {
	t.Helper()
	r := wire.NewReader(wire.Limits{MaxFrame: 64 << 20, Store: 4 << 20, Buffer: 8 << 20})
	for len(b) > 0 {
		n := copy(r.Free(), b)
		r.Filled(n)
		b = b[n:]
		for {
			f, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if f.Head() == nil {
				break
			}
			frames = append(frames, f)
		}
	}
	if r.Inside() {
		t.Fatal("got part of a frame at the end")
	}
	return frames
}

// TestTrains: what is sent is whole frames of the size that the cell names, as
// many as are expected at the sink, and right; a bad frame is not.
func TestTrains(t *testing.T) {
	for _, kind := range []body{unsealed, sealed} {
		for _, size := range []int{256, 1 << 10, 16 << 10, 256 << 10} {
			if kind == sealed && size == 256 {
				continue // a batch does not fit
			}
			load := train(size, kind)
			if len(load)%size != 0 || len(load)/size != trainFrames(size) {
				t.Errorf("%s, %d: got %d bytes, want %d frames", kind, size, len(load), trainFrames(size))
			}
			var v wire.BodyVerifier
			for i, f := range framesOf(t, load) {
				h := f.Head()
				if !right(h) || wire.Validate(h) != nil || v.Verify(h, f.Bytes[wire.HeaderSize:]) != nil {
					t.Fatalf("%s, %d: frame %d is not right: %v, %v", kind, size, i, wire.Validate(h), v.Verify(h, f.Bytes[wire.HeaderSize:]))
				}
			}
		}
	}
	if h := bad(); right(&h) {
		t.Error("got the bad frame taken for a right one")
	}
	h := asking(groupEnd, mac.Pair{Dialer: 3, Acceptor: 9})
	if a := answer(&h, counts{12, 2}); !right(&a) || wire.Replica.Get(&a) != 9 || wire.CommitCommit.Get(&a) != 12 || wire.View.Get(&a) != 2 {
		t.Errorf("got an answer %v", a)
	}
}

// sampleOf is a sample with one value; a gate's has dropped what was planted.
func sampleOf(target string, round int, value float64) sample {
	s := sample{Cell: frames1K.name(), Target: target, Round: round, Values: map[string]float64{mbps: value, cpuGB: 1 / value},
		Controls: []string{algorithm}, Passed: 2}
	if strings.HasPrefix(target, ours+"/") {
		s.Passed = 0
	}
	return s
}

// TestGoals: ratios are taken inside a round, against the best rival of that round,
// and the median decides.
func TestGoals(t *testing.T) {
	samples := []sample{
		sampleOf("replgate/pair", 0, 120), sampleOf("haproxy/pair", 0, 100), sampleOf("nginx/pair", 0, 60),
		sampleOf("replgate/pair", 1, 100), sampleOf("haproxy/pair", 1, 50), sampleOf("nginx/pair", 1, 100),
		sampleOf("replgate/pair", 2, 300), sampleOf("haproxy/pair", 2, 200), sampleOf("nginx/pair", 2, 200),
	}
	g := goal{cell: frames1K, value: mbps, shape: pair, rivals: tuned, bound: 1.2}
	for bound, want := range map[float64]string{1.2: "holds", 1.25: "within the scatter", 1.4: "missed"} {
		g.bound = bound
		if r := g.judge(samples); r.Median != 1.2 || r.Min != 1.0 || r.Max != 1.5 || r.Rounds != 3 || r.Verdict != want {
			t.Errorf("at least %v: got %+v, want %q", bound, r, want)
		}
	}
	g = goal{cell: frames1K, value: cpuGB, shape: pair, rivals: tuned, atMost: true}
	for bound, want := range map[float64]string{0.85: "holds", 0.75: "within the scatter", 0.7: "missed"} {
		g.bound = bound
		if r := g.judge(samples); fmt.Sprintf("%.3f", r.Median) != "0.833" || r.Verdict != want {
			t.Errorf("at most %v: got %+v, want %q", bound, r, want)
		}
	}
	samples[0].Err = "broken"
	if r := g.judge(samples); r.Rounds != 2 {
		t.Errorf("got %d rounds, want the one with a broken sample left out", r.Rounds)
	}
	g.shape = single
	if r := g.judge(samples); r.Verdict != "not measured" {
		t.Errorf("got %q for what was not measured", r.Verdict)
	}
}

// TestDoubts: a run whose conditions do not hold has no verdict, whatever it
// measured.
func TestDoubts(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*bench)
		want  string // empty: there is a verdict
	}{
		"a good run":               {func(*bench) {}, ""},
		"a peer with other buffer": {func(b *bench) { b.buffers["nginx/pair"] = []int{bufferSize, 16 << 10} }, "nginx/pair: got a buffer of 16384"},
		"a peer that cannot say":   {func(b *bench) { b.buffers["ghostunnel/pair"] = []int{0} }, ""},
		"a buffer not found":       {func(b *bench) { b.buffers["nginx/pair"] = []int{-1} }, "got a buffer of -1"},
		"another control":          {func(b *bench) { b.samples[1].Controls = []string{algorithm, "bbr"} }, "congestion control"},
		"a gate that lets bad by":  {func(b *bench) { b.samples[0].Passed = 1 }, "replgate/pair, " + frames1K.name() + ", round 1: got 1 of two bad frames"},
		"nothing planted":          {func(b *bench) { b.samples[1].Passed = 0 }, "haproxy/pair"},
		"a sample that failed":     {func(b *bench) { b.samples[1].Err = "reset" }, "reset"},
		"no burst":                 {func(b *bench) { b.samples = nil }, "no burst"},
	} {
		b := &bench{field: &field{}, buffers: map[string][]int{"replgate/pair": {bufferSize}},
			samples: []sample{sampleOf("replgate/pair", 0, 2), sampleOf("haproxy/pair", 0, 1)}}
		c.spoil(b)
		r := b.report()
		if got := strings.Join(r.Doubts, "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got doubts %q, want %q", name, got, c.want)
		}
		if verdict := r.Results[0].Verdict; (c.want == "") != (verdict == "holds") || c.want != "" && verdict != "none" {
			t.Errorf("%s: got verdict %q", name, verdict)
		}
	}
}

// TestReport: the page says of each goal what was measured, and of what could not
// be that it was not.
func TestReport(t *testing.T) {
	b := &bench{field: &field{}, missing: []string{"ghostunnel"}, buffers: map[string][]int{"replgate/pair": {bufferSize}},
		samples: []sample{sampleOf("replgate/pair", 0, 2), sampleOf("haproxy/pair", 0, 1)}}
	var page strings.Builder
	b.report().write(&page)
	for _, want := range []string{
		"Not on this machine, and so not measured: ghostunnel.",
		"| TLS pair against the best tuned peer | " + frames1K.name() + " | MB/s | ≥ 1.10 | 2.00 [2.00..2.00] | holds |",
		"| TLS pair against ghostunnel | " + frames1K.name() + " | MB/s | ≥ 2.50 | – | not measured |",
		"| " + frames1K.name() + " | haproxy/pair | MB/s | 1.00 [1.00..1.00] |",
	} {
		if !strings.Contains(page.String(), want+"\n") {
			t.Errorf("got no line %q in\n%s", want, page.String())
		}
	}
}

// TestReadBack: the words that ss and the relays answer with.
func TestReadBack(t *testing.T) {
	for text, want := range map[string]string{
		"0 0 127.0.0.1:7000 127.0.0.1:4242\t reno wscale:7,7 rto:201 rtt:0.1/0.05": "reno",
		"ESTAB 0 0 [::1]:1 [::1]:2 ts sack bbr2 wscale:9,9 rto:204":                "bbr2",
	} {
		if m := controlPattern.FindStringSubmatch(text); m == nil || m[1] != want {
			t.Errorf("%q: got %q, want %q", text, m, want)
		}
	}
	if n := found(`Pool buffer \((\d+) bytes\)`, "  - Pool buffer (1048576 bytes) : 3 allocated"); n != 1<<20 {
		t.Errorf("got %d", n)
	}
	if n := pss(strings.NewReader("Rss:  9 kB\nPss:                12 kB\nPss_Dirty: 3 kB\n")); n != 12<<10 {
		t.Errorf("got %d", n)
	}
}
