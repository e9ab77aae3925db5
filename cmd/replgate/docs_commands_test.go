package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// notRun are the reasons for which a block of the manual is not run here. The
// reason stands above the block, for the reader.
func notRun() map[string]string {
	return map[string]string{
		"needs root": "installs a package, or captures packets",
		gateInstead:  "the unit has tests of its own, in deploy",
		"needs a real Iggy; stand-ins dial through the gates in its place": "this project builds none",
	}
}

// standInsInstead is the one of them that has to happen all the same for the rest
// to make sense.
const standInsInstead = "needs a real Iggy; stand-ins dial through the gates in its place"

// gateInstead is another one.
const gateInstead = "needs root and systemd; a gate in the background stands for the service"

// block is a fenced part of a page.
type block struct {
	page, language string
	section        string // the heading of level two above it
	line           int
	lines          []string
	reason         string // why it is not run
}

func blocks(t *testing.T, path string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	reason, section := "", ""
	for i, line := range strings.Split(string(text), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			open = &block{page: filepath.Base(path), section: section, language: fence, line: i + 1, reason: reason}
		case isFence:
			all = append(all, *open)
			open, reason = nil, ""
		case open != nil:
			open.lines = append(open.lines, line)
		case strings.HasPrefix(line, "## "):
			section = line[len("## "):]
		case strings.HasPrefix(line, "*Not run by the tests: "):
			reason = strings.TrimSuffix(strings.TrimPrefix(line, "*Not run by the tests: "), ".*")
		case line != "":
			reason = ""
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: got a block without an end", path, open.line)
	}
	return all
}

// hosts are folders that stand for the hosts of the manual, each with a shell. In
// commands and files /etc/ is below the host's folder, and the addresses are those
// of loopback nets; in what is printed they are put back. Two programs stand in
// for others: scp copies between the folders, and replgate finds the admin socket
// of its host, whose usual place is not ours to use.
type hosts struct {
	t       *testing.T
	dir     string
	network string
	loop    [3]string
	plan    string // the net of a plan's addresses, empty where there is no plan
	shells  [3]*shell
}

const hostAddresses, loopAddresses = "10.0.1.", "127.0.50."

func newHosts(t *testing.T) *hosts {
	t.Helper()
	dir, err := os.MkdirTemp("", "m") // short: a socket's path has little room
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := &hosts{t: t, dir: dir, network: newPrefix()}
	for i := range h.loop {
		h.loop[i] = newPrefix()
		for _, d := range []string{"etc/iggy", "etc/replgate/tls", "bin"} {
			h.check(os.MkdirAll(filepath.Join(h.root(i), d), 0o755))
		}
		repo, err := filepath.Abs("../..")
		h.check(err)
		h.check(os.Symlink(filepath.Join(repo, "internal"), filepath.Join(h.root(i), "internal")))
		h.program(i, "replgate", fmt.Sprintf(`case "$1" in status | wait) exec %s "$@" --socket %s;; esac
exec %[1]s "$@"`, replgateBinary, h.socket(i)))
		h.program(i, "scp", fmt.Sprintf(`shift; to="${2#iggy-}"; host="${to%%%%:*}"; path="${to#*:%s}"; exec cp "$1" "%s/$host$path"`, h.root(i), dir))
		h.shells[i] = h.shell(i)
	}
	return h
}

func newPrefix() string { return strings.TrimSuffix(lab.NewNet().Replica(0), "10:9090") }

func (h *hosts) root(i int) string   { return filepath.Join(h.dir, strconv.Itoa(i)) }
func (h *hosts) socket(i int) string { return filepath.Join(h.root(i), "admin.sock") }

