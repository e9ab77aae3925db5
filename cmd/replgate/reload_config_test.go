//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/lab"
)

// plainReload is a stage without credentials that can be reloaded on request.
func plainReload(t *testing.T) *vaultStage {
	t.Helper()
	return raiseOnVault(t, stageOptions{id: 1, replicas: 2, far: "psk", extra: "[frames.rules]\nsender = \"drop\"\n[log]\nlevel = \"info\"\n"}, 0)
}

// A configuration is read again on SIGHUP and on request, and applies to whoever
// comes next; the link that is there goes on.
func TestConfigurationIsReloaded(t *testing.T) {
	t.Parallel()
	s := plainReload(t)
	p := s.beating(0, "psk")
	eventually(t, "a link", func() bool { return s.linksOf(0) == 1 })
	s.edit(`sender = "drop"`, `sender = "observe"`)
	if code, out := s.control("reload"); code != exitOK || out != "reloaded; changed credentials: nothing\n" {
		t.Errorf("got exit code %d and %s, want it reloaded", code, out)
	}
	s.edit(`level = "info"`, `level = "warn"`)
	s.gate.Signal(syscall.SIGHUP)
	eventually(t, "a reload on SIGHUP", func() bool { return s.reloads("config", "ok") == 2 })
	s.wantLines("msg", "reloaded", 1) // the first: the second has made the log quieter
	p.end()
	if n := s.linksOf(0); n != 1 {
		t.Errorf("got %d links, want the one that was there", n)
	}
}

