package main

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// TestScripts runs the command line as users do: the built program, in a folder
// and on a loopback net of its own for each script. $NET is that net's prefix,
// $REPO the repository, $CAPTURES the full set of recordings where there is one.
// UPDATE_SCRIPTS=1 writes what was printed into the scripts: look at the diff.
func TestScripts(t *testing.T) {
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(replgateBinary)+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("NET", strings.TrimSuffix(lab.NewNet().Replica(0), ".10:9090"))
			env.Setenv("REPO", repo)
			env.Setenv("CAPTURES", captures)
			env.Values[stateKey{}] = &scriptState{listeners: map[string]*net.TCPListener{}}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "captures" {
				return captures != "", nil
			}
			return false, fmt.Errorf("got condition %q, want captures", name)
		},
		Cmds:          scriptCommands(),
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// scriptState is what commands of one script leave for later ones.
type scriptState struct {
	listeners map[string]*net.TCPListener
	stopped   *exec.Cmd
}

type stateKey struct{}

func stateOf(ts *testscript.TestScript) *scriptState { return ts.Value(stateKey{}).(*scriptState) }

// scriptCommands are the words that scripts know besides those of testscript.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*testscript.TestScript, bool, []string){"peer": cmdPeer}
	for name, c := range map[string]struct {
		least int
		run   func(*testscript.TestScript, []string)
	}{
		"exits": {2, cmdExits}, "ended": {1, cmdEnded}, "term": {0, cmdTerm},
		"mint": {2, cmdMint}, "fill": {1, cmdFill}, "replace": {3, cmdReplace},
		"listen": {1, cmdListen}, "untouched": {1, cmdUntouched}, "refused": {1, cmdRefused}, "http": {2, cmdHTTP}, "stall": {2, cmdStall},
		"jsonlines": {1, cmdJSONLines}, "withheld": {1, cmdWithheld}, "lines": {2, cmdLines},
		"reasons": {0, cmdReasons}, "rules": {0, cmdRules},
	} {
		all[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) < c.least {
				ts.Fatalf("got %q (negated: %v), want at least %d arguments and no negation", args, neg, c.least)
			}
			c.run(ts, args)
		}
	}
	return all
}

// exits CODE PROGRAM ARG… runs a program that must end with CODE.
func cmdExits(ts *testscript.TestScript, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if want := args[0]; strconv.Itoa(got) != want {
		ts.Fatalf("got exit code %d, want %s", got, want)
	}
}

// term sends SIGTERM to the program in the background.
func cmdTerm(ts *testscript.TestScript, _ []string) {
	running := ts.BackgroundCmds()
	if len(running) != 1 {
		ts.Fatalf("got %d programs in the background, want one", len(running))
	}
	stateOf(ts).stopped = running[0]
	ts.Check(running[0].Process.Signal(syscall.SIGTERM))
}

// ended CODE checks the exit code of the program that term ended and wait saw end.
func cmdEnded(ts *testscript.TestScript, args []string) {
	if got := stateOf(ts).stopped.ProcessState.ExitCode(); strconv.Itoa(got) != args[0] {
		ts.Fatalf("got exit code %d, want %s", got, args[0])
	}
}

// mint [-expired] DIR HOST… writes ca.crt, tls.crt and tls.key.
func cmdMint(ts *testscript.TestScript, args []string) {
	from, to := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if args[0] == "-expired" {
		args, from, to = args[1:], from.Add(-24*time.Hour), to.Add(-24*time.Hour)
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o755))
	_, err := replica.Mint(dir, args[1:], from, to)
	ts.Check(err)
}