func (h *hosts) program(i int, name, script string) {
	h.check(os.WriteFile(filepath.Join(h.root(i), "bin", name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
}

func (h *hosts) check(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// there puts the manual's paths and addresses into their places.
func (h *hosts) there(i int, text string) string {
	return strings.NewReplacer("/etc/", h.root(i)+"/etc/", hostAddresses, h.network, loopAddresses, h.loop[i]).Replace(text)
}

// back is the other way.
func (h *hosts) back(i int, text string) string {
	text = strings.NewReplacer(h.root(i)+"/etc/", "/etc/", h.network, hostAddresses, h.loop[i], loopAddresses).Replace(text)
	if h.plan != "" {
		text = strings.ReplaceAll(text, h.plan, planLoopback)
	}
	return text
}

// shell is a bash that is told one command after another.
type shell struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (h *hosts) shell(i int) *shell {
	h.t.Helper()
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir = h.root(i)
	cmd.Env = []string{"PATH=" + filepath.Join(h.root(i), "bin") + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + h.root(i), "LC_ALL=C.UTF-8", "REPLGATE_ADMIN_LISTEN=unix:" + h.socket(i)}
	in, err := cmd.StdinPipe()
	h.check(err)
	out, err := cmd.StdoutPipe()
	h.check(err)
	cmd.Stderr = cmd.Stdout
	h.check(cmd.Start())
	s := &shell{cmd, in, bufio.NewReader(out)}
	h.t.Cleanup(func() {
		io.WriteString(in, "kill $(jobs -p) 2>/dev/null; wait\n")
		in.Close()
		cmd.Wait()
	})
	return s
}

// run runs one command and returns what it printed and its exit code.
func (s *shell) run(command string) (lines []string, code int, err error) {
	const mark = "@@@ "
	_, err = io.WriteString(s.in, command+"\n__code=$?; printf '\\n"+mark+"%d\\n' $__code; (exit $__code)\n")
	for err == nil {
		var line string
		if line, err = s.out.ReadString('\n'); err == nil && strings.HasPrefix(line, mark) {
			code, err = strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, mark)))
			if n := len(lines); n > 0 && lines[n-1] == "" {
				lines = lines[:n-1] // the mark's own
			}
			return lines, code, err
		}
		lines = append(lines, strings.TrimRight(line, "\n"))
	}
	return lines, -1, fmt.Errorf("the shell ended: %w", err)
}

// prompt is in front of a command; without a host it is iggy-1.
var prompt = regexp.MustCompile(`^(?:iggy-([0-2]))?\$ (.*)$`)

// session runs a block: each command, and what the page says that it prints.
func (h *hosts) session(b block) {
	h.t.Helper()
	for n := 0; n < len(b.lines); {
		m := prompt.FindStringSubmatch(b.lines[n])
		if m == nil {
			h.t.Fatalf("%s:%d: got %q, want a prompt in front", b.page, b.line+n+1, b.lines[n])
		}
		at, host := n, 1
		if m[1] != "" {
			host, _ = strconv.Atoi(m[1])
		}
		var want []string
		for n++; n < len(b.lines) && !prompt.MatchString(b.lines[n]); n++ {
			want = append(want, b.lines[n])
		}
		got, code, err := h.shells[host].run(h.there(host, m[2]))
		h.check(err)
		printed := h.back(host, strings.Join(got, "\n"))
		if !matches(printed, want) {
			h.t.Errorf("%s:%d: %s\ngot:\n%s\nwant:\n%s", b.page, b.line+at+1, m[2], printed, strings.Join(want, "\n"))
		}
		shown := n < len(b.lines) && strings.HasSuffix(b.lines[n], "$ echo $?")
		if code != 0 && !shown {
			h.t.Errorf("%s:%d: %s\ngot exit code %d, want 0 or `echo $?` behind it\n%s", b.page, b.line+at+1, m[2], code, printed)
		}
	}
}

// matches compares output with the page: blanks count as one, … stands for
// anything in a line, and alone for any lines.
func matches(got string, want []string) bool {
	blanks := regexp.MustCompile(`[ \t]+`)
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for _, line := range want {
		line = strings.TrimSpace(blanks.ReplaceAllString(line, " "))
		if line == "…" {
			pattern.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		for i, part := range strings.Split(line, "…") {
			if i > 0 {
				pattern.WriteString(`[^\n]*`)
			}
			pattern.WriteString(regexp.QuoteMeta(part))
		}
		pattern.WriteString(`[ ]*\n`)
	}
	pattern.WriteString(`\z`)
	var text strings.Builder
	for line := range strings.Lines(got) {
		text.WriteString(strings.TrimSpace(blanks.ReplaceAllString(line, " ")) + "\n")
	}
	return regexp.MustCompile(pattern.String()).MatchString(text.String())
}

// file writes a block that names its place, on one host or on every one, and
// loads one that is part of a gate's configuration.
func (h *hosts) file(b block) {
	h.t.Helper()
	text := strings.Join(b.lines, "\n") + "\n"
	m := regexp.MustCompile(`^# (?:iggy-([0-2])|every host): (/etc/\S+)$`).FindStringSubmatch(b.lines[0])
	switch {
	case m == nil: // a fragment
		whole, err := os.ReadFile(filepath.Join(h.root(1), "etc/replgate/replgate.toml"))
		h.check(err)
		path := filepath.Join(h.root(1), "fragment.toml")
		h.check(os.WriteFile(path, append(whole, h.there(1, text)...), 0o600))
		if out, code, err := h.shells[1].run("replgate check --config " + path); err != nil || code != 0 {
			h.t.Errorf("%s:%d: got exit code %d and %v for the fragment\n%s", b.page, b.line, code, err, strings.Join(out, "\n"))
		}
	case m[1] == "":
		for i := range h.shells {
			h.check(os.WriteFile(h.there(i, m[2]), []byte(h.there(i, text)), 0o600))
		}
	default:
		i, _ := strconv.Atoi(m[1])
		h.check(os.WriteFile(h.there(i, m[2]), []byte(h.there(i, text)), 0o600))
	}
}

// standIns are three replicas that do nothing but come up: each dials the higher
// ids where its roster has them, and takes what its gate brings.
func (h *hosts) standIns() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), ioTimeout)
	defer cancel()
	voice := func(dialer, acceptor int) replica.Voice {
		return replica.Voice{Cluster: wire.ClusterIDOf("iggy-cluster"), Pair: mac.Pair{Dialer: uint8(dialer), Acceptor: uint8(acceptor)}}
	}
	address := func(host, id int) string { return fmt.Sprintf("%s%d:9090", h.loop[host], id+1) }
	for acceptor := 1; acceptor < len(h.shells); acceptor++ {
		ln, err := net.Listen("tcp", address(acceptor, acceptor))
		h.check(err)
		h.t.Cleanup(func() { ln.Close() })
		for dialer := range acceptor {
			c, err := voice(dialer, acceptor).Dial(ctx, address(dialer, acceptor))
			h.check(err)
			h.t.Cleanup(func() { c.Close() })
			h.check(ln.(*net.TCPListener).SetDeadline(time.Now().Add(ioTimeout)))
			tcp, err := ln.Accept()
			h.check(err)
			h.t.Cleanup(func() { tcp.Close() })
			_, err = voice(dialer, acceptor).Accept(ctx, tcp.(*net.TCPConn))
			h.check(err)
		}
	}
	for i := range h.shells {
		eventually(h.t, fmt.Sprintf("two links through gate %d", i), func() bool {
			samples, err := lab.Scrape(fmt.Sprintf("%s%d:9464", h.network, i+5))
			return err == nil && samples.Sum("replgate_links") == 2
		})
	}
}

