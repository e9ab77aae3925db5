package configs

import (
	"errors"
	"strings"
	"testing"
)

// valid is a Config built in code: replica 1 of 3, plaintext.
func valid() Config {
	c := Default()
	for id, ip := range []string{"127.0.50.1", "127.0.50.2", "127.0.50.3"} {
		c.Cluster.Nodes = append(c.Cluster.Nodes, Node{IP: ip, ReplicaID: id, Ports: Ports{9090}})
	}
	c.Gate.ReplicaID = 1
	c.Ingress.Listen = "10.0.1.6:9190"
	c.Peers = []Peer{{ReplicaID: 2, Address: "iggy-2.iggy:9190"}}
	return c
}

func TestValidateInCode(t *testing.T) {
	in := valid()
	out, err := Validate(in, testRules())
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Peers) != 2 || out.Peers[1].Listen != "127.0.50.3:9090" || out.Frames.Rules["sender"] != "drop" {
		t.Errorf("got %+v", out)
	}
	if len(in.Peers) != 1 || in.Peers[0].Listen != "" || len(in.Frames.Rules) != 0 {
		t.Errorf("the caller's Config changed: %+v", in)
	}
	in.Cluster.Nodes[0].Name = "changed"
	if out.Cluster.Nodes[0].Name != "" {
		t.Error("the result shares the caller's roster")
	}
	again, err := Validate(out, testRules())
	if err != nil || len(again.Peers) != 2 {
		t.Errorf("a valid Config is not valid again: %v", err)
	}
	in.Cluster.Name = ""
	_, err = Validate(in, nil)
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 1 || !strings.HasPrefix(faults[0].String(), "cluster.name: expected") {
		t.Errorf("got %v", err)
	}
}

// edge is one change to a valid Config, and the key of the one fault it makes,
// or empty.
type edge struct {
	name string
	edit func(*Config)
	want string
}

func runEdges(t *testing.T, tests []edge) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := valid()
			tt.edit(&c)
			_, err := Validate(c, testRules())
			var faults Faults
			errors.As(err, &faults)
			if tt.want == "" && err != nil || tt.want != "" && (len(faults) != 1 || faults[0].Key != tt.want) {
				t.Errorf("got %v, want a fault of %q", err, tt.want)
			}
		})
	}
}

// Each edge, on both sides where there are two.
func TestValidateNumbers(t *testing.T) {
	runEdges(t, []edge{
		{"heartbeat 2s", func(c *Config) { c.Cluster.HeartbeatTimeout, c.Timeouts.Prove = 2*second, second-1 }, ""},
		{"heartbeat less", func(c *Config) { c.Cluster.HeartbeatTimeout, c.Timeouts.Prove = 2*second-1, second/2 }, "cluster.heartbeat_timeout"},
		{"prove at half", func(c *Config) { c.Timeouts.Prove = 5 * second / 2 }, "timeouts.prove"},
		{"prove below half", func(c *Config) { c.Timeouts.Prove = 5*second/2 - 1 }, ""},
		{"handshake 1m", func(c *Config) { c.Timeouts.Handshake = 60 * second }, ""},
		{"handshake more", func(c *Config) { c.Timeouts.Handshake = 60*second + 1 }, "timeouts.handshake"},
		{"stall 1s", func(c *Config) { c.Timeouts.WriteStall = second }, ""},
		{"stall less", func(c *Config) { c.Timeouts.WriteStall = second - 1 }, "timeouts.write_stall"},
		{"message 257", func(c *Config) { c.MessageBus.MaxMessageSize = 257 }, ""},
		{"message 256", func(c *Config) { c.MessageBus.MaxMessageSize = 256 }, "message_bus.max_message_size"},
		{"message largest", func(c *Config) { c.MessageBus.MaxMessageSize = 1<<32 - 1 }, ""},
		{"message u32", func(c *Config) { c.MessageBus.MaxMessageSize = 1 << 32 }, "message_bus.max_message_size"},
		{"store least", func(c *Config) { c.Frames.StoreLimit = 64 << 10 }, ""},
		{"store less", func(c *Config) { c.Frames.StoreLimit = 64<<10 - 1 }, "frames.store_limit"},
		{"source all", func(c *Config) { c.Limits.HandshakesPerSource = 64 }, ""},
		{"source more", func(c *Config) { c.Limits.HandshakesPerSource = 65 }, "limits.handshakes_per_source"},
		{"source none", func(c *Config) { c.Limits.HandshakesPerSource = 0 }, "limits.handshakes_per_source"},
		{"connections", func(c *Config) { c.Limits.Connections = 1_000_001 }, "limits.connections"},
	})
}