// fill FILE… puts the values of $WORK, $NET, $REPO and $CAPTURES into files.
func cmdFill(ts *testscript.TestScript, args []string) {
	for _, name := range args {
		text := ts.ReadFile(name)
		for _, key := range []string{"WORK", "NET", "REPO", "CAPTURES"} {
			text = strings.ReplaceAll(text, "$"+key, ts.Getenv(key))
		}
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// replace FILE OLD NEW replaces a text that must be there.
func cmdReplace(ts *testscript.TestScript, args []string) {
	text := ts.ReadFile(args[0])
	if !strings.Contains(text, args[1]) {
		ts.Fatalf("got a file without %q, want one with it: %s", args[1], args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(text, args[1], args[2])), 0o600))
}

// listen ADDRESS occupies an address until the script ends.
func cmdListen(ts *testscript.TestScript, args []string) {
	for _, address := range args {
		ln, err := net.Listen("tcp", address)
		ts.Check(err)
		ts.Defer(func() { ln.Close() })
		stateOf(ts).listeners[address] = ln.(*net.TCPListener)
	}
}

// untouched ADDRESS… checks that nobody has connected to what listen occupies.
func cmdUntouched(ts *testscript.TestScript, args []string) {
	for _, address := range args {
		ln := stateOf(ts).listeners[address]
		// The program has ended, so a connection of it would be here already.
		ts.Check(ln.SetDeadline(time.Now().Add(50 * time.Millisecond)))
		if c, err := ln.Accept(); err == nil {
			ts.Fatalf("got a connection from %s on %s, want none", c.RemoteAddr(), address)
		}
	}
}

// http STATUS URL [WORD] asks until the answer has STATUS and a body with WORD in it,
// or without it where WORD begins with !; the body becomes stdout.
func cmdHTTP(ts *testscript.TestScript, args []string) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	got := ""
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) { // real time: another process is watched
		resp, err := client.Get(args[1])
		if err != nil {
			got = err.Error()
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		ts.Check(err)
		got = strconv.Itoa(resp.StatusCode)
		word, without := strings.CutPrefix(strings.Join(args[2:], ""), "!")
		if got == args[0] && (word == "" || strings.Contains(string(body), word) != without) {
			_, err := ts.Stdout().Write(body)
			ts.Check(err)
			return
		}
	}
	ts.Fatalf("got %s for 10 s, want status %s", got, args[0])
}

// refused ADDRESS… checks that nobody listens there.
func cmdRefused(ts *testscript.TestScript, args []string) {
	for _, address := range args {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			ts.Fatalf("got a connection to %s, want nobody there", address)
		}
	}
}

// ioTimeout bounds what a stand-in waits for.
const ioTimeout = 10 * time.Second

func voice(acceptor uint8, secret string) (replica.Voice, error) {
	v := replica.Voice{Cluster: wire.ClusterIDOf("iggy-cluster"), Pair: mac.Pair{Dialer: 0, Acceptor: acceptor}}
	var err error
	if secret != "" {
		v.Keys, err = mac.NewKeyring([]byte(secret), nil)
	}
	return v, err
}

// peer ADDRESS SECRET dials the gate of replica 2 as replica 0 and waits until
// the connection ends; negated, the handshake must fail.
func cmdPeer(ts *testscript.TestScript, neg bool, args []string) {
	v, err := voice(2, args[1])
	ts.Check(err)
	c, err := v.Dial(context.Background(), args[0])
	if (err != nil) != neg {
		ts.Fatalf("got %v from the handshake, want an error: %v", err, neg)
	}
	if err == nil {
		defer c.Close()
		ts.Check(c.SetDeadline(time.Now().Add(ioTimeout)))
		if n, err := io.Copy(io.Discard, c); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			ts.Fatalf("got %d bytes and %v, want the end of the connection", n, err)
		}
	}
}

