package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Files names the PEM files of CA mode. The first three are required, as Iggy
// requires them (§8.3). Cert holds the leaf first, then its intermediates. Cert
// and Key may be the same file, with the key before, behind or among the
// certificates: written as one, they are never read half rotated.
type Files struct {
	Cert, Key, CA string
	// CRL holds revocation lists, in PEM or DER. Empty: nothing is revoked.
	CRL string
}

// The results of a [FileError]: a closed list, fit for a metric label.
const (
	ResultMissing     = "missing"     // the file is not there, or its name is empty
	ResultUnreadable  = "unreadable"  // the file is there and cannot be read
	ResultNoPEM       = "no_pem"      // no PEM block of the kind the file is for
	ResultTruncated   = "truncated"   // a PEM block begins and does not end
	ResultMalformed   = "malformed"   // PEM around something that does not parse
	ResultMismatch    = "mismatch"    // the key is not the leaf's, the CRL no CA's
	ResultUnsupported = "unsupported" // a peer's rustls with ring would refuse it (§7.8)
)

// FileError is what is wrong with one of the files. It never holds a byte of
// the file.
type FileError struct {
	Key    string // cert_file, key_file, ca_file or crl_file
	Path   string
	Result string // one of the Result constants
	Err    error
}

// Error names the configuration key, the file and the fault.
func (e *FileError) Error() string {
	return fmt.Sprintf("certs: %s %q: %v", e.Key, e.Path, e.Err)
}

// Unwrap gives the cause, so that errors.Is finds fs.ErrNotExist.
func (e *FileError) Unwrap() error { return e.Err }

// The keys of [cluster.tls] that name the files.
const (
	keyCert = "cert_file"
	keyKey  = "key_file"
	keyCA   = "ca_file"
	keyCRL  = "crl_file"
)

// Load reads and checks the files of CA mode. read is the way to a file's
// bytes, os.ReadFile when nil; a path is read once even if two keys name it, so
// that certificate and key of one file are of one generation. All faulty files
// are reported at once, each as a *[FileError]. A certificate that is expired or
// not valid yet is no error here, nor is a revocation list that is out of date:
// [Set.Notes] reports them.
func Load(files Files, read func(string) ([]byte, error)) (*Set, error) {
	l := loader{read: read, seen: make(map[string][]byte)}
	if read == nil {
		l.read = os.ReadFile
	}
	chain, certErr := l.chain(files.Cert)
	key, keyErr := l.key(files.Key)
	cas, caErr := l.cas(files.CA)
	if certErr == nil && keyErr == nil {
		keyErr = matches(chain[0], key, files)
	}
	s := &Set{chain: chain, cas: cas, roots: x509.NewCertPool()}
	var crlErr error
	if files.CRL != "" {
		var signers []*x509.Certificate
		if certErr == nil && caErr == nil {
			signers = slices.Concat(cas, chain[1:])
		}
		s.crls, s.revoked, crlErr = l.crls(files.CRL, signers)
	}
	if err := errors.Join(certErr, keyErr, caErr, crlErr); err != nil {
		return nil, err
	}
	s.pair = tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, cert := range chain {
		s.pair.Certificate = append(s.pair.Certificate, cert.Raw)
	}
	for _, ca := range cas {
		if !s.revoked.amongCAs(ca, cas) {
			s.roots.AddCert(ca)
		}
	}
	return s, nil
}

// loader reads each path once.
type loader struct {
	read func(string) ([]byte, error)
	seen map[string][]byte
}

// bytes returns the content of a file, or why there is none.
func (l *loader) bytes(key, path string) ([]byte, error) {
	if path == "" {
		return nil, &FileError{key, path, ResultMissing, errors.New("got no file name, want a PEM file")}
	}
	if data, ok := l.seen[path]; ok {
		return data, nil
	}
	data, err := l.read(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &FileError{key, path, ResultMissing, fmt.Errorf("got no such file, want a PEM file: %w", err)}
	case err != nil:
		return nil, &FileError{key, path, ResultUnreadable, fmt.Errorf("got an unreadable file, want a PEM file: %w", err)}
	}
	l.seen[path] = data
	return data, nil
}

// chain reads what we present: the leaf, then its intermediates.
func (l *loader) chain(path string) ([]*x509.Certificate, error) {
	chain, err := l.certificates(keyCert, path)
	if err != nil {
		return nil, err
	}
	for i, cert := range chain {
		if err := presentable(cert); err != nil {
			return nil, &FileError{keyCert, path, ResultUnsupported, fmt.Errorf("certificate %d of %d: %w", i+1, len(chain), err)}
		}
	}
	return chain, nil
}

// cas reads the roots we accept.
func (l *loader) cas(path string) ([]*x509.Certificate, error) {
	return l.certificates(keyCA, path)
}

// certificates reads all certificates of a file, at least one.
func (l *loader) certificates(key, path string) ([]*x509.Certificate, error) {
	data, err := l.bytes(key, path)
	if err != nil {
		return nil, err
	}
	blocks, err := pemBlocks(data)
	if err != nil {
		return nil, &FileError{key, path, ResultTruncated, err}
	}
	var certs []*x509.Certificate
	for _, block := range blocks {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, &FileError{key, path, ResultMalformed, fmt.Errorf("certificate %d: got no X.509, want DER inside PEM: %w", len(certs)+1, err)}
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, &FileError{key, path, ResultNoPEM, fmt.Errorf("got %s and no certificate, want at least one CERTIFICATE block", describe(data, len(blocks)))}
	}
	return certs, nil
}

// key reads the one private key of a file.
func (l *loader) key(path string) (crypto.Signer, error) {
	data, err := l.bytes(keyKey, path)
	if err != nil {
		return nil, err
	}
	blocks, err := pemBlocks(data)
	if err != nil {
		return nil, &FileError{keyKey, path, ResultTruncated, err}
	}
	var key crypto.Signer
	for _, block := range blocks {
		if !isPrivateKey(block) {
			continue
		}
		if key != nil {
			return nil, &FileError{keyKey, path, ResultMalformed, errors.New("got more than one private key, want one")}
		}
		var result string
		if key, result, err = parseKey(block); err != nil {
			return nil, &FileError{keyKey, path, result, err}
		}
	}
	if key == nil {
		return nil, &FileError{keyKey, path, ResultNoPEM, fmt.Errorf("got %s and no private key, want one PRIVATE KEY block", describe(data, len(blocks)))}
	}
	return key, nil
}

// matches refuses a key that is not the leaf's: half of a rotation.
func matches(leaf *x509.Certificate, key crypto.Signer, files Files) error {
	type equaler interface{ Equal(crypto.PublicKey) bool }
	if public, ok := key.Public().(equaler); ok && public.Equal(leaf.PublicKey) {
		return nil
	}
	return &FileError{keyKey, files.Key, ResultMismatch, fmt.Errorf(
		"got the key of another certificate, want the key of the first one in %q (%s)", files.Cert, subject(leaf))}
}

// describe says what a file holds instead of what it should.
func describe(data []byte, blocks int) string {
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return "an empty file"
	case blocks == 0:
		return "no PEM block"
	}
	return fmt.Sprintf("%d PEM block(s) of other kinds", blocks)
}
