package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Result is the fate of a frame.
type Result uint8

// The fates of a frame. Forwarded: written whole. Dropped: a rule refused it. Lost: the link ended first.
const (
	Forwarded Result = iota
	Dropped
	Lost
)

// FrameCounters count the frames of one peer in one direction. A pump resolves its counters once, when its link
// starts. They are shared by all pumps of the same peer and direction and are safe for concurrent use.
//
// A mutex and not atomics: a pump is nearly always alone with its counters, an uncontended lock costs less than the two
// atomic additions, and only a lock keeps frames and bytes of one moment together in a scrape.
type FrameCounters struct {
	rules, verdicts set
	slots           [256]uint16 // command byte → row of tallies

	mu       sync.Mutex
	tallies  [][4]tally // by row; by Result, the last one for values that are none
	rejected []uint64   // by rule, verdict
}

// tally is what one command with one result amounts to.
type tally struct{ frames, bytes uint64 }

func newFrameCounters(s sets, slots [256]uint16) *FrameCounters {
	return &FrameCounters{
		rules: s.rules, verdicts: s.verdicts, slots: slots,
		tallies:  make([][4]tally, s.commands.size()),
		rejected: make([]uint64, s.rules.size()*s.verdicts.size()),
	}
}

// Add counts frames of one command that met the same fate, with their bytes, headers included. It allocates nothing.
func (f *FrameCounters) Add(result Result, command uint8, frames, bytes uint64) {
	row, column := f.slots[command], min(result, Lost+1)
	f.mu.Lock()
	t := &f.tallies[row][column]
	t.frames += frames
	t.bytes += bytes
	f.mu.Unlock()
}

// Rejected counts a frame that broke a rule, with what was done about it: drop, close, observe, would_drop,
// would_close. It is counted beside Add, not instead of it. It allocates nothing.
func (f *FrameCounters) Rejected(rule, verdict string) {
	i := f.rules.at(rule)*f.verdicts.size() + f.verdicts.at(verdict)
	f.mu.Lock()
	f.rejected[i]++
	f.mu.Unlock()
}

// snapshot appends copies of both tables to the given buffers.
func (f *FrameCounters) snapshot(tallies [][4]tally, rejected []uint64) ([][4]tally, []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(tallies, f.tallies...), append(rejected, f.rejected...)
}

// frames holds the counters of every peer and direction.
type frames struct {
	sets                         sets
	frames, frameBytes, rejected *prometheus.Desc
	counters                     []*FrameCounters // by peer, way
}

func newFrames(s sets, c catalogue, commands []string) *frames {
	f := &frames{sets: s, frames: c.frames.desc(), frameBytes: c.frameBytes.desc(), rejected: c.rejected.desc()}
	f.counters = make([]*FrameCounters, s.peers.size()*s.ways.size())
	slots := commandSlots(s.commands, commands)
	for i := range f.counters {
		f.counters[i] = newFrameCounters(s, slots)
	}
	return f
}

// commandSlots maps every command byte to its row; bytes without a name share the last one.
func commandSlots(set set, commands []string) (slots [256]uint16) {
	for c := range slots {
		row := set.other()
		if c < len(commands) {
			row = set.at(commands[c])
		}
		slots[c] = uint16(row)
	}
	return slots
}

func (f *frames) of(peer, way string) *FrameCounters {
	return f.counters[f.sets.peers.at(peer)*f.sets.ways.size()+f.sets.ways.at(way)]
}

// Describe implements prometheus.Collector.
func (f *frames) Describe(ch chan<- *prometheus.Desc) {
	ch <- f.frames
	ch <- f.frameBytes
	ch <- f.rejected
}

// Collect implements prometheus.Collector. Only combinations that happened are shown: peers × commands × results are
// many, and most of them never happen.
func (f *frames) Collect(ch chan<- prometheus.Metric) {
	var tallies [][4]tally
	var rejected []uint64
	for i, c := range f.counters {
		tallies, rejected = c.snapshot(tallies[:0], rejected[:0])
		peer, way := f.sets.peers.names[i/f.sets.ways.size()], f.sets.ways.names[i%f.sets.ways.size()]
		for row, results := range tallies {
			for r, t := range results {
				if t == (tally{}) {
					continue
				}
				command, result := f.sets.commands.names[row], f.sets.results.names[r]
				ch <- prometheus.MustNewConstMetric(f.frames, prometheus.CounterValue, float64(t.frames), peer, way, command, result)
				ch <- prometheus.MustNewConstMetric(f.frameBytes, prometheus.CounterValue, float64(t.bytes), peer, way, command, result)
			}
		}
		for k, n := range rejected {
			if n != 0 {
				rule, verdict := f.sets.rules.names[k/f.sets.verdicts.size()], f.sets.verdicts.names[k%f.sets.verdicts.size()]
				ch <- prometheus.MustNewConstMetric(f.rejected, prometheus.CounterValue, float64(n), peer, way, rule, verdict)
			}
		}
	}
}
