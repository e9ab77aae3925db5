//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// rotations is how often the long test swaps; soak does all of T1.
func rotations() int {
	if soaking() {
		return 1000
	}
	return 100
}

// T1, T2, T3 and T8: swaps as a kubelet makes them, through one, two and three
// links, with and without watches, with the old files deleted at once. Every
// generation is served, soon; the metrics name a generation exactly when new
// handshakes get it.
func TestRotationsAreNeverMissed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hops, swaps int
		reload      string
	}{
		"one link":        {0, rotations(), ""},
		"two links":       {1, rotations() / 5, ""},
		"three links":     {2, rotations() / 5, ""},
		"without watches": {1, rotations() / 5, "[reload]\ninterval = \"20ms\"\nwatch = false\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := raiseOnVault(t, stageOptions{id: 1, replicas: 2, far: "tls", extra: c.reload}, c.hops)
			var took []time.Duration
			before := residentMemory(t, s.pid)
			for serial := int64(2); serial <= int64(c.swaps); serial++ {
				next := s.ca.leaf(serial, s.id, s.net.Hosts())
				began := time.Now()
				s.vault.put(map[string][]byte{"tls.crt": next.cert, "tls.key": next.key})
				s.awaitServed(serial, next)
				took = append(took, s.tookItAt(began).Sub(began))
			}
			slices.Sort(took)
			if half := took[len(took)/2]; half > 2*poll {
				t.Errorf("got a new leaf served after %v in half of the swaps, want at most two polls, %v (the longest: %v)", half, 2*poll, took[len(took)-1])
			}
			degraded := s.metrics().Sum("replgate_reload_watch_degraded")
			if want := map[bool]float64{true: 1}[c.reload != ""]; degraded != want {
				t.Errorf("got replgate_reload_watch_degraded %v, want %v", degraded, want)
			}
			if ok, bad := s.reloads("certificate", "ok"), s.reloads("certificate", "mismatch"); ok != c.swaps-1 || bad != 0 {
				t.Errorf("got %d reloads and %d halves of a pair, want %d and none", ok, bad, c.swaps-1)
			}
			if s.reloads("secret", "ok") != 0 {
				t.Error("got a reload of the secret, which never changed")
			}
			if grown := residentMemory(t, s.pid) - before; grown > strangersMemory {
				t.Errorf("got %d MiB more after %d reloads, want at most %d MiB", grown>>20, c.swaps, strangersMemory>>20)
			}
		})
	}
}

// tookItAt is when the gate says that it took a change that began at a time.
func (s *vaultStage) tookItAt(began time.Time) (at time.Time) {
	s.t.Helper()
	eventually(s.t, "the line of a reload", func() bool {
		line, ok := s.gate.Find("msg", "reloaded")
		if ok {
			at, _ = time.Parse(time.RFC3339Nano, fmt.Sprint(line["time"]))
		}
		return at.After(began)
	})
	return at
}

// awaitServed waits until new handshakes get a leaf, and holds the metrics against
// every handshake until then.
func (s *vaultStage) awaitServed(serial int64, next credential) {
	s.t.Helper()
	began := time.Now()
	for {
		before, _ := s.inUse("certificate")
		leaf := s.served()
		after, generation := s.inUse("certificate")
		if served := (credential{leaf: leaf}).fingerprint(); before == after && served != after {
			s.t.Fatalf("got leaf %v (%s) while the metrics said %s before and after, want the same", leaf.SerialNumber, served, after)
		}
		if leaf.SerialNumber.Int64() == serial {
			if after != next.fingerprint() || generation != strings.TrimSpace(leaf.SerialNumber.String()) {
				s.t.Fatalf("got generation %s, %s of leaf %d, want %d, %s", generation, after, serial, serial, next.fingerprint())
			}
			return
		}
		if time.Since(began) > playLimit {
			s.t.Fatalf("got leaf %v after %v, want %d:\n%s", leaf.SerialNumber, playLimit, serial, tail(s.gate.Log(), 5))
		}
	}
}

// Certificate, chain and key in one file are one credential as well.
func TestBundle(t *testing.T) {
	t.Parallel()
	o := stageOptions{id: 1, replicas: 2, far: "tls"}
	s := prepareOnVault(t, o, 0)
	bundle := func(c credential) []byte { return append(slices.Clone(c.key), c.cert...) }
	s.vault.put(map[string][]byte{"secret": []byte(secretOne), "tls.crt": bundle(s.first), "tls.key": nil})
	s.edit(s.vault.path("tls.key"), s.vault.path("tls.crt"))
	s.start(o)
	for serial := int64(2); serial < 6; serial++ {
		next := s.ca.leaf(serial, 1, s.net.Hosts())
		s.vault.put(map[string][]byte{"tls.crt": bundle(next)})
		s.awaitServed(serial, next)
	}
}

