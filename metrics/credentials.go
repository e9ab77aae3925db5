package metrics

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Certificate is one that is in use: role "leaf", or "ca" for each that peers are verified against.
type Certificate struct {
	Role                string
	NotBefore, NotAfter time.Time
}

// Credential is one that new handshakes use: kind is "secret", "previous_secret", "certificate", "ca" or "crl",
// Generation how often it has changed since the start, Fingerprint what tells it from others and gives nothing away.
type Credential struct {
	Kind        string
	Generation  uint64
	Fingerprint string
}

// credentials are shown as they are at the moment of a scrape, never as they were: a collector of its own and no
// GaugeVec, from which every series would have to be taken away in time.
type credentials struct {
	sets                                    sets
	notAfter, notBefore, peerNotAfter, info *prometheus.Desc
	peers                                   func() map[string]time.Time // nil: none

	mu           sync.Mutex
	certificates []Certificate
	credentials  []Credential
}

func newCredentials(s sets, c catalogue, peers func() map[string]time.Time) *credentials {
	return &credentials{sets: s, notAfter: c.notAfter.desc(), notBefore: c.notBefore.desc(),
		peerNotAfter: c.peerNotAfter.desc(), info: c.credentials.desc(), peers: peers}
}

func (c *credentials) use(certificates []Certificate, all []Credential, change func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := change(); err != nil {
		return err
	}
	c.certificates, c.credentials = slices.Clone(certificates), slices.Clone(all)
	return nil
}

// Describe implements prometheus.Collector.
func (c *credentials) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.notAfter
	ch <- c.notBefore
	ch <- c.peerNotAfter
	ch <- c.info
}

// Collect implements prometheus.Collector.
func (c *credentials) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	certificates, all := c.certificates, c.credentials // never changed, only replaced
	c.mu.Unlock()
	for at, cert := range c.places(certificates) {
		ch <- timestamp(c.notAfter, cert.NotAfter, at[0], at[1])
		ch <- timestamp(c.notBefore, cert.NotBefore, at[0], at[1])
	}
	shown := map[string]bool{}
	for _, each := range all {
		kind := c.sets.credentials.fold(each.Kind)
		if !shown[kind] { // two series with the same kind would be two answers to one question
			shown[kind] = true
			ch <- prometheus.MustNewConstMetric(c.info, prometheus.GaugeValue, 1, kind,
				strconv.FormatUint(each.Generation, 10), strings.ToValidUTF8(each.Fingerprint, "?"))
		}
	}
	if c.peers == nil {
		return
	}
	first := map[string]time.Time{}
	for peer, at := range c.peers() {
		peer = c.sets.peers.fold(peer)
		if before, ok := first[peer]; !ok || at.Before(before) {
			first[peer] = at
		}
	}
	for peer, at := range first {
		ch <- timestamp(c.peerNotAfter, at, peer)
	}
}

// places gives each certificate its role and slot. Those beyond the slots share one, where the first to end counts: an
// alarm is about that one.
func (c *credentials) places(certificates []Certificate) map[[2]string]Certificate {
	at, next := map[[2]string]Certificate{}, map[string]int{}
	for _, cert := range certificates {
		role := c.sets.certificates.fold(cert.Role)
		place := [2]string{role, c.sets.certificateSlots.fold(strconv.Itoa(next[role]))}
		next[role]++
		if there, ok := at[place]; !ok || cert.NotAfter.Before(there.NotAfter) {
			at[place] = cert
		}
	}
	return at
}

// timestamp is a gauge of Unix time. Certificates that never expire name the year 4096 and later; whole seconds hold
// that, a time.Duration would not.
func timestamp(d *prometheus.Desc, at time.Time, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(at.Unix()), labels...)
}
