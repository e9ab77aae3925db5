//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/mac"
)

// poll is reload.interval in these tests.
const poll = 20 * time.Millisecond

// authority is a CA that makes a leaf for each generation of a test.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(2 * time.Hour), KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, key, cert, pemOf("CERTIFICATE", der)}
}

// credential is a leaf with its key, as PEM files hold them.
type credential struct {
	leaf      *x509.Certificate
	cert, key []byte
}

// fingerprint is what the metrics call it.
func (c credential) fingerprint() string {
	sum := sha256.Sum256(c.leaf.Raw)
	return hex.EncodeToString(sum[:8])
}

// leaf makes one for the names of the lab and of a replica, good for both ends.
func (a *authority) leaf(serial int64, replica int, hosts []string) credential {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: fmt.Sprint("leaf ", serial)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour).Truncate(time.Second).Add(time.Duration(serial) * time.Second),
		KeyUsage: x509.KeyUsageDigitalSignature, DNSNames: []string{lab.ServerName},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{{Scheme: "spiffe", Host: "lab.test", Path: fmt.Sprintf("/iggy/iggy-cluster/%d", replica)}}}
	for _, h := range hosts {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(h))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return credential{cert, pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", private)}
}

// revoked is a list of serial numbers.
func (a *authority) revoked(number int64, serials ...int64) []byte {
	a.t.Helper()
	list := &x509.RevocationList{Number: big.NewInt(number), ThisUpdate: time.Now().Add(-time.Minute), NextUpdate: time.Now().Add(time.Hour)}
	for _, s := range serials {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: big.NewInt(s), RevocationTime: time.Now().Add(-time.Minute)})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pemOf("X509 CRL", der)
}

// vault is a folder that is filled as a kubelet fills a mounted Secret: every file
// is a link through ..data, and a change is one rename of that.
type vault struct {
	t     *testing.T
	dir   string // where the files really are
	shown string // where whoever reads them looks
	now   map[string][]byte
	swaps int
}

// newVault makes one behind so many more folders of links.
func newVault(t *testing.T, hops int, files map[string][]byte) *vault {
	t.Helper()
	v := &vault{t: t, dir: t.TempDir(), now: map[string][]byte{}}
	v.shown = v.dir
	v.put(files)
	for name := range files {
		v.must(os.Symlink(filepath.Join("..data", name), filepath.Join(v.dir, name)))
	}
	for range hops {
		next := t.TempDir()
		for name := range files {
			v.must(os.Symlink(filepath.Join(v.shown, name), filepath.Join(next, name)))
		}
		v.shown = next
	}
	return v
}

func (v *vault) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v *vault) path(name string) string { return filepath.Join(v.shown, name) }

// put changes files, all at one moment; those that are not named stay as they were,
// and one without content goes away.
func (v *vault) put(files map[string][]byte) {
	v.t.Helper()
	v.swaps++
	folder := fmt.Sprintf("..%d", v.swaps)
	v.must(os.Mkdir(filepath.Join(v.dir, folder), 0o755))
	for name, content := range files {
		v.now[name] = content
	}
	for name, content := range v.now {
		if content != nil {
			v.must(os.WriteFile(filepath.Join(v.dir, folder, name), content, 0o600))
		}
	}
	data := filepath.Join(v.dir, "..data")
	old, _ := os.Readlink(data)
	v.must(os.Symlink(folder, data+"_tmp"))
	v.must(os.Rename(data+"_tmp", data))
	if old != "" {
		v.must(os.RemoveAll(filepath.Join(v.dir, old)))
	}
}

// vaultStage is a stage whose gate has its credentials in a vault, and that has an
// authority of its own. The stage's own side shows a leaf of replica 0, serial
// callerSerial.
type vaultStage struct {
	*stage
	vault *vault
	ca    *authority
	first credential // the gate's
	mine  credential // the caller's

	socket string // admin
}

const callerSerial = 500_000

// raiseOnVault starts a gate on a vault.
func raiseOnVault(t *testing.T, o stageOptions, hops int) *vaultStage {
	t.Helper()
	s := prepareOnVault(t, o, hops)
	s.start(o)
	return s
}