// T5: a new certificate with the old key serves nobody, and the old pair goes on,
// until the key lands.
func TestHalfAPairIsNotServed(t *testing.T) {
	t.Parallel()
	s := raiseOnVault(t, stageOptions{id: 1, replicas: 2, far: "tls"}, 0)
	next := s.ca.leaf(2, 1, s.net.Hosts())
	s.vault.put(map[string][]byte{"tls.crt": next.cert})
	eventually(t, "a mismatch", func() bool { return s.reloads("certificate", "mismatch") == 1 })
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; { // real time: half a pair lies there for a while
		if got := s.served(); !got.Equal(s.first.leaf) {
			t.Fatalf("got leaf %v, want the first one", got.SerialNumber)
		}
	}
	s.wantServed("tls")
	if n := s.reloads("certificate", "mismatch"); n != 1 {
		t.Errorf("got %d mismatches of one fault, want it once", n)
	}
	s.wantRefusals("cert_mismatch", 1)
	s.vault.put(map[string][]byte{"tls.key": next.key})
	s.awaitServed(2, next)
	if n := s.reloads("certificate", "ok"); n != 1 {
		t.Errorf("got %d good reloads, want one", n)
	}
}

// wantServed lets replica 0 come, say a frame and go.
func (s *stage) wantServed(security string) {
	s.t.Helper()
	if err := s.knownPeer(0, security, "", playLimit); err != nil {
		s.t.Error(err)
	}
}

// wantRefusals counts the lines of refused reloads with a reason.
func (s *stage) wantRefusals(reason string, want int) {
	s.t.Helper()
	for _, l := range s.wantLines("reason", reason, want) {
		if l["msg"] != "reload refused" || l["got"] == "" {
			s.t.Errorf("got %v, want a refused reload with its fault", l)
		}
	}
}

// wantLines waits for so many lines of the log, which comes through a pipe, and
// takes no more.
func (s *stage) wantLines(field, word string, want int) (lines []map[string]any) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%d lines with %s=%s", want, field, word), func() bool {
		lines = logLines(s.gate, field, word)
		return len(lines) >= want
	})
	if len(lines) > want {
		s.t.Errorf("got %d lines with %s=%s, want %d:\n%s", len(lines), field, word, want, tail(s.gate.Log(), 10))
	}
	return lines
}

// T6: each fault of a secret's file has its own reason, and the secret before goes
// on; one line end is not part of a secret.
func TestSecretFaultsKeepTheSecret(t *testing.T) {
	t.Parallel()
	s := raiseOnVault(t, stageOptions{id: 1, replicas: 2, far: "psk"}, 0)
	for reason, content := range map[string][]byte{
		"short": []byte(secretOne[:31]), "empty": []byte("\n"), "missing": nil,
	} {
		s.vault.put(map[string][]byte{"secret": content})
		eventually(t, reason, func() bool { return s.reloads("secret", reason) == 1 })
		s.wantRefusals("secret_"+reason, 1)
		s.wantServed("psk")
	}
	s.vault.put(map[string][]byte{"secret": []byte(secretOne), "previous": []byte(secretOne)})
	eventually(t, "invalid", func() bool { return s.reloads("secret", "invalid") == 1 })
	s.wantRefusals("secret_invalid", 1)
	before, _ := s.inUse("secret")
	for i, ending := range []string{"\n", "\r\n"} {
		s.vault.put(map[string][]byte{"secret": []byte(secretOne + ending), "previous": nil})
		eventually(t, "a secret with a line end", func() bool { return s.reloads("secret", "ok") == i+1 })
		s.wantServed("psk")
	}
	if after, generation := s.inUse("secret"); after != before || generation != "1" {
		t.Errorf("got secret %s of generation %s, want %s of generation 1: a line end is no part of it", after, generation, before)
	}
	s.wantLines("note", "cluster.auth.shared_secret_file: the last newline of "+s.vault.path("secret")+" is not part of the secret", 1)
	if strings.Contains(s.gate.Log(), secretOne[:16]) {
		t.Error("got a part of the secret in the log")
	}
}

