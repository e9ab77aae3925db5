//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
)

// A shape is the way that targets are compared on.
type shape string

const (
	hop    shape = "plain"  // one plaintext hop
	pair   shape = "pair"   // plaintext in, TLS between two, plaintext out
	single shape = "single" // TLS in, sent by stock crypto/tls, plaintext out
)

// ours is the maker whose figures are held against the others'.
const ours = "replgate"

// need is what a cell asks of a target.
type need struct {
	shape  shape
	pinned bool // all of it on one processor
	many   bool // a gate in front of the last of many replicas, which all lower ones dial
}

// manyReplicas is the largest roster: a gate takes one link from each other one.
const manyReplicas = 255

// target is one way from the generator to the sink.
type target struct {
	need
	maker     string
	entry     entry
	processes []*process
	gates     []gateRole
	relays    []relay
}

func (t *target) name() string { return fmt.Sprintf("%s/%s", t.maker, t.shape) }

func (t *target) pids() []int {
	pids := make([]int, len(t.processes))
	for i, p := range t.processes {
		pids[i] = p.pid()
	}
	return pids
}

func (t *target) stop() {
	for _, p := range t.processes {
		p.stop()
	}
	t.processes = nil
}

// field is the bench's ground: where files lie, what the gates are.
type field struct {
	dir    string
	binary string // replgate
	self   string // this program
	pki    replica.PKI
	keys   *mac.Keyring
	tls    *tls.Config
	ports  int // that have been given out
}

func newField(dir, binary, self string) (*field, error) {
	f := &field{dir: dir, binary: binary, self: self}
	var err error
	if f.pki, err = mint(dir); err != nil {
		return nil, err
	}
	if f.keys, err = mac.NewKeyring([]byte(secret), nil); err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(f.pki.CA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("got no certificate in the file just made")
	}
	f.tls = &tls.Config{RootCAs: roots, ServerName: serverName, MinVersion: tls.VersionTLS13, NextProtos: []string{certs.ALPN},
		CurvePreferences: []tls.CurveID{tls.X25519}}
	return f, nil
}

// address gives out an address that nobody else has.
func (f *field) address() string {
	f.ports++
	return fmt.Sprintf("127.0.0.1:%d", 7100+f.ports)
}

// ways are the targets of a shape, by maker, started. Makers that are not on this
// machine are left out, and named in missing.
func (f *field) ways(n need, makers []string) (ways []*target, missing []string, err error) {
	for _, maker := range makers {
		if !present(maker) {
			missing = append(missing, maker)
			continue
		}
		t, err := f.way(maker, n)
		if err != nil {
			return ways, missing, fmt.Errorf("%s: %w", maker, err)
		}
		ways = append(ways, t)
	}
	return ways, missing, nil
}

// programs are what a maker's target is run with.
var programs = map[string]string{"haproxy": "haproxy", "nginx": "nginx", "ghostunnel": "ghostunnel", "toxiproxy": "toxiproxy-server"}

func present(maker string) bool {
	program, foreign := programs[maker]
	if !foreign {
		return true
	}
	_, err := exec.LookPath(program)
	return err == nil
}

// way starts one target.
func (f *field) way(maker string, n need) (*target, error) {
	t := &target{need: n, maker: maker, entry: entry{last: 1}}
	switch maker {
	case "direct":
		t.entry.address = sinkAddress
		return t, nil
	case "splice":
		listen := f.address()
		return t, f.run(t, "splice", listen, []string{f.self, "splice", listen})
	case ours:
		return t, f.gated(t)
	}
	return t, f.relayed(t)
}

// run starts one process of a target, which is entered there from then on, and
// waits until it listens.
func (f *field) run(t *target, name, listen string, argv []string) error {
	p, err := start(f.dir, fmt.Sprintf("%s-%d", name, f.ports), t.pinned, argv...)
	if err != nil {
		return err
	}
	t.processes = append(t.processes, p)
	t.entry.address = listen
	return listens(listen)
}

// gated puts one or two gates into a target.
func (f *field) gated(t *target) error {
	in := gateRole{replica: 1, replicas: 2, listen: f.address(), far: "tls", next: sinkAddress}
	if t.many {
		in.replica, in.replicas, t.entry.last = manyReplicas-1, manyReplicas, manyReplicas-1
	}
	switch {
	case t.shape == hop && t.many:
		in.far = "plaintext"
		t.gates = []gateRole{in}
	case t.shape == hop:
		t.gates = []gateRole{{replicas: 2, listen: f.address(), egress: true, far: "plaintext", next: sinkAddress}}
	case t.shape == single:
		t.gates = []gateRole{in}
		t.entry.tls, t.entry.keys = f.tls, f.keys
	case t.shape == pair:
		t.gates = []gateRole{in, {replicas: 2, listen: f.address(), egress: true, far: "tls", next: in.listen}}
	}
	return f.startGates(t)
}

// startGates starts the gates of a target, the last of which is its entry.
func (f *field) startGates(t *target) error {
	for i := range t.gates {
		g := &t.gates[i]
		g.name = fmt.Sprintf("gate-%d", f.ports*10+i)
		path, err := g.write(f.dir, f.pki)
		if err != nil {
			return err
		}
		if err := f.run(t, g.name, g.listen, []string{f.binary, "run", "--config", path}); err != nil {
			return err
		}
	}
	return nil
}

// relayed puts one or two processes of another maker into a target.
func (f *field) relayed(t *target) error {
	last := relay{maker: t.maker, listen: f.address(), next: sinkAddress, pinned: t.pinned}
	switch t.shape {
	case hop:
		t.relays = []relay{last}
	case single:
		last.side = server
		t.relays = []relay{last}
		t.entry.tls = f.tls
	case pair:
		last.side = server
		t.relays = []relay{last, {maker: t.maker, side: client, listen: f.address(), next: last.listen, pinned: t.pinned}}
	}
	for _, r := range t.relays {
		argv, err := r.argv(f.dir, f.pki)
		if err != nil {
			return err
		}
		if err := f.run(t, r.name(), r.listen, argv); err != nil {
			return err
		}
	}
	return nil
}
