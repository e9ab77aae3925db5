package harden_test

import (
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
	"strings"
	"time"

	"github.com/replgate/replgate/harden"
	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica/standin"
)

// node is one host of a site.
type node struct {
	place    harden.Place
	replica  *lab.Replica
	gate     *lab.Gate
	gates    int     // how often its gate was started
	rejected float64 // frames, by gates that have ended
}

// load is what clients do at every node, for as long as it lives.
func load() standin.Load {
	return standin.Load{Rate: 60, Messages: 2, Payload: 64, Metadata: 0.2, Offsets: 0.1, SignIns: 0.05}
}

func (n *node) startGate(config string) (err error) {
	if n.gate != nil {
		return fmt.Errorf("got gate %d started twice", n.place.ID)
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
		err = errors.Join(err, fmt.Errorf("gate %d: %w\n%s", n.place.ID, stopped, n.gate.Log()))
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
func (n *node) is(service string, want harden.State) error {
	runs := n.gate != nil
	if service == harden.Iggy {
		runs = n.replica.Running()
	}
	switch {
	case want == harden.Whole && service == harden.Iggy:
		return n.replica.Whole()
	case want == harden.Stopped && runs:
		return fmt.Errorf("got %s, which runs", service)
	case want == harden.Stopped:
		return nil
	}
	return fmt.Errorf("got the state %q of %s, want one of the plan's", want, service)
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
