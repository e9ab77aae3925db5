package certs_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
)

// refuses tells whether a set with a file of lists refuses a peer as revoked, in
// both roles.
func refuses(t *testing.T, set *certs.Set, chain ...*pair) bool {
	t.Helper()
	server := stock(chain[0])
	server.Certificates[0] = presenting(chain...)
	out := handshake(t, set.Client("127.0.0.1"), server)
	dialing := out.clientErr != nil
	if dialing {
		wantWord(t, certs.ClassifyClient(out.clientErr, time.Now()), certs.FaultRevoked)
	}
	out = handshake(t, offering(chain...), set.Server())
	accepting := out.serverErr != nil
	if accepting {
		wantWord(t, certs.ClassifyServer(out.serverErr, out.hello, time.Now()), certs.FaultRevoked)
	}
	if dialing != accepting {
		t.Errorf("got revoked as acceptor %v, as dialer %v, want one verdict", dialing, accepting)
	}
	return dialing
}

func TestLoadCRLForms(t *testing.T) {
	ca, second := newCA(t, "ca"), newCA(t, "second ca")
	own := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1"))
	first, other := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1")), sign(t, second, ecdsaKey(t), forHosts("127.0.0.1"))
	later := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1"))
	a, b, c := revoking(t, ca, nil, first), revoking(t, second, nil, other), revoking(t, ca, nil, later)
	old := revoking(t, ca, func(l *x509.RevocationList) { l.ThisUpdate, l.NextUpdate = time.Unix(1, 0), time.Unix(2, 0) }, first)
	for name, row := range map[string]struct {
		file string
		gone []*pair
		here []*pair
	}{
		"none revoked":  {crlPEM(revoking(t, ca, nil)), nil, []*pair{own, first, other, later}},
		"PEM":           {crlPEM(a), []*pair{first}, []*pair{own, other, later}},
		"PEM with more": {"text\n" + certPEM(ca) + crlPEM(a), []*pair{first}, []*pair{other}},
		"DER":           {string(a), []*pair{first}, []*pair{other, later}},
		"several PEM":   {crlPEM(a, b, c), []*pair{first, other, later}, []*pair{own}},
		"several DER":   {string(a) + string(b) + string(c), []*pair{first, other, later}, []*pair{own}},
		"out of date":   {crlPEM(old), []*pair{first}, []*pair{own}}, // still used
	} {
		set := loadCRL(t, row.file, []*pair{own}, ca, second)
		for _, peer := range row.gone {
			if !refuses(t, set, peer) {
				t.Errorf("%s: got a revoked peer, want a refusal", name)
			}
		}
		for _, peer := range row.here {
			if refuses(t, set, peer) {
				t.Errorf("%s: got a peer refused that no list names", name)
			}
		}
	}
}

