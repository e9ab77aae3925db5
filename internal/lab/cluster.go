package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// Options of a cluster.
type Options struct {
	Binary   string // the replgate program
	Dir      string // for configurations and certificates
	Replicas int
	// Near and Far are the securities between a stand-in and its gate, and
	// between gates.
	Near, Far string
	Secret    string
	// OnlyDialer and OnlyAcceptor leave out the gates of one role: the other end
	// of a link is then a stand-in that speaks Far itself.
	OnlyDialer, OnlyAcceptor bool
}

// Cluster is stand-ins with gates between them.
type Cluster struct {
	Options
	Net   Net
	Gates []*Gate
	keys  *mac.Keyring
	certs *certs.Set
	// upstream is where stand-in i is dialed. Links to it are made one at a time,
	// so that what arrives is the other end of what was dialed.
	upstream []*net.TCPListener
	arriving []sync.Mutex
}

// clusterName is the name in the recordings.
const clusterName = "iggy-cluster"

// NewCluster starts every gate and listens for every stand-in. It is stopped with
// Stop, also after an error.
func NewCluster(o Options) (*Cluster, error) {
	c := &Cluster{Options: o, Net: NewNet(), arriving: make([]sync.Mutex, o.Replicas)}
	pki, err := replica.Mint(o.Dir, append(c.Net.Hosts(), ServerName), time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
	if err != nil {
		return c, err
	}
	if c.certs, err = certs.Load(certs.Files{Cert: pki.Cert, Key: pki.Key, CA: pki.CA}, nil); err != nil {
		return c, err
	}
	if c.keys, err = mac.NewKeyring([]byte(o.Secret), nil); err != nil {
		return c, err
	}
	peer := c.Net.Ingress
	if o.OnlyDialer {
		peer = c.Net.Replica
	}
	for i := range o.Replicas {
		ln, err := net.Listen("tcp", c.Net.Replica(i))
		if err != nil {
			return c, err
		}
		c.upstream = append(c.upstream, ln.(*net.TCPListener))
		config := Config{Net: c.Net, ID: i, Replicas: o.Replicas, Near: o.Near, Far: o.Far, PKI: pki, Secret: o.Secret, Peer: peer}
		path, err := config.Write(o.Dir)
		if err != nil {
			return c, err
		}
		gate, err := Start(o.Binary, path)
		if err != nil {
			return c, err
		}
		c.Gates = append(c.Gates, gate)
	}
	return c, nil
}

// stopTime is what a gate may take to end: its drain deadline and then some.
const stopTime = 40 * time.Second

// Stop ends everything; every gate must exit 0.
func (c *Cluster) Stop() error {
	var failed []error
	for i, g := range c.Gates {
		if err := g.Stop(stopTime); err != nil {
			failed = append(failed, fmt.Errorf("gate %d: %w\n%s", i, err, g.Log()))
		}
	}
	for _, ln := range c.upstream {
		ln.Close()
	}
	return errors.Join(failed...)
}

// Voice is how the stand-in of one role speaks on a link in a security.
func (c *Cluster) Voice(p mac.Pair, security string, dialer bool) replica.Voice {
	v := replica.Voice{Cluster: wire.ClusterIDOf(clusterName), Pair: p}
	if security != "plaintext" {
		v.Keys = c.keys
	}
	if security == "tls" {
		server, client := nativeTLS(c.certs)
		v.TLS = server
		if dialer {
			v.TLS = client
		}
	}
	return v
}

// dialed is where the dialer of a pair reaches the acceptor, and in which security.
func (c *Cluster) dialed(p mac.Pair) (address, security string) {
	if c.OnlyAcceptor {
		return c.Net.Ingress(int(p.Acceptor)), c.Far
	}
	return c.Net.Egress(int(p.Dialer), int(p.Acceptor)), c.Near
}

// Connect makes both ends of one link.
func (c *Cluster) Connect(ctx context.Context, pair mac.Pair) (dialer, acceptor *replica.Conn, err error) {
	c.arriving[pair.Acceptor].Lock()
	defer c.arriving[pair.Acceptor].Unlock()
	address, security := c.dialed(pair)
	reached := c.Near
	if c.OnlyDialer {
		reached = c.Far
	}
	var both sync.WaitGroup
	var dialErr, acceptErr error
	both.Go(func() { dialer, dialErr = c.Voice(pair, security, true).Dial(ctx, address) })
	both.Go(func() {
		ln := c.upstream[pair.Acceptor]
		deadline, _ := ctx.Deadline()
		ln.SetDeadline(deadline)
		tcp, err := ln.AcceptTCP()
		if err != nil {
			acceptErr = err
			return
		}
		acceptor, acceptErr = c.Voice(pair, reached, false).Accept(ctx, tcp)
	})
	both.Wait()
	return dialer, acceptor, errors.Join(dialErr, acceptErr)
}

// Links returns how many links the gates of a pair have between them: two when
// both gates are there and the link is up.
func (c *Cluster) Links(p mac.Pair) (int, error) {
	out, err := Scrape(c.Net.Metrics(int(p.Dialer)))
	if err != nil {
		return 0, err
	}
	in, err := Scrape(c.Net.Metrics(int(p.Acceptor)))
	if err != nil {
		return 0, err
	}
	return int(out.Sum("replgate_links", `direction="egress"`, fmt.Sprintf(`peer="%d"`, p.Acceptor)) +
		in.Sum("replgate_links", `direction="ingress"`, fmt.Sprintf(`peer="%d"`, p.Dialer))), nil
}

// await polls until the links of a pair number n.
func (c *Cluster) await(ctx context.Context, p mac.Pair, n int) error {
	for {
		got, err := c.Links(p)
		if err != nil || got == n {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lab: got %d links of %v, want %d in time", got, p, n)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// gatesOnTheWay is how many gates a link goes through.
func (c *Cluster) gatesOnTheWay() int {
	if c.OnlyDialer || c.OnlyAcceptor {
		return 1
	}
	return 2
}