func prepareOnVault(t *testing.T, o stageOptions, hops int) *vaultStage {
	t.Helper()
	if !strings.Contains(o.extra, "[reload]") {
		o.extra += "\n[reload]\ninterval = \"20ms\"\n"
	}
	s := &vaultStage{stage: prepareStage(t, o), ca: newAuthority(t, "first")}
	s.first = s.ca.leaf(1, o.id, s.net.Hosts())
	s.mine = s.ca.leaf(callerSerial, 0, nil)
	s.vault = newVault(t, hops, map[string][]byte{"tls.crt": s.first.cert, "tls.key": s.first.key, "ca.crt": s.ca.pem,
		"ca.crl": s.ca.revoked(1), "secret": []byte(secretOne), "previous": nil})
	for key, name := range map[string]string{"cert_file": "tls.crt", "key_file": "tls.key", "ca_file": "ca.crt"} {
		old := map[string]string{"cert_file": s.pki.Cert, "key_file": s.pki.Key, "ca_file": s.pki.CA}[key]
		s.edit(fmt.Sprintf("%s = %q", key, old), fmt.Sprintf("%s = %q", key, s.vault.path(name)))
	}
	s.edit("[cluster.tls]\n", fmt.Sprintf("[cluster.tls]\ncrl_file = %q\n", s.vault.path("ca.crl")))
	s.edit(fmt.Sprintf("shared_secret = %q", secretOne), fmt.Sprintf("shared_secret_file = %q\nprevious_shared_secret_file = %q", s.vault.path("secret"), s.vault.path("previous")))
	short, err := os.MkdirTemp("", "rg") // a socket's path has little room
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	s.socket = filepath.Join(short, "s")
	s.edit(`listen = ""`, fmt.Sprintf(`listen = "unix:%s"`, s.socket))
	s.show(s.mine)
	return s
}

// start is begin with a hall for the local replica.
func (s *vaultStage) start(o stageOptions) {
	s.t.Helper()
	s.local = openHall(s.t, s.net.Replica(o.id))
	s.begin(o)
}

// edit replaces a text of the configuration that must be there.
func (s *stage) edit(old, now string) {
	s.t.Helper()
	text, err := os.ReadFile(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		s.t.Fatalf("got a configuration without %q, want it there:\n%s", old, text)
	}
	if err := os.WriteFile(s.path, []byte(strings.Replace(string(text), old, now, 1)), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// show is who the callers of a stage are from now on.
func (s *vaultStage) show(c credential) {
	s.t.Helper()
	files := map[string][]byte{"cert": c.cert, "key": c.key, "ca": s.ca.pem}
	set, err := certs.Load(certs.Files{Cert: "cert", Key: "key", CA: "ca"}, func(name string) ([]byte, error) { return files[name], nil })
	if err != nil {
		s.t.Fatal(err)
	}
	s.certs = set
}

// served is the leaf that a new handshake gets.
func (s *vaultStage) served() *x509.Certificate {
	s.t.Helper()
	tcp, err := (caller{}).connect(s.ingressAddr())
	if err != nil {
		s.t.Fatal(err)
	}
	defer tcp.Close()
	tcp.SetDeadline(time.Now().Add(playLimit))
	client := tls.Client(tcp, s.certs.Client(lab.ServerName))
	if err := client.Handshake(); err != nil {
		s.t.Fatalf("a handshake with the gate: %v", err)
	}
	return client.ConnectionState().PeerCertificates[0]
}

// inUse are the fingerprint and the generation of a credential, empty for none.
func (s *vaultStage) inUse(kind string) (fingerprint, generation string) {
	s.t.Helper()
	for series := range s.metrics() {
		if strings.HasPrefix(series, "replgate_credential_info{") && strings.Contains(series, `kind="`+kind+`"`) {
			_, rest, _ := strings.Cut(series, `sha256_8="`)
			_, number, _ := strings.Cut(series, `generation="`)
			return rest[:strings.IndexByte(rest, '"')], number[:strings.IndexByte(number, '"')]
		}
	}
	return "", ""
}

// reloads is how often something was reloaded with a result.
func (s *stage) reloads(kind, result string) int {
	s.t.Helper()
	return int(s.metrics().Sum("replgate_reload_total", `kind="`+kind+`"`, `result="`+result+`"`))
}

// control runs a command against the stage's gate.
func (s *vaultStage) control(args ...string) (code int, out string) {
	s.t.Helper()
	var stdout, stderr strings.Builder
	code = run(s.t.Context(), append(args, "--socket", s.socket), stdio{nil, &stdout, &stderr})
	return code, stdout.String() + stderr.String()
}

// beating is an ingress link with a pulse on it.
func (s *stage) beating(id uint8, security string) *pulse {
	s.t.Helper()
	return beatOn(s.t, s.arrive(id, security), id, uint8(s.id))
}

// pairOf is a link's dialer and acceptor.
func pairOf(dialer, acceptor uint8) mac.Pair { return mac.Pair{Dialer: dialer, Acceptor: acceptor} }
