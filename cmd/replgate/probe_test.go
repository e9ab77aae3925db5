package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/probe"
	"github.com/replgate/replgate/wire"
)

// command runs a command line in this process.
func command(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, stdio{nil, &stdout, &stderr})
	return code, stdout.String() + stderr.String()
}

// TestProbeGates asks running gates in every security, at the entrance of peers
// and at that of the local replica, from their own configuration: it names both.
// Their metrics know probes afterwards, and nothing else.
func TestProbeGates(t *testing.T) {
	for security, want := range map[string]struct {
		what string
		kind probe.Kind
	}{
		probe.Plaintext: {probe.WhatCloses, probe.KindUnknown},
		probe.PSK:       {probe.WhatPSKAcceptor, probe.KindUnknown},
		probe.TLS:       {probe.WhatTLSAcceptor, probe.KindGate},
	} {
		t.Run(security, func(t *testing.T) {
			net, dir := lab.NewNet(), t.TempDir()
			pki, err := replica.Mint(dir, append(net.Hosts(), lab.ServerName), time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			config := lab.Config{Net: net, ID: 1, Replicas: 3, Near: security, Far: security, PKI: pki, Secret: secretOne}
			gate := startGate(t, config)
			path, err := config.Write(dir)
			if err != nil {
				t.Fatal(err)
			}
			for target, address := range map[int]string{1: net.Ingress(1), 2: net.Egress(1, 2)} {
				code, out := command(t, "probe", address, "--config", path, "--json")
				var r probe.Report
				if err := json.Unmarshal([]byte(out), &r); err != nil {
					t.Fatalf("got %v for %s", err, out)
				}
				if code != exitOK || r.What != want.what || r.Kind != want.kind || r.Count(probe.Fault) != 0 {
					t.Errorf("replica %d at %s: got exit %d, %s", target, address, code, out)
				}
			}
			eventually(t, "every connection is counted", func() bool {
				samples := scrape(t, net.Metrics(1))
				return samples.Sum("replgate_unauthenticated_inflight") == 0 && samples.Sum("replgate_links_closed_total") >= 4
			})
			samples := scrape(t, net.Metrics(1))
			for reason, n := range samples.Label("replgate_links_closed_total", "reason") {
				if n != 0 && reason != "probe" {
					t.Errorf("got %v ends %s, want probes only:\n%s", n, reason, gate.Log())
				}
			}
			if n := samples.Sum("replgate_secret_proofs_total"); n != 0 {
				t.Errorf("got %v secrets proven, want none", n)
			}
			if line, ok := gate.Find("msg", "connection refused"); ok {
				t.Errorf("got %v in a log of level info, want nothing", line)
			}
		})
	}
}

// TestCheckOnline has a peer's gate behind the one that is checked, and a
// plaintext replica beside it.
func TestCheckOnline(t *testing.T) {
	n, dir := lab.NewNet(), t.TempDir()
	pki, err := replica.Mint(dir, append(n.Hosts(), lab.ServerName), time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	peer := lab.Config{Net: n, ID: 2, Replicas: 3, Near: "plaintext", Far: "tls", PKI: pki, Secret: secretOne}
	startGate(t, peer)
	upstream, err := net.Listen("tcp", n.Replica(1))
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := upstream.Accept()
			if err != nil {
				return
			}
			io.ReadFull(c, make([]byte, wire.HeaderSize))
			c.Close()
		}
	})
	defer work.Wait()
	defer upstream.Close()

	local := peer
	local.ID = 1
	path, err := local.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	code, out := command(t, "check", "--config", path, "--online")
	for _, want := range []string{"\nok\n", n.Ingress(2) + ": replica acceptor, tls, gate: 14 ok, 0 not knowable, no fault\n",
		n.Replica(1) + ": " + probe.WhatCloses + ", gate or native unknown: 1 ok, 5 not knowable, no fault\n"} {
		if code != exitOK || !bytes.Contains([]byte(out), []byte(want)) {
			t.Errorf("got exit %d and no %q in\n%s", code, want, out)
		}
	}
	// With another secret the peer is at fault, and the local replica is asked all
	// the same.
	local.Secret = "another secret for the check, 32+ bytes"
	if path, err = local.Write(dir); err != nil {
		t.Fatal(err)
	}
	code, out = command(t, "check", "--config", path, "--online")
	for _, want := range []string{"tls, gate: 13 ok, 0 not knowable, 1 fault\n", "1 ok, 5 not knowable, no fault\n",
		"replgate: got a fault, want none: 1 fault in all, each with what to do\n"} {
		if code != exitFault || !bytes.Contains([]byte(out), []byte(want)) {
			t.Errorf("got exit %d and no %q in\n%s", code, want, out)
		}
	}
}
