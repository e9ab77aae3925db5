//go:build linux

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/replgate/replgate/mac"
)

// A permissive gate takes a peer in plaintext until it has proved itself, remembers
// that over a restart, and forgets it when it is told to.
func TestProofsSurviveARestart(t *testing.T) {
	t.Parallel()
	o := stageOptions{id: 1, replicas: 2, far: "tls", extra: "[security]\nmode = \"permissive\"\n"}
	s := prepareOnVault(t, o, 0)
	s.edit("[gate]\n", "[gate]\nstate_dir = \""+filepath.Join(t.TempDir(), "state")+"\"\n")
	s.start(o)
	s.wantLines("msg", "no memory", 1)
	plain := caller{pair: mac.Pair{Dialer: 0, Acceptor: 1}, security: "plaintext"}
	come := func() error {
		b, err := s.tryArrive(plain)
		if err == nil {
			eventually(t, "a plaintext link", func() bool { return s.linksOf(0) == 1 })
			b.close()
			eventually(t, "its end", func() bool { return s.linksOf(0) == 0 })
		}
		return err
	}
	if err := come(); err != nil {
		t.Fatalf("got %v of a plaintext link before any proof, want one", err)
	}
	s.wantServed("tls")
	if code := s.exit(playLimit); code != exitOK {
		t.Fatalf("got exit code %d, want %d", code, exitOK)
	}
	s.begin(o)
	refused := func() int { return s.closedBy("tls_plaintext") + s.closedBy("auth_required") }
	c, err := s.ring(plain, s.ingressAddr())
	if err != nil {
		t.Fatal(err)
	}
	drainBytes(c)
	eventually(t, "a refusal of plaintext after a restart", func() bool { return refused() == 1 })
	if code, out := s.control("peers", "reset", "0"); code != exitOK || out != "peer 0 has proved nothing\n" {
		t.Errorf("got exit code %d and %s, want the peer forgotten", code, out)
	}
	if err := come(); err != nil {
		t.Errorf("got %v of a plaintext link after the reset, want one", err)
	}
	for _, id := range []string{"1", "7", "x"} {
		if code, out := s.control("peers", "reset", id); code == exitOK {
			t.Errorf("got %s of a reset of peer %s, want an error", out, id)
		}
	}
}

// A switch to strict names whom it cuts, and cuts them (T55).
func TestSwitchToStrict(t *testing.T) {
	t.Parallel()
	s := raiseOnVault(t, stageOptions{id: 1, replicas: 2, far: "tls", extra: "[security]\nmode = \"permissive\"\nreauth_window = \"1s\"\n"}, 0)
	b := s.arrive(0, "plaintext")
	eventually(t, "a plaintext link", func() bool { return s.linksOf(0) == 1 })
	if code, out := s.control("status"); code != exitOK || !strings.Contains(out, "permissive, ready for strict: false\nnot ready for strict: peer 0: ") {
		t.Errorf("got exit code %d and\n%swant who is not ready", code, out)
	}
	if ready := s.metrics().Sum("replgate_strict_ready"); ready != 0 {
		t.Errorf("got replgate_strict_ready %v, want 0", ready)
	}
	s.edit(`mode = "permissive"`, `mode = "strict"`)
	const cuts = "peer 0 has a plaintext link, strict asks for tls"
	if code, out := s.control("reload"); code != exitOK || !strings.Contains(out, "\nstrict cuts: "+cuts+"\n") {
		t.Errorf("got exit code %d and\n%swant who is cut", code, out)
	}
	if lines := s.wantLines("got", cuts, 1); lines[0]["msg"] != "strict cuts a peer" {
		t.Errorf("got lines %v, want who is cut", lines)
	}
	go endOnEnd(b.near)
	if how, _, _ := endOf(b.far, playLimit); how != byFIN {
		t.Errorf("got the link's end by %s, want in order", how)
	}
	b.far.TCP.Close()
	eventually(t, "reauth", func() bool { return s.closedBy("reauth") == 1 })
	s.wantServed("tls")
}
