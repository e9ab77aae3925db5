package metrics

import "time"

// LinkOpened counts a connection that was proven: peer is who it turned out to be, direction "ingress" or "egress",
// security that of the far leg. Each call is to be matched by one LinkClosed with the same three values.
func (r *Registry) LinkOpened(peer, direction, security string) {
	r.links.open(peer, direction, security)
}

// LinkClosed counts the end of a link, with the one reason it had.
func (r *Registry) LinkClosed(peer, direction, security, ending string) {
	r.links.close(peer, direction, security, ending)
}

// Refused counts a connection that ended before it was proven. It was never active: opened and closed of the peer
// "unknown" grow together.
func (r *Registry) Refused(direction, ending string) {
	r.links.refuse(direction, ending)
}

// Frames returns the counters for frames of one peer that travel "in", toward the local replica, or "out". A pump asks
// once, when its link starts.
func (r *Registry) Frames(peer, way string) *FrameCounters {
	return r.frames.of(peer, way)
}

// Handshake counts a handshake that finished: role is ours, "acceptor" or "dialer", result is ResultOK or an ending.
// Only a success has its time taken; the time of a failure is mostly a timeout of our own.
func (r *Registry) Handshake(role, result string, took time.Duration) {
	role, result = r.sets.roles.fold(role), r.sets.handshakeResults.fold(result)
	r.handshakes.WithLabelValues(role, result).Inc()
	if result == ResultOK {
		r.handshakeSeconds.WithLabelValues(role).Observe(max(took, 0).Seconds())
	}
}

// Unauthenticated changes the number of accepted connections that have not proven themselves: +1 at accept, -1 when
// the connection is proven or ends.
func (r *Registry) Unauthenticated(delta int) {
	r.inflight.Add(float64(delta))
}

// SecretProof counts a peer whose MAC was verified, with the secret that did it: "current" or "previous". Nobody uses
// the previous one any more when its counter stands still.
func (r *Registry) SecretProof(peer, slot string) {
	r.proofs.WithLabelValues(r.sets.peers.fold(peer), r.sets.slots.fold(slot)).Inc()
}

// PlaintextLink counts a link whose far leg is plaintext.
func (r *Registry) PlaintextLink(peer string) {
	r.plaintext.WithLabelValues(r.sets.peers.fold(peer)).Inc()
}

// Reload counts what became of reading changed files, "secret" or "certificate", or the whole configuration, "config":
// ResultOK, or one word for what was wrong.
func (r *Registry) Reload(kind, result string) {
	r.reloads.WithLabelValues(r.sets.reloadKinds.fold(kind), r.sets.reloadResults.fold(result)).Inc()
}

// Credentials shows what new handshakes use from now on. What is not in it is gone from the next scrape: a certificate
// that is no longer in use must not keep an alarm up. The slices are not kept. change is what puts them in use, or
// fails and leaves all as it was: a scrape meanwhile waits, so that none shows what handshakes no longer get.
func (r *Registry) Credentials(certificates []Certificate, credentials []Credential, change func() error) error {
	return r.credentials.use(certificates, credentials, change)
}

// WriteBlocked adds time that a pump waited for a reader to take bytes. It allocates nothing. A clock that ran
// backwards adds nothing, for a counter must not fall.
func (r *Registry) WriteBlocked(d time.Duration) {
	if d > 0 {
		r.blocked.Add(int64(d))
	}
}
