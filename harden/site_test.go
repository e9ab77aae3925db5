package harden_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/harden"
	"github.com/replgate/replgate/internal/lab"
)

// binary is the program, built once: plans and gates are those that users have.
var binary string

// soak runs the long variants.
var soak = os.Getenv("REPLGATE_SOAK") != ""

func TestMain(m *testing.M) {
	os.Unsetenv("REPLGATE_SOAK") // gates would warn of a key that they do not know
	dir, err := os.MkdirTemp("", "replgate-harden")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "replgate")
	if out, err := exec.Command("go", "build", "-o", binary, "../cmd/replgate").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n", out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// site is hosts on which a plan is carried out: a folder for each, a stand-in in
// the place of its Iggy, and perhaps a gate. It knows how a step is carried out and
// no step.
type site struct {
	dir       string
	plan      harden.Plan
	iggy      string // the file that each Iggy has at first
	nodes     []*node
	secret    []byte
	authority *authority
	keys      map[int][]byte // by node: the key of its certificate
	traffic   *traffic
}

// The times of a site. A machine that is busy may be late with a heartbeat, so a
// Before that does not hold gets a moment; less than links need to count as up.
const (
	heartbeat   = 2500 * time.Millisecond
	hold        = time.Second
	grace       = 600 * time.Millisecond
	strictAfter = 12 * time.Second // longer than a node's turn takes, or nobody waits for strict
	startTime   = 30 * time.Second
)

// newSite asks the program for a plan, whose steps may take so long to show their
// result, and starts the plaintext cluster that it is for. It is ended with close.
func newSite(replicas int, shared bool, within time.Duration) (*site, error) {
	dir, err := os.MkdirTemp("", "h") // short: a socket's path has little room
	if err != nil {
		return nil, err
	}
	s := &site{dir: dir, secret: fmt.Appendf(nil, "a secret of this site alone, %020d", rand.Uint64()), keys: map[int][]byte{}}
	if s.authority, err = newAuthority(); err != nil {
		return s, err
	}
	// A net and a port of its own: sites that run at once must not meet.
	network, port := lab.NewNet(), 10_000+rand.IntN(20_000)
	text := iggyFile(replicas, func(i int) (string, int) {
		if shared {
			return host(network.Replica(0)), port + i
		}
		return host(network.Replica(i)), port
	})
	iggy := filepath.Join(dir, "iggy.toml")
	if err := os.WriteFile(iggy, []byte(text), 0o600); err != nil {
		return s, err
	}
	loopback, here := 192+rand.IntN(62), filepath.Join(dir, "{replica}")
	argv := []string{"harden", "plan", "--json", "--config", iggy, "--etc", here, "--run", here, "--state", here + "/state", "--iggy-config", here + "/iggy.toml",
		"--loopback", fmt.Sprintf("127.%d.0.0/16", loopback), "--metrics", fmt.Sprintf("127.%d.{replica}.250:%d", loopback, port),
		"--hold", hold.String(), "--within", within.String(), "--strict-ready-after", strictAfter.String()}
	out, err := exec.Command(binary, argv...).Output()
	if err != nil {
		return s, errors.Join(err, stderr(err))
	}
	if err := json.Unmarshal(out, &s.plan); err != nil {
		return s, err
	}
	s.iggy = text
	for i, place := range s.plan.Nodes {
		s.nodes = append(s.nodes, &node{place: place, replica: &lab.Replica{ID: uint8(i), Load: load()}})
		if err := os.MkdirAll(filepath.Dir(place.Iggy), 0o700); err != nil {
			return s, err
		}
		if err := os.WriteFile(place.Iggy, []byte(text), 0o600); err != nil {
			return s, err
		}
		if err := s.nodes[i].replica.Start(place.Iggy); err != nil {
			return s, err
		}
	}
	s.traffic = watch(s.nodes)
	return s, s.until(startTime, s.plan.Phases[0].Steps[0].Before)
}

func stderr(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return errors.New(string(exit.Stderr))
	}
	return nil
}

func host(address string) string { return address[:strings.LastIndexByte(address, ':')] }

// iggyFile is the configuration that a plaintext Iggy has.
func iggyFile(replicas int, address func(i int) (string, int)) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# a server's own comment\n[cluster]\nenabled = true\nname = \"site\"\nheartbeat_timeout = \"%v\"\n", heartbeat)
	for i := range replicas {
		ip, port := address(i)
		fmt.Fprintf(&b, "\n[[cluster.nodes]]\nname = \"iggy-%d\"\nip = %q  # of its host\nreplica_id = %[1]d\nports = { tcp = 8090, http = 3000, tcp_replica = %[3]d }\n", i, ip, port)
	}
	return b.String() + "\n[message_bus]\nreconnect_period = \"100ms\"\n"
}

