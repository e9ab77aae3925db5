package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// links accounts for connections. Opened, closed and active change together under mu and are copied together for a
// scrape: that is what makes opened − Σ closed = active exact, which separate counters cannot be.
type links struct {
	sets                  sets
	opened, closed, links *prometheus.Desc

	mu    sync.Mutex
	count linkCounts
}

// linkCounts are flat tables; the methods of links compute the index.
type linkCounts struct {
	opened []uint64      // by peer, direction
	closed []uint64      // by peer, direction, ending
	active []activeLinks // by peer, direction, security
}

// activeLinks is a gauge that stays visible once it was touched, also after it went back to zero.
type activeLinks struct {
	n    int64
	seen bool
}

func newLinks(s sets, c catalogue) *links {
	pairs := s.peers.size() * s.directions.size()
	return &links{
		sets:   s,
		opened: c.opened.desc(), closed: c.closed.desc(), links: c.links.desc(),
		count: linkCounts{
			opened: make([]uint64, pairs),
			closed: make([]uint64, pairs*s.endings.size()),
			active: make([]activeLinks, pairs*s.securities.size()),
		},
	}
}

func (l *links) pair(peer, direction string) int {
	return l.sets.peers.at(peer)*l.sets.directions.size() + l.sets.directions.at(direction)
}

func (l *links) open(peer, direction, security string) {
	p := l.pair(peer, direction)
	a := p*l.sets.securities.size() + l.sets.securities.at(security)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.opened[p]++
	l.count.active[a] = activeLinks{l.count.active[a].n + 1, true}
}

func (l *links) close(peer, direction, security, ending string) {
	p := l.pair(peer, direction)
	a := p*l.sets.securities.size() + l.sets.securities.at(security)
	c := p*l.sets.endings.size() + l.sets.endings.at(ending)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.closed[c]++
	l.count.active[a] = activeLinks{l.count.active[a].n - 1, true}
}

func (l *links) refuse(direction, ending string) {
	p := l.pair(PeerUnknown, direction)
	c := p*l.sets.endings.size() + l.sets.endings.at(ending)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count.opened[p]++
	l.count.closed[c]++
}

// snapshot copies the tables, so that a slow scrape never holds up a link.
func (l *links) snapshot() linkCounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return linkCounts{
		opened: slices.Clone(l.count.opened),
		closed: slices.Clone(l.count.closed),
		active: slices.Clone(l.count.active),
	}
}

// Describe implements prometheus.Collector.
func (l *links) Describe(ch chan<- *prometheus.Desc) {
	ch <- l.opened
	ch <- l.closed
	ch <- l.links
}

// Collect implements prometheus.Collector. Opened and active of known peers are shown from the start, for a gate that
// never saw its peer must show a zero and not nothing. Endings are many and appear when they first happen.
func (l *links) Collect(ch chan<- prometheus.Metric) {
	now, s := l.snapshot(), l.sets
	for p, opened := range now.opened {
		i, j := p/s.directions.size(), p%s.directions.size()
		peer, direction := s.peers.names[i], s.directions.names[j]
		named := i != s.peers.other() && j != s.directions.other()
		if opened != 0 || named {
			ch <- prometheus.MustNewConstMetric(l.opened, prometheus.CounterValue, float64(opened), peer, direction)
		}
		for k, security := range s.securities.names {
			active := now.active[p*s.securities.size()+k]
			if active.seen || (named && peer != PeerUnknown && k != s.securities.other()) {
				ch <- prometheus.MustNewConstMetric(l.links, prometheus.GaugeValue, float64(active.n), peer, direction, security)
			}
		}
		for k, ending := range s.endings.names {
			if n := now.closed[p*s.endings.size()+k]; n != 0 {
				ch <- prometheus.MustNewConstMetric(l.closed, prometheus.CounterValue, float64(n), peer, direction, ending)
			}
		}
	}
}
