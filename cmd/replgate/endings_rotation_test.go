//go:build linux

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/proxy"
)

// rotation are the endings that credentials bring which change while the gate runs:
// each is reloaded by SIGHUP under the honest link.
func (e *endings) rotation() []provocation {
	second := newAuthority(e.t, "second")
	list := filepath.Join(filepath.Dir(e.path), "ca.crl")
	const revokedSerial = 77
	return []provocation{
		{ending: proxy.TLSNoClientCert, provoke: func() error {
			return e.configured("client_auth = \"require\"\n", e.dialWithoutCertificate)
		}},
		{ending: proxy.IdentityMismatch, provoke: func() error {
			return e.trusting(second, func() error {
				return e.configured("trust_domain = \"lab.test\"\n", func() error {
					return e.faultyPeer(presenting(second.leaf(5, nobodyPeer, nil)), nil)
				})
			})
		}},
		{ending: proxy.PeerCertRevoked, provoke: func() error {
			return e.trusting(second, func() error {
				if err := os.WriteFile(list, second.revoked(1, revokedSerial), 0o600); err != nil {
					return err
				}
				return e.configured(fmt.Sprintf("crl_file = %q\n", list), func() error {
					return e.faultyPeer(presenting(second.leaf(revokedSerial, higherPeer, nil)), nil)
				})
			})
		}},
		{ending: proxy.Reauth, provoke: func() error {
			var b bond
			err := e.trusting(second, func() (err error) {
				b, err = e.arriveAs(second.leaf(6, cleanPeer, nil))
				return err
			})
			if err != nil {
				return err
			}
			go drainBytes(b.near)
			if how, n, _ := endOf(b.far, playLimit); how != byFIN || n != 0 {
				return fmt.Errorf("got %s after %d bytes at the end of a link to be made anew, want a FIN", how, n)
			}
			b.close()
			return nil
		}},
	}
}

// configured does something while the gate has more under [cluster.tls].
func (e *endings) configured(more string, do func() error) error {
	const table = "[cluster.tls]\n"
	e.edit(table, table+more)
	err := e.hangup()
	if err == nil {
		err = do()
	}
	e.edit(table+more, table)
	return errors.Join(err, e.hangup())
}

// trusting does something while the gate trusts another authority too.
func (e *endings) trusting(a *authority, do func() error) error {
	before, err := os.ReadFile(e.pki.CA)
	if err != nil {
		return err
	}
	if err := os.WriteFile(e.pki.CA, slices.Concat(before, a.pem), 0o600); err != nil {
		return err
	}
	err = e.hangup()
	if err == nil {
		err = do()
	}
	return errors.Join(err, os.WriteFile(e.pki.CA, before, 0o600), e.hangup())
}

// hangup lets the gate read everything again.
func (e *endings) hangup() error {
	before := e.reloads("config", "ok")
	e.gate.Signal(syscall.SIGHUP)
	for deadline := time.Now().Add(playLimit); e.reloads("config", "ok") == before; time.Sleep(5 * time.Millisecond) { // real time: another process is watched
		if time.Now().After(deadline) {
			return fmt.Errorf("got no reload, want one:\n%s", tail(e.gate.Log(), 3))
		}
	}
	return nil
}

// dialWithoutCertificate is a TLS client that has none to show.
func (e *endings) dialWithoutCertificate() error {
	c, err := e.send("", nil)
	if err != nil {
		return err
	}
	config := e.certs.Client(lab.ServerName)
	config.GetClientCertificate = nil
	client := tls.Client(c, config)
	if err := client.Handshake(); err != nil {
		return err // the refusal comes after the client's half
	}
	if _, err := client.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") && !strings.Contains(err.Error(), "bad certificate") {
		return fmt.Errorf("got %v, want an alert about the certificate", err)
	}
	return nil
}

// presenting is a TLS server with a certificate.
func presenting(c credential) *tls.Config {
	pair, err := tls.X509KeyPair(c.cert, c.key)
	if err != nil {
		panic(err) // made a line above
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{certs.ALPN}, Certificates: []tls.Certificate{pair}}
}

// arriveAs is an ingress link of the clean peer with a certificate.
func (e *endings) arriveAs(c credential) (bond, error) {
	files := map[string][]byte{"cert": c.cert, "key": c.key}
	set, err := certs.Load(certs.Files{Cert: "cert", Key: "key", CA: e.pki.CA}, func(name string) ([]byte, error) {
		if content, ok := files[name]; ok {
			return content, nil
		}
		return os.ReadFile(name)
	})
	if err != nil {
		return bond{}, err
	}
	before := e.certs
	defer func() { e.certs = before }()
	e.certs = set
	return e.tryArrive(caller{pair: pairOf(cleanPeer, endingsSelf), security: "tls"})
}