// needs leaves a test that cannot do without programs of others.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%v", err) // they are no dependency of the project; CI has them all
		}
	}
}

// Every command of OPERATIONS, in order, on three hosts; see notRun for the rest.
// One section has hosts of its own, see TestHardeningCommands.
func TestOperationsCommands(t *testing.T) {
	needs(t, "bash", "openssl", "curl")
	h := newHosts(t)
	for _, b := range blocks(t, filepath.Join(docsDir, "OPERATIONS.md")) {
		if b.reason != "" && notRun()[b.reason] == "" {
			t.Errorf("%s:%d: got the reason %q, want one of the test's list", b.page, b.line, b.reason)
		}
		switch {
		case b.section == hardeningSection:
		case b.language == "console" && b.reason == standInsInstead:
			h.standIns()
		case b.language == "console" && b.reason == gateInstead:
			h.session(block{page: b.page, line: b.line, lines: []string{
				"iggy-1$ replgate run --config /etc/replgate/replgate.toml 2>> gate.log &", "iggy-1$ replgate wait --ready"}})
		case b.language == "console" && b.reason == "":
			h.session(b)
		case b.language == "toml":
			h.file(b)
		case b.language == "sh":
			t.Errorf("%s:%d: got a block in sh, want console: with its output", b.page, b.line)
		}
		if t.Failed() {
			t.Fatal("the rest stands on this")
		}
	}
}

// Every command of the README, with its configuration and with certificates and a
// secret where that one wants them. `make` is what CI runs; here its targets must
// only be there.
func TestReadmeCommands(t *testing.T) {
	needs(t, "bash")
	h := newHosts(t)
	makefile, err := os.ReadFile("../../Makefile")
	h.check(err)
	_, err = replica.Mint(filepath.Join(h.root(1), "etc/replgate/tls"), []string{"10.0.1.6"}, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	h.check(err)
	h.check(os.Symlink("../../secret", filepath.Join(h.root(1), "etc/replgate/secret")))
	ran := 0
	for _, b := range blocks(t, "../../README.md") {
		if b.language == "toml" {
			h.check(os.WriteFile(filepath.Join(h.root(1), "replgate.toml"), []byte(h.there(1, strings.Join(b.lines, "\n")+"\n")), 0o600))
			continue
		}
		for i, line := range b.lines {
			line = strings.TrimPrefix(line, "$ ")
			words := strings.Fields(line)
			switch {
			case len(words) > 1 && words[0] == "make":
				if !strings.Contains(string(makefile), "\n"+words[1]+":") {
					t.Errorf("README.md:%d: got make %s, want a target of the Makefile", b.line+i+1, words[1])
				}
			case len(words) > 1 && strings.TrimPrefix(words[0], "bin/") == "replgate":
				command, _, _ := strings.Cut(line, " #")
				if words[1] == "run" { // until somebody ends it
					command += " 2> gate.log & replgate wait --ready && kill %1 && wait %1"
				}
				out, code, err := h.shells[1].run(h.there(1, command))
				h.check(err)
				if code != 0 {
					t.Errorf("README.md:%d: %s\ngot exit code %d, want 0\n%s", b.line+i+1, line, code, strings.Join(out, "\n"))
				}
				ran++
			}
		}
	}
	if ran == 0 {
		t.Error("got no command of replgate in the README, want some")
	}
}
