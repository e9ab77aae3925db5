package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// The RSA sizes that ring verifies (RSA_PKCS1_2048_8192, RSA_PSS_2048_8192).
const (
	minRSABits = 2048
	maxRSABits = 8192
)

// pemBlocks splits a file into its blocks. encoding/pem skips a damaged block
// in silence and goes on with the next one, which would turn a half-written
// chain into a shorter chain; so the beginnings are counted.
func pemBlocks(data []byte) ([]*pem.Block, error) {
	const begin = "-----BEGIN "
	begins := bytes.Count(data, []byte("\n"+begin))
	if bytes.HasPrefix(data, []byte(begin)) {
		begins++
	}
	var blocks []*pem.Block
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		blocks = append(blocks, block)
	}
	if len(blocks) < begins {
		return nil, fmt.Errorf("got %d whole PEM block(s) of %d that begin, want all whole: the file is truncated or damaged", len(blocks), begins)
	}
	return blocks, nil
}

// isPrivateKey tells any private key's block, readable or not.
func isPrivateKey(block *pem.Block) bool {
	return block.Type == "PRIVATE KEY" || strings.HasSuffix(block.Type, " PRIVATE KEY")
}

// parseKey reads a key of a kind that peers can verify. With an error comes the
// [FileError] result.
func parseKey(block *pem.Block) (crypto.Signer, string, error) {
	if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
		return nil, ResultUnsupported, errors.New("got an encrypted private key, want one without a passphrase")
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return nil, ResultUnsupported, fmt.Errorf("got a block %q, want PRIVATE KEY, EC PRIVATE KEY or RSA PRIVATE KEY", block.Type)
	}
	if err != nil {
		return nil, ResultMalformed, fmt.Errorf("got no key inside the %s block, want DER: %w", block.Type, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, ResultUnsupported, fmt.Errorf("got a key that cannot sign (%T), want %s", key, acceptedKinds)
	}
	if err := keyKind(signer.Public()); err != nil {
		return nil, ResultUnsupported, err
	}
	return signer, "", nil
}

// acceptedKinds ends every refusal of a key's kind.
const acceptedKinds = "ECDSA P-256 or P-384, Ed25519, or RSA of 2048 to 8192 bits"

// keyKind accepts what rustls with ring verifies (§7.8). Go's own range is
// wider: a P-521 pair would serve gates and fail every native replica.
func keyKind(public crypto.PublicKey) error {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() || key.Curve == elliptic.P384() {
			return nil
		}
		return fmt.Errorf("got an ECDSA %s key, want %s", key.Curve.Params().Name, acceptedKinds)
	case ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("got an RSA key of %d bits, want %s", bits, acceptedKinds)
		}
		return nil
	}
	return fmt.Errorf("got a key of an unknown kind (%T), want %s", public, acceptedKinds)
}

// presentable refuses a certificate that a native peer would refuse in either
// mode: webpki parses v3 only, even where the verifier accepts anything (§7.8).
func presentable(cert *x509.Certificate) error {
	if cert.Version != 3 {
		return fmt.Errorf("got X.509 version %d, want 3 (%s)", cert.Version, subject(cert))
	}
	if err := keyKind(cert.PublicKey); err != nil {
		return fmt.Errorf("%w (%s)", err, subject(cert))
	}
	return nil
}
