package configs

import (
	"slices"
	"testing"
)

func TestValidateIdentities(t *testing.T) {
	tls := func(edit func(*TLSMaterial)) func(*Config) { return func(c *Config) { edit(&c.Cluster.TLS) } }
	runEdges(t, []edge{
		{"client_auth off", tls(func(t *TLSMaterial) { t.ClientAuth = "off" }), ""},
		{"client_auth require", tls(func(t *TLSMaterial) { t.ClientAuth = "require" }), ""},
		{"client_auth require of a replica", func(c *Config) {
			c.Cluster.TLS = TLSMaterial{ClientAuth: "require", CertFile: "c", KeyFile: "k", CAFile: "a"}
			c.Egress.Security, c.Cluster.Auth.SharedSecret = TLS, NewSecret([]byte(canary))
		}, "cluster.tls.client_auth"},
		{"client_auth unknown", tls(func(t *TLSMaterial) { t.ClientAuth = "always" }), "cluster.tls.client_auth"},
		{"client_auth empty", tls(func(t *TLSMaterial) { t.ClientAuth = "" }), ""},
		{"identity", tls(func(t *TLSMaterial) { t.PeerIdentity = "iggy-{replica}.{cluster}.test" }), ""},
		{"identity of all", tls(func(t *TLSMaterial) { t.PeerIdentity = "iggy.test" }), "cluster.tls.peer_identity"},
		{"identity unknown word", tls(func(t *TLSMaterial) { t.PeerIdentity = "iggy-{replica}.{node}" }), "cluster.tls.peer_identity"},
		{"identity half a brace", tls(func(t *TLSMaterial) { t.PeerIdentity = "iggy-{replica}.{" }), "cluster.tls.peer_identity"},
		{"identity without its domain", tls(func(t *TLSMaterial) { t.PeerIdentity = "spiffe://{trust_domain}/{replica}" }), "cluster.tls.trust_domain"},
		{"identity with its domain", tls(func(t *TLSMaterial) { t.PeerIdentity, t.TrustDomain = "spiffe://{trust_domain}/{replica}", "x.test" }), ""},
		{"domain with a slash", tls(func(t *TLSMaterial) { t.TrustDomain = "x.test/a" }), "cluster.tls.trust_domain"},
		{"domain in capitals", tls(func(t *TLSMaterial) { t.TrustDomain = "X.test" }), "cluster.tls.trust_domain"},
		{"self signed, asked", tls(func(t *TLSMaterial) { t.SelfSigned = true }), ""},
		{"self signed, required", tls(func(t *TLSMaterial) { t.SelfSigned, t.ClientAuth = true, "require" }), "cluster.tls.client_auth"},
		{"self signed, revoked", tls(func(t *TLSMaterial) { t.SelfSigned, t.CRLFile = true, "c" }), "cluster.tls.crl_file"},
		{"self signed, named", tls(func(t *TLSMaterial) { t.SelfSigned, t.PeerIdentity = true, "{replica}" }), "cluster.tls.peer_identity"},
		{"self signed, trusted", tls(func(t *TLSMaterial) { t.SelfSigned, t.TrustDomain = true, "x" }), "cluster.tls.trust_domain"},
	})
}

// What nobody wrote follows: the usual template from a trust domain, off from a
// self-made certificate.
func TestIdentityFollows(t *testing.T) {
	load := func(tls string, env ...string) TLSMaterial {
		t.Helper()
		return mustLoad(t, files{"r.toml": "[cluster.tls]\n" + tls + base}, "r.toml", env...).Config.Cluster.TLS
	}
	if got := load(`trust_domain = "x.test"`); got.PeerIdentity != usualIdentity || got.ClientAuth != "request" {
		t.Errorf("got %+v, want the usual template, and request", got)
	}
	if got := load("trust_domain = \"x.test\"\npeer_identity = \"r{replica}\""); got.PeerIdentity != "r{replica}" {
		t.Errorf("got %+v, want the template that was written", got)
	}
	if got := load(""); got.PeerIdentity != "" {
		t.Errorf("got %+v, want no identity", got)
	}
	if got := load("self_signed = true"); got.ClientAuth != "off" {
		t.Errorf("got %+v, want off", got)
	}
	// The layer that turns self_signed on takes all of the other form away.
	all := "cert_file = \"c\"\nkey_file = \"k\"\nca_file = \"a\"\ncrl_file = \"r\"\nclient_auth = \"require\"\ntrust_domain = \"x\""
	if got := load(all, "REPLGATE_CLUSTER_TLS_SELF_SIGNED=true"); got != (TLSMaterial{SelfSigned: true, ClientAuth: "off"}) {
		t.Errorf("got %+v, want nothing but self_signed", got)
	}
}

