package metrics

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry holds all series of one gate. It is built once, lives as long as the process and is safe for concurrent use.
type Registry struct {
	sets      sets
	catalogue catalogue
	gatherer  *prometheus.Registry

	links  *links
	frames *frames

	handshakes       *prometheus.CounterVec
	handshakeSeconds *prometheus.HistogramVec
	inflight         prometheus.Gauge
	proofs           *prometheus.CounterVec
	plaintext        *prometheus.CounterVec
	reloads          *prometheus.CounterVec
	credentials      *credentials
	blocked          atomic.Int64 // nanoseconds
}

// New builds every series. Those of known peers that are few start at zero: a rate needs a first value to grow from.
func New(l Labels) *Registry {
	l.Commands = l.Commands[:min(len(l.Commands), 256)]
	s := newSets(l)
	c := newCatalogue(s)
	r := &Registry{
		sets: s, catalogue: c, gatherer: prometheus.NewRegistry(),
		links: newLinks(s, c), frames: newFrames(s, c, l.Commands),
		handshakes: prometheus.NewCounterVec(c.handshakes.counterOpts(), c.handshakes.labels()),
		handshakeSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: c.handshakeSeconds.name, Help: c.handshakeSeconds.help,
			// From a MAC on loopback to the handshake's own time limit of ten seconds.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, c.handshakeSeconds.labels()),
		inflight:    prometheus.NewGauge(c.inflight.gaugeOpts()),
		proofs:      prometheus.NewCounterVec(c.proofs.counterOpts(), c.proofs.labels()),
		plaintext:   prometheus.NewCounterVec(c.plaintext.counterOpts(), c.plaintext.labels()),
		reloads:     prometheus.NewCounterVec(c.reloads.counterOpts(), c.reloads.labels()),
		credentials: newCredentials(s, c, l.PeerCertificates),
	}
	r.register(l)
	r.start()
	return r
}

func (r *Registry) register(l Labels) {
	info := prometheus.NewGaugeVec(r.catalogue.buildInfo.gaugeOpts(), r.catalogue.buildInfo.labels())
	info.WithLabelValues(strings.ToValidUTF8(l.Version, "?"), strings.ToValidUTF8(l.GoVersion, "?")).Set(1)
	buffered := func() float64 {
		if l.BufferedBytes == nil {
			return 0
		}
		return float64(l.BufferedBytes())
	}
	r.gatherer.MustRegister(
		r.links, r.frames, r.handshakes, r.handshakeSeconds, r.inflight, r.proofs, r.plaintext, r.reloads, r.credentials, info,
		prometheus.NewGaugeFunc(r.catalogue.bufferedBytes.gaugeOpts(), buffered),
		prometheus.NewCounterFunc(r.catalogue.blockedSeconds.counterOpts(), func() float64 {
			return time.Duration(r.blocked.Load()).Seconds()
		}),
		yes(r.catalogue.strictReady, l.StrictReady), yes(r.catalogue.degraded, l.WatchDegraded),
		prometheus.NewGaugeFunc(r.catalogue.clock.gaugeOpts(), func() float64 { return float64(time.Now().UnixMilli()) / 1000 }),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
}

// yes is a gauge of 1 where the answer is yes.
func yes(e entry, ask func() bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(e.gaugeOpts(), func() float64 {
		if ask != nil && ask() {
			return 1
		}
		return 0
	})
}

// start shows the small sets at zero. Certificates are not among them: a zero there reads as expired in 1970.
func (r *Registry) start() {
	for _, peer := range r.sets.peers.names {
		if peer == PeerUnknown || peer == Other {
			continue
		}
		r.plaintext.WithLabelValues(peer)
		for _, slot := range r.sets.slots.names[:r.sets.slots.other()] {
			r.proofs.WithLabelValues(peer, slot)
		}
	}
	for _, kind := range r.sets.reloadKinds.names[:r.sets.reloadKinds.other()] {
		r.reloads.WithLabelValues(kind, ResultOK)
	}
	for _, role := range r.sets.roles.names[:r.sets.roles.other()] {
		r.handshakes.WithLabelValues(role, ResultOK)
		r.handshakeSeconds.WithLabelValues(role)
	}
}

// Handler serves the series in the text format of Prometheus. A collector that fails costs its own series, not the
// scrape.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.gatherer, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// List describes the gate's own families in the order of their names. Those of the Go runtime and of the process are
// not in it.
func (r *Registry) List() []Family {
	var out []Family
	for _, e := range r.catalogue.entries() {
		out = append(out, Family{Name: e.name, Type: e.kind, Help: e.help, Labels: e.labels(), Bound: e.bound()})
	}
	return out
}
