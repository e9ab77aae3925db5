package certs_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
)

func ecdsaOn(t *testing.T, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	return must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(curve, rand.Reader))
}

func rsaKey(t *testing.T, bits int) crypto.Signer {
	t.Helper()
	return must[*rsa.PrivateKey](t)(rsa.GenerateKey(rand.Reader, bits))
}

func edKey(t *testing.T) crypto.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return must[ed25519.PrivateKey](t)(key, err)
}

// version1 makes a certificate as old tools do: no version, no extensions.
func version1(t *testing.T, key *ecdsa.PrivateKey) *pair {
	t.Helper()
	v3 := sign(t, nil, key, nil).cert
	algorithm := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}}
	tbs := must[[]byte](t)(asn1.Marshal(struct {
		Serial    *big.Int
		Algorithm pkix.AlgorithmIdentifier
		Issuer    asn1.RawValue
		Validity  struct{ From, To time.Time }
		Subject   asn1.RawValue
		Public    asn1.RawValue
	}{
		big.NewInt(1), algorithm, asn1.RawValue{FullBytes: v3.RawSubject},
		struct{ From, To time.Time }{v3.NotBefore, v3.NotAfter},
		asn1.RawValue{FullBytes: v3.RawSubject}, asn1.RawValue{FullBytes: v3.RawSubjectPublicKeyInfo},
	}))
	sum := sha256.Sum256(tbs)
	signature := must[[]byte](t)(ecdsa.SignASN1(rand.Reader, key, sum[:]))
	der := must[[]byte](t)(asn1.Marshal(struct {
		TBS       asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{asn1.RawValue{FullBytes: tbs}, algorithm, asn1.BitString{Bytes: signature, BitLength: len(signature) * 8}}))
	return &pair{must[*x509.Certificate](t)(x509.ParseCertificate(der)), key}
}

func TestLoadAcceptsKinds(t *testing.T) { // §7.8: what ring verifies
	ca := newCA(t, "ca")
	for name, key := range map[string]crypto.Signer{
		"P-256": ecdsaKey(t), "P-384": ecdsaOn(t, elliptic.P384()), "Ed25519": edKey(t), "RSA": rsaKey(t, 2048),
	} {
		t.Run(name, func(t *testing.T) {
			set := loadPair(t, sign(t, ca, key, forHosts("127.0.0.1")), ca)
			succeed(t, set.Client("127.0.0.1"), set.Server())
			if set.SelfSigned() || len(set.CAs()) != 1 {
				t.Error("got no CA mode, want it")
			}
		})
	}
}

func TestLoadKeyEncodings(t *testing.T) {
	ca := newCA(t, "ca")
	ec, rs := ecdsaKey(t).(*ecdsa.PrivateKey), rsaKey(t, 2048).(*rsa.PrivateKey)
	sec1 := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: must[[]byte](t)(x509.MarshalECPrivateKey(ec))})
	parameters := pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}})
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rs)})
	for name, row := range map[string]struct {
		key  crypto.Signer
		text string
	}{
		"sec1":            {ec, string(sec1)},
		"with parameters": {ec, string(parameters) + string(sec1)},
		"pkcs1":           {rs, string(pkcs1)},
		"crlf":            {ec, strings.ReplaceAll(string(sec1), "\n", "\r\n")},
		"text around":     {ec, "made by hand\n" + string(sec1) + "\n\n"},
	} {
		dir := files{"tls.crt": certPEM(sign(t, ca, row.key, nil)), "tls.key": row.text, "ca.crt": certPEM(ca)}
		if _, err := certs.Load(names, dir.read); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
	}
}

// One file for both is read once, so it cannot be two generations of itself.
func TestLoadOneFile(t *testing.T) {
	ca := newCA(t, "ca")
	middle := sign(t, ca, ecdsaKey(t), func(c *x509.Certificate) { c.IsCA = true; c.Subject.CommonName = "middle" })
	own := sign(t, middle, ecdsaKey(t), forHosts("127.0.0.1"))
	dir := files{"both.pem": keyPEM(t, own.key) + certPEM(own, middle), "ca.crt": certPEM(ca, newCA(t, "next ca"))}
	reads := map[string]int{}
	set := must[*certs.Set](t)(certs.Load(certs.Files{Cert: "both.pem", Key: "both.pem", CA: "ca.crt"}, func(path string) ([]byte, error) {
		reads[path]++
		return dir.read(path)
	}))
	if reads["both.pem"] != 1 {
		t.Errorf("got %d reads of one file, want 1", reads["both.pem"])
	}
	succeed(t, set.Client("127.0.0.1"), set.Server()) // the intermediate is sent along
	if notes := set.Notes(time.Now()); len(notes) != 0 {
		t.Errorf("got notes %q, want none", notes)
	}
}

