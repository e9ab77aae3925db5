package configs

import (
	"net/netip"
	"os"
	"strings"
	"testing"
)

func loadIggy(t *testing.T, doc string) *Iggy {
	t.Helper()
	g, err := LoadIggy("iggy.toml", Options{ReadFile: files{"iggy.toml": doc}.read})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestLoadIggy(t *testing.T) {
	doc, err := os.ReadFile("testdata/iggy.toml")
	if err != nil {
		t.Fatal(err)
	}
	g := loadIggy(t, string(doc))
	if g.Cluster.Name != "orders" || !g.Enabled || !g.Cluster.Auth.Enabled || !g.Cluster.TLS.Enabled || g.Cluster.HeartbeatTimeout != 6*second ||
		g.MaxMessageSize != 32<<20 || g.Handshake != 7*second || g.Reconnect != 5*second || len(g.Cluster.Nodes) != 2 {
		t.Errorf("got %+v", g)
	}
	if got := g.Fault("cluster.auth.enabled", "x").String(); got != "iggy.toml:15: cluster.auth.enabled: x" {
		t.Errorf("got %q", got)
	}
	for doc, want := range map[string]string{
		"[cluster\n": "iggy.toml:1: expected TOML",
		"[cluster]\nname = \"\"\nheartbeat_timeout = \"1s\"\n":        "iggy.toml:2: cluster.name:",
		plainIggy + "[[cluster.nodes]]\nip = \"h\"\nreplica_id = 3\n": "cluster.nodes[3].ip: expected a literal IP address",
	} {
		_, err := LoadIggy("iggy.toml", Options{ReadFile: files{"iggy.toml": doc}.read})
		if faults, ok := err.(Faults); !ok || !strings.Contains(faults.Error(), want) {
			t.Errorf("%q: got %v, want %s", doc, err, want)
		}
	}
}

// A short heartbeat is Iggy's right; what of ours would not fit it is no fault of
// its file.
func TestLoadIggyShortHeartbeat(t *testing.T) {
	if g := loadIggy(t, strings.Replace(plainIggy, "[cluster]\n", "[cluster]\nheartbeat_timeout = \"2 s\"\n", 1)); g.Cluster.HeartbeatTimeout != 2*second {
		t.Errorf("got %v", g.Cluster.HeartbeatTimeout)
	}
}

func TestHTTPForwards(t *testing.T) {
	const auth, key, off = "[cluster.auth]\nenabled = true\n", "[http.jwt]\nencoding_secret = \"k\"\n", "[http]\nenabled = false\n"
	for extra, want := range map[string]bool{"": false, auth: true, key: true, off + key: false, "[http]\nenabled = true\n" + key: true} {
		if got := loadIggy(t, plainIggy+extra).HTTPForwards; got != want {
			t.Errorf("%q: got %v, want %v", extra, got, want)
		}
	}
	if got := loadIggy(t, plainIggy+"[message_bus]\nreconnect_period = \"1 sec\"\n").Reconnect; got != second {
		t.Errorf("got %v", got)
	}
}

const plainIggy = `[cluster]
enabled = true
[[cluster.nodes]]
name = "a"
ip = "10.0.1.5"   # the replica plane
replica_id = 0
ports = { tcp = 8090, tcp_replica = 9090 }
[[cluster.nodes]]
  replica_id = 1
  ip = '10.0.1.6'
  advertised_address = "b.example"
  [cluster.nodes.ports]
  tcp_replica = 9091
[[cluster.nodes]]
replica_id = 2
ports.tcp_replica = 0x2384  # 9092
ip = "10.0.1.7"
`

// Only the values change, and an address that clients were told stays theirs.
func TestMove(t *testing.T) {
	to := map[int]netip.AddrPort{0: netip.MustParseAddrPort("127.50.0.1:9090"), 1: netip.MustParseAddrPort("127.50.0.2:9090"), 2: netip.MustParseAddrPort("[::1]:9090")}
	g := loadIggy(t, plainIggy)
	edits, err := g.Move(to)
	if err != nil {
		t.Fatal(err)
	}
	want := []Edit{
		{5, "ip = \"10.0.1.5\"   # the replica plane\nreplica_id = 0\nports = { tcp = 8090, tcp_replica = 9090 }",
			"advertised_address = \"10.0.1.5\"\nip = \"127.50.0.1\"   # the replica plane\nreplica_id = 0\nports = { tcp = 8090, tcp_replica = 9090 }"},
		{9, "  replica_id = 1\n  ip = '10.0.1.6'\n  advertised_address = \"b.example\"\n  [cluster.nodes.ports]\n  tcp_replica = 9091",
			"  replica_id = 1\n  ip = \"127.50.0.2\"\n  advertised_address = \"b.example\"\n  [cluster.nodes.ports]\n  tcp_replica = 9090"},
		{15, "replica_id = 2\nports.tcp_replica = 0x2384  # 9092\nip = \"10.0.1.7\"",
			"replica_id = 2\nports.tcp_replica = 9090  # 9092\nadvertised_address = \"10.0.1.7\"\nip = \"::1\""},
	}
	for i := range want {
		if i >= len(edits) || edits[i] != want[i] {
			t.Fatalf("got edits\n%+v\nwant\n%+v", edits, want)
		}
	}
	delete(to, 0)
	delete(to, 2)
	if edits, err := g.Move(to); err != nil || len(edits) != 1 || edits[0] != want[1] {
		t.Errorf("got %+v, %v", edits, err)
	}
}

// The other ways in which people write a roster.
func TestMoveForms(t *testing.T) {
	to := map[int]netip.AddrPort{1: netip.MustParseAddrPort("127.50.0.2:9999")}
	for name, doc := range map[string]string{
		"inline": "cluster.enabled = true\ncluster.nodes = [ { ip = \"10.0.1.5\", replica_id = 0, ports = { tcp_replica = 9090 } }, " +
			"{ ip = \"10.0.1.5\", replica_id = 1, ports = { tcp_replica = 9091 } } ]\n",
		"lines": "cluster.nodes = [\n  { ip = \"10.0.1.5\", replica_id = 0, ports = { tcp_replica = 9090 } },\n" +
			"  { replica_id = 1, ports = { tcp_replica = 9091 }, ip = \"10.0.1.5\" },\n]\n",
		"crlf":     strings.ReplaceAll(plainIggy, "\n", "\r\n"),
		"empty":    strings.Replace(plainIggy, "b.example", "", 1) + "advertised_address = \"\"\n",
		"mark":     "\ufeff" + plainIggy,
		"one line": "cluster.nodes=[{ip=\"10.0.1.5\",replica_id=1,ports.tcp_replica=9091},{replica_id=0,ports={tcp_replica=9090},ip=\"10.0.1.5\"}]",
	} {
		edits, err := loadIggy(t, doc).Move(to)
		if err != nil || len(edits) != 1 {
			t.Errorf("%s: got %+v, %v", name, edits, err)
			continue
		}
		line := strings.Split(doc, "\n")[edits[0].Line-1]
		if first, _, _ := strings.Cut(edits[0].Old, "\n"); first != strings.TrimPrefix(line, "\ufeff") {
			t.Errorf("%s: got line %d, %q, for %q", name, edits[0].Line, line, edits[0].Old)
		}
		after := loadIggy(t, strings.Replace(doc, edits[0].Old, edits[0].New, 1))
		if n, _ := (&Config{Cluster: after.Cluster}).Node(1); n.IP != "127.50.0.2" || n.Ports.TCPReplica != 9999 {
			t.Errorf("%s: got %+v after %+v", name, n, edits)
		}
		if strings.Count(edits[0].New, "\n") != strings.Count(edits[0].New, "\r\n") && name == "crlf" {
			t.Errorf("got %+v, want the line ends of the file", edits)
		}
	}
}

// Text that an edit cannot name, or must not show, is a fault where it stands.
func TestMoveRefuses(t *testing.T) {
	to := map[int]netip.AddrPort{0: netip.MustParseAddrPort("127.50.0.1:9090")}
	const entry = "{ ip = \"10.0.1.5\", replica_id = 0, ports = { tcp_replica = 9090 } },\n"
	copied := "cluster.nodes = [\n# " + entry + entry + "{ ip = \"10.0.1.6\", replica_id = 1, ports = { tcp_replica = 9090 } } ]\n"
	between := strings.Replace(plainIggy, "ports = { tcp = 8090, tcp_replica = 9090 }",
		"[cluster.auth]\nshared_secret = \""+canary+"\"\n[cluster.nodes.ports]\ntcp_replica = 9090", 1)
	for doc, want := range map[string]string{
		copied:  "iggy.toml:3: cluster.nodes[0]: expected an entry whose text stands in the file once, found it 2 times",
		between: "iggy.toml:3: cluster.nodes[0]: expected the keys of an entry together",
	} {
		edits, err := loadIggy(t, doc).Move(to)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
			t.Errorf("got %+v, %v, want %q without the secret", edits, err, want)
		}
	}
}
