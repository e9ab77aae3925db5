//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report is a run in JSON.
type report struct {
	Date    string           `json:"date"`
	Machine string           `json:"machine"`
	Go      string           `json:"go"`
	Rounds  int              `json:"rounds"`
	Missing []string         `json:"not_on_this_machine"`
	Buffers map[string][]int `json:"buffers_read_back"`
	Doubts  []string         `json:"doubts"` // why there is no verdict; empty: there is one
	Results []result         `json:"results"`
	Samples []sample         `json:"samples"`
}

// report judges the run.
func (b *bench) report() report {
	r := report{Date: time.Now().UTC().Format("2006-01-02 15:04 MST"), Machine: machine(), Go: runtime.Version(),
		Rounds: rounds(b.samples), Missing: b.missing, Buffers: b.buffers, Doubts: b.doubts(), Samples: b.samples}
	for _, g := range goals() {
		one := g.judge(b.samples)
		if len(r.Doubts) > 0 {
			one.Verdict = "none"
		}
		r.Results = append(r.Results, one)
	}
	return r
}

// doubts are the reasons not to judge: a run is only worth a verdict when every
// peer had the buffer that ours has, all sockets one congestion control, and when
// the gate that was measured was at work: it dropped what is bad, and the others,
// which let it through, show that there was something to drop.
func (b *bench) doubts() (doubts []string) {
	for name, sizes := range b.buffers {
		for _, size := range sizes {
			if size != 0 && size != bufferSize {
				doubts = append(doubts, fmt.Sprintf("%s: got a buffer of %d bytes, want %d", name, size, bufferSize))
			}
		}
	}
	bursts := 0
	for _, s := range b.samples {
		where := fmt.Sprintf("%s, %s, round %d", s.Target, s.Cell, s.Round+1)
		if s.Err != "" {
			doubts = append(doubts, where+": "+s.Err)
			continue
		}
		if s.Controls == nil {
			continue
		}
		bursts++
		if !slices.Equal(s.Controls, []string{algorithm}) {
			doubts = append(doubts, fmt.Sprintf("%s: got congestion control %v, want %s", where, s.Controls, algorithm))
		}
		want := uint64(2)
		if strings.HasPrefix(s.Target, ours+"/") {
			want = 0
		}
		if s.Passed != want {
			doubts = append(doubts, fmt.Sprintf("%s: got %d of two bad frames through, want %d", where, s.Passed, want))
		}
	}
	if bursts == 0 {
		doubts = append(doubts, "got no burst")
	}
	return doubts
}

// machine is the kind of this one.
func machine() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	model := "unknown"
	if err == nil {
		for line := range strings.Lines(string(b)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d × %s, %s", runtime.NumCPU(), model, runtime.GOOS)
}

// write prints the run as a page of Markdown.
func (r report) write(w io.Writer) {
	fmt.Fprintf(w, "%s, %s, %s, %d rounds. The machine beside the bench used %.2f cores in the median sample, %.2f in the worst.\n\n",
		r.Date, r.Machine, r.Go, r.Rounds, median(r.foreign()), slices.Max(r.foreign()))
	if len(r.Missing) > 0 {
		fmt.Fprintf(w, "Not on this machine, and so not measured: %s.\n\n", strings.Join(r.Missing, ", "))
	}
	for _, d := range r.Doubts {
		fmt.Fprintf(w, "No verdict: %s.\n\n", d)
	}
	fmt.Fprintln(w, "| what | cell | value | goal | measured | verdict |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|")
	for _, one := range r.Results {
		sign := "≥"
		if one.AtMost {
			sign = "≤"
		}
		measured := "–"
		if one.Rounds > 0 {
			measured = spread(one.Median, one.Min, one.Max)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s %s | %s | %s |\n", one.Goal, one.Cell, one.Value, sign, short(one.Bound), measured, one.Verdict)
	}
	fmt.Fprintf(w, "\nMedians of all samples:\n\n| cell | target | value | median [min..max] |\n|---|---|---|---|\n")
	r.medians(w)
}

func spread(median, least, most float64) string {
	return fmt.Sprintf("%s [%s..%s]", short(median), short(least), short(most))
}

func short(v float64) string {
	if math.Abs(v) >= 10 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (r report) foreign() []float64 {
	all := []float64{0}
	for _, s := range r.Samples {
		all = append(all, s.Foreign)
	}
	return all
}

// medians prints the absolute figures, which are this machine's alone.
func (r report) medians(w io.Writer) {
	type key struct{ cell, target, value string }
	var order []key
	all := map[key][]float64{}
	for _, s := range r.Samples {
		for _, value := range []string{mbps, cpuGB, p50, p99, perSecond, cpuEach, kibEach} {
			v, ok := s.Values[value]
			k := key{s.Cell, s.Target, value}
			if ok && all[k] == nil {
				order = append(order, k)
			}
			if ok {
				all[k] = append(all[k], v)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b key) int {
		return strings.Compare(a.cell+a.value+a.target, b.cell+b.value+b.target)
	})
	for _, k := range order {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", k.cell, k.target, k.value, spread(median(all[k]), slices.Min(all[k]), slices.Max(all[k])))
	}
}

// save writes the run to a JSON file.
func (r report) save(path string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