// A credential bundle is one file in whatever order its writer likes.
func TestLoadBundleOrders(t *testing.T) {
	ca := newCA(t, "ca")
	middle := sign(t, ca, ecdsaKey(t), func(c *x509.Certificate) { c.IsCA = true; c.Subject.CommonName = "middle" })
	own := sign(t, middle, ecdsaKey(t), forHosts("127.0.0.1"))
	key := keyPEM(t, own.key)
	for name, text := range map[string]string{
		"key first":   key + certPEM(own, middle),
		"key last":    certPEM(own, middle) + key,
		"key between": certPEM(own) + key + certPEM(middle),
	} {
		dir := files{"bundle.pem": text, "ca.crt": certPEM(ca)}
		set, err := certs.Load(certs.Files{Cert: "bundle.pem", Key: "bundle.pem", CA: "ca.crt"}, dir.read)
		if err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
			continue
		}
		succeed(t, set.Client("127.0.0.1"), set.Server())
	}
	// Half of a rotation inside one file is seen too.
	dir := files{"bundle.pem": certPEM(own, middle) + keyPEM(t, ecdsaKey(t)), "ca.crt": certPEM(ca)}
	wantFileErrors(t, "another key", certs.Files{Cert: "bundle.pem", Key: "bundle.pem", CA: "ca.crt"}, dir.read,
		certs.FileError{Key: "key_file", Result: certs.ResultMismatch})
}

