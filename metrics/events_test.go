package metrics

import (
	"strings"
	"testing"
	"time"
)

func TestEvents(t *testing.T) {
	l := testLabels()
	buffered := int64(7)
	l.BufferedBytes = func() int64 { return buffered }
	r := New(l)
	r.Handshake("acceptor", ResultOK, 20*time.Millisecond)
	r.Handshake("acceptor", "mac_mismatch", time.Hour)
	r.Handshake("dialer", ResultOK, -time.Second)
	r.Unauthenticated(3)
	r.Unauthenticated(-1)
	r.SecretProof("2", "previous")
	r.PlaintextLink("0")
	r.Reload("certificate", "mismatch")
	r.Reload("certificate", ResultOK)
	r.WriteBlocked(1500 * time.Millisecond)
	r.WriteBlocked(-time.Hour)
	buffered = 99
	_, s := scrape(t, r)
	expect(t, s, 1, "replgate_handshakes_total", "role", "acceptor", "result", "ok")
	expect(t, s, 1, "replgate_handshakes_total", "role", "acceptor", "result", "mac_mismatch")
	// The failed hour is not in the histogram.
	expect(t, s, 1, "replgate_handshake_seconds_count", "role", "acceptor")
	expect(t, s, 0, "replgate_handshake_seconds_bucket", "role", "acceptor", "le", "0.01")
	expect(t, s, 1, "replgate_handshake_seconds_bucket", "role", "acceptor", "le", "0.025")
	expect(t, s, 0, "replgate_handshake_seconds_sum", "role", "dialer")
	expect(t, s, 2, "replgate_unauthenticated_inflight")
	expect(t, s, 1, "replgate_secret_proofs_total", "peer", "2", "slot", "previous")
	expect(t, s, 0, "replgate_secret_proofs_total", "peer", "0", "slot", "current")
	expect(t, s, 1, "replgate_plaintext_links_total", "peer", "0")
	expect(t, s, 1, "replgate_reload_total", "kind", "certificate", "result", "mismatch")
	expect(t, s, 1, "replgate_reload_total", "kind", "certificate", "result", "ok")
	expect(t, s, 0, "replgate_reload_total", "kind", "secret", "result", "ok")
	expect(t, s, 1.5, "replgate_write_blocked_seconds_total")
	expect(t, s, 99, "replgate_buffered_bytes")
	expect(t, s, 1, "replgate_build_info", "version", "v1", "go_version", "go1.26")
}

// The runtime's own series are part of every scrape.
func TestGoAndProcess(t *testing.T) {
	body, _ := scrape(t, New(Labels{}))
	for _, name := range []string{"go_goroutines ", "process_cpu_seconds_total "} {
		if !strings.Contains(body, "\n"+name) {
			t.Errorf("scrape has no %s", name)
		}
	}
}

// Two gates in one process, as in tests and in the lab, share nothing.
func TestRegistriesAreApart(t *testing.T) {
	a, b := New(testLabels()), New(testLabels())
	a.PlaintextLink("0")
	_, s := scrape(t, b)
	expect(t, s, 0, "replgate_plaintext_links_total", "peer", "0")
	expect(t, s, 0, "replgate_handshakes_total", "role", "dialer", "result", "ok")
	expect(t, s, 0, "replgate_handshake_seconds_count", "role", "dialer")
}