// stall GATE UPSTREAM joins replica 0 to replica 2 through a plaintext gate and
// leaves a frame half written.
func cmdStall(ts *testscript.TestScript, args []string) {
	v, err := voice(2, "")
	ts.Check(err)
	ln, err := net.Listen("tcp", args[1])
	ts.Check(err)
	ts.Defer(func() { ln.Close() })
	c, err := v.Dial(context.Background(), args[0])
	ts.Check(err)
	ts.Defer(func() { c.Close() })
	ts.Check(ln.(*net.TCPListener).SetDeadline(time.Now().Add(ioTimeout)))
	tcp, err := ln.Accept()
	ts.Check(err)
	ts.Defer(func() { tcp.Close() })
	ts.Check(tcp.SetDeadline(time.Now().Add(ioTimeout)))
	up, err := v.Accept(context.Background(), tcp.(*net.TCPConn))
	ts.Check(err)
	recorded := ts.ReadFile(filepath.Join(ts.Getenv("REPO"), "internal/replica/testdata/recordings/transfer-partition/021-0-2.d2a.bin"))
	frames, _, err := replica.Frames([]byte(recorded))
	ts.Check(err)
	big := slices.MaxFunc(frames, func(a, b []byte) int { return len(a) - len(b) })
	_, err = c.Write(big[:len(big)/2])
	ts.Check(err)
	_, err = io.ReadFull(up, make([]byte, wire.HeaderSize)) // the frame is on its way
	ts.Check(err)
}

// jsonlines FILE [MESSAGE…] checks that every line is a log record and that the
// messages come in this order, others between them.
func cmdJSONLines(ts *testscript.TestScript, args []string) {
	want := args[1:]
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var record struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Level == "" || record.Msg == "" {
			ts.Fatalf("got %v for the line %s, want JSON with time, level and msg", err, line)
		}
		if len(want) > 0 && record.Msg == want[0] {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		ts.Fatalf("got no %q in its place", want[0])
	}
}

// withheld SECRET… checks that the last output shows it in no form.
func cmdWithheld(ts *testscript.TestScript, args []string) {
	out := ts.ReadFile("stdout") + ts.ReadFile("stderr")
	for _, secret := range args {
		for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), fmt.Sprint([]byte(secret)), fmt.Sprintf("%#v", []byte(secret)),
			strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="), secret[:16], secret[len(secret)-16:]} {
			if strings.Contains(strings.ToLower(out), strings.ToLower(form)) {
				ts.Fatalf("got the secret as %q in the output", form)
			}
		}
	}
}

// lines FILE COUNT checks how many lines there are.
func cmdLines(ts *testscript.TestScript, args []string) {
	if got := strings.Count(ts.ReadFile(args[0]), "\n"); strconv.Itoa(got) != args[1] {
		ts.Fatalf("got %d lines, want %s", got, args[1])
	}
}

// reasons checks that stdout has each ending and each rule once, with its level or
// verdict.
func cmdReasons(ts *testscript.TestScript, _ []string) {
	var want []string
	for _, e := range proxy.Endings() {
		want = append(want, string(e.Name)+" "+strings.ToLower(e.Level.String()))
	}
	for _, r := range policy.Rules() {
		want = append(want, r.Name+" "+r.Default.String())
	}
	var got []string
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		words := strings.Fields(line)
		if len(words) > 1 && words[0] != "ENDING" && words[0] != "RULE" {
			got = append(got, words[0]+" "+words[1])
		}
	}
	if !slices.Equal(got, want) {
		ts.Fatalf("got %q, want %q", got, want)
	}
}

// rules checks that stdout, a configuration, has every rule with its default and
// says whether it is stricter than Iggy.
func cmdRules(ts *testscript.TestScript, _ []string) {
	out := ts.ReadFile("stdout")
	for _, r := range policy.Rules() {
		note := "as Iggy"
		if r.Stricter {
			note = "stricter than Iggy"
		}
		want := fmt.Sprintf("\n%s = \"%s\"  # %s; %s\n", r.Name, r.Default, note, r.Refuses)
		if len(r.Allowed) == 0 {
			want = fmt.Sprintf("\n# %s is always %s, it has no switch  # %s; %s\n", r.Name, r.Default, note, r.Refuses)
		}
		if strings.Count(out, want) != 1 {
			ts.Fatalf("got a configuration without %q", want)
		}
	}
}
