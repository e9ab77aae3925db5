package harden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/configs"
)

// cluster is a roster and the Iggy file that has it.
type cluster struct {
	Cluster
	file string
}

// newCluster writes an Iggy file for the addresses and reads it.
func newCluster(t *testing.T, addresses ...string) cluster {
	t.Helper()
	var b strings.Builder
	b.WriteString("[cluster]\nenabled = true\nname = \"orders <1>\"\n[message_bus]\nreconnect_period = \"1s\"\n")
	c := cluster{Cluster: Cluster{Name: "orders <1>", Heartbeat: 5 * time.Second, Handshake: 10 * time.Second, Reconnect: time.Second, MaxMessageSize: "32MiB"}}
	for i, a := range addresses {
		address := netip.MustParseAddrPort(a)
		fmt.Fprintf(&b, "[[cluster.nodes]]\nname = \"iggy-%d\"\nip = %q\nreplica_id = %[1]d\nports = { tcp = 8090, tcp_replica = %[3]d }\n", i, address.Addr(), address.Port())
		c.Nodes = append(c.Nodes, Node{Name: fmt.Sprintf("iggy-%d", i), Address: address})
	}
	c.file = b.String()
	iggy := load(t, c.file)
	c.Move = func(to map[int]netip.AddrPort) (out []Edit, err error) {
		edits, err := iggy.Move(to)
		for _, e := range edits {
			out = append(out, Edit(e))
		}
		return out, err
	}
	return c
}

func load(t *testing.T, file string) *configs.Iggy {
	t.Helper()
	iggy, err := configs.LoadIggy("iggy.toml", configs.Options{ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
	if err != nil {
		t.Fatal(err)
	}
	return iggy
}

func mustPlan(t *testing.T, c cluster, o Options) *Plan {
	t.Helper()
	p, err := New(c.Cluster, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// apart and together are n nodes on hosts of their own, and on one.
func apart(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("10.0.1.%d:9090", 5+i))
	}
	return all
}

func together(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("10.0.1.5:%d", 9090+i))
	}
	return all
}

func rosters() map[string][]string {
	return map[string][]string{
		"two": apart(2), "three": apart(3), "five": apart(5), "seven": apart(7), "shared": together(3), "five shared": together(5),
		"loopback": {"127.0.0.1:9090", "127.0.0.1:9091", "127.0.0.1:9092"},
		"six":      {"[fd00::5]:9090", "[fd00::6]:9090", "[fd00::7]:9092"},
		"partly":   {"10.0.1.5:9090", "10.0.1.6:9090", "10.0.1.6:9091", "10.0.1.7:9090", "10.0.1.7:9099"},
	}
}

// steps are those of all phases.
func (p *Plan) steps() (all []Step) {
	for _, phase := range p.Phases {
		all = append(all, phase.Steps...)
	}
	return all
}

// Every gate's configuration is one, and leads where it should.
func TestGateConfigurations(t *testing.T) {
	for name, addresses := range rosters() {
		c := newCluster(t, addresses...)
		p := mustPlan(t, c, Options{})
		loaded := 0
		for _, s := range p.steps() {
			for _, f := range s.Files {
				if f.Need != "" {
					continue
				}
				loaded++
				n := p.Nodes[s.Node]
				got := gateConfig(t, f, n)
				want := configs.Ingress{Listen: n.Address.String(), Security: configs.TLS, Upstream: n.Behind.String(), UpstreamSecurity: configs.Plaintext}
				if s.Node == 0 { // what nobody dials is not there; upstream has its default
					want.Listen, want.Upstream = "", n.Address.String()
				}
				if f.Path != n.Gate || got.Ingress != want || got.Gate != (configs.Gate{ReplicaID: s.Node, StateDir: n.StateDir}) || got.Egress.Security != configs.Plaintext ||
					got.Cluster.Name != c.Name || got.MessageBus.MaxMessageSize.String() != "32MiB" || got.Security.Mode != "permissive" ||
					got.Admin.Listen != "unix:"+n.Socket || got.Metrics.Listen != n.Metrics {
					t.Errorf("%s: got for node %d\n%+v", name, s.Node, got)
				}
				for _, peer := range got.Peers {
					want := configs.Peer{ReplicaID: peer.ReplicaID, Security: configs.TLS}
					if j := peer.ReplicaID; j > s.Node {
						want.Listen, want.Address, want.ServerName = n.Egress[j].String(), addresses[j], c.Nodes[j].Address.Addr().String()
					}
					if peer != want {
						t.Errorf("%s: got on node %d the peer %+v, want %+v", name, s.Node, peer, want)
					}
				}
			}
		}
		if loaded != len(addresses) {
			t.Errorf("%s: got %d configurations, want one for each of %d nodes", name, loaded, len(addresses))
		}
	}
}

