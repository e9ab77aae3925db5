package harden_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/harden"
	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica/standin"
	"github.com/replgate/replgate/wire"
)

// node is one host of a site.
type node struct {
	id    uint8
	place harden.Place

	mu      sync.Mutex // what the traffic's watcher reads too
	replica *standin.Node
	end     context.CancelFunc
	ended   chan error
	life    uint32 // how often its replica was started
	acks    []standin.Ack
	gap     time.Duration // longest between two heartbeats, of the lives that are over

	gate     *lab.Gate
	gates    int     // how often its gate was started
	rejected float64 // frames, by gates that have ended
}

// load is what clients do at every node, for as long as it lives.
func load() standin.Load {
	return standin.Load{Rate: 60, Messages: 2, Payload: 64, Metadata: 0.2, Offsets: 0.1, SignIns: 0.05}
}

// startReplica starts a stand-in as the Iggy configuration at path says: its
// address, where the higher ids are, its timers.
func (n *node) startReplica(path string, replicas int) error {
	if n.replica != nil {
		return fmt.Errorf("got replica %d started twice", n.id)
	}
	iggy, err := configs.LoadIggy(path, configs.Options{})
	if err != nil {
		return err
	}
	beat := iggy.Cluster.HeartbeatTimeout.Std()
	c := standin.NodeConfig{Peers: map[uint8]string{}, Load: load(), Redial: 50 * time.Millisecond,
		Config: standin.Config{ID: n.id, Replicas: uint8(replicas), Cluster: wire.ClusterIDOf(iggy.Cluster.Name), Seed: 1, Life: n.life, Groups: 3,
			Timers: standin.Timers{Heartbeat: beat, Commit: beat / 10, ViewChange: beat / 10, ViewStatus: beat, Probe: beat / 10, Repair: beat / 5}}}
	for _, entry := range iggy.Cluster.Nodes {
		address := net.JoinHostPort(entry.IP, strconv.Itoa(entry.Ports.TCPReplica))
		switch id := uint8(entry.ReplicaID); {
		case id > n.id:
			c.Peers[id] = address
		case id == n.id:
			if c.Listener, err = net.Listen("tcp", address); err != nil {
				return err
			}
		}
	}
	replica, err := standin.NewNode(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- replica.Run(ctx) }()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.replica, n.end, n.ended = replica, cancel, ended
	n.life++
	return nil
}

// stopReplica ends the stand-in; one that has found a fault says so. What its
// clients were told is done stays known.
func (n *node) stopReplica() error {
	if n.replica == nil {
		return nil
	}
	n.end()
	err := <-n.ended
	n.mu.Lock()
	defer n.mu.Unlock()
	n.acks = append(n.acks, n.replica.Acked()...)
	n.gap = max(n.gap, n.replica.Status().HeartbeatGap)
	n.replica = nil
	return err
}

func (n *node) startGate(config string) (err error) {
	if n.gate != nil {
		return fmt.Errorf("got gate %d started twice", n.id)
	}
	n.gate, err = lab.Start(binary, config)
	n.gates++
	return err
}

// stopGate ends the gate, which must exit 0.
func (n *node) stopGate() error {
	if n.gate == nil {
		return nil
	}
	err := n.count()
	if stopped := n.gate.Stop(startTime); stopped != nil {
		err = errors.Join(err, fmt.Errorf("gate %d: %w\n%s", n.id, stopped, n.gate.Log()))
	}
	n.gate = nil
	return err
}

// count takes what the gate has rejected so far.
func (n *node) count() error {
	samples, err := lab.Scrape(n.place.Metrics)
	n.rejected += samples.Sum("replgate_frames_rejected_total")
	return err
}

// is returns why a service is not in a state.
func (n *node) is(service string, want harden.State, replicas int) error {
	switch {
	case service == harden.Gate && want == harden.Stopped:
		if n.gate != nil {
			return errors.New("got a gate that runs")
		}
		return nil
	case service == harden.Iggy && want == harden.Stopped:
		if n.replica != nil {
			return errors.New("got a replica that runs")
		}
		return nil
	case service != harden.Iggy || want != harden.Whole:
		return fmt.Errorf("got the state %s of %s, want one of the plan's", want, service)
	case n.replica == nil:
		return errors.New("got a replica that is stopped")
	}
	status := n.replica.Status()
	if len(status.Links) != replicas-1 {
		return fmt.Errorf("got links to %d, want %d of them", status.Links, replicas-1)
	}
	for _, g := range status.Groups {
		if !g.Normal {
			return fmt.Errorf("got group %x in a view change or recovering", g.Group)
		}
	}
	return nil
}

// values holds a JSON text against what a condition says of it.
func values(text []byte, want []harden.Value) error {
	var top any
	if len(want) > 0 {
		if err := json.Unmarshal(text, &top); err != nil {
			return err
		}
	}
	for _, v := range want {
		got, err := pick(top, v.Path)
		if err != nil {
			return err
		}
		if v.For == "" {
			if !reflect.DeepEqual(got, v.Equals) {
				return fmt.Errorf("got %v for %s, want %v", got, v.Path, v.Equals)
			}
			continue
		}
		least, err := time.ParseDuration(v.For)
		text, _ := got.(string)
		since, timeErr := time.Parse(time.RFC3339Nano, text)
		if err := errors.Join(err, timeErr); err != nil {
			return err
		}
		if age := time.Since(since); age < least {
			return fmt.Errorf("got %v for %s, want %v", age, v.Path, least)
		}
	}
	return nil
}

// pick follows a path.
func pick(at any, path string) (any, error) {
	for _, part := range strings.Split(path, ".") {
		name, selector, picked := strings.Cut(strings.TrimSuffix(part, "]"), "[")
		object, ok := at.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("got no object with %q of %s", name, path)
		}
		next, there := object[name]
		if at = next; !there {
			at = ""
		}
		if !picked {
			continue
		}
		key, want, _ := strings.Cut(selector, "=")
		var found []any
		list, _ := next.([]any)
		for _, e := range list {
			if o, ok := e.(map[string]any); ok && fmt.Sprint(o[key]) == want {
				found = append(found, e)
			}
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("got %d of %s in %s, want one", len(found), part, path)
		}
		at = found[0]
	}
	return at, nil
}

// authority issues the certificates of a site.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key, certificate: &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "site CA"}, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}}
	der, err := x509.CreateCertificate(rand.Reader, a.certificate, a.certificate, key.Public(), key)
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a, err
}

// issue makes a certificate for the names and no others, and its key.
func (a *authority) issue(names []string) (certificate, private []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: a.certificate.NotBefore, NotAfter: a.certificate.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	for _, n := range names {
		leaf.IPAddresses = append(leaf.IPAddresses, net.ParseIP(n))
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), err
}
