package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"time"
)

// crl is what is kept of one revocation list beside its entries.
type crl struct {
	raw        []byte
	issuer     string // as people read it
	thisUpdate time.Time
	nextUpdate time.Time // zero where the list names none
}

// revocations are the revoked serial numbers by issuing key. The key is a part of
// it because CAs that follow each other often share a name, and may give one
// serial number twice.
type revocations map[string]map[string]bool

// issuerKey names who signs: a subject and a public key. Neither contains the
// other's end, DER gives its own length.
func issuerKey(cert *x509.Certificate) string {
	return string(cert.RawSubject) + string(cert.RawSubjectPublicKeyInfo)
}

// pemCRL is the type of a PEM block that holds a revocation list.
const pemCRL = "X509 CRL"

// derSequence is the first byte of a list in DER, and of no PEM file.
const derSequence = 0x30

// crls reads the revocation lists of a file: PEM, or DER one behind the other.
// Each must be signed by one of the signers; nil signers are those of files that
// could not be read, and then signatures wait until they can.
func (l *loader) crls(path string, signers []*x509.Certificate) ([]crl, revocations, error) {
	data, err := l.bytes(keyCRL, path)
	if err != nil {
		return nil, nil, err
	}
	fail := func(result string, err error) ([]crl, revocations, error) {
		return nil, nil, &FileError{keyCRL, path, result, err}
	}
	lists, result, err := listsIn(data)
	if err != nil {
		return fail(result, err)
	}
	var kept []crl
	revoked := make(revocations)
	for i, der := range lists {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return fail(ResultMalformed, fmt.Errorf("list %d: got no CRL, want DER: %w", i+1, err))
		}
		kept = append(kept, crl{der, list.Issuer.String(), list.ThisUpdate, list.NextUpdate})
		if signers == nil {
			continue
		}
		signer, err := signerOf(list, signers)
		if err != nil {
			return fail(ResultMismatch, fmt.Errorf("list %d: %w", i+1, err))
		}
		if err := revoked.add(signer, list); err != nil {
			return fail(ResultUnsupported, fmt.Errorf("list %d: %w", i+1, err))
		}
	}
	return kept, revoked, nil
}

// listsIn splits a file into lists in DER. With an error comes the [FileError]
// result.
func listsIn(data []byte) (lists [][]byte, result string, err error) {
	if len(data) > 0 && data[0] == derSequence {
		for rest := data; len(rest) > 0; {
			var one asn1.RawValue
			if rest, err = asn1.Unmarshal(rest, &one); err != nil {
				return nil, ResultTruncated, fmt.Errorf("got %d whole list(s) and part of something, want whole lists in DER: %w", len(lists), err)
			}
			lists = append(lists, one.FullBytes)
		}
		return lists, "", nil
	}
	blocks, err := pemBlocks(data)
	if err != nil {
		return nil, ResultTruncated, err
	}
	for _, block := range blocks {
		if block.Type == pemCRL {
			lists = append(lists, block.Bytes)
		}
	}
	if len(lists) == 0 {
		return nil, ResultNoPEM, fmt.Errorf("got %s and no revocation list, want at least one %s block, or DER", describe(data, len(blocks)), pemCRL)
	}
	return lists, "", nil
}

// signerOf finds whose list it is. A list of somebody we do not trust is refused
// and not passed over: it was put there to revoke something, and would not.
func signerOf(list *x509.RevocationList, signers []*x509.Certificate) (*x509.Certificate, error) {
	err := fmt.Errorf("got a CRL issued by %q, want one of a CA in ca_file, or of an intermediate in cert_file", clip(list.Issuer.String()))
	for _, signer := range signers {
		if !bytes.Equal(signer.RawSubject, list.RawIssuer) {
			continue
		}
		refused := list.CheckSignatureFrom(signer)
		if refused == nil {
			return signer, nil
		}
		err = fmt.Errorf("got a CRL whose signature is not that of %s, want one that it signed, with the key usage cRLSign: %w", subject(signer), refused)
	}
	return nil, err
}

// removeFromCRL is the reason code of an entry that takes an earlier one back
// (RFC 5280 §5.3.1).
const removeFromCRL = 8

// add takes the entries of a list that signer has signed. Lists of one signer add
// up: what one of them revokes is revoked.
func (r revocations) add(signer *x509.Certificate, list *x509.RevocationList) error {
	serials := r[issuerKey(signer)]
	if serials == nil {
		serials = make(map[string]bool)
		r[issuerKey(signer)] = serials
	}
	for _, entry := range list.RevokedCertificateEntries {
		for _, extension := range entry.Extensions {
			// The one that exists makes the entry another issuer's.
			if extension.Critical {
				return fmt.Errorf("got an entry with the critical extension %v, want a CRL of the issuer's own certificates", extension.Id)
			}
		}
		if entry.ReasonCode != removeFromCRL {
			serials[string(entry.SerialNumber.Bytes())] = true
		}
	}
	return nil
}

// has tells whether a certificate is revoked by whoever issued it.
func (r revocations) has(cert, issuer *x509.Certificate) bool {
	return r[issuerKey(issuer)][string(cert.SerialNumber.Bytes())]
}

// amongCAs tells whether one CA of ca_file is revoked by another: an intermediate
// that stands there beside its root. It then is no root of ours. What a CA says
// of itself is passed over: a root ends by being taken out of the file.
func (r revocations) amongCAs(ca *x509.Certificate, cas []*x509.Certificate) bool {
	for _, issuer := range cas {
		if r.has(ca, issuer) && issuerKey(ca) != issuerKey(issuer) && ca.CheckSignatureFrom(issuer) == nil {
			return true
		}
	}
	return false
}

// in finds the first revoked certificate of a chain that ends in a root.
func (r revocations) in(chain []*x509.Certificate) *x509.Certificate {
	for i, cert := range chain[:len(chain)-1] {
		if r.has(cert, chain[i+1]) {
			return cert
		}
	}
	return nil
}

// revocation refuses a peer whose every way to a root leads over a revoked
// certificate. Lists that are out of date still count.
func (s *Set) revocation(ways [][]*x509.Certificate) *Fault {
	var revoked *x509.Certificate
	for _, way := range ways {
		cert := s.revoked.in(way)
		if cert == nil {
			return nil
		}
		revoked = cert
	}
	if revoked == nil {
		return nil
	}
	return &Fault{Word: FaultRevoked, Detail: fmt.Sprintf(
		"expected a certificate that is not revoked, found %s with serial number %x in crl_file: replace it on the other side",
		issued(revoked), revoked.SerialNumber)}
}