func gateConfig(t *testing.T, f File, n Place) configs.Config {
	t.Helper()
	l, err := configs.Load(f.Path, configs.Options{ReadFile: func(path string) ([]byte, error) {
		switch path {
		case f.Path:
			return []byte(f.Contents), nil
		case n.SecretFile:
			return []byte("a secret of 32 bytes, or of more than that"), nil
		}
		return nil, fs.ErrNotExist
	}})
	if err != nil {
		t.Fatalf("%s:\n%s\n%v", f.Path, f.Contents, err)
	}
	if len(l.Warnings) > 0 {
		t.Errorf("got warnings %q", l.Warnings)
	}
	return l.Config
}

// The example is what a plan prints for replica 1 of the manual's cluster.
func TestExample(t *testing.T) {
	c := newCluster(t, apart(3)...)
	c.Name, c.MaxMessageSize = "iggy-cluster", "64MiB"
	want := ""
	for _, s := range mustPlan(t, c, Options{}).steps() {
		if s.Node == 1 && s.Files != nil {
			want = s.Files[0].Contents
		}
	}
	if got, err := os.ReadFile("../configs/examples/hardening.toml"); err != nil || string(got) != want {
		t.Errorf("got another example (%v) than\n%s", err, want)
	}
}

// A timer of Iggy's that is short, or another time to strict, are no reason for a
// configuration that nothing can load.
func TestGateTimers(t *testing.T) {
	c := newCluster(t, apart(3)...)
	c.Heartbeat, c.Handshake = 2*time.Second, 90*time.Second/2
	p := mustPlan(t, c, Options{StrictReadyAfter: 90 * time.Second})
	got := gateConfig(t, p.Phases[0].Steps[0].Files[0], p.Nodes[2])
	if got.Timeouts.Prove.Std() != 800*time.Millisecond || got.Timeouts.Handshake.Std() != 45*time.Second || got.Security.StrictReadyAfter.Std() != 90*time.Second {
		t.Errorf("got %+v %+v", got.Timeouts, got.Security)
	}
	if within := p.Phases[1].Steps[0].Within; within != "3m30s" {
		t.Errorf("got %s to wait for strict, want the time of the gates and of the plan", within)
	}
}

// The roster that each Iggy gets, and that the way back gives back what there was.
func TestRosters(t *testing.T) {
	for name, addresses := range rosters() {
		c := newCluster(t, addresses...)
		p := mustPlan(t, c, Options{})
		files := map[int]string{}
		for i := range addresses {
			files[i] = c.file
		}
		for _, phase := range p.Phases {
			for _, s := range phase.Steps {
				for _, e := range s.Edits {
					if e.Path == p.Nodes[s.Node].Iggy {
						files[s.Node] = apply(t, files[s.Node], e)
					}
				}
			}
			for i := range addresses {
				checkRoster(t, name, c, p, i, phase.Name, load(t, files[i]))
				if phase.Name == PhaseBack && files[i] != c.file {
					t.Errorf("%s: got another file for node %d after the way back:\n%s", name, i, files[i])
				}
			}
		}
	}
}

func checkRoster(t *testing.T, name string, c cluster, p *Plan, i int, phase string, got *configs.Iggy) {
	t.Helper()
	for _, entry := range got.Cluster.Nodes {
		want := c.Nodes[entry.ReplicaID].Address
		if j := entry.ReplicaID; phase != PhaseBack && j == i {
			want = p.Nodes[i].Behind
		} else if phase != PhaseBack && j > i {
			want = p.Nodes[i].Egress[j]
		}
		if entry.IP != want.Addr().String() || entry.Ports.TCPReplica != int(want.Port()) {
			t.Errorf("%s: got %+v in the roster of node %d after %s, want %v", name, entry, i, phase, want)
		}
	}
}

func apply(t *testing.T, text string, e FileEdit) string {
	t.Helper()
	for _, c := range e.Changes {
		if strings.Count(text, c.Old) != 1 {
			t.Fatalf("got %q %d times in\n%s", c.Old, strings.Count(text, c.Old), text)
		}
		text = strings.Replace(text, c.Old, c.New, 1)
	}
	return text
}

