package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/replgate/replgate/internal/replica"
)

// replgateBinary is built once, by TestMain: tests from outside run the program
// that users run.
var replgateBinary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "replgate-test")
	if err != nil {
		panic(err)
	}
	replgateBinary = filepath.Join(dir, "replgate")
	build := exec.Command("go", "build", "-o", replgateBinary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n", out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// recordingsDir is the full set of recordings where there is one, else the
// project's own subset.
func recordingsDir() string {
	if dir := os.Getenv("REPLGATE_CAPTURES"); dir != "" {
		return dir
	}
	return "../../internal/replica/testdata/recordings"
}

const (
	secretOne = "capture secret one, 32+ bytes long!"
	secretTwo = "capture secret two, 32+ bytes long!"
	certName  = "replica.test"
)

// network is a /24 of the loopback net that no other test of this run uses.
type network struct{ prefix string }

func newNetwork() network {
	return network{fmt.Sprintf("127.%d.%d", 64+rand.IntN(128), rand.IntN(256))}
}

// The places of a test cluster: where stand-in i listens, where gate i takes
// peers in, where gate i takes its own replica on the way to j, its metrics.
func (n network) replica(i int) string   { return fmt.Sprintf("%s.%d:9090", n.prefix, 10+i) }
func (n network) ingress(i int) string   { return fmt.Sprintf("%s.%d:9190", n.prefix, 10+i) }
func (n network) egress(i, j int) string { return fmt.Sprintf("%s.%d:9090", n.prefix, 100+10*i+j) }
func (n network) metrics(i int) string   { return fmt.Sprintf("%s.%d:9464", n.prefix, 10+i) }

func (n network) hosts() []string {
	hosts := []string{certName}
	for i := range 256 {
		hosts = append(hosts, fmt.Sprintf("%s.%d", n.prefix, i))
	}
	return hosts
}

// gateConfig is what a test says of one gate.
type gateConfig struct {
	Network   network
	ID        int
	Replicas  int
	Near, Far string
	PKI       replica.PKI
	Secret    string
	Cluster   string
	Extra     string // more TOML, at the end
	// Peer is where the gate finds a peer; its ingress by default.
	Peer func(j int) string
}

var gateTemplate = template.Must(template.New("gate").Funcs(template.FuncMap{
	"upto": func(n int) []int {
		ids := make([]int, n)
		for i := range ids {
			ids[i] = i
		}
		return ids
	},
	"host": func(address string) string { return address[:strings.LastIndexByte(address, ':')] },
}).Parse(`[cluster]
name = "{{or .Cluster "iggy-cluster"}}"
[cluster.auth]
shared_secret = "{{.Secret}}"
[cluster.tls]
cert_file = "{{.PKI.Cert}}"
key_file = "{{.PKI.Key}}"
ca_file = "{{.PKI.CA}}"
{{range upto .Replicas}}[[cluster.nodes]]
ip = "{{if gt . $.ID}}{{host ($.Network.Egress $.ID .)}}{{else}}{{host ($.Network.Replica .)}}{{end}}"
replica_id = {{.}}
ports = { tcp_replica = 9090 }
{{end}}[gate]
replica_id = {{.ID}}
[ingress]
listen = "{{.Network.Ingress .ID}}"
security = "{{.Far}}"
upstream = "{{.Network.Replica .ID}}"
upstream_security = "{{.Near}}"
[egress]
security = "{{.Near}}"
{{range upto .Replicas}}{{if gt . $.ID}}[[peers]]
replica_id = {{.}}
listen = "{{$.Network.Egress $.ID .}}"
address = "{{call $.Peer .}}"
security = "{{$.Far}}"
server_name = "` + certName + `"
{{end}}{{end}}[metrics]
listen = "{{.Network.Metrics .ID}}"
[admin]
listen = ""
{{.Extra}}
`))

// Exported for the template.
func (n network) Replica(i int) string   { return n.replica(i) }
func (n network) Ingress(i int) string   { return n.ingress(i) }
func (n network) Egress(i, j int) string { return n.egress(i, j) }
func (n network) Metrics(i int) string   { return n.metrics(i) }

// process is a running replgate.
type process struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	log bytes.Buffer
	end chan error
}

// startGate writes the configuration, starts the program and waits until it is
// ready.
func startGate(t *testing.T, c gateConfig) *process {
	t.Helper()
	if c.Peer == nil {
		c.Peer = c.Network.ingress
	}
	var text bytes.Buffer
	if err := gateTemplate.Execute(&text, c); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "replgate.toml")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(replgateBinary, "run", "--config", path), end: make(chan error, 1)}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan bool, 1)
	go p.follow(stderr, ready)
	t.Cleanup(func() { p.stop(t) })
	select {
	case ok := <-ready:
		if !ok {
			t.Fatalf("the gate ended before it was ready:\n%s", p.logText())
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("the gate was not ready within 10 s:\n%s", p.logText())
	}
	return p
}

// follow keeps the log and says when the gate is ready or has ended.
func (p *process) follow(r io.Reader, ready chan<- bool) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		if strings.Contains(lines.Text(), `"msg":"ready"`) {
			ready <- true
		}
	}
	p.end <- p.cmd.Wait()
	ready <- false
}

func (p *process) logText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// stop ends the gate as a service manager does and expects exit 0.
func (p *process) stop(t *testing.T) {
	t.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-p.end:
		if err != nil {
			t.Errorf("the gate ended with %v, want exit 0:\n%s", err, p.logText())
		}
	case <-time.After(40 * time.Second):
		p.cmd.Process.Kill()
		t.Errorf("the gate did not end within 40 s of SIGTERM:\n%s", p.logText())
	}
}

// scrape returns every sample of a gate's metrics.
func scrape(t *testing.T, address string) map[string]float64 {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	samples := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		if strings.HasPrefix(name, "#") || !ok {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		samples[name+"}"] = v
	}
	return samples
}

// sum adds the samples whose name starts with prefix and contains every part.
func sum(samples map[string]float64, prefix string, parts ...string) (total float64) {
next:
	for name, v := range samples {
		if !strings.HasPrefix(name, prefix+"{") {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(name, part) {
				continue next
			}
		}
		total += v
	}
	return total
}

// eventually waits until cond holds, for at most ten seconds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // real time: another process is watched
	}
}