func TestValidateAddresses(t *testing.T) {
	runEdges(t, []edge{
		{"admin off", func(c *Config) { c.Admin.Listen = "" }, ""},
		{"admin without path", func(c *Config) { c.Admin.Listen = "unix:" }, "admin.listen"},
		{"admin longest", func(c *Config) { c.Admin.Listen = "unix:" + strings.Repeat("p", 107) }, ""},
		{"admin too long", func(c *Config) { c.Admin.Listen = "unix:" + strings.Repeat("p", 108) }, "admin.listen"},
		{"metrics off", func(c *Config) { c.Metrics.Listen = "" }, ""},
		{"metrics any port", func(c *Config) { c.Metrics.Listen = "127.0.0.1:0" }, ""},
		{"ingress any port", func(c *Config) { c.Ingress.Listen = "127.0.0.1:0" }, "ingress.listen"},
		{"port 65535", func(c *Config) { c.Cluster.Nodes[0].Ports.TCPReplica = 65535 }, ""},
		{"port 65536", func(c *Config) { c.Cluster.Nodes[0].Ports.TCPReplica = 65536 }, "cluster.nodes[0].ports.tcp_replica"},
		{"id at count", func(c *Config) { c.Cluster.Nodes[2].ReplicaID = 3 }, "cluster.nodes[2].replica_id"},
		{"same port, another ip", func(c *Config) { c.Ingress.Listen = "10.0.1.6:9464" }, ""},
		{"same listener", func(c *Config) { c.Ingress.Listen = "127.0.50.3:9090" }, "peers[0].listen"},
		{"every address takes one", func(c *Config) { c.Ingress.Listen = ":9464" }, "metrics.listen"},
		{"upstream is ingress", func(c *Config) { c.Ingress.Upstream = "10.0.1.6:9190" }, "ingress.upstream"},
		{"upstream is ingress, mapped", func(c *Config) { c.Ingress.Upstream = "[::ffff:10.0.1.6]:9190" }, "ingress.upstream"},
		{"upstream behind any", func(c *Config) { c.Ingress.Listen, c.Peers[0].Listen = ":9090", "127.0.50.3:9091" }, "ingress.upstream"},
		{"upstream elsewhere", func(c *Config) {
			c.Ingress.Listen, c.Peers[0].Listen, c.Ingress.Upstream = ":9090", "127.0.50.3:9091", "10.0.1.7:9090"
		}, ""},
		{"peer is us", func(c *Config) { c.Peers[0].Address = "10.0.1.6:9190" }, "peers[0].address"},
		{"one of two nodes", func(c *Config) {
			c.Cluster.Nodes, c.Peers = c.Cluster.Nodes[:1], nil
			c.Gate.ReplicaID = 0
		}, "cluster.nodes"},
	})
}

func TestValidateCredentials(t *testing.T) {
	runEdges(t, []edge{
		{"self signed and files", func(c *Config) { c.Cluster.TLS = TLSMaterial{SelfSigned: true, KeyFile: "k"} }, "cluster.tls.self_signed"},
		{"tls without files", func(c *Config) {
			c.Peers[0].Security = TLS
			c.Cluster.Auth.SharedSecret = NewSecret([]byte(canary))
		}, "cluster.tls.ca_file"},
		{"near tls self signed", func(c *Config) {
			c.Egress.Security, c.Cluster.TLS.SelfSigned = TLS, true
			c.Cluster.Auth.SharedSecret = NewSecret([]byte(canary))
		}, ""},
		{"psk without secret", func(c *Config) { c.Egress.Security = PSK }, "cluster.auth.shared_secret_file"},
		{"server name", func(c *Config) { c.Peers[0].ServerName = "10.0.0.300" }, "peers[0].server_name"},
	})
}

