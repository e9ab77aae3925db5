package lab

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/internal/replica/standin"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// StandInConfig is what a stand-in's process is told, as a JSON file.
type StandInConfig struct {
	ID, Replicas uint8
	Seed         uint64
	Life         uint32 // how often it has been started before
	Groups       int    // partition groups
	Listen       string
	Peers        map[uint8]string // higher ids: where they are dialed
	Security     string
	Secret       string
	PKI          replica.PKI
	Load         standin.Load
}

// Report is a line that a stand-in prints: how it stands.
type Report struct {
	ID      uint8
	View    uint32 // of the metadata group
	Primary uint8  // of the metadata group
	Normal  bool   // every group is
	Commit  uint64 // the sum of all groups' commit points
	Hash    string // over all groups' logs
	Links   int
	GapMS   int64 // longest time between two heartbeats
	Acked   int
	Frames  uint64 // received
	Fault   string `json:",omitempty"`
}

const reportEvery = 250 * time.Millisecond

// RunStandIn is the whole life of a stand-in's process: it prints a Report every
// quarter of a second, stops its clients on SIGUSR1, and returns the first fault.
func RunStandIn(ctx context.Context, config io.Reader, out io.Writer) error {
	var c StandInConfig
	if err := json.NewDecoder(config).Decode(&c); err != nil {
		return fmt.Errorf("lab: got no stand-in's configuration, want JSON: %w", err)
	}
	node, err := c.node()
	if err != nil {
		return err
	}
	quiet := make(chan os.Signal, 1)
	signal.Notify(quiet, syscall.SIGUSR1)
	defer signal.Stop(quiet)
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	lines, tick := json.NewEncoder(out), time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				r := c.report(node.Status())
				r.Fault = err.Error()
				lines.Encode(r) // the error goes to standard error as well
			}
			return err
		case <-quiet:
			node.SetLoad(standin.Load{})
		case <-tick.C:
			if err := lines.Encode(c.report(node.Status())); err != nil {
				return err
			}
		}
	}
}

func (c StandInConfig) node() (*standin.Node, error) {
	n := standin.NodeConfig{Peers: c.Peers, Load: c.Load, Config: standin.Config{ID: c.ID, Replicas: c.Replicas,
		Cluster: wire.ClusterIDOf(clusterName), Seed: c.Seed, Life: c.Life, Groups: c.Groups}}
	var err error
	if c.Security != "plaintext" {
		if n.Keys, err = mac.NewKeyring([]byte(c.Secret), nil); err != nil {
			return nil, err
		}
	}
	if c.Security == "tls" {
		set, err := certs.Load(certs.Files{Cert: c.PKI.Cert, Key: c.PKI.Key, CA: c.PKI.CA}, nil)
		if err != nil {
			return nil, err
		}
		server, client := nativeTLS(set)
		n.ServerTLS, n.ClientTLS = server, func(uint8) *tls.Config { return client }
	}
	if n.Listener, err = net.Listen("tcp", c.Listen); err != nil {
		return nil, err
	}
	return standin.NewNode(n)
}

func (c StandInConfig) report(s standin.Status) Report {
	r := Report{ID: c.ID, Normal: true, Links: len(s.Links), GapMS: s.HeartbeatGap.Milliseconds(), Acked: s.Acked}
	hash := uint64(0)
	for i, g := range s.Groups {
		if i == 0 {
			r.View, r.Primary = g.View, g.Primary
		}
		r.Normal = r.Normal && g.Normal
		r.Commit += g.Commit
		hash = hash*31 + g.LogHash
	}
	r.Hash = fmt.Sprintf("%016x", hash)
	for _, n := range s.Received {
		r.Frames += n
	}
	return r
}

// StandIn is a running stand-in process.
type StandIn struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	now Report
	end chan struct{} // closed when it has ended
	err error
}

// StartStandIn runs `binary stand-in` with the configuration at path. What it has
// to complain about goes to complaints.
func StartStandIn(binary, path string, complaints io.Writer) (*StandIn, error) {
	s := &StandIn{cmd: exec.Command(binary, "stand-in", path), end: make(chan struct{})}
	s.cmd.Stderr = complaints
	apart(s.cmd)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go s.follow(out)
	return s, nil
}

func (s *StandIn) follow(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var r Report
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			s.mu.Lock()
			s.now = r
			s.mu.Unlock()
		}
	}
	s.err = s.cmd.Wait()
	close(s.end)
}

// Report is the newest line of the stand-in.
func (s *StandIn) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Quiet stops its clients.
func (s *StandIn) Quiet() { s.cmd.Process.Signal(syscall.SIGUSR1) }

// Kill ends it without a word, as a crash does.
func (s *StandIn) Kill() {
	s.cmd.Process.Kill()
	<-s.end
}

// Ended reports whether it has ended by itself.
func (s *StandIn) Ended() bool {
	select {
	case <-s.end:
		return true
	default:
		return false
	}
}

// Stop ends it in order. A fault it found is an error.
func (s *StandIn) Stop() error {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.end:
	case <-time.After(stopTime):
		s.Kill()
	}
	if s.err != nil {
		return errors.Join(fmt.Errorf("lab: stand-in %d ended: %w", s.Report().ID, s.err), faultOf(s.Report()))
	}
	return nil
}

func faultOf(r Report) error {
	if r.Fault == "" {
		return nil
	}
	return errors.New(r.Fault)
}

// nativeTLS is what a native replica has of TLS: as a server it asks nobody for a
// certificate, as a client it has none to give (§7.8).
func nativeTLS(set *certs.Set) (server, client *tls.Config) {
	server, client = set.With(certs.Options{ClientAuth: certs.Off}).Server(), set.Client(ServerName)
	client.GetClientCertificate = nil
	return server, client
}

// Stranger is a TLS configuration that anybody has who knows the authority.
func Stranger(p replica.PKI) (*tls.Config, error) {
	set, err := certs.Load(certs.Files{Cert: p.Cert, Key: p.Key, CA: p.CA}, nil)
	if err != nil {
		return nil, err
	}
	return set.Client(ServerName), nil
}