// T57: what a reload takes, a start takes. Each change of the file is either applied
// and starts a gate, or refused with exit 3 and the same words as check, or named as
// one that needs a restart.
func TestReloadTakesWhatAStartTakes(t *testing.T) {
	t.Parallel()
	s := plainReload(t)
	text, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, old, now string
		restart        bool // a good configuration that no running gate takes
	}{
		{name: "a rule", old: `sender = "drop"`, now: `sender = "close"`},
		{name: "a rule that there is not", old: `sender = "drop"`, now: `sendr = "close"`},
		{name: "a time", old: "[reload]", now: "[timeouts]\nprove = \"1s\"\n[reload]"},
		{name: "a time that is too long", old: "[reload]", now: "[timeouts]\nprove = \"9s\"\n[reload]"},
		{name: "no TOML", old: "[reload]", now: "[reload"},
		{name: "another mode", old: "[reload]", now: "[security]\nmode = \"permissive\"\n[reload]"},
		{name: "a security without its files", old: `security = "psk"`, now: `security = "tls"`},
		{name: "another upstream", old: s.net.Replica(1), now: s.net.Replica(3)},
		{name: "another listener", old: s.net.Ingress(1), now: s.net.Ingress(3), restart: true},
		{name: "another cluster", old: `name = "iggy-cluster"`, now: `name = "iggy"`, restart: true},
		{name: "other metrics", old: s.net.Metrics(1), now: s.net.Metrics(3), restart: true},
		{name: "another interval", old: `interval = "20ms"`, now: `interval = "30ms"`, restart: true},
		{name: "a secret that is short", old: s.vault.path("secret"), now: s.path + ".short"},
		{name: "an identity without its number", old: "[cluster.tls]\n", now: "[cluster.tls]\npeer_identity = \"x\"\n"},
		{name: "a template that makes no name", old: "[cluster.tls]\n", now: "[cluster.tls]\npeer_identity = \"a b {replica}\"\n"},
	} {
		if err := os.WriteFile(s.path+".short", []byte("short"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.path, []byte(strings.Replace(string(text), c.old, c.now, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		checked, faults := s.outside("check")
		reloaded, said := s.control("reload")
		want := checked
		if c.restart {
			want = exitConfig
		}
		if reloaded != want {
			t.Errorf("%s: got exit code %d of reload and %d of check, want %d:\n%s%s", c.name, reloaded, checked, want, said, faults)
		}
		switch {
		case c.restart && (checked != exitOK || !strings.Contains(said, "it needs a restart")):
			t.Errorf("%s: got exit code %d of check and %s, want a good one that needs a restart", c.name, checked, said)
		case checked == exitConfig && !strings.HasSuffix(said, faults):
			t.Errorf("%s: got\n%sof reload, want the words of check:\n%s", c.name, said, faults)
		case reloaded == exitOK:
			s.wantStarts(c.name)
		}
	}
	if ok, invalid, restart := s.reloads("config", "ok"), s.reloads("config", "invalid"), s.reloads("config", "restart"); ok == 0 || invalid == 0 || restart != 4 {
		t.Errorf("got %d, %d and %d reloads of the configuration, want good ones, bad ones and 4 for a restart", ok, invalid, restart)
	}
}

// outside runs a command on the stage's configuration.
func (s *stage) outside(command string) (code int, stderr string) {
	s.t.Helper()
	cmd := exec.Command(replgateBinary, command, "--config", s.path)
	var errs strings.Builder
	cmd.Stderr = &errs
	return exitOf(s.t, cmd.Run()), errs.String()
}

// wantStarts starts a second gate with the file, on a net of its own.
func (s *vaultStage) wantStarts(name string) {
	s.t.Helper()
	text, err := os.ReadFile(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	prefix := func(n lab.Net) string { return strings.TrimSuffix(n.Replica(0), "10:9090") }
	moved := strings.ReplaceAll(string(text), prefix(s.net), prefix(lab.NewNet()))
	path := filepath.Join(s.t.TempDir(), "second.toml")
	if err := os.WriteFile(path, []byte(strings.Replace(moved, "unix:"+s.socket, "", 1)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	gate, err := lab.Start(replgateBinary, path)
	if err != nil {
		s.t.Errorf("%s: got %v of a start with what was reloaded, want a gate", name, err)
		return
	}
	if err := gate.Stop(playLimit); err != nil {
		s.t.Errorf("%s: %v", name, err)
	}
}

// T15, the part of SIGHUP: while a gate starts, while it waits, in the middle of
// reloads and in a drain. Nothing crashes, and a drain goes on as if nothing had
// come.
func TestHangupInEveryState(t *testing.T) {
	t.Parallel()
	t.Run("starting", func(t *testing.T) {
		t.Parallel()
		s := prepareStage(t, stageOptions{id: 1, replicas: 2, far: "psk"})
		for delay := time.Duration(0); delay < 40*time.Millisecond; delay += 5 * time.Millisecond {
			cmd := exec.Command(replgateBinary, "run", "--config", s.path)
			var log strings.Builder
			cmd.Stderr = &log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(delay) // real time: the moment is what is varied
			cmd.Process.Signal(syscall.SIGHUP)
			time.Sleep(20 * time.Millisecond) // real time: a crash would show
			cmd.Process.Signal(syscall.SIGTERM)
			err := cmd.Wait()
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if byDefault := status.Signaled() && log.Len() == 0; err != nil && !byDefault {
				t.Errorf("after %v: got %v and the log %s, want exit 0", delay, err, log.String())
			}
		}
	})
	t.Run("waiting", func(t *testing.T) {
		t.Parallel()
		o := stageOptions{id: 1, replicas: 2, far: "psk"}
		s := prepareOnVault(t, o, 0)
		s.vault.put(map[string][]byte{"secret": nil})
		cmd := exec.Command(replgateBinary, "run", "--config", s.path)
		cmd.Stderr = t.Output()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "metrics", func() bool { _, err := lab.Scrape(s.net.Metrics(1)); return err == nil })
		for range 3 {
			cmd.Process.Signal(syscall.SIGHUP)
		}
		eventually(t, "a reload in vain", func() bool { return s.reloads("secret", "missing") >= 2 })
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("got %v, want exit 0", err)
		}
	})
	t.Run("reloading", func(t *testing.T) {
		t.Parallel()
		s := plainReload(t)
		p := s.beating(0, "psk")
		for range 50 {
			s.gate.Signal(syscall.SIGHUP)
			time.Sleep(3 * time.Millisecond) // real time: some come in the middle of a reload
		}
		eventually(t, "reloads", func() bool { return s.reloads("config", "ok") > 1 })
		p.end()
		s.gate.Signal(syscall.SIGHUP)
		s.gate.Signal(syscall.SIGTERM)
		s.gate.Signal(syscall.SIGTERM)
		s.wantExit(exitOK, 5*time.Second)
	})
	t.Run("draining", func(t *testing.T) {
		t.Parallel()
		s := raiseOnVault(t, stageOptions{id: 1, replicas: 2, far: "psk", extra: "[timeouts]\ndrain_min_delay = \"700ms\"\n"}, 0)
		idleLink(t, s.stage)
		s.gate.Signal(syscall.SIGTERM)
		if _, err := s.gate.Await(t.Context(), "msg", "draining"); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			s.gate.Signal(syscall.SIGHUP)
		}
		if code, out := s.control("reload"); code != exitFailure || !strings.Contains(out, "draining") {
			t.Errorf("got exit code %d and %s of a reload in a drain, want it refused", code, out)
		}
		s.wantExit(exitOK, 5*time.Second)
		if _, logged := s.gate.Find("msg", "reloaded"); logged {
			t.Error("got a reload in a drain, want none")
		}
		if n := loggedEndings(s.gate)["drain"]; n != 1 {
			t.Errorf("got %d links ended by drain, want the one", n)
		}
	})
}

// T7: check and run warn of a file that is a mount of its own, as a subPath is.
func TestMountOfOneFile(t *testing.T) {
	t.Parallel()
	s := prepareOnVault(t, stageOptions{id: 1, replicas: 2, far: "psk"}, 0)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(secretOne), 0o600); err != nil {
		t.Fatal(err)
	}
	s.edit(s.vault.path("secret"), secret)
	script := fmt.Sprintf("mount --bind %[1]s %[1]s && exec %s check --config %s", secret, replgateBinary, s.path)
	out, err := exec.Command("unshare", "--mount", "sh", "-c", script).CombinedOutput()
	if exec.Command("unshare", "--mount", "true").Run() != nil {
		t.Skip("no mounts of our own here") // the reading of the table is tested in watch
	}
	if want := "warning: cluster.auth.shared_secret_file: " + secret + " is a mount of its own"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("got %v and\n%swant %q", err, out, want)
	}
	if _, plain := s.outside("check"); strings.Contains(plain, "a mount of its own") {
		t.Errorf("got %s without the mount, want no warning", plain)
	}
}

// A CA that is removed loses the links that its certificates identified: the peer
// comes again as a member alone, and is still let in.
func TestRemovedAuthority(t *testing.T) {
	t.Parallel()
	s := raiseOnVault(t, stageOptions{id: 1, replicas: 2, far: "tls", extra: "[security]\nreauth_window = \"1s\"\n"}, 0)
	leaving := newAuthority(t, "leaving")
	s.vault.put(map[string][]byte{"ca.crt": append(append([]byte{}, s.ca.pem...), leaving.pem...)})
	eventually(t, "both authorities", func() bool { return s.reloads("certificate", "ok") == 1 })
	s.show(leaving.leaf(callerSerial, 0, nil))
	b := s.arrive(0, "tls")
	const peers = "replgate_peer_cert_not_after_timestamp_seconds"
	eventually(t, "a verified certificate", func() bool { return s.metrics().Sum(peers) != 0 })
	s.vault.put(map[string][]byte{"ca.crt": s.ca.pem})
	go drainBytes(b.near)
	if how, _, _ := endOf(b.far, playLimit); how != byFIN {
		t.Errorf("got the link's end by %s, want in order", how)
	}
	b.close()
	eventually(t, "reauth", func() bool { return s.closedBy("reauth") == 1 })
	s.arrive(0, "tls")
	if n := s.metrics().Sum(peers); n != 0 {
		t.Errorf("got a date of a certificate that counts as none: %v", n)
	}
}