// No two processes of one host listen at one address, nor write one file: as if
// all nodes were on one host, which is the hardest case.
func TestNothingTwice(t *testing.T) {
	for name, addresses := range rosters() {
		p := mustPlan(t, newCluster(t, addresses...), Options{})
		shared := strings.Contains(name, "shared") || name == "loopback" || name == "partly"
		seen := map[string]int{}
		take := func(what string, node int) {
			if other, ok := seen[what]; ok {
				t.Errorf("%s: got %s for node %d and for node %d", name, what, other, node)
			}
			seen[what] = node
		}
		for i, n := range p.Nodes {
			take(n.Address.String(), i) // the gate, where Iggy was
			take(n.Behind.String(), i)
			for _, a := range n.Egress {
				take(a.String(), i)
			}
			if shared {
				for _, path := range []string{n.Gate, n.Iggy, n.Socket, n.Metrics, n.StateDir, n.SecretFile, n.CertFile, n.gateUnit, n.iggyUnit} {
					take(path, i)
				}
			}
		}
	}
}

// Numbers, kinds, and that whatever a step names is there by then.
func TestSteps(t *testing.T) {
	for name, addresses := range rosters() {
		p := mustPlan(t, newCluster(t, addresses...), Options{})
		kinds := []Kind{Write, Stop, Start, Reload, Reset, Wait}
		for k, s := range p.steps() {
			own := (s.Kind == Write) == (s.Files != nil) && (s.Kind == Stop || s.Kind == Start) == (s.Service != nil) &&
				(s.Kind == Reload || s.Kind == Reset) == (s.Commands != nil)
			if s.Number != k+1 || !slices.Contains(kinds, s.Kind) || !own || (s.After != nil) != (s.Within != "") || s.Before == nil {
				t.Errorf("%s: got step %+v", name, s)
			}
			if s.Kind != Wait && len(s.Before) == 0 {
				t.Errorf("%s: got step %d, which does not ask whether it is its turn", name, s.Number)
			}
		}
		for i, n := range p.Nodes {
			first := p.steps()[n.Back-1]
			if first.Node != i || first.Kind != Stop || first.Service.Name != Iggy || p.Phases[3].Steps[0].Number > n.Back {
				t.Errorf("%s: got %+v at the beginning of node %d's way back", name, first, i)
			}
		}
		var names []string
		for _, phase := range p.Phases {
			names = append(names, phase.Name)
		}
		if want := []string{PhaseHarden, PhaseStrict, PhasePermissive, PhaseBack}; !slices.Equal(names, want) {
			t.Errorf("%s: got phases %v, want %v", name, names, want)
		}
	}
}

// What a program gets is the plan.
func TestJSON(t *testing.T) {
	p := mustPlan(t, newCluster(t, apart(3)...), Options{})
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back Plan
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("got another plan from its own JSON (%v)", err)
	}
}

func TestNew(t *testing.T) {
	for _, tt := range []struct {
		addresses []string
		options   Options
		want      string
	}{
		{apart(1), Options{}, "fewer than 2"},
		{[]string{"127.50.3.3:9090", "10.0.0.1:9090"}, Options{}, "outside of 127.50.0.0/16"},
		{[]string{"127.50.3.3:9090", "10.0.0.1:9090"}, Options{Loopback: netip.MustParsePrefix("127.51.0.0/16")}, ""},
		{[]string{"0.0.0.0:9090", "10.0.0.1:9090"}, Options{}, "an address that the other nodes can dial"},
		{apart(2), Options{Loopback: netip.MustParsePrefix("10.50.0.0/16")}, "a /16 below 127.0.0.0/8"},
		{apart(2), Options{Loopback: netip.MustParsePrefix("127.50.0.0/24")}, "a /16 below 127.0.0.0/8"},
		{apart(2), Options{Loopback: netip.MustParsePrefix("127.50.1.0/16")}, "a /16 below 127.0.0.0/8"},
		{apart(2), Options{Hold: time.Minute, Within: time.Minute}, "a wait longer than hold"},
		{together(2), Options{Etc: "/etc/replgate"}, "got etc \"/etc/replgate\", want {replica} in it"},
		{together(2), Options{Metrics: "127.0.0.1:9464"}, "got metrics"},
		{apart(2), Options{Etc: "/etc/replgate", Metrics: "127.0.0.1:9465"}, ""},
	} {
		c := cluster{}
		if len(tt.addresses) > 1 && !strings.HasPrefix(tt.want, "an address") {
			c = newCluster(t, tt.addresses...)
		} else {
			for _, a := range tt.addresses {
				c.Nodes = append(c.Nodes, Node{Address: netip.MustParseAddrPort(a)})
			}
		}
		_, err := New(c.Cluster, tt.options)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v %+v: got %v, want %q", tt.addresses, tt.options, err, tt.want)
		}
	}
	if _, err := New(Cluster{Nodes: []Node{{Address: netip.MustParseAddrPort("10.0.0.1:1")}, {Address: netip.MustParseAddrPort("10.0.0.2:1")}},
		Move: func(map[int]netip.AddrPort) ([]Edit, error) { return nil, fs.ErrInvalid }}, Options{}); err != fs.ErrInvalid {
		t.Errorf("got %v, want the error of the edits", err)
	}
}