func TestValidateRotation(t *testing.T) {
	runEdges(t, []edge{
		{"permissive", func(c *Config) { c.Security.Mode = "permissive" }, ""},
		{"another mode", func(c *Config) { c.Security.Mode = "observe" }, "security.mode"},
		{"ready at once", func(c *Config) { c.Security.StrictReadyAfter = 0 }, "security.strict_ready_after"},
		{"ready soon", func(c *Config) { c.Security.StrictReadyAfter = 1 }, ""},
		{"ready in a day", func(c *Config) { c.Security.StrictReadyAfter = 24 * 3600 * second }, ""},
		{"ready later", func(c *Config) { c.Security.StrictReadyAfter = 24*3600*second + 1 }, "security.strict_ready_after"},
		{"window least", func(c *Config) { c.Security.ReauthWindow = second }, ""},
		{"window less", func(c *Config) { c.Security.ReauthWindow = second - 1 }, "security.reauth_window"},
		{"window most", func(c *Config) { c.Security.ReauthWindow = 600 * second }, ""},
		{"window more", func(c *Config) { c.Security.ReauthWindow = 600*second + 1 }, "security.reauth_window"},
		{"interval least", func(c *Config) { c.Reload.Interval = second / 100 }, ""},
		{"interval less", func(c *Config) { c.Reload.Interval = second/100 - 1 }, "reload.interval"},
		{"interval most", func(c *Config) { c.Reload.Interval = 3600 * second }, ""},
		{"interval more", func(c *Config) { c.Reload.Interval = 3600*second + 1 }, "reload.interval"},
	})
}

// A permissive gate that cannot get anywhere, or forgets on the way, says so.
func TestPermissiveWarnings(t *testing.T) {
	const encrypted = "[cluster.auth]\nenabled = true\nshared_secret = \"" + canary + "\"\n"
	const mode = "[security]\nmode = \"permissive\"\n"
	for _, tt := range []struct {
		doc  string
		want int
	}{{base + mode, 2}, {encrypted + base + mode, 1}, {base, 0}} {
		if l := mustLoad(t, files{"r.toml": tt.doc}, "r.toml"); len(l.Warnings) != tt.want {
			t.Errorf("got warnings %q, want %d", l.Warnings, tt.want)
		}
	}
	l := mustLoad(t, files{"r.toml": encrypted + base + mode}, "r.toml", "REPLGATE_GATE_STATE_DIR=/s")
	if len(l.Warnings) != 0 {
		t.Errorf("got %q, want no warning", l.Warnings)
	}
}

// The files to watch are those that the gate uses.
func TestCredentialFiles(t *testing.T) {
	const auth = "[cluster.auth]\nshared_secret_file = \"/s\"\nprevious_shared_secret_file = \"/p\"\n"
	const tls = "[cluster.tls]\ncert_file = \"/b\"\nkey_file = \"/b\"\nca_file = \"/ca\"\ncrl_file = \"/crl\"\n"
	f := files{"r.toml": auth + tls + base, "/s": canary}
	keys := func(env ...string) (all []string) {
		for _, c := range mustLoad(t, f, "r.toml", env...).Config.CredentialFiles() {
			all = append(all, c.Key+"="+c.Path)
		}
		return all
	}
	secrets := []string{"cluster.auth.shared_secret_file=/s", "cluster.auth.previous_shared_secret_file=/p"}
	if got := keys(); !slices.Equal(got, secrets) {
		t.Errorf("got %q of a plaintext gate, want the secrets", got)
	}
	want := append(secrets, "cluster.tls.cert_file=/b", "cluster.tls.key_file=/b", "cluster.tls.ca_file=/ca", "cluster.tls.crl_file=/crl")
	if got := keys("REPLGATE_CLUSTER_TLS_ENABLED=true"); !slices.Equal(got, want) {
		t.Errorf("got %q of a TLS gate, want %q", got, want)
	}
	if got := keys("REPLGATE_CLUSTER_TLS_ENABLED=true", "REPLGATE_CLUSTER_TLS_SELF_SIGNED=true"); !slices.Equal(got, secrets) {
		t.Errorf("got %q of a self-signed gate, want the secrets", got)
	}
}
