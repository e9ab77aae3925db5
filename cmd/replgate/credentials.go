package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
)

// credentials makes the keyring and the certificates.
func (g *gate) credentials(p parts) error {
	missing := slices.Clone(g.loaded.Missing)
	if g.config.UsesTLS() {
		var err error
		g.certs, err = certificates(g.loaded, p)
		faults, known := errors.AsType[configs.Faults](err)
		if err != nil && !known {
			return &configError{err}
		}
		missing = append(missing, faults...)
		g.settings.Credentials = credentials{g.certs, g.settings.Local}
	}
	if len(missing) > 0 {
		return missing
	}
	var err error
	if g.settings.Keys, err = keyring(g.config); err != nil {
		return &configError{err}
	}
	return nil
}

// keyring is nil where no secret is configured; Settings say whether one is
// needed.
func keyring(c *configs.Config) (*mac.Keyring, error) {
	if !c.Cluster.Auth.SharedSecret.IsSet() {
		return nil, nil
	}
	var previous []byte
	if c.Cluster.Auth.PreviousSharedSecret.IsSet() {
		previous = c.Cluster.Auth.PreviousSharedSecret.Reveal()
	}
	return mac.NewKeyring(c.Cluster.Auth.SharedSecret.Reveal(), previous)
}

func certificates(loaded *configs.Loaded, p parts) (*certs.Set, error) {
	c := &loaded.Config
	t := c.Cluster.TLS
	if !t.SelfSigned {
		options, err := identities(c)
		if err != nil {
			return nil, configs.Faults{loaded.Fault("cluster.tls.peer_identity", err.Error())}
		}
		set, err := certs.Load(certs.Files{Cert: t.CertFile, Key: t.KeyFile, CA: t.CAFile, CRL: t.CRLFile}, p.read)
		if err != nil {
			return nil, located(loaded, err)
		}
		return set.With(options), nil
	}
	if p.before != nil && p.before.certs != nil && p.before.certs.SelfSigned() {
		return p.before.certs, nil // a new one would be another credential, for no reason
	}
	node, ok := c.Node(c.Gate.ReplicaID)
	if !ok {
		return nil, fmt.Errorf("got replica %d, want one of the roster", c.Gate.ReplicaID)
	}
	return certs.SelfSigned([]string{node.IP}, time.Now())
}

// identities are what is asked of a peer's certificate beyond its chain.
func identities(c *configs.Config) (o certs.Options, err error) {
	t := c.Cluster.TLS
	o.Replica = uint8(c.Gate.ReplicaID)
	if o.ClientAuth, err = certs.ParseClientAuth(t.ClientAuth); err != nil || t.PeerIdentity == "" {
		return o, err
	}
	o.Identity, err = certs.NewTemplate(t.PeerIdentity, t.TrustDomain, c.Cluster.Name)
	return o, err
}

// located puts the faults of certificate files where their keys stand.
func located(loaded *configs.Loaded, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	var faults configs.Faults
	for _, each := range joined.Unwrap() {
		file, ok := errors.AsType[*certs.FileError](each)
		if !ok {
			return err
		}
		fault := loaded.Fault("cluster.tls."+file.Key, fmt.Sprintf("%q: %v", file.Path, file.Err))
		fault.Reason = file.Result
		faults = append(faults, fault)
	}
	return faults
}

// credentials lend certificates to the road, with the reading of their faults.
type credentials struct {
	set   *certs.Set
	local uint8 // the replica behind this gate
}

func (c credentials) Server() (*tls.Config, func(error) proxy.TLSFault) {
	hello := new(certs.Hello)
	return hello.Watch(c.set.Server()), func(err error) proxy.TLSFault {
		return fault(certs.ClassifyServer(err, hello, time.Now()))
	}
}

func (c credentials) Client(name string) (*tls.Config, func(error) proxy.TLSFault) {
	return c.set.Client(name), func(err error) proxy.TLSFault {
		return fault(certs.ClassifyClient(err, time.Now()))
	}
}

// Identify asks what the certificate proves that was shown by a replica: a lower id
// has dialed, a higher one was dialed. The local replica is who stands on the near
// side, so its certificate, if it has shown one, must be good and name nobody.
func (c credentials) Identify(state tls.ConnectionState, replica uint8) (proxy.Identity, *proxy.TLSFault) {
	identify := c.set.IdentifyAcceptor
	switch {
	case replica < c.local:
		identify = c.set.IdentifyDialer
	case replica == c.local && len(state.PeerCertificates) == 0:
		return proxy.Identity{Level: proxy.ByMembership}, nil
	case replica == c.local:
		identify = c.set.With(certs.Options{}).IdentifyAcceptor
	}
	found, wrong := identify(state, replica, time.Now())
	return proxy.Identity{Level: found.Level, Name: found.Name, NotAfter: found.NotAfter, Ignored: faultOrNone(found.Ignored)}, faultOrNone(wrong)
}

func faultOrNone(f *certs.Fault) *proxy.TLSFault {
	if f == nil {
		return nil
	}
	out := fault(*f)
	return &out
}

func fault(f certs.Fault) proxy.TLSFault {
	return proxy.TLSFault{Ending: proxy.Ending(f.Word), Detail: f.Detail}
}
