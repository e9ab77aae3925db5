//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
)

// stage is one gate in a process of its own, and what a test needs to play the
// replicas on both its sides: addresses, secrets, certificates, and the local
// replica's listener. The near side is plaintext.
type stage struct {
	t         *testing.T
	net       lab.Net
	id        int
	gate      *lab.Gate
	pid       int
	path      string // of the configuration
	pki       replica.PKI
	certs     *certs.Set
	keys      *mac.Keyring
	local     *hall
	ingressAt string
}

// stageOptions is what tests have otherwise.
type stageOptions struct {
	net          *lab.Net // drawn where nil
	id, replicas int
	far          string // the security of every peer that extra does not name
	near         string // plaintext where empty
	peer         func(id int) string
	extra        string  // more TOML
	wrap         string  // a shell command that ends in the words of another: "ip netns exec x"
	before       string  // a shell line before the gate is executed
	noLocal      bool    // nobody listens for the local replica
	at           *island // where the gate and its replica are; this host where nil
	listen       string  // where the gate takes peers in, if not on the loopback net
}

// playLimit bounds whatever a stand-in waits for.
const playLimit = 15 * time.Second

// raise prepares a stage and starts its gate. The gate is killed at the end of
// the test if it still runs; a test that looks at its exit stops it itself.
func raise(t *testing.T, o stageOptions) *stage {
	t.Helper()
	s := prepareStage(t, o)
	switch {
	case o.at != nil:
		s.local = hallOn(t, o.at.listen(s.net.Replica(o.id)))
		o.at.ferry(s.net.Metrics(o.id))
		o.wrap = o.at.wrap()
	case !o.noLocal:
		s.local = openHall(t, s.net.Replica(o.id))
	}
	s.begin(o)
	return s
}

// prepareStage makes everything but the processes.
func prepareStage(t *testing.T, o stageOptions) *stage {
	t.Helper()
	s := &stage{t: t, id: o.id, net: lab.NewNet()}
	if o.net != nil {
		s.net = *o.net
	}
	if o.near == "" {
		o.near = "plaintext"
	}
	dir := t.TempDir()
	var err error
	hosts := append(s.net.Hosts(), lab.ServerName)
	if s.pki, err = replica.Mint(dir, hosts, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if s.certs, err = certs.Load(certs.Files{Cert: s.pki.Cert, Key: s.pki.Key, CA: s.pki.CA}, nil); err != nil {
		t.Fatal(err)
	}
	if s.keys, err = mac.NewKeyring([]byte(secretOne), nil); err != nil {
		t.Fatal(err)
	}
	config := lab.Config{Net: s.net, ID: o.id, Replicas: o.replicas, Near: o.near, Far: o.far, PKI: s.pki,
		Secret: secretOne, Peer: o.peer, Extra: o.extra}
	if s.path, err = config.Write(dir); err != nil {
		t.Fatal(err)
	}
	s.ingressAt = s.net.Ingress(o.id)
	if o.listen != "" {
		s.moveIngress(o.listen)
	}
	return s
}

// moveIngress lets the gate take peers in at another address.
func (s *stage) moveIngress(address string) {
	s.t.Helper()
	text, err := os.ReadFile(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	moved := strings.Replace(string(text), s.ingressAt, address, 1)
	if err := os.WriteFile(s.path, []byte(moved), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.ingressAt = address
}

// begin starts the gate, through a shell that says which process it becomes.
func (s *stage) begin(o stageOptions) {
	s.t.Helper()
	gate, err := lab.Start(s.launcher(o), s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.gate = gate
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Logf("the gate's log:\n%s", tail(gate.Log(), 40))
		}
		killGate(gate)
	})
	text, err := os.ReadFile(s.pidFile())
	if err != nil {
		s.t.Fatal(err)
	}
	if s.pid, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) pidFile() string { return filepath.Join(filepath.Dir(s.path), "pid") }

// launcher writes a program that executes the gate.
func (s *stage) launcher(o stageOptions) string {
	s.t.Helper()
	path := filepath.Join(filepath.Dir(s.path), "launch")
	text := fmt.Sprintf("#!/bin/sh\necho $$ > '%s'\n%s\nexec %s '%s' \"$@\"\n", s.pidFile(), o.before, o.wrap, replgateBinary)
	// A test that starts a program at this moment would keep the file open for
	// writing in its child, and then it cannot be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// killGate ends a gate that a test has left running.
func killGate(g *lab.Gate) {
	select {
	case <-g.Done():
	default:
		g.Signal(os.Kill)
		<-g.Done()
	}
}

// exit stops the gate and returns its exit code.
func (s *stage) exit(within time.Duration) int {
	s.t.Helper()
	return exitOf(s.t, s.gate.Stop(within))
}

func exitOf(t *testing.T, err error) int {
	t.Helper()
	failed, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return 0
	case ok:
		return failed.ExitCode()
	}
	t.Errorf("got %v from the gate, want an exit", err)
	return -1
}

func tail(text string, lines int) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func (s *stage) ingressAddr() string          { return s.ingressAt }
func (s *stage) egressAddr(peer uint8) string { return s.net.Egress(s.id, int(peer)) }
func (s *stage) metrics() lab.Samples {
	s.t.Helper()
	return scrape(s.t, s.net.Metrics(s.id))
}

// closedBy is how many connections have ended with a reason.
func (s *stage) closedBy(reason string) int {
	s.t.Helper()
	return int(s.metrics().Sum("replgate_links_closed_total", `reason="`+reason+`"`))
}

// linksOf is how many links a peer has.
func (s *stage) linksOf(peer uint8) int {
	s.t.Helper()
	return int(s.metrics().Sum("replgate_links", fmt.Sprintf(`peer="%d"`, peer)))
}
