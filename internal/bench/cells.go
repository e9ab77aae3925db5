//go:build linux

package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sample is what one visit of a cell to a target has found.
type sample struct {
	Cell    string             `json:"cell"`
	Target  string             `json:"target"`
	Round   int                `json:"round"`
	Values  map[string]float64 `json:"values"`
	Foreign float64            `json:"foreign"` // cores that the rest of the machine took
	// Passed is how many of the two bad frames around a burst reached the sink.
	Passed uint64 `json:"bad_frames_passed"`
	// Controls are the congestion controls of all open sockets after a burst.
	Controls []string `json:"congestion_controls,omitempty"`
	Err      string   `json:"error,omitempty"`
}

// The values of samples.
const (
	mbps      = "MB/s"
	cpuGB     = "CPU s/GB"
	p50       = "p50 µs"
	p99       = "p99 µs"
	perSecond = "per s"
	cpuEach   = "CPU ms each"
	kibEach   = "KiB each"
)

// throughput is a cell of bursts.
type throughput struct {
	size    int
	batched bool // 256 KiB a write; else a frame a write
	body    body
	burst   time.Duration
}

func (c throughput) name() string {
	how := "one frame a write"
	if c.batched {
		how = "256 KiB a write"
	}
	if c.body == sealed {
		how += ", bodies sealed"
	}
	return fmt.Sprintf("%s frames, %s", bytesText(c.size), how)
}

func bytesText(n int) string {
	if n >= 1<<10 && n%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// measure warms the way up, finds out how much fits into a burst, and measures one.
func (c throughput) measure(t *target, s *sample) error {
	src, err := newSource(t.entry)
	if err != nil {
		return err
	}
	defer src.close()
	load := train(c.size, c.body)
	chunk := c.size
	if c.batched {
		chunk = 256 << 10
	}
	frames, trains := trainFrames(c.size), max(1, (16<<20)/len(load))
	if !c.batched && c.size <= 1<<10 {
		trains = max(1, trains/4)
	}
	took, _, err := src.burst(load, frames, trains, chunk)
	if err != nil {
		return err
	}
	trains = max(1, int(float64(trains)*c.burst.Seconds()/took.Seconds()))
	before := cpu(t.pids())
	if took, s.Passed, err = src.burst(load, frames, trains, chunk); err != nil {
		return err
	}
	used, bytes := cpu(t.pids())-before, float64(trains*len(load))
	s.Values = map[string]float64{mbps: bytes / 1e6 / took.Seconds(), cpuGB: used.Seconds() / (bytes / 1e9)}
	s.Controls, err = congestion()
	return err
}

// latency is a cell of ping-pongs of 256 B.
type latency struct{ pings int }

func (latency) name() string { return "256 B there and back, one processor" }

func (c latency) measure(t *target, s *sample) error {
	src, err := newSource(t.entry)
	if err != nil {
		return err
	}
	defer src.close()
	if err := src.say(asking(groupBegin, src.pair)); err != nil {
		return err
	}
	times := make([]time.Duration, 0, c.pings)
	for i := range c.pings + c.pings/4 {
		began := time.Now()
		if err := src.ping(); err != nil {
			return err
		}
		if i >= c.pings/4 {
			times = append(times, time.Since(began))
		}
	}
	slices.Sort(times)
	at := func(part float64) float64 { return float64(times[int(part*float64(len(times)))].Nanoseconds()) / 1e3 }
	s.Values = map[string]float64{p50: at(.50), p99: at(.99)}
	return nil
}

// handshakes is a cell of connections: TLS, for a gate the MAC handshake too, one
// small frame there and back, end.
type handshakes struct {
	workers int
	lasts   time.Duration
}

func (handshakes) name() string { return "connections with a full handshake" }

func (c handshakes) measure(t *target, s *sample) error {
	var done atomic.Int64
	failed := make([]error, c.workers)
	load := func(until time.Time) {
		var workers sync.WaitGroup
		for i := range c.workers {
			workers.Go(func() {
				for failed[i] == nil && time.Now().Before(until) {
					failed[i] = visit(t.entry, uint8(i))
					done.Add(1)
				}
			})
		}
		workers.Wait()
	}
	load(time.Now().Add(c.lasts / 4))
	done.Store(0)
	began, before := time.Now(), cpu(t.pids())
	load(began.Add(c.lasts))
	for _, err := range failed {
		if err != nil {
			return err // of many alike
		}
	}
	n := float64(done.Load())
	s.Values = map[string]float64{perSecond: n / time.Since(began).Seconds(), cpuEach: (cpu(t.pids()) - before).Seconds() * 1e3 / n}
	return nil
}

// visit is one connection of replica id, from its dial to its end.
func visit(e entry, id uint8) error {
	c, err := e.open(id)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.ping(); err != nil {
		return err
	}
	c.conn.TCP.CloseWrite()
	// A gate lets the peer's next connection in when this one has ended.
	for b := make([]byte, 256); err == nil; {
		_, err = c.conn.Read(b)
	}
	return nil
}

// idle is a cell of connections that have said one small frame and rest. A gate
// has one link per peer, so there are fewer of them than a proxy could take.
type idle struct{ links int }

func (idle) name() string { return "idle links" }

func (c idle) measure(t *target, s *sample) error {
	if err := visit(t.entry, 0); err != nil { // what the first connection costs once
		return err
	}
	before := memory(t.pids())
	links, err := openAll(t.entry, c.links)
	defer func() {
		for _, l := range links {
			l.close()
		}
	}()
	if err != nil {
		return err
	}
	time.Sleep(3 * time.Second) // whoever gives memory back later than that keeps it
	s.Values = map[string]float64{kibEach: float64(memory(t.pids())-before) / 1024 / float64(c.links)}
	return nil
}

// openAll opens links of the replicas from 0 on, a few at a time: a gate waits a
// moment for each, to see whether its replica keeps it.
func openAll(e entry, n int) (links []*source, err error) {
	const together = 16
	var mu sync.Mutex
	var workers sync.WaitGroup
	for first := range together {
		workers.Go(func() {
			for id := first; id < n; id += together {
				link, failed := e.open(uint8(id))
				if failed == nil {
					failed = link.ping()
				}
				mu.Lock()
				if link != nil {
					links = append(links, link)
				}
				if failed != nil {
					err = fmt.Errorf("link %d: %w", id, failed)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return links, err
}
