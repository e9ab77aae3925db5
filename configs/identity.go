package configs

import (
	"cmp"
	"slices"
	"strings"
)

// The words of client_auth.
const (
	clientAuthOff     = "off"
	clientAuthRequest = "request"
	clientAuthRequire = "require"
)

// usualIdentity is the template of a trust domain that names none itself.
const usualIdentity = "spiffe://{trust_domain}/iggy/{cluster}/{replica}"

// identities checks what is asked of a peer's certificate besides its chain, and
// fills in what follows. Whether a template makes a name that certificates can
// carry is not known here.
func (k *checker) identities() {
	t := &k.c.Cluster.TLS
	t.ClientAuth = cmp.Or(t.ClientAuth, clientAuthRequest)
	k.word("cluster.tls.client_auth", t.ClientAuth, clientAuthOff, clientAuthRequest, clientAuthRequire)
	if t.SelfSigned {
		k.selfMade(t)
		return
	}
	if t.ClientAuth == clientAuthRequire && k.nearTLS() {
		k.rep.add("cluster.tls.client_auth", "expected request or off because egress.security is tls, found require; the local replica dials this gate too, and has no certificate to show")
	}
	if t.TrustDomain != "" && strings.Trim(t.TrustDomain, "abcdefghijklmnopqrstuvwxyz0123456789.-_") != "" {
		k.rep.add("cluster.tls.trust_domain", "expected lower-case letters, digits, dots, dashes and underscores, found %q; write for example example.org", t.TrustDomain)
	}
	if t.PeerIdentity == "" {
		if t.TrustDomain != "" {
			t.PeerIdentity = usualIdentity
		}
		return
	}
	k.template(t)
}

// nearTLS reports whether the local replica dials this gate in TLS.
func (k *checker) nearTLS() bool {
	higher := func(p Peer) bool { return p.ReplicaID > k.c.Gate.ReplicaID }
	return k.c.Egress.Security == TLS && slices.ContainsFunc(k.c.Peers, higher)
}

// template checks the placeholders of peer_identity.
func (k *checker) template(t *TLSMaterial) {
	const key = "cluster.tls.peer_identity"
	bare := t.PeerIdentity
	for _, name := range []string{"{trust_domain}", "{cluster}", "{replica}"} {
		bare = strings.ReplaceAll(bare, name, "")
	}
	switch {
	case strings.ContainsAny(bare, "{}"):
		k.rep.add(key, "expected no braces but {trust_domain}, {cluster} and {replica}, found %q; correct the placeholder", t.PeerIdentity)
	case !strings.Contains(t.PeerIdentity, "{replica}"):
		k.rep.add(key, "expected {replica} in it, found %q; a name that every replica has identifies none", t.PeerIdentity)
	case strings.Contains(t.PeerIdentity, "{trust_domain}") && t.TrustDomain == "":
		k.rep.add("cluster.tls.trust_domain", "expected a trust domain because peer_identity has {trust_domain} in it, found none; write for example example.org")
	}
}

// selfMade refuses what needs certificates that somebody else has signed.
func (k *checker) selfMade(t *TLSMaterial) {
	if t.ClientAuth == clientAuthRequire {
		k.rep.add("cluster.tls.client_auth", "expected off because of self_signed, found require; a self-made name proves nothing, name certificate files or remove it")
		return
	}
	t.ClientAuth = clientAuthOff
	for _, f := range [][2]string{{"crl_file", t.CRLFile}, {"peer_identity", t.PeerIdentity}, {"trust_domain", t.TrustDomain}} {
		if f[1] != "" {
			k.rep.add("cluster.tls."+f[0], "expected none because of self_signed, found %q; a self-made certificate has no authority, remove it", f[1])
		}
	}
}

// CredentialFile is a file that may be replaced while the gate runs.
type CredentialFile struct{ Key, Path string }

// CredentialFiles are the files of the credentials that this gate uses, in the
// order of the schema; a path stands twice where two keys name it. The Config must
// come from Load or Validate.
func (c *Config) CredentialFiles() (all []CredentialFile) {
	a, t := &c.Cluster.Auth, &c.Cluster.TLS
	add := func(key, path string) {
		if path != "" {
			all = append(all, CredentialFile{key, path})
		}
	}
	for _, s := range secretSlots(a) {
		add(s.key+"_file", *s.file)
	}
	if c.UsesTLS() && !t.SelfSigned {
		add("cluster.tls.cert_file", t.CertFile)
		add("cluster.tls.key_file", t.KeyFile)
		add("cluster.tls.ca_file", t.CAFile)
		add("cluster.tls.crl_file", t.CRLFile)
	}
	return all
}
