//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/wire"
)

// pulse is an honest link under whatever else a test does: both ends say a Commit
// with a rising token every beat and hold what they hear against it.
type pulse struct {
	t       *testing.T
	conns   [2]*replica.Conn // far, near
	sent    [2]atomic.Uint64
	heard   [2]atomic.Uint64
	stop    chan struct{}
	work    sync.WaitGroup
	hearing sync.WaitGroup

	mu     sync.Mutex
	worst  time.Duration
	faults []string
}

const (
	beat     = 50 * time.Millisecond
	pulseGap = 3 * time.Second // the longest silence that an honest link may have: below 4 s no replica acts, and the machine is shared
)

// beatOn starts a pulse on a link; ids are who speaks at its far and near end.
func beatOn(t *testing.T, b bond, farID, nearID uint8) *pulse {
	p := &pulse{t: t, conns: [2]*replica.Conn{b.far, b.near}, stop: make(chan struct{})}
	for i, id := range []uint8{farID, nearID} {
		p.work.Go(func() { p.speak(i, id) })
		p.hearing.Go(func() { p.listen(i) })
	}
	return p
}

func (p *pulse) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

func (p *pulse) speak(i int, id uint8) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for token := uint64(1); ; token++ {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
		}
		if _, err := p.conns[i].Write(commit(id, token)); err != nil {
			p.fault("saying Commit %d: %v", token, err)
			return
		}
		p.sent[i].Store(token)
	}
}

func (p *pulse) listen(i int) {
	last, began := uint64(0), time.Now()
	for {
		frame, err := p.conns[i].ReadFrame(1 << 20)
		select {
		case <-p.stop:
			if err != nil {
				return
			}
		default:
		}
		if err != nil {
			p.fault("after Commit %d: %v", last, err)
			return
		}
		gap := time.Since(began)
		began = time.Now()
		p.mu.Lock()
		p.worst = max(p.worst, gap)
		p.mu.Unlock()
		token := wire.CommitToken.Get((*wire.Header)(frame))
		if token != last+1 {
			p.fault("got Commit %d after %d, want every one in its order", token, last)
		}
		if gap > pulseGap {
			p.fault("got Commit %d after %v of silence, want at most %v", token, gap, pulseGap)
		}
		last = token
		p.heard[1-i].Store(token)
	}
}

// end stops the pulse; every frame that was said must have been heard, in order
// and without a gap. It returns how many there were.
func (p *pulse) end() (frames uint64) {
	p.t.Helper()
	close(p.stop)
	p.work.Wait()
	deadline := time.Now().Add(pulseGap)
	for p.heard[0].Load()+p.heard[1].Load() < p.sent[0].Load()+p.sent[1].Load() && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // real time: another process is watched
	}
	for _, c := range p.conns {
		c.SetReadDeadline(time.Now())
	}
	p.hearing.Wait()
	for i, from := range []string{"far", "near"} {
		if s, h := p.sent[i].Load(), p.heard[i].Load(); s != h || s == 0 {
			p.t.Errorf("the honest link: got %d frames of %d said at its %s end, want all", h, s, from)
		}
	}
	for _, f := range p.faults {
		p.t.Errorf("the honest link: %s", f)
	}
	p.t.Logf("the honest link: %d and %d frames, the longest gap was %v", p.sent[0].Load(), p.sent[1].Load(), p.worst)
	for _, c := range p.conns {
		c.SetDeadline(time.Time{})
	}
	return p.sent[0].Load() + p.sent[1].Load()
}

// scraper reads a gate's metrics over and over and holds every reading against
// what must be true at every moment. It remembers every reason it has seen.
type scraper struct {
	t       *testing.T
	address string
	peers   int
	stop    chan struct{}
	done    chan struct{}
	reasons map[string]float64
	count   int
}

func watchMetrics(t *testing.T, address string, replicas int) *scraper {
	w := &scraper{t: t, address: address, peers: replicas, stop: make(chan struct{}), done: make(chan struct{}), reasons: map[string]float64{}}
	go w.run()
	return w
}

func (w *scraper) run() {
	defer close(w.done)
	for last := false; !last; {
		select {
		case <-w.stop:
			last = true // and one more scrape, for what has just ended
		case <-time.After(10 * time.Millisecond):
		}
		samples, err := lab.Scrape(w.address)
		if err != nil {
			return // the gate has ended
		}
		w.count++
		for _, wrong := range linkBalance(samples, w.peers) {
			w.t.Errorf("scrape %d: %s", w.count, wrong)
		}
		for reason, n := range samples.Label("replgate_links_closed_total", "reason") {
			if n > 0 {
				w.reasons[reason] = n
			}
		}
	}
}

// end returns the reasons that were seen, with the last count of each.
func (w *scraper) end() map[string]float64 {
	close(w.stop)
	<-w.done
	w.t.Logf("%d scrapes, in all of them opened − closed = links", w.count)
	return w.reasons
}

// linkBalance holds, per peer and direction, what was opened against what was
// closed and what is open.
func linkBalance(samples lab.Samples, replicas int) (wrong []string) {
	peers := []string{"unknown"}
	for i := range replicas {
		peers = append(peers, fmt.Sprint(i))
	}
	for _, peer := range peers {
		for _, direction := range []string{"ingress", "egress"} {
			labels := []string{`peer="` + peer + `"`, `direction="` + direction + `"`}
			opened := samples.Sum("replgate_links_opened_total", labels...)
			closed := samples.Sum("replgate_links_closed_total", labels...)
			links := samples.Sum("replgate_links", labels...)
			if opened-closed != links {
				wrong = append(wrong, fmt.Sprintf("peer %s, %s: got %v opened − %v closed = %v, want the %v links that there are",
					peer, direction, opened, closed, opened-closed, links))
			}
		}
	}
	return wrong
}

// loggedEndings are the endings in the lines of a log, with how often each was
// told.
func loggedEndings(g *lab.Gate) map[string]int {
	seen := map[string]int{}
	for line := range strings.Lines(g.Log()) {
		var record struct{ Ending string }
		if json.Unmarshal([]byte(line), &record) == nil && record.Ending != "" {
			seen[record.Ending]++
		}
	}
	return seen
}

// logLines are the records of a log whose field has a value.
func logLines(g *lab.Gate, field, value string) (lines []map[string]any) {
	for line := range strings.Lines(g.Log()) {
		var record map[string]any
		if json.Unmarshal([]byte(line), &record) == nil && record[field] == value {
			lines = append(lines, record)
		}
	}
	return lines
}

// How the other end of a connection ended.
const (
	byFIN   = "FIN"
	byReset = "RST"
	byTime  = "nothing in time"
)

// endOf waits for the end of a connection and says what it was, after how many
// bytes and how long.
func endOf(c *replica.Conn, within time.Duration) (how string, read int64, took time.Duration) {
	began := time.Now()
	c.TCP.SetReadDeadline(began.Add(within))
	read, err := io.Copy(io.Discard, c)
	took = time.Since(began)
	timeout, isNet := err.(net.Error)
	switch {
	case err == nil:
		return byFIN, read, took
	case isNet && timeout.Timeout():
		return byTime, read, took
	}
	return byReset, read, took
}
