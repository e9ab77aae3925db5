package configs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const withIggy = `cluster_from = "iggy.toml"
[gate]
replica_id = 0
[[peers]]
replica_id = 1
listen = "127.0.0.2:9091"
address = "10.0.1.6:9190"
`

func iggyFiles(t *testing.T, doc string) files {
	t.Helper()
	iggy, err := os.ReadFile("testdata/iggy.toml")
	if err != nil {
		t.Fatal(err)
	}
	return files{"/etc/r/r.toml": doc, "/etc/r/iggy.toml": string(iggy), "/s": canary}
}

func TestClusterFrom(t *testing.T) {
	l := mustLoad(t, iggyFiles(t, withIggy), "/etc/r/r.toml")
	c := l.Config
	if c.Cluster.Name != "orders" || c.Cluster.HeartbeatTimeout != 6*second || c.Timeouts.Handshake != 7*second || c.MessageBus.MaxMessageSize != 32<<20 {
		t.Errorf("got %+v %v %v", c.Cluster, c.Timeouts, c.MessageBus)
	}
	wantTLS := TLSMaterial{Enabled: true, CertFile: "certs/node.pem", KeyFile: "certs/node.key", CAFile: "certs/ca.pem", ClientAuth: "request"}
	if c.Cluster.TLS != wantTLS || !c.Cluster.Auth.Enabled || !strings.HasPrefix(string(c.Cluster.Auth.SharedSecret.Reveal()), "iggy-") {
		t.Errorf("got %+v %+v", c.Cluster.TLS, c.Cluster.Auth)
	}
	want := []Node{
		{Name: "iggy-node-1", IP: "127.0.0.1", ReplicaID: 0, Ports: Ports{9090}},
		{Name: "iggy-node-2", IP: "127.0.0.1", ReplicaID: 1, Ports: Ports{9091}},
	}
	if !slices.Equal(c.Cluster.Nodes, want) || c.Peers[0].Security != TLS || c.Ingress.Upstream != "127.0.0.1:9090" {
		t.Errorf("got %+v %+v %+v", c.Cluster.Nodes, c.Peers, c.Ingress)
	}
	if len(l.Warnings) != 0 || !slices.Equal(l.Files, []string{"/etc/r/r.toml", "/etc/r/iggy.toml"}) {
		t.Errorf("got %q %q", l.Warnings, l.Files)
	}
}

// What the file says wins, and does not become a conflict with what it replaces.
func TestOwnFileWins(t *testing.T) {
	own := withIggy + `
[cluster]
name = "mine"
heartbeat_timeout = "9s"
[cluster.auth]
enabled = false
shared_secret_file = "/s"
[cluster.tls]
enabled = false
self_signed = true
[message_bus]
max_message_size = "16MiB"
[timeouts]
handshake = "3s"
`
	f := iggyFiles(t, own)
	c := mustLoad(t, f, "/etc/r/r.toml").Config
	if c.Cluster.Name != "mine" || c.Cluster.HeartbeatTimeout != 9*second || c.Timeouts.Handshake != 3*second || c.MessageBus.MaxMessageSize != 16<<20 {
		t.Errorf("got %+v %v %v", c.Cluster, c.Timeouts, c.MessageBus)
	}
	if want := (TLSMaterial{SelfSigned: true, ClientAuth: "off"}); c.Cluster.TLS != want || string(c.Cluster.Auth.SharedSecret.Reveal()) != canary || c.Peers[0].Security != Plaintext {
		t.Errorf("got %+v %+v", c.Cluster.TLS, c.Peers)
	}
	c = mustLoad(t, f, "/etc/r/r.toml", "REPLGATE_CLUSTER_TLS_CERT_FILE=/c", "REPLGATE_CLUSTER_TLS_KEY_FILE=/k", "REPLGATE_CLUSTER_TLS_CA_FILE=/a").Config
	if want := (TLSMaterial{CertFile: "/c", KeyFile: "/k", CAFile: "/a", ClientAuth: "request"}); c.Cluster.TLS != want {
		t.Errorf("got %+v", c.Cluster.TLS)
	}
	// A roster of ours replaces Iggy's, faults and all.
	f["/etc/r/iggy.toml"] = strings.Replace(f["/etc/r/iggy.toml"], `"127.0.0.1"`, `17`, 1)
	if got := faultsOf(f, "/etc/r/r.toml"); !hasLine(got, "/etc/r/iggy.toml:31: cluster.nodes[0].ip:", "found an integer") {
		t.Errorf("got %q", got)
	}
	f["/etc/r/r.toml"] = own + base[strings.Index(base, "[[cluster.nodes]]"):strings.Index(base, "[gate]")] + "[[peers]]\nreplica_id = 2\naddress = \"h:1\"\n"
	if c := mustLoad(t, f, "/etc/r/r.toml").Config; len(c.Cluster.Nodes) != 3 {
		t.Errorf("got %+v", c.Cluster.Nodes)
	}
}

