//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
)

// How a goal holds our figure against others'.
type rule int

const (
	ratio   rule = iota // ours / theirs
	excess              // ours − theirs
	itself              // ours alone
	between             // ours in one cell / ours in another
)

// goal is one line of the table.
type goal struct {
	text   string
	cell   cell
	value  string
	shape  shape
	rivals []string // of several the best one of each round counts
	rule   rule
	other  cell // for between
	bound  float64
	atMost bool
}

// slack is how far a median may be from its goal without being a miss: single
// samples scatter more than that.
const slack = 0.10

var tuned = []string{"haproxy", "nginx"}

// goals are those that the project has set itself.
func goals() []goal {
	lat, hs, rest := latency{}, handshakes{}, idle{}
	return []goal{
		{text: "TLS pair against the best tuned peer", cell: frames1K, value: mbps, shape: pair, rivals: tuned, bound: 1.10},
		{text: "TLS pair against the best tuned peer", cell: frames256K, value: mbps, shape: pair, rivals: tuned, bound: 1.10},
		{text: "TLS pair against the best tuned peer", cell: frames1K, value: cpuGB, shape: pair, rivals: tuned, bound: 0.85, atMost: true},
		{text: "TLS pair against the best tuned peer", cell: frames256K, value: cpuGB, shape: pair, rivals: tuned, bound: 0.85, atMost: true},
		{text: "TLS pair against ghostunnel", cell: frames1K, value: mbps, shape: pair, rivals: []string{"ghostunnel"}, bound: 2.5},
		{text: "TLS pair against ghostunnel", cell: frames256K, value: mbps, shape: pair, rivals: []string{"ghostunnel"}, bound: 2.5},
		{text: "TLS to plaintext against the best tuned peer", cell: frames1K, value: mbps, shape: single, rivals: tuned, bound: 0.85},
		{text: "TLS to plaintext against the best tuned peer", cell: frames256K, value: mbps, shape: single, rivals: tuned, bound: 0.85},
		{text: "plaintext against the best tuned peer", cell: frames256K, value: mbps, shape: hop, rivals: tuned, bound: 0.95},
		{text: "plaintext against the best tuned peer", cell: frames1K, value: mbps, shape: hop, rivals: tuned, bound: 0.85},
		{text: "plaintext against bare splice", cell: frames256K, value: mbps, shape: hop, rivals: []string{"splice"}, bound: 0.75},
		{text: "plaintext against bare splice", cell: frames1K, value: mbps, shape: hop, rivals: []string{"splice"}, bound: 0.75},
		{text: "TLS pair against the best tuned peer", cell: single256, value: mbps, shape: pair, rivals: tuned, bound: 0.8},
		{text: "TLS pair against the best tuned peer", cell: single1K, value: mbps, shape: pair, rivals: tuned, bound: 0.8},
		{text: "bodies sealed against not", cell: bodiesSealed, other: bodiesWithout, value: cpuGB, shape: hop, rule: between, bound: 1.25, atMost: true},
		{text: "TLS pair against nginx", cell: lat, value: p50, shape: pair, rivals: []string{"nginx"}, bound: 1.30, atMost: true},
		{text: "TLS pair against HAProxy", cell: lat, value: p50, shape: pair, rivals: []string{"haproxy"}, bound: 1.20, atMost: true},
		{text: "TLS pair against ghostunnel", cell: lat, value: p50, shape: pair, rivals: []string{"ghostunnel"}, bound: 1.0, atMost: true},
		{text: "plaintext against nginx", cell: lat, value: p50, shape: hop, rivals: []string{"nginx"}, bound: 1.15, atMost: true},
		{text: "plaintext against HAProxy", cell: lat, value: p50, shape: hop, rivals: []string{"haproxy"}, bound: 1.05, atMost: true},
		{text: "plaintext beyond direct, in µs", cell: lat, value: p50, shape: hop, rivals: []string{"direct"}, rule: excess, bound: 115, atMost: true},
		{text: "TLS against ghostunnel", cell: hs, value: perSecond, shape: single, rivals: []string{"ghostunnel"}, bound: 1.0},
		{text: "TLS against ghostunnel", cell: hs, value: cpuEach, shape: single, rivals: []string{"ghostunnel"}, bound: 1.0, atMost: true},
		{text: "TLS against HAProxy", cell: hs, value: cpuEach, shape: single, rivals: []string{"haproxy"}, bound: 1.0, atMost: true},
		{text: "TLS link, one side", cell: rest, value: kibEach, shape: single, rule: itself, bound: 36, atMost: true},
		{text: "plaintext link", cell: rest, value: kibEach, shape: hop, rule: itself, bound: 12, atMost: true},
	}
}

// result is a goal with what was measured.
type result struct {
	Goal    string  `json:"goal"`
	Cell    string  `json:"cell"`
	Value   string  `json:"value"`
	Bound   float64 `json:"bound"`
	AtMost  bool    `json:"at_most"`
	Median  float64 `json:"median"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Rounds  int     `json:"rounds"`
	Verdict string  `json:"verdict"`
}

// judge holds the samples against a goal: pair by pair inside each round, then the
// median.
func (g goal) judge(samples []sample) result {
	r := result{Goal: g.text, Cell: g.cell.name(), Value: g.value, Bound: g.bound, AtMost: g.atMost}
	var figures []float64
	for round := range rounds(samples) {
		if figure, ok := g.figure(samples, round); ok {
			figures = append(figures, figure)
		}
	}
	if r.Rounds = len(figures); r.Rounds == 0 {
		r.Verdict = "not measured"
		return r
	}
	r.Median, r.Min, r.Max = median(figures), slices.Min(figures), slices.Max(figures)
	short := g.bound - r.Median
	if g.atMost {
		short = -short
	}
	scale := 1.0
	if g.rule == excess || g.rule == itself {
		scale = g.bound // these are no ratios
	}
	switch {
	case short <= 0:
		r.Verdict = "holds"
	case short <= slack*scale:
		r.Verdict = "within the scatter"
	default:
		r.Verdict = "missed"
	}
	return r
}

// figure is one round's.
func (g goal) figure(samples []sample, round int) (float64, bool) {
	mine, ok := valueOf(samples, g.cell, ours, g.shape, g.value, round)
	if !ok {
		return 0, false
	}
	switch g.rule {
	case itself:
		return mine, true
	case between:
		other, ok := valueOf(samples, g.other, ours, g.shape, g.value, round)
		return mine / other, ok
	}
	best := math.NaN()
	for _, rival := range g.rivals {
		theirs, ok := valueOf(samples, g.cell, rival, g.shape, g.value, round)
		switch {
		case !ok:
		case math.IsNaN(best), g.atMost && theirs < best, !g.atMost && theirs > best:
			best = theirs
		}
	}
	if math.IsNaN(best) {
		return 0, false
	}
	if g.rule == excess {
		return mine - best, true
	}
	return mine / best, true
}

func valueOf(samples []sample, c cell, maker string, s shape, value string, round int) (float64, bool) {
	for _, one := range samples {
		if one.Cell == c.name() && one.Target == fmt.Sprintf("%s/%s", maker, s) && one.Round == round && one.Err == "" {
			v, ok := one.Values[value]
			return v, ok
		}
	}
	return 0, false
}

func rounds(samples []sample) (n int) {
	for _, s := range samples {
		n = max(n, s.Round+1)
	}
	return n
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
