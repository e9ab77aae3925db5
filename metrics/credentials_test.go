package metrics

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// done is a change that succeeds.
func done() error { return nil }

// T45: what is replaced is gone at the next scrape, and dates far away are exact.
func TestCertificates(t *testing.T) {
	r := New(testLabels())
	_, s := scrape(t, r)
	absent(t, s, "replgate_cert_not_after_timestamp_seconds", "role", "leaf", "slot", "0")

	far := time.Date(4096, 1, 1, 0, 0, 0, 0, time.UTC)
	old := far.AddDate(5000, 0, 0)
	r.Credentials([]Certificate{{"leaf", time.Unix(7, 0), far}, {"ca", time.Unix(8, 0), old}, {"ca", time.Unix(9, 0), far}}, nil, done)
	_, s = scrape(t, r)
	expect(t, s, 67090118400, "replgate_cert_not_after_timestamp_seconds", "role", "leaf", "slot", "0")
	expect(t, s, 7, "replgate_cert_not_before_timestamp_seconds", "role", "leaf", "slot", "0")
	expect(t, s, float64(old.Unix()), "replgate_cert_not_after_timestamp_seconds", "role", "ca", "slot", "0")
	expect(t, s, 67090118400, "replgate_cert_not_after_timestamp_seconds", "role", "ca", "slot", "1")
	expect(t, s, 9, "replgate_cert_not_before_timestamp_seconds", "role", "ca", "slot", "1")

	r.Credentials([]Certificate{{"leaf", time.Unix(7, 0), far}, {"ca", time.Unix(9, 0), far}}, nil, done)
	_, s = scrape(t, r)
	expect(t, s, 9, "replgate_cert_not_before_timestamp_seconds", "role", "ca", "slot", "0")
	absent(t, s, "replgate_cert_not_after_timestamp_seconds", "role", "ca", "slot", "1")
	r.Credentials(nil, nil, done)
	_, s = scrape(t, r)
	absent(t, s, "replgate_cert_not_after_timestamp_seconds", "role", "leaf", "slot", "0")
}

// Authorities beyond the slots share the last one, where the first to end shows.
func TestManyCertificates(t *testing.T) {
	r := New(testLabels())
	var all []Certificate
	for i := range certificateSlots + 3 {
		all = append(all, Certificate{Role: "ca", NotAfter: time.Unix(int64(1000-i), 0)})
	}
	r.Credentials(all, nil, done)
	_, s := scrape(t, r)
	expect(t, s, 1000-15, "replgate_cert_not_after_timestamp_seconds", "role", "ca", "slot", "15")
	expect(t, s, 1000-18, "replgate_cert_not_after_timestamp_seconds", "role", "ca", "slot", "other")
}

// T8: a credential that is replaced has one series, with its new generation.
func TestCredentialInfo(t *testing.T) {
	r := New(testLabels())
	r.Credentials(nil, []Credential{{"secret", 1, "aa"}, {"certificate", 1, "bb"}, {"strange", 1, "cc"}, {"stranger", 2, "dd"}}, done)
	_, s := scrape(t, r)
	expect(t, s, 1, "replgate_credential_info", "kind", "secret", "generation", "1", "sha256_8", "aa")
	expect(t, s, 1, "replgate_credential_info", "kind", "certificate", "generation", "1", "sha256_8", "bb")
	expect(t, s, 1, "replgate_credential_info", "kind", "other", "generation", "1", "sha256_8", "cc")
	r.Credentials(nil, []Credential{{"secret", 2, "ee"}, {"certificate", 1, "bb"}}, done)
	_, s = scrape(t, r)
	expect(t, s, 1, "replgate_credential_info", "kind", "secret", "generation", "2", "sha256_8", "ee")
	absent(t, s, "replgate_credential_info", "kind", "secret", "generation", "1", "sha256_8", "aa")
	expect(t, s, 1, "replgate_credential_info", "kind", "certificate", "generation", "1", "sha256_8", "bb")
}

// T47, and what else is asked at a scrape: answers of this moment.
func TestAskedAtAScrape(t *testing.T) {
	ready, degraded, ends := false, true, map[string]time.Time{"0": time.Unix(50, 0)}
	l := testLabels()
	l.StrictReady, l.WatchDegraded = func() bool { return ready }, func() bool { return degraded }
	l.PeerCertificates = func() map[string]time.Time { return ends }
	r := New(l)
	_, s := scrape(t, r)
	expect(t, s, 0, "replgate_strict_ready")
	expect(t, s, 1, "replgate_reload_watch_degraded")
	expect(t, s, 50, "replgate_peer_cert_not_after_timestamp_seconds", "peer", "0")
	absent(t, s, "replgate_peer_cert_not_after_timestamp_seconds", "peer", "2")
	if clock, _ := find(s, "replgate_clock_timestamp_seconds"); time.Since(time.UnixMilli(int64(clock*1000))).Abs() > time.Minute {
		t.Errorf("got the clock %v, want now", clock)
	}

	ready, degraded, ends = true, false, map[string]time.Time{"2": time.Unix(60, 0)}
	for i := range 1000 {
		ends[fmt.Sprintf("strange %d", i)] = time.Unix(int64(100+i), 0)
	}
	_, s = scrape(t, r)
	expect(t, s, 1, "replgate_strict_ready")
	expect(t, s, 0, "replgate_reload_watch_degraded")
	expect(t, s, 60, "replgate_peer_cert_not_after_timestamp_seconds", "peer", "2")
	expect(t, s, 100, "replgate_peer_cert_not_after_timestamp_seconds", "peer", "other")
	absent(t, s, "replgate_peer_cert_not_after_timestamp_seconds", "peer", "0")
}

// A change that fails leaves everything as it was; a scrape during one waits for it.
func TestCredentialsAndTheirChange(t *testing.T) {
	r := New(testLabels())
	r.Credentials(nil, []Credential{{"secret", 1, "aa"}}, done)
	refused := errors.New("refused")
	if err := r.Credentials(nil, []Credential{{"secret", 2, "bb"}}, func() error { return refused }); err != refused {
		t.Errorf("got %v, want what the change said", err)
	}
	_, s := scrape(t, r)
	expect(t, s, 1, "replgate_credential_info", "kind", "secret", "generation", "1", "sha256_8", "aa")
	scraped := make(chan []sample, 1)
	r.Credentials(nil, []Credential{{"secret", 2, "bb"}}, func() error {
		go func() { _, s := scrape(t, r); scraped <- s }()
		select {
		case <-scraped:
			t.Error("got a scrape in the middle of a change, want it to wait")
		case <-time.After(50 * time.Millisecond):
		}
		return nil
	})
	expect(t, <-scraped, 1, "replgate_credential_info", "kind", "secret", "generation", "2", "sha256_8", "bb")
}
