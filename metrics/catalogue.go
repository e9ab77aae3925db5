package metrics

import "github.com/prometheus/client_golang/prometheus"

// Family describes one metric of the gate, for people who read a list of them.
type Family struct {
	Name   string
	Type   string // counter, gauge or histogram
	Help   string
	Labels []string
	// Bound is the largest number of label combinations that can ever be shown, whatever peers do.
	Bound int
}

// dim is one label of a family with the closed set of its values.
type dim struct {
	label  string
	values set
}

// entry is one line of the catalogue.
type entry struct {
	name, kind, help string
	dims             []dim
}

func (e entry) labels() []string {
	names := make([]string, len(e.dims))
	for i, d := range e.dims {
		names[i] = d.label
	}
	return names
}

func (e entry) bound() int {
	n := 1
	for _, d := range e.dims {
		n *= d.values.size()
	}
	return n
}

func (e entry) desc() *prometheus.Desc {
	return prometheus.NewDesc(e.name, e.help, e.labels(), nil)
}

func (e entry) counterOpts() prometheus.CounterOpts {
	return prometheus.CounterOpts{Name: e.name, Help: e.help}
}

func (e entry) gaugeOpts() prometheus.GaugeOpts {
	return prometheus.GaugeOpts{Name: e.name, Help: e.help}
}

// catalogue holds every family once: what is registered and what is listed come from the same lines.
type catalogue struct {
	links, opened, closed                    entry
	frames, frameBytes, rejected             entry
	handshakes, handshakeSeconds, inflight   entry
	proofs, plaintext, strictReady           entry
	notAfter, notBefore, peerNotAfter, clock entry
	credentials, reloads, degraded           entry
	buildInfo, bufferedBytes, blockedSeconds entry
}

func newCatalogue(s sets) catalogue {
	one := func(v string) set { return set{names: []string{v}} }
	peer, direction := dim{"peer", s.peers}, dim{"direction", s.directions}
	frame := []dim{peer, {"direction", s.ways}, {"command", s.commands}, {"result", s.results}}
	role := dim{"role", s.roles}
	certificate := []dim{{"role", s.certificates}, {"slot", s.certificateSlots}}
	return catalogue{
		links: entry{"replgate_links", "gauge", "Links that are up, by the security of their far leg.",
			[]dim{peer, direction, {"security", s.securities}}},
		opened: entry{"replgate_links_opened_total", "counter",
			"Connections opened; peer is unknown for those that ended before they were proven.", []dim{peer, direction}},
		closed: entry{"replgate_links_closed_total", "counter", "Connections ended, by their one reason.",
			[]dim{peer, direction, {"reason", s.endings}}},
		frames: entry{"replgate_frames_total", "counter",
			"Frames, each counted once when its fate was known.", frame},
		frameBytes: entry{"replgate_frame_bytes_total", "counter",
			"Bytes of the frames counted by replgate_frames_total.", frame},
		rejected: entry{"replgate_frames_rejected_total", "counter", "Frames that broke a rule, by what was done about it.",
			[]dim{peer, {"direction", s.ways}, {"rule", s.rules}, {"verdict", s.verdicts}}},
		handshakes: entry{"replgate_handshakes_total", "counter", "Handshakes finished, ok or with their ending.",
			[]dim{role, {"result", s.handshakeResults}}},
		handshakeSeconds: entry{"replgate_handshake_seconds", "histogram",
			"Time that successful handshakes took.", []dim{role}},
		inflight: entry{"replgate_unauthenticated_inflight", "gauge",
			"Accepted connections that have not proven themselves yet.", nil},
		proofs: entry{"replgate_secret_proofs_total", "counter", "Proofs of a peer, by the secret that verified them.",
			[]dim{peer, {"slot", s.slots}}},
		plaintext: entry{"replgate_plaintext_links_total", "counter", "Links whose far leg was plaintext.", []dim{peer}},
		strictReady: entry{"replgate_strict_ready", "gauge",
			"1 when the switch from permissive to strict would cut nobody.", nil},
		notAfter: entry{"replgate_cert_not_after_timestamp_seconds", "gauge",
			"End of validity of the certificates in use, as Unix time; slot counts those of one file.", certificate},
		notBefore: entry{"replgate_cert_not_before_timestamp_seconds", "gauge",
			"Begin of validity of the certificates in use, as Unix time; slot counts those of one file.", certificate},
		peerNotAfter: entry{"replgate_peer_cert_not_after_timestamp_seconds", "gauge",
			"End of validity of the certificate that a peer's link was made with, as Unix time.", []dim{peer}},
		clock: entry{"replgate_clock_timestamp_seconds", "gauge", "This host's clock, as Unix time.", nil},
		credentials: entry{"replgate_credential_info", "gauge",
			"Always 1; what new handshakes use. Of a secret sha256_8 is a keyed fingerprint.",
			[]dim{{"kind", s.credentials}, {"generation", one("generation")}, {"sha256_8", one("sha256_8")}}},
		reloads: entry{"replgate_reload_total", "counter",
			"Readings of changed files and of the configuration, ok or with what was wrong.",
			[]dim{{"kind", s.reloadKinds}, {"result", s.reloadResults}}},
		degraded: entry{"replgate_reload_watch_degraded", "gauge",
			"1 when changes are found by reading every reload.interval alone.", nil},
		buildInfo: entry{"replgate_build_info", "gauge", "Always 1; the labels say what is running.",
			[]dim{{"version", one("version")}, {"go_version", one("go_version")}}},
		bufferedBytes: entry{"replgate_buffered_bytes", "gauge", "Bytes of frames held in memory.", nil},
		blockedSeconds: entry{"replgate_write_blocked_seconds_total", "counter",
			"Time that pumps spent waiting for a reader to take bytes.", nil},
	}
}

// entries lists the families in the order of their names.
func (c catalogue) entries() []entry {
	return []entry{
		c.bufferedBytes, c.buildInfo, c.notAfter, c.notBefore, c.clock, c.credentials, c.frameBytes, c.rejected, c.frames,
		c.handshakeSeconds, c.handshakes, c.links, c.closed, c.opened, c.peerNotAfter, c.plaintext, c.reloads, c.degraded,
		c.proofs, c.strictReady, c.inflight, c.blockedSeconds,
	}
}
