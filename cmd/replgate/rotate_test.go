//go:build linux

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/lab"
)

// rolling is a lab whose gates have their secrets in vaults.
type rolling struct {
	*lab.Lab
	t      *testing.T
	vaults []*vault
}

func startRolling(t *testing.T) *rolling {
	t.Helper()
	r := &rolling{t: t}
	for range 3 {
		r.vaults = append(r.vaults, newVault(t, 0, map[string][]byte{"secret": []byte(secretOne), "previous": nil}))
	}
	r.Lab = startLab(t, lab.Plan{Replicas: 3, Near: "plaintext", Far: "tls", Rate: 50, Payload: 64, Groups: 2, Seed: 7,
		Gate: func(i int, c *lab.Config) {
			c.SecretFile, c.PreviousFile = r.vaults[i].path("secret"), r.vaults[i].path("previous")
			c.Extra = "[reload]\ninterval = \"20ms\"\n"
		}})
	until(t, r.Lab, "every link is up", r.Meshed)
	return r
}

// roll changes the files of one gate and waits until it has taken them.
func (r *rolling) roll(i int, files map[string][]byte) {
	r.t.Helper()
	taken := func() int {
		return int(scrape(r.t, r.Net.Metrics(i)).Sum("replgate_reload_total", `kind="secret"`, `result="ok"`))
	}
	before := taken()
	r.vaults[i].put(files)
	eventually(r.t, "the new secrets to be taken", func() bool { return taken() == before+1 })
}

// ask asks a gate how far the rotation is.
func (r *rolling) ask(i int, args ...string) (code int, out string) {
	var stdout, stderr strings.Builder
	code = run(r.t.Context(), append([]string{"rotate", "status", "--socket", r.Socket(i)}, args...), stdio{nil, &stdout, &stderr})
	return code, stdout.String() + stderr.String()
}

// wantSafe waits until every gate says that a step cuts nobody.
func (r *rolling) wantSafe(step string) {
	r.t.Helper()
	for i := range r.Gates {
		if code, out := r.ask(i, "--step", step, "--wait", "30s"); code != exitOK || !strings.Contains(out, "\nsafe: ") {
			r.t.Fatalf("gate %d, %s: got exit code %d, want it safe:\n%s", i, step, code, out)
		}
	}
}

// The three rolls of a rotation are three changes of files at each gate, under
// traffic between gates in processes of their own: no link is dropped, nobody is
// elected, and each gate says when the next one is safe.
func TestThreeRolls(t *testing.T) {
	t.Parallel()
	r := startRolling(t)
	oldOne, newOne := []byte(secretOne), []byte("another secret of 32 bytes and a few more")
	r.wantSafe("begin")
	for _, i := range []int{2, 1} {
		r.roll(i, map[string][]byte{"previous": newOne})
	}
	if code, out := r.ask(2, "--step", "swap"); code != exitFault || !strings.Contains(out, "awaited: replica 0: ") || !strings.Contains(out, "\nnot safe: ") {
		t.Errorf("got exit code %d before gate 0 has the new secret, want %d and who is awaited:\n%s", code, exitFault, out)
	}
	if code, out := r.ask(2, "--step", "swap", "--wait", "300ms"); code != exitNotReady {
		t.Errorf("got exit code %d after a wait in vain, want %d:\n%s", code, exitNotReady, out)
	}
	if code, out := r.ask(0, "--step", "swap"); code != exitFault || !strings.Contains(out, "in phase none") {
		t.Errorf("got exit code %d of a gate that knows of no rotation, want %d:\n%s", code, exitFault, out)
	}
	r.roll(0, map[string][]byte{"previous": newOne})
	r.wantSafe("swap")
	for i := range r.Gates {
		r.roll(i, map[string][]byte{"secret": newOne, "previous": oldOne})
	}
	r.wantSafe("remove")
	for i := range r.Gates {
		r.roll(i, map[string][]byte{"previous": nil})
	}
	r.wantSafe("begin")
	r.wantUntouched()
}

// wantUntouched checks that no link has ever closed and nobody was elected, then
// that all logs are equal.
func (r *rolling) wantUntouched() {
	r.t.Helper()
	time.Sleep(2 * time.Second) // real time: what the last step would cut is cut by now
	for i, g := range r.Gates {
		if lines := logLines(g, "msg", "link closed"); len(lines) > 0 {
			r.t.Errorf("gate %d: got closed links %v, want none", i, lines)
		}
	}
	for _, report := range r.Reports() {
		if report.View != 0 || report.GapMS >= 4000 {
			r.t.Errorf("got %+v, want view 0 and no gap of 4 s", report)
		}
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	if err := r.Settle(ctx); err != nil {
		r.t.Error(err)
	}
}

// Removing a secret that a gate says is still used cuts: what rotate status says is
// true in both directions.
func TestAdvancingTooEarlyCuts(t *testing.T) {
	t.Parallel()
	r := startRolling(t)
	newOne := []byte("another secret of 32 bytes and a few more")
	r.roll(1, map[string][]byte{"previous": newOne})
	if code, out := r.ask(1, "--step", "swap"); code != exitFault {
		t.Fatalf("got exit code %d, want %d:\n%s", code, exitFault, out)
	}
	r.roll(1, map[string][]byte{"secret": newOne, "previous": nil})
	eventually(t, "a link that is cut", func() bool {
		return scrape(t, r.Net.Metrics(1)).Sum("replgate_links_closed_total", `reason="reauth"`) > 0
	})
	if _, err := r.Gates[1].Await(t.Context(), "ending", "mac_mismatch"); err != nil {
		t.Errorf("got no refused redial, want one: %v", err)
	}
	r.roll(1, map[string][]byte{"secret": []byte(secretOne)})
	until(t, r.Lab, "every link is up again", r.Meshed)
}
