package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/internal/replica/standin"
)

// Plan is a whole cluster to run: replicas behind gates.
type Plan struct {
	Binary   string // the replgate program, for gates and stand-ins
	Dir      string // for configurations, certificates and sockets
	Replicas int
	Near     string // security between a replica and its gate
	Far      string // security between gates
	Rate     float64
	Payload  int // bytes of a message
	Groups   int // partition groups
	Seed     uint64
	// Iggy is the path of a real iggy-server, to run in place of stand-ins.
	Iggy string
	// Net is the addresses; drawn when it is the zero value.
	Net Net
	// Dialed is where stand-in i dials j; its gate by default.
	Dialed func(i, j int) string
	// Gate may change what gate i is told.
	Gate func(i int, c *Config)
	// Complaints is where stand-ins and servers write what is wrong.
	Complaints io.Writer
}

// Lab is a running Plan.
type Lab struct {
	Plan
	PKI      replica.PKI
	Secret   string
	Gates    []*Gate
	StandIns []*StandIn
	Servers  []*Server
	lives    []uint32
}

// New lays the plan out and starts it: gates first, as beside a real replica. It
// is stopped with Stop, also after an error.
func New(p Plan) (*Lab, error) {
	if p.Net == (Net{}) {
		p.Net = NewNet()
	}
	if p.Dialed == nil {
		p.Dialed = p.Net.Egress
	}
	l := &Lab{Plan: p, Secret: fmt.Sprintf("a secret of this lab alone, drawn from seed %020d", p.Seed),
		Gates: make([]*Gate, p.Replicas), StandIns: make([]*StandIn, p.Replicas), lives: make([]uint32, p.Replicas)}
	var err error
	if l.PKI, err = replica.Mint(p.Dir, append(l.Net.Hosts(), ServerName), time.Now().Add(-time.Hour), time.Now().Add(30*24*time.Hour)); err != nil {
		return l, err
	}
	for i := range p.Replicas {
		if err := l.StartGate(i); err != nil {
			return l, err
		}
	}
	if p.Iggy != "" {
		return l, l.startServers()
	}
	for i := range p.Replicas {
		if err := l.StartStandIn(i); err != nil {
			return l, err
		}
	}
	return l, nil
}

// Socket is gate i's admin socket.
func (l *Lab) Socket(i int) string { return filepath.Join(l.Dir, fmt.Sprintf("gate-%d.sock", i)) }

// StartGate starts gate i, at first or again.
func (l *Lab) StartGate(i int) error {
	c := Config{Net: l.Net, ID: i, Replicas: l.Replicas, Near: l.Near, Far: l.Far, PKI: l.PKI, Secret: l.Secret, Admin: "unix:" + l.Socket(i)}
	if l.Gate != nil {
		l.Gate(i, &c)
	}
	path, err := c.Write(l.Dir)
	if err != nil {
		return err
	}
	l.Gates[i], err = Start(l.Binary, path)
	return err
}

// StartStandIn starts stand-in i, at first or again with its memory lost.
func (l *Lab) StartStandIn(i int) error {
	c := StandInConfig{ID: uint8(i), Replicas: uint8(l.Replicas), Seed: l.Seed, Life: l.lives[i], Groups: l.Groups,
		Listen: l.Net.Replica(i), Peers: map[uint8]string{}, Security: l.Near, Secret: l.Secret, PKI: l.PKI,
		Load: standin.Load{Rate: l.Rate, Messages: 4, Payload: l.Payload, Metadata: 0.1, Offsets: 0.1, SignIns: 0.05}}
	l.lives[i]++
	for j := i + 1; j < l.Replicas; j++ {
		c.Peers[uint8(j)] = l.Dialed(i, j)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	path := filepath.Join(l.Dir, fmt.Sprintf("stand-in-%d.json", i))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	l.StandIns[i], err = StartStandIn(l.Binary, path, l.Complaints)
	return err
}

// Reports are the newest of all stand-ins.
func (l *Lab) Reports() []Report {
	all := make([]Report, l.Replicas)
	for i, s := range l.StandIns {
		if s != nil {
			all[i] = s.Report()
		}
	}
	return all
}

// Meshed reports whether every replica has every link.
func (l *Lab) Meshed() bool {
	for _, r := range l.Reports() {
		if r.Links != l.Replicas-1 {
			return false
		}
	}
	return true
}

// Agreed reports whether every stand-in has the same commit points and logs.
func (l *Lab) Agreed() bool {
	all := l.Reports()
	for _, r := range all {
		if !r.Normal || r.Commit != all[0].Commit || r.Hash != all[0].Hash {
			return false
		}
	}
	return true
}

// Until waits for cond, and fails when ctx ends or a stand-in does.
func (l *Lab) Until(ctx context.Context, what string, cond func() bool) error {
	for !cond() {
		for i, s := range l.StandIns {
			if s != nil && s.Ended() {
				return errors.Join(fmt.Errorf("lab: stand-in %d ended while waiting until %s", i, what), s.Stop())
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lab: not in time: %s (reports %+v)", what, l.Reports())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// Settle stops all clients and waits until the stand-ins agree on every log.
func (l *Lab) Settle(ctx context.Context) error {
	for _, s := range l.StandIns {
		s.Quiet()
	}
	since := time.Now().Add(2 * reportEvery)
	return l.Until(ctx, "all logs are equal", func() bool { return time.Now().After(since) && l.Agreed() })
}

// Stop ends everything, replicas first. What went wrong anywhere is an error.
func (l *Lab) Stop() error {
	var failed []error
	for _, s := range l.StandIns {
		if s != nil {
			failed = append(failed, s.Stop())
		}
	}
	for _, s := range l.Servers {
		failed = append(failed, s.Stop())
	}
	for i, g := range l.Gates {
		if g == nil {
			continue
		}
		if err := g.Stop(stopTime); err != nil {
			failed = append(failed, fmt.Errorf("gate %d: %w\n%s", i, err, g.Log()))
		}
	}
	return errors.Join(failed...)
}