func TestLoadCRLRefuses(t *testing.T) {
	ca := newCA(t, "ca")
	own := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1"))
	mute := sign(t, nil, ecdsaKey(t), func(c *x509.Certificate) {
		c.IsCA, c.KeyUsage, c.Subject.CommonName = true, x509.KeyUsageCertSign, "mute"
	})
	voice := &pair{&x509.Certificate{}, mute.key} // what the mute one may not do
	*voice.cert = *mute.cert
	voice.cert.KeyUsage = x509.KeyUsageCRLSign
	alias := &pair{&x509.Certificate{}, ca.key} // the right key under another name
	*alias.cert = *ca.cert
	alias.cert.RawSubject, alias.cert.Subject.CommonName = nil, "alias"
	good := revoking(t, ca, nil, own)
	forged := append([]byte(nil), good...)
	forged[len(forged)-1] ^= 1
	namesake := newCA(t, "ca")
	indirect := revoking(t, ca, func(l *x509.RevocationList) {
		l.RevokedCertificateEntries[0].ExtraExtensions = []pkix.Extension{
			{Id: asn1.ObjectIdentifier{2, 5, 29, 29}, Critical: true, Value: []byte{0x30, 0}}} // certificateIssuer
	}, own)
	cut := crlPEM(good)[:200]
	strange := string(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: own.cert.Raw}))
	for name, row := range map[string]struct{ file, result, in string }{
		"empty":               {"", certs.ResultNoPEM, "an empty file"},
		"no PEM":              {"hello", certs.ResultNoPEM, "no PEM block"},
		"a certificate":       {certPEM(own), certs.ResultNoPEM, "X509 CRL"},
		"PEM cut":             {cut, certs.ResultTruncated, "truncated"},
		"second PEM cut":      {crlPEM(good) + cut, certs.ResultTruncated, "truncated"},
		"DER cut":             {string(good[:len(good)-1]), certs.ResultTruncated, "part"},
		"DER and more":        {string(good) + "\x30", certs.ResultTruncated, "part"},
		"not a list":          {strange, certs.ResultMalformed, "list 1"},
		"DER of another kind": {string(own.cert.Raw), certs.ResultMalformed, "list 1"},
		"forged":              {crlPEM(good, forged), certs.ResultMismatch, "list 2"},
		"of a stranger":       {crlPEM(revoking(t, newCA(t, "stranger"), nil)), certs.ResultMismatch, "CN=stranger"},
		"of a namesake":       {crlPEM(revoking(t, namesake, nil)), certs.ResultMismatch, "CN=ca"},
		"of an alias":         {crlPEM(revoking(t, alias, nil)), certs.ResultMismatch, "CN=alias"},
		"of one who may not":  {crlPEM(revoking(t, voice, nil)), certs.ResultMismatch, "cRLSign"},
		"of other issuers":    {crlPEM(indirect), certs.ResultUnsupported, "2.5.29.29"},
	} {
		dir := files{"tls.crt": certPEM(own), "tls.key": keyPEM(t, own.key), "ca.crt": certPEM(ca, mute), "crl.pem": row.file}
		with := names
		with.CRL = "crl.pem"
		wantFileErrors(t, name, with, dir.read, certs.FileError{Key: "crl_file", Result: row.result})
		if _, err := certs.Load(with, dir.read); err == nil || !strings.Contains(err.Error(), row.in) {
			t.Errorf("%s: got %v, want %q in it", name, err, row.in)
		}
	}
	with := names
	with.CRL = "absent"
	dir := files{"tls.crt": certPEM(own), "tls.key": keyPEM(t, own.key), "ca.crt": certPEM(ca)}
	wantFileErrors(t, "missing", with, dir.read, certs.FileError{Key: "crl_file", Result: certs.ResultMissing})
	// Beside a CA that cannot be read a list is judged as far as it can be.
	dir["absent"], dir["ca.crt"] = "hello", ""
	wantFileErrors(t, "all bad", with, dir.read, certs.FileError{Key: "ca_file", Result: certs.ResultNoPEM},
		certs.FileError{Key: "crl_file", Result: certs.ResultNoPEM})
	dir["absent"] = crlPEM(good)
	wantFileErrors(t, "CA bad", with, dir.read, certs.FileError{Key: "ca_file", Result: certs.ResultNoPEM})
}

// A serial number is revoked by the key that gave it: the next CA of the same
// name may give it again.
func TestCRLBelongsToAKey(t *testing.T) {
	old, next := newCA(t, "ca"), newCA(t, "ca")
	gone := sign(t, old, ecdsaKey(t), forHosts("127.0.0.1"))
	again := sign(t, next, ecdsaKey(t), func(c *x509.Certificate) {
		forHosts("127.0.0.1")(c)
		c.SerialNumber = gone.cert.SerialNumber
	})
	set := loadCRL(t, crlPEM(revoking(t, old, nil, gone), revoking(t, next, nil)), []*pair{again}, old, next)
	if !refuses(t, set, gone) || refuses(t, set, again) {
		t.Error("got one verdict on two certificates of one serial number, want the old CA's alone revoked")
	}
}

