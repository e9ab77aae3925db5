package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// selfSignedYears is how long a minted certificate lives. A gate mints anew at
// each start and peers in this mode look at no date, so the figure only has to
// outlast one run. rcgen's year 4096 (Appendix B) would do as well, and would
// set the alarm of every tool that subtracts times.
const selfSignedYears = 10

// clockAllowance lets a peer whose clock is behind see a certificate that is
// already valid.
const clockAllowance = time.Hour

// SelfSigned mints the material of self-signed mode: an ECDSA P-256 key and an
// X.509 v3 certificate for the hosts, IP addresses and DNS names, valid from one
// hour before now for ten years. The set accepts any certificate of a peer; the
// signature over the handshake is verified all the same (§7.8).
func SelfSigned(hosts []string, now time.Time) (*Set, error) {
	template := &x509.Certificate{
		// No serial number: CreateCertificate draws one.
		Subject:               pkix.Name{CommonName: "replgate self signed cert"},
		NotBefore:             now.Add(-clockAllowance),
		NotAfter:              now.AddDate(selfSignedYears, 0, 0),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, // and no CA: webpki refuses a CA as an end entity
	}
	if len(hosts) == 0 {
		return nil, errors.New("certs: got no host for the self-signed certificate, want at least one IP address or DNS name")
	}
	for _, host := range hosts {
		if err := addHost(template, host); err != nil {
			return nil, err
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("certs: mint key: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certs: mint certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certs: read minted certificate: %w", err)
	}
	return &Set{
		pair:      tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		chain:     []*x509.Certificate{leaf},
		acceptAny: true,
	}, nil
}

// addHost adds one SAN, of the kind that the host is.
func addHost(template *x509.Certificate, host string) error {
	if addr, err := netip.ParseAddr(host); err == nil {
		// A zone is this machine's business and has no place in a certificate.
		template.IPAddresses = append(template.IPAddresses, addr.WithZone("").Unmap().AsSlice())
		return nil
	}
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._*"
	if host == "" || strings.Trim(host, allowed) != "" {
		return fmt.Errorf("certs: got host %q, want an IP address or a DNS name", host)
	}
	template.DNSNames = append(template.DNSNames, strings.TrimSuffix(host, "."))
	return nil
}
