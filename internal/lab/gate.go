package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"

	"github.com/replgate/replgate/internal/replica"
)

// ServerName is the DNS name that gates ask of one another's certificates.
const ServerName = "replica.test"

// Config is what a gate of the lab is told.
type Config struct {
	Net      Net
	ID       int
	Replicas int
	// Near and Far are the securities toward the local replica and toward peers.
	Near, Far string
	PKI       replica.PKI
	Secret    string
	// SecretFile and PreviousFile are files in place of Secret, for rotations.
	SecretFile, PreviousFile string
	// Cluster is the cluster's name.
	Cluster string
	// Peer is where a peer is found; its gate by default.
	Peer func(id int) string
	// Admin is the admin socket, "unix:PATH"; empty: none.
	Admin string
	// Extra is more TOML, at the end.
	Extra string
}

// gateTOML is the configuration of one gate. Roster addresses of higher ids are
// the gate's own, as the local replica is told them.
const gateTOML = `[cluster]
name = "{{.Cluster}}"
[cluster.auth]
{{if .SecretFile}}shared_secret_file = "{{.SecretFile}}"
previous_shared_secret_file = "{{.PreviousFile}}"
{{else}}shared_secret = "{{.Secret}}"
{{end}}[cluster.tls]
cert_file = "{{.PKI.Cert}}"
key_file = "{{.PKI.Key}}"
ca_file = "{{.PKI.CA}}"
{{range upto .Replicas}}[[cluster.nodes]]
ip = "{{if gt . $.ID}}{{host ($.Net.Egress $.ID .)}}{{else}}{{host ($.Net.Replica .)}}{{end}}"
replica_id = {{.}}
ports = { tcp_replica = 9090 }
{{end}}[gate]
replica_id = {{.ID}}
[ingress]
listen = "{{.Net.Ingress .ID}}"
security = "{{.Far}}"
upstream = "{{.Net.Replica .ID}}"
upstream_security = "{{.Near}}"
[egress]
security = "{{.Near}}"
{{range upto .Replicas}}{{if gt . $.ID}}[[peers]]
replica_id = {{.}}
listen = "{{$.Net.Egress $.ID .}}"
address = "{{call $.Peer .}}"
security = "{{$.Far}}"
server_name = "` + ServerName + `"
{{end}}{{end}}[metrics]
listen = "{{.Net.Metrics .ID}}"
[admin]
listen = "{{.Admin}}"
{{.Extra}}
`

// Write writes the configuration below dir and returns its path.
func (c Config) Write(dir string) (string, error) {
	if c.Peer == nil {
		c.Peer = c.Net.Ingress
	}
	if c.Cluster == "" {
		c.Cluster = "iggy-cluster"
	}
	funcs := template.FuncMap{"upto": upto, "host": host}
	t, err := template.New("gate").Funcs(funcs).Parse(gateTOML)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, c); err != nil {
		return "", err
	}
	path := filepath.Join(dir, fmt.Sprintf("gate-%d.toml", c.ID))
	return path, os.WriteFile(path, text.Bytes(), 0o600)
}

// host is an address of the lab's network without its port.
func host(address string) string { return address[:strings.LastIndexByte(address, ':')] }

func upto(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	return ids
}

// Gate is a running replgate.
type Gate struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	log []string
	end chan struct{} // closed when the program has ended and its log is whole
	err error         // its end, once end is closed
}

// startTime bounds the time from exec to ready.
const startTime = 10 * time.Second

// Start runs binary with the configuration at path and waits until it is ready.
func Start(binary, path string) (*Gate, error) {
	g := &Gate{cmd: exec.Command(binary, "run", "--config", path), end: make(chan struct{})}
	apart(g.cmd)
	stderr, err := g.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go g.follow(stderr, ready)
	select {
	case <-ready:
		return g, nil
	case <-g.end:
		return nil, fmt.Errorf("lab: the gate ended before it was ready: %w\n%s", g.err, g.Log())
	case <-time.After(startTime):
		g.cmd.Process.Kill()
		<-g.end
		return nil, fmt.Errorf("lab: the gate was not ready within %v\n%s", startTime, g.Log())
	}
}

// apart gives a process a group of its own: an interrupt at the terminal is for
// whoever started the lab, who ends the others in order.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// follow keeps the log and says when the gate is ready and when it has ended.
func (g *Gate) follow(r io.Reader, ready chan<- struct{}) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		g.mu.Lock()
		g.log = append(g.log, lines.Text())
		g.mu.Unlock()
		if strings.Contains(lines.Text(), `"msg":"ready"`) {
			close(ready)
		}
	}
	g.err = g.cmd.Wait()
	close(g.end)
}

// Log is everything the gate has logged.
func (g *Gate) Log() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.log, "\n")
}

// Find returns the last log line whose field is word.
func (g *Gate) Find(field, word string) (map[string]any, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := len(g.log) - 1; i >= 0; i-- {
		var line map[string]any
		if json.Unmarshal([]byte(g.log[i]), &line) == nil && line[field] == word {
			return line, true
		}
	}
	return nil, false
}

// Await waits for a log line whose field is word: the gate logs from a process of
// its own.
func (g *Gate) Await(ctx context.Context, field, word string) (map[string]any, error) {
	for {
		if line, ok := g.Find(field, word); ok {
			return line, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lab: got no log line with %s=%s in time:\n%s", field, word, g.Log())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// ErrStop is returned by Stop when the gate did not end in time.
var ErrStop = errors.New("lab: the gate did not end in time after SIGTERM")

// Stop ends the gate as a service manager does. It returns nil when it exits 0.
// A gate that has ended already is asked for its exit.
func (g *Gate) Stop(within time.Duration) error {
	g.Signal(syscall.SIGTERM)
	select {
	case <-g.end:
		return g.err
	case <-time.After(within):
		g.cmd.Process.Kill()
		<-g.end
		return ErrStop
	}
}

// Signal sends a signal; a gate that has ended takes none.
func (g *Gate) Signal(s os.Signal) { g.cmd.Process.Signal(s) }

// Done is closed when the gate has ended.
func (g *Gate) Done() <-chan struct{} { return g.end }