// T10: files that are written anew with the same content touch nothing.
func TestSameContentTouchesNothing(t *testing.T) {
	t.Parallel()
	s := raiseOnVault(t, stageOptions{id: 2, replicas: 3, far: "tls"}, 1)
	pulses := []*pulse{s.beating(0, "tls")}
	s.show(s.ca.leaf(callerSerial+1, 1, nil))
	pulses = append(pulses, s.beating(1, "tls"))
	info, _ := s.inUse("certificate")
	for range 10 {
		s.vault.put(nil)
		time.Sleep(2 * poll) // real time: the gate looks meanwhile
	}
	for _, p := range pulses {
		p.end()
	}
	samples := s.metrics()
	if n := samples.Sum("replgate_links"); n != 2 {
		t.Errorf("got %v links, want both as they were", n)
	}
	if n := samples.Sum("replgate_reload_total"); n != 0 {
		t.Errorf("got %v reloads, want none", n)
	}
	if after, generation := s.inUse("certificate"); after != info || generation != "1" {
		t.Errorf("got certificate %s of generation %s, want %s of generation 1", after, generation, info)
	}
	if _, logged := s.gate.Find("msg", "reloaded"); logged {
		t.Error("got a line of a reload, want none")
	}
}

// T11: a leaf that a new list revokes loses its link within five seconds, and its
// redial ends for the same reason.
func TestRevokedLeaf(t *testing.T) {
	t.Parallel()
	s := raiseOnVault(t, stageOptions{id: 2, replicas: 3, far: "tls"}, 0)
	b := s.arrive(0, "tls")
	s.show(s.ca.leaf(callerSerial+1, 1, nil))
	other := s.beating(1, "tls")
	eventually(t, "both links", func() bool { return s.metrics().Sum("replgate_links") == 2 })
	began := time.Now()
	s.vault.put(map[string][]byte{"ca.crl": s.ca.revoked(2, callerSerial)})
	go drainBytes(b.near)
	if how, _, _ := endOf(b.far, playLimit); how != byFIN {
		t.Errorf("got the link's end by %s, want in order", how)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("got the link's end after %v, want within 5s", took)
	}
	b.close()
	eventually(t, "the ending", func() bool { return s.closedBy("peer_cert_revoked") == 1 })
	s.show(s.mine)
	if again, err := s.tryArrive(caller{pair: pairOf(0, 2), security: "tls"}); err == nil {
		again.close()
		t.Error("got a link with a revoked leaf, want it refused")
	}
	eventually(t, "the refusal", func() bool { return s.closedBy("peer_cert_revoked") == 2 })
	other.end()
}

// T45, T47: dates are of what is in use now, of both sides.
func TestCertificateDates(t *testing.T) {
	t.Parallel()
	s := raiseOnVault(t, stageOptions{id: 1, replicas: 2, far: "tls"}, 0)
	const after, before = "replgate_cert_not_after_timestamp_seconds", "replgate_cert_not_before_timestamp_seconds"
	want := func(name string, at time.Time, labels ...string) {
		t.Helper()
		samples := s.metrics()
		if got := samples.Sum(name, labels...); got != float64(at.Unix()) {
			t.Errorf("got %s%q %v, want %v", name, labels, got, at.Unix())
		}
	}
	want(after, s.first.leaf.NotAfter, `role="leaf"`, `slot="0"`)
	want(before, s.first.leaf.NotBefore, `role="leaf"`, `slot="0"`)
	want(after, s.ca.cert.NotAfter, `role="ca"`)
	second := newAuthority(t, "second")
	next := s.ca.leaf(2, 1, s.net.Hosts())
	s.vault.put(map[string][]byte{"tls.crt": next.cert, "tls.key": next.key, "ca.crt": append(slices.Clone(s.ca.pem), second.pem...)})
	s.awaitServed(2, next)
	want(after, next.leaf.NotAfter, `role="leaf"`) // alone: the one before is gone
	want(after, second.cert.NotAfter, `role="ca"`, `slot="1"`)
	s.vault.put(map[string][]byte{"ca.crt": s.ca.pem})
	eventually(t, "the second authority to be gone", func() bool { return s.metrics().Sum(after, `role="ca"`, `slot="1"`) == 0 })

	const peers = "replgate_peer_cert_not_after_timestamp_seconds"
	b := s.arrive(0, "tls")
	eventually(t, "the peer's date", func() bool { return s.metrics().Sum(peers) != 0 })
	want(peers, s.mine.leaf.NotAfter, `peer="0"`)
	b.close()
	eventually(t, "the peer's date to be gone", func() bool { return s.metrics().Sum(peers) == 0 })
	if clock := s.metrics().Sum("replgate_clock_timestamp_seconds"); time.Since(time.Unix(int64(clock), 0)).Abs() > time.Minute {
		t.Errorf("got the clock at %v, want now", clock)
	}
}