// The list of an intermediate counts where we present the intermediate, or where
// ca_file names it.
func TestCRLOfIntermediate(t *testing.T) {
	ca := newCA(t, "ca")
	middle := sign(t, ca, ecdsaKey(t), func(c *x509.Certificate) {
		c.IsCA, c.Subject.CommonName = true, "middle"
		c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	})
	own, gone := sign(t, middle, ecdsaKey(t), forHosts("127.0.0.1")), sign(t, middle, ecdsaKey(t), forHosts("127.0.0.1"))
	file := crlPEM(revoking(t, middle, nil, gone))
	for name, set := range map[string]*certs.Set{
		"presented": loadCRL(t, file, []*pair{own, middle}, ca),
		"trusted":   loadCRL(t, file, []*pair{own}, ca, middle),
	} {
		if !refuses(t, set, gone, middle) || refuses(t, set, own, middle) {
			t.Errorf("%s: got the wrong verdict, want the one revoked and not the other", name)
		}
	}
	// An intermediate that ca_file names and its root revokes is no way around.
	set := loadCRL(t, crlPEM(revoking(t, ca, nil, middle)), []*pair{own, middle}, ca, middle)
	if !refuses(t, set, own, middle) {
		t.Error("got a peer under a revoked intermediate, want a refusal")
	}
}

// Where one of two ways to a root is not revoked, the certificate is good.
func TestCRLCrossSigned(t *testing.T) {
	old, next := newCA(t, "old"), newCA(t, "next")
	key := ecdsaKey(t)
	issuing := func(c *x509.Certificate) { c.IsCA, c.Subject.CommonName = true, "issuing" }
	byOld, byNext := sign(t, old, key, issuing), sign(t, next, key, issuing)
	peer := sign(t, byNext, ecdsaKey(t), forHosts("127.0.0.1"))
	one := loadCRL(t, crlPEM(revoking(t, old, nil, byOld)), []*pair{peer, byNext}, old, next)
	if refuses(t, one, peer, byOld, byNext) || !refuses(t, one, peer, byOld) {
		t.Error("got the wrong verdict, want the way over the old CA closed and the other open")
	}
	both := loadCRL(t, crlPEM(revoking(t, old, nil, byOld), revoking(t, next, nil, byNext)), []*pair{peer, byNext}, old, next)
	if !refuses(t, both, peer, byOld, byNext) {
		t.Error("got a peer with both ways revoked, want a refusal")
	}
}

// An entry with removeFromCRL takes a hold back.
func TestCRLRemoved(t *testing.T) {
	ca := newCA(t, "ca")
	peer := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1"))
	for reason, want := range map[int]bool{0: true, 1: true, 6: true, 8: false} {
		list := revoking(t, ca, func(l *x509.RevocationList) { l.RevokedCertificateEntries[0].ReasonCode = reason }, peer)
		if got := refuses(t, loadCRL(t, crlPEM(list), []*pair{peer}, ca), peer); got != want {
			t.Errorf("reason %d: got revoked %v, want %v", reason, got, want)
		}
	}
}

// FuzzLoadCRL: whatever the file holds, it is a set or a fault of crl_file.
func FuzzLoadCRL(f *testing.F) {
	f.Add([]byte("-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n"))
	f.Add([]byte{0x30, 0x03, 0x30, 0x01, 0x30})
	f.Add([]byte{0x30, 0x80, 0, 0})
	f.Fuzz(func(t *testing.T, file []byte) {
		ca := newCA(t, "ca")
		dir := files{"tls.crt": certPEM(ca), "tls.key": keyPEM(t, ca.key), "ca.crt": certPEM(ca), "crl.pem": string(file)}
		with := names
		with.CRL = "crl.pem"
		set, err := certs.Load(with, dir.read)
		if set == nil && (err == nil || !strings.Contains(err.Error(), "crl_file")) {
			t.Errorf("got %v, want a set or a fault of crl_file", err)
		}
	})
}