// A file that a rotation has not written yet is no reason to go on with the
// secret that Iggy's file holds.
func TestOwnSecretFileReplacesIggys(t *testing.T) {
	f := iggyFiles(t, withIggy+"[cluster.auth]\nprevious_shared_secret_file = \"/none\"\n")
	f["/etc/r/iggy.toml"] = strings.Replace(f["/etc/r/iggy.toml"], `previous_shared_secret = ""`, `previous_shared_secret = "`+canary+`"`, 1)
	if a := mustLoad(t, f, "/etc/r/r.toml").Config.Cluster.Auth; a.PreviousSharedSecret.IsSet() || !a.SharedSecret.IsSet() {
		t.Errorf("got %v", a)
	}
	f["/etc/r/r.toml"] = withIggy
	if a := mustLoad(t, f, "/etc/r/r.toml").Config.Cluster.Auth; string(a.PreviousSharedSecret.Reveal()) != canary {
		t.Errorf("got %v", a)
	}
}

func TestClusterFromFromEnvironment(t *testing.T) {
	f := iggyFiles(t, strings.TrimPrefix(withIggy, "cluster_from = \"iggy.toml\"\n"))
	if c := mustLoad(t, f, "/etc/r/r.toml", "REPLGATE_CLUSTER_FROM=/etc/r/iggy.toml").Config; c.Cluster.Name != "orders" {
		t.Errorf("got %q", c.Cluster.Name)
	}
	if got := faultsOf(f, "/etc/r/r.toml", "REPLGATE_CLUSTER_FROM=none"); !hasLine(got, "REPLGATE_CLUSTER_FROM: cluster_from:", "for none;") {
		t.Errorf("got %q", got)
	}
}

func TestIggyWords(t *testing.T) {
	f := iggyFiles(t, withIggy)
	f["/etc/r/iggy.toml"] = strings.NewReplacer(
		"enabled = true\nname", "enabled = false\nname", "self_signed = false", "self_signed = true", `"32 MiB"`, `"unlimited"`, `"7 sec"`, `"0"`,
	).Replace(f["/etc/r/iggy.toml"])
	got := faultsOf(f, "/etc/r/r.toml")
	if !hasLine(got, "iggy.toml:48: message_bus.max_message_size:", "found 0B") || !hasLine(got, "iggy.toml:49: timeouts.handshake:", "found 0s") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
	l := mustLoad(t, f, "/etc/r/r.toml", "REPLGATE_TIMEOUTS_HANDSHAKE=1s", "REPLGATE_MESSAGE_BUS_MAX_MESSAGE_SIZE=1MiB")
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "cluster.enabled is not true") {
		t.Errorf("got %q", l.Warnings)
	}
	if want := (TLSMaterial{Enabled: true, SelfSigned: true, ClientAuth: "off"}); l.Config.Cluster.TLS != want {
		t.Errorf("got %+v, want the files that Iggy does not read left out", l.Config.Cluster.TLS)
	}
	f["/etc/r/iggy.toml"] = "[cluster\n"
	if got := faultsOf(f, "/etc/r/r.toml"); got == "" || !strings.HasPrefix(got, "/etc/r/iggy.toml:1: expected TOML") {
		t.Errorf("got %q", got)
	}
}

// The whole file that a real server was run with.
func TestRealIggyConfig(t *testing.T) {
	dir := os.Getenv("REPLGATE_CAPTURES")
	if dir == "" {
		// That file is not ours to copy; TestClusterFrom reads one with the same keys.
		t.Skip("REPLGATE_CAPTURES does not name the recordings")
	}
	real := filepath.Join(dir, "iggy-config.toml")
	doc, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	f := files{"real.toml": string(doc), "r.toml": `cluster_from = "real.toml"
[gate]
replica_id = 1
[ingress]
listen = "10.0.1.6:9190"
[[peers]]
replica_id = 2
address = "10.0.1.7:9190"
`}
	l := mustLoad(t, f, "r.toml")
	c := l.Config
	if len(l.Warnings) != 0 || len(c.Cluster.Nodes) != 3 || c.Cluster.Name != "iggy-cluster" || c.MessageBus.MaxMessageSize != 64<<20 || c.Timeouts.Handshake != 10*second {
		t.Errorf("got %+v, %q", c, l.Warnings)
	}
	if c.Ingress.Upstream != "127.0.0.1:9091" || c.Peers[1].Listen != "127.0.0.1:9092" {
		t.Errorf("got %+v %+v", c.Ingress, c.Peers)
	}
}
