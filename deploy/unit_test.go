package deploy

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/configs"
)

const unitFile = "systemd/replgate.service"

// unit reads the keys of the unit; a key that stands twice has both values.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	keys := map[string][]string{}
	for line := range strings.Lines(read(t, unitFile)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			keys[key] = append(keys[key], value)
		}
	}
	return keys
}

func one(t *testing.T, keys map[string][]string, key string) string {
	t.Helper()
	if len(keys[key]) != 1 {
		t.Fatalf("got %q for %s, want one value", keys[key], key)
	}
	return keys[key][0]
}

func seconds(t *testing.T, keys map[string][]string, key string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(one(t, keys, key))
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return d
}

func TestUnitStartsTheProgram(t *testing.T) {
	keys := unit(t)
	words := strings.Fields(one(t, keys, "ExecStart"))
	checkCommand(t, words[1:])
	if got := one(t, keys, "ConfigurationDirectory"); words[len(words)-1] != "/etc/"+got+"/replgate.toml" {
		t.Errorf("got configuration %s, want it in /etc/%s", words[len(words)-1], got)
	}
	if got, want := configs.Default().Admin.Listen, "unix:/run/"+one(t, keys, "RuntimeDirectory")+"/"; !strings.HasPrefix(got, want) {
		t.Errorf("got admin socket %s, want it in the unit's own folder, %s", got, want)
	}
	if got := one(t, keys, "ExecReload"); got != "/bin/kill -HUP $MAINPID" {
		t.Errorf("got ExecReload=%s, want the signal on which cmd/replgate reloads", got)
	}
	if one(t, keys, "Type") != "notify" || one(t, keys, "NotifyAccess") != "main" || one(t, keys, "KillSignal") != "SIGTERM" {
		t.Error("got another type, access or signal, want what cmd/replgate/notify.go and run.go do")
	}
}

// TestUnitTimes: nobody kills a gate that drains, or one that is only slow.
func TestUnitTimes(t *testing.T) {
	keys, c := unit(t), configs.Default()
	if got, drain := seconds(t, keys, "TimeoutStopSec"), c.Timeouts.Drain.Std(); got < drain+5*time.Second {
		t.Errorf("got TimeoutStopSec=%v, want more than timeouts.drain, %v, and 5 s for what is closing", got, drain)
	}
	if got, stall := seconds(t, keys, "WatchdogSec"), c.Timeouts.WriteStall.Std(); got < 2*stall {
		t.Errorf("got WatchdogSec=%v, want at least twice timeouts.write_stall, %v: the gate's own timers come first", got, stall)
	}
}

// TestUnitStaysDown: a wrong command line and a wrong configuration are not tried
// again; a failure, a panic and the watchdog's signal are. See TestAbort of
// cmd/replgate for GOTRACEBACK.
func TestUnitStaysDown(t *testing.T) {
	keys := unit(t)
	prevent := strings.Fields(one(t, keys, "RestartPreventExitStatus"))
	for _, args := range [][]string{{"run", "--no-such-flag"}, {"run", "--config", unitFile}} {
		if out, code := replgate(t, args...); !slices.Contains(prevent, strconv.Itoa(code)) {
			t.Errorf("got exit code %d of %q, want one of %q: %s", code, args, prevent, out)
		}
	}
	if slices.Contains(prevent, "1") || one(t, keys, "Restart") != "on-failure" {
		t.Error("got a unit that stays down after a failure, want one that starts again")
	}
	if !slices.Contains(keys["Environment"], "GOTRACEBACK=crash") || one(t, keys, "LimitCORE") != "0" {
		t.Error("got no GOTRACEBACK=crash or a core, want death by signal and no secret on the disk")
	}
}

// analyze runs systemd-analyze where there is one.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		// Only systemd can judge its own unit; CI's machines have it.
		t.Skip("no systemd-analyze here")
	}
	out, _ := exec.Command("systemd-analyze", args...).CombinedOutput() // what it says decides
	return string(out)
}

// TestUnitExposure: systemd's own score, 0 is best and 10 worst. 1.2 of version 252.
func TestUnitExposure(t *testing.T) {
	out := analyze(t, "security", "--offline=yes", unitFile)
	m := regexp.MustCompile(`Overall exposure level for replgate\.service: ([0-9.]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("got no score:\n%s", out)
	}
	t.Logf("exposure level %s", m[1])
	if score, err := strconv.ParseFloat(m[1], 64); err != nil || score > 2.0 {
		t.Errorf("got exposure level %s (%v), want at most 2.0:\n%s", m[1], err, out)
	}
}

// TestUnitVerifies: no key that systemd does not know. The program is not installed
// where tests run.
func TestUnitVerifies(t *testing.T) {
	for line := range strings.Lines(analyze(t, "verify", "--man=no", unitFile)) {
		if strings.Contains(line, "replgate.service") && !strings.Contains(line, "/usr/bin/replgate is not executable") {
			t.Error(strings.TrimSpace(line))
		}
	}
}