// What would surprise is said where it is true, and only there.
func TestNotes(t *testing.T) {
	plain := newCluster(t, apart(3)...)
	for _, tt := range []struct {
		note   string
		change func(*cluster)
	}{
		{"reconnect_period is 5s", func(c *cluster) { c.Reconnect = 5 * time.Second }},
		{"HTTP", func(c *cluster) { c.HTTPForwards = true }},
		{"share a host", func(c *cluster) { *c = newCluster(t, together(3)...) }},
		{"need each other", func(c *cluster) { *c = newCluster(t, apart(2)...) }},
	} {
		c := plain
		tt.change(&c)
		with, without := strings.Join(mustPlan(t, c, Options{}).Notes, "\n"), strings.Join(mustPlan(t, plain, Options{}).Notes, "\n")
		if !strings.Contains(with, tt.note) || strings.Contains(without, tt.note) {
			t.Errorf("got the notes %q with and %q without it, want %q once", with, without, tt.note)
		}
	}
}

// The text is the plan for people: the same files, and commands that do the same.
func TestText(t *testing.T) {
	p := mustPlan(t, newCluster(t, apart(3)...), Options{Etc: "/etc/replgate's/{replica}"})
	var b strings.Builder
	if err := p.Text(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, s := range p.steps() {
		for _, f := range s.Files {
			if !strings.Contains(text, f.Contents) || !strings.Contains(text, f.Path[:13]) {
				t.Errorf("got no %s of step %d in the text", f.Path, s.Number)
			}
		}
		for _, c := range s.Commands {
			if !strings.Contains(text, "\n"+shell(c.Argv)+"\n") {
				t.Errorf("got no %q of step %d in the text", c.Argv, s.Number)
			}
		}
		if s.Service != nil && !strings.Contains(text, "\n"+shell(s.Service.Argv)+"\n```") {
			t.Errorf("got no %q of step %d in the text", s.Service.Argv, s.Number)
		}
		if !strings.Contains(text, fmt.Sprintf("\n### Step %d. ", s.Number)) {
			t.Errorf("got no step %d in the text", s.Number)
		}
	}
	if strings.Contains(text, "\n\n\n") {
		t.Error("got a text with empty lines in a row")
	}
}

// The commands of the text change files as the edits do.
func TestEditCommands(t *testing.T) {
	for _, program := range []string{"sh", "sed", "patch"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err) // programs of the people who read the text, none of ours
		}
	}
	dir := t.TempDir()
	c := newCluster(t, apart(3)...)
	p := mustPlan(t, c, Options{Etc: dir + "/{replica}", Iggy: dir + "/it's {replica}.toml"})
	files := map[string]string{}
	for i, n := range p.Nodes {
		// Each host's own file differs elsewhere.
		files[n.Iggy] = strings.Repeat("# more\n", 3*i) + c.file
	}
	for _, s := range p.steps() {
		for _, f := range s.Files {
			files[f.Path] = f.Contents
		}
		for _, e := range s.Edits {
			if err := os.MkdirAll(filepath.Dir(e.Path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(e.Path, []byte(files[e.Path]), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("sh", "-c", editCommand(e)).CombinedOutput(); err != nil {
				t.Fatalf("step %d: %v\n%s\n%s", s.Number, err, out, editCommand(e))
			}
			got, err := os.ReadFile(e.Path)
			files[e.Path] = apply(t, files[e.Path], e)
			if err != nil || string(got) != files[e.Path] {
				t.Fatalf("step %d: got %v and\n%s\nwant\n%s", s.Number, err, got, files[e.Path])
			}
		}
	}
}