func TestLoadFromDisk(t *testing.T) {
	ca := newCA(t, "ca")
	own := sign(t, ca, ecdsaKey(t), nil)
	dir := t.TempDir()
	at := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	disk := certs.Files{Cert: at("tls.crt", certPEM(own)), Key: at("tls.key", keyPEM(t, own.key)), CA: at("ca.crt", certPEM(ca))}
	if _, err := certs.Load(disk, nil); err != nil {
		t.Fatal(err)
	}
	disk.Key = filepath.Join(dir, "absent")
	if _, err := certs.Load(disk, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	disk.Key = dir
	wantFileErrors(t, "a directory", disk, nil, certs.FileError{Key: "key_file", Result: certs.ResultUnreadable})
}

// wantFileErrors loads and checks every file's fault, in order.
func wantFileErrors(t *testing.T, name string, from certs.Files, read func(string) ([]byte, error), want ...certs.FileError) {
	t.Helper()
	set, err := certs.Load(from, read)
	if set != nil || err == nil {
		t.Errorf("%s: got a set, want an error", name)
		return
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Errorf("%s: got %T, want joined errors", name, err)
		return
	}
	got := joined.Unwrap()
	if len(got) != len(want) {
		t.Errorf("%s: got %d errors (%v), want %d", name, len(got), err, len(want))
		return
	}
	for i := range want {
		var file *certs.FileError
		if !errors.As(got[i], &file) || file.Key != want[i].Key || file.Result != want[i].Result {
			t.Errorf("%s: got %v, want %s of %s", name, got[i], want[i].Result, want[i].Key)
			continue
		}
		text := file.Error()
		if !strings.HasPrefix(text, "certs: "+file.Key) || !strings.Contains(text, "got ") || !strings.Contains(text, "want ") && file.Result != certs.ResultTruncated {
			t.Errorf("%s: got the text %q, want got and want", name, text)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	ca := newCA(t, "ca")
	own := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1"))
	cert, key, root := certPEM(own), keyPEM(t, own.key), certPEM(ca)
	p521, small := ecdsaOn(t, elliptic.P521()), rsaKey(t, 1024)
	old := version1(t, ecdsaKey(t).(*ecdsa.PrivateKey))
	badDER := "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	badKey := "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
	sealed := "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
	strange := "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n"
	is := func(key, result string) []certs.FileError { return []certs.FileError{{Key: key, Result: result}} }
	for name, row := range map[string]struct {
		cert, key, ca string
		want          []certs.FileError
	}{
		"empty cert":       {"", key, root, is("cert_file", certs.ResultNoPEM)},
		"cert is no PEM":   {"hello", key, root, is("cert_file", certs.ResultNoPEM)},
		"cert is a key":    {key, key, root, is("cert_file", certs.ResultNoPEM)},
		"cert cut":         {cert[:len(cert)/2], key, root, is("cert_file", certs.ResultTruncated)},
		"chain cut":        {cert + root[:len(root)/2], key, root, is("cert_file", certs.ResultTruncated)},
		"first damaged":    {strings.Replace(cert, "-----END", "-- --END", 1) + root, key, root, is("cert_file", certs.ResultTruncated)},
		"cert is no X.509": {badDER, key, root, is("cert_file", certs.ResultMalformed)},
		"v1 leaf":          {certPEM(old), keyPEM(t, old.key), root, is("cert_file", certs.ResultUnsupported)},
		"v1 intermediate":  {cert + certPEM(old), key, root, is("cert_file", certs.ResultUnsupported)},
		"empty key":        {cert, "\n", root, is("key_file", certs.ResultNoPEM)},
		"key is a cert":    {cert, cert, root, is("key_file", certs.ResultNoPEM)},
		"key cut":          {cert, key[:len(key)/2], root, is("key_file", certs.ResultTruncated)},
		"key is no DER":    {cert, badKey, root, is("key_file", certs.ResultMalformed)},
		"key encrypted":    {cert, sealed, root, is("key_file", certs.ResultUnsupported)},
		"key of OpenSSH":   {cert, strange, root, is("key_file", certs.ResultUnsupported)},
		"two keys":         {cert, key + key, root, is("key_file", certs.ResultMalformed)},
		"other key":        {cert, keyPEM(t, ecdsaKey(t)), root, is("key_file", certs.ResultMismatch)},
		"other kind":       {cert, keyPEM(t, edKey(t)), root, is("key_file", certs.ResultMismatch)},
		"CA is a key":      {cert, key, key, is("ca_file", certs.ResultNoPEM)},
		"CA cut":           {cert, key, root[:len(root)/2], is("ca_file", certs.ResultTruncated)},
		"P-521": {certPEM(sign(t, ca, p521, nil)), keyPEM(t, p521), root, []certs.FileError{
			{Key: "cert_file", Result: certs.ResultUnsupported}, {Key: "key_file", Result: certs.ResultUnsupported}}},
		"RSA 1024": {certPEM(sign(t, ca, small, nil)), keyPEM(t, small), root, []certs.FileError{
			{Key: "cert_file", Result: certs.ResultUnsupported}, {Key: "key_file", Result: certs.ResultUnsupported}}},
		"all bad": {"", cert, key, []certs.FileError{{Key: "cert_file", Result: certs.ResultNoPEM},
			{Key: "key_file", Result: certs.ResultNoPEM}, {Key: "ca_file", Result: certs.ResultNoPEM}}},
	} {
		dir := files{"tls.crt": row.cert, "tls.key": row.key, "ca.crt": row.ca}
		wantFileErrors(t, name, names, dir.read, row.want...)
	}
	missing := func(key string) certs.FileError { return certs.FileError{Key: key, Result: certs.ResultMissing} }
	wantFileErrors(t, "no files", names, files{}.read, missing("cert_file"), missing("key_file"), missing("ca_file"))
	wantFileErrors(t, "no names", certs.Files{}, files{}.read, missing("cert_file"), missing("key_file"), missing("ca_file"))
}

func TestLoadErrorsHoldNoKey(t *testing.T) { // T50
	ca := newCA(t, "ca")
	key := keyPEM(t, ecdsaKey(t))
	line := strings.Split(key, "\n")[1]
	for _, text := range []string{key, key[:len(key)-8], key + key, strings.ReplaceAll(key, "PRIVATE", "OTHER PRIVATE")} {
		_, err := certs.Load(names, files{"tls.crt": certPEM(ca), "tls.key": text, "ca.crt": text}.read)
		if err == nil || strings.Contains(err.Error(), line[:8]) {
			t.Errorf("got %v, want an error without the key's bytes", err)
		}
	}
}