// close ends every process and every stand-in, and says what was wrong with them.
func (s *site) close() error {
	var failed []error
	for _, n := range s.nodes {
		failed = append(failed, n.replica.Stop(), n.stopGate())
	}
	if s.traffic != nil {
		s.traffic.stop()
	}
	return errors.Join(append(failed, os.RemoveAll(s.dir))...)
}

// carry carries a step out, as the comment of harden's kinds says.
func (s *site) carry(step harden.Step) error {
	if err := s.until(grace, step.Before); err != nil {
		return fmt.Errorf("step %d is refused: %w", step.Number, err)
	}
	return s.act(step)
}

// act carries a step out, whether or not it is its turn.
func (s *site) act(step harden.Step) (err error) {
	for _, f := range step.Files {
		err = errors.Join(err, s.write(step.Node, f))
	}
	for _, e := range step.Edits {
		err = errors.Join(err, edit(e))
	}
	for _, c := range step.Commands {
		if err == nil {
			_, err = command(c.Argv)
		}
	}
	if err == nil && step.Service != nil {
		err = s.service(step)
	}
	if err == nil && step.After != nil {
		var limit time.Duration
		if limit, err = time.ParseDuration(step.Within); err == nil {
			err = s.until(limit, step.After)
		}
	}
	if err != nil {
		return fmt.Errorf("step %d failed: %w", step.Number, err)
	}
	return nil
}

// premature says that a step could be carried out now, before its turn. It changes
// nothing.
func (s *site) premature(step harden.Step) error {
	asked := step.Before
	if step.Kind == harden.Wait {
		asked = append(slices.Clone(asked), step.After...)
	}
	if s.hold(asked) == nil {
		return fmt.Errorf("step %d (%s) is not refused before its turn", step.Number, step.Title)
	}
	return nil
}

// until waits for conditions.
func (s *site) until(limit time.Duration, all []harden.Condition) error {
	deadline := time.Now().Add(limit)
	for {
		err := s.hold(all)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond) // real time: processes are watched
	}
}

// hold returns why one of the conditions does not hold. Equal commands run once.
func (s *site) hold(all []harden.Condition) error {
	printed := map[string][]byte{}
	for _, c := range all {
		var err error
		if c.Service != "" {
			err = s.nodes[c.Node].is(c.Service, c.State)
		} else {
			key := strings.Join(c.Argv, "\x00")
			out, ran := printed[key]
			if !ran {
				if out, err = command(c.Argv); err == nil {
					printed[key] = out
				}
			}
			if err == nil {
				err = values(out, c.Values)
			}
		}
		if err != nil {
			return fmt.Errorf("node %d: want %q: %w", c.Node, c.Says, err)
		}
	}
	return nil
}

// write puts a file there; what a plan cannot hold comes from whoever carries it
// out.
func (s *site) write(id int, f harden.File) error {
	text := []byte(f.Contents)
	var err error
	switch f.Need {
	case harden.NeedSecret:
		text = s.secret
	case harden.NeedCA:
		text = s.authority.pem
	case harden.NeedCertificate:
		text, s.keys[id], err = s.authority.issue(f.Names)
	case harden.NeedKey:
		text = s.keys[id]
	}
	mode, modeErr := strconv.ParseUint(f.Mode, 8, 32)
	if err := errors.Join(err, modeErr, os.MkdirAll(filepath.Dir(f.Path), 0o700)); err != nil {
		return err
	}
	return os.WriteFile(f.Path, text, os.FileMode(mode))
}

func edit(e harden.FileEdit) error {
	text, err := os.ReadFile(e.Path)
	if err != nil {
		return err
	}
	after := string(text)
	for _, c := range e.Changes {
		if n := strings.Count(after, c.Old); n != 1 {
			return fmt.Errorf("got %q %d times in %s, want it once", c.Old, n, e.Path)
		}
		after = strings.Replace(after, c.Old, c.New, 1)
	}
	return os.WriteFile(e.Path, []byte(after), 0o600)
}

// command runs a command of a node; the only program that there is on a site is
// ours.
func command(argv []string) ([]byte, error) {
	if len(argv) == 0 || argv[0] != "replgate" {
		return nil, fmt.Errorf("got the command %q, want replgate", argv)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, argv[1:]...).Output()
	if err != nil {
		return nil, fmt.Errorf("%q: %w", argv, errors.Join(err, stderr(err)))
	}
	return out, nil
}

// service stops or starts one. At no time may two replicas be stopped.
func (s *site) service(step harden.Step) error {
	n := s.nodes[step.Node]
	switch {
	case step.Service.Name == harden.Gate && step.Kind == harden.Start:
		return n.startGate(step.Service.Config)
	case step.Service.Name == harden.Gate:
		return n.stopGate()
	case step.Kind == harden.Start:
		return n.replica.Start(step.Service.Config)
	}
	for _, other := range s.nodes {
		if other != n && !other.replica.Running() {
			return fmt.Errorf("got replicas %d and %d stopped at once, want one at a time", n.place.ID, other.place.ID)
		}
	}
	return n.replica.Stop()
}