// A default that follows another value is no fault of whoever wrote that value.
func TestStoreLimitFollows(t *testing.T) {
	doc := base + "[message_bus]\nmax_message_size = \"100KiB\"\n"
	if c := mustLoad(t, files{"r.toml": doc}, "r.toml").Config; c.Frames.StoreLimit != 100<<10 {
		t.Errorf("got %s", c.Frames.StoreLimit)
	}
	if got := faultsOf(files{"r.toml": doc + "[frames]\nstore_limit = \"256KiB\"\n"}, "r.toml"); !hasLine(got, "r.toml:26: frames.store_limit:", "64KiB to 100KiB") {
		t.Errorf("got %q", got)
	}
}

func TestAddressSpellings(t *testing.T) {
	tests := []struct {
		text         string
		listen, dial bool
	}{
		{"10.0.1.6:9190", true, true},
		{"[fd00::7]:9190", true, true},
		{"[FD00::7]:9190", true, true},
		{"[fe80::1%eth0]:9190", true, true},
		{"[::ffff:10.0.1.6]:9190", true, true},
		{"[10.0.1.6]:9190", true, true}, // as the standard library reads it
		{":9190", true, false},
		{"0.0.0.0:9190", true, false},
		{"[::]:9190", true, false},
		{"iggy-2.iggy:9190", false, true},
		{"IGGY-2.Iggy.svc.cluster.local.:9190", false, true},
		{"localhost:9190", false, true},
		{"iggy_2:9190", false, true},
		{"10.0.1.6", false, false},
		{"10.0.1.6:", false, false},
		{"10.0.1.6:0", false, false},
		{"10.0.1.6:65536", false, false},
		{"10.0.1.6:-1", false, false},
		{"10.0.1.6:+1", false, false},
		{"10.0.1.6:http", false, false},
		{"10.0.1:9190", false, false},
		{"10.0.1.256:9190", false, false},
		{"010.0.1.6:9190", false, false},
		{"::1:9190", false, false},
		{"fd00::7", false, false},
		{"[fd00::7]", false, false},
		{"[fd00::zz]:9190", false, false},
		{"http://iggy:9190", false, false},
		{"iggy..iggy:9190", false, false},
		{"ig gy:9190", false, false},
		{" iggy:9190", false, false},
		{"ïggy:9190", false, false},
		{strings.Repeat("a", 64) + ":9190", false, false},
		{strings.Repeat("a.", 127) + "a:9190", false, false},
	}
	for _, tt := range tests {
		k := &checker{rep: &report{}}
		if k.listen("k", tt.text, 1); (len(k.rep.list) == 0) != tt.listen {
			t.Errorf("listen %q: got %v", tt.text, k.rep.list)
		}
		k.rep = &report{}
		if _, ok := k.dial("k", tt.text); ok != tt.dial || (len(k.rep.list) == 0) != tt.dial {
			t.Errorf("dial %q: got %v", tt.text, k.rep.list)
		}
	}
}

func TestCollide(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"10.0.0.1:1", "10.0.0.1:1", true}, {"10.0.0.1:1", "10.0.0.1:2", false}, {"10.0.0.1:1", "10.0.0.2:1", false},
		{":1", "10.0.0.1:1", true}, {":1", "[::1]:1", true}, {"[::]:1", "10.0.0.1:1", true}, {":1", "0.0.0.0:1", true},
		{"0.0.0.0:1", "[::1]:1", false}, {"0.0.0.0:1", "[::]:1", true}, {"10.0.0.1:1", "[::ffff:10.0.0.1]:1", true},
	} {
		a, _ := parseEndpoint("a", tt.a)
		b, _ := parseEndpoint("b", tt.b)
		if collide(a, b) != tt.want || collide(b, a) != tt.want {
			t.Errorf("%s and %s: want %v", tt.a, tt.b, tt.want)
		}
	}
}
