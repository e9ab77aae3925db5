package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica/standin"
)

// hardeningSection of OPERATIONS is a cluster of its own; newSection is where it
// points for secret and certificates.
const (
	hardeningSection = "Hardening a running cluster"
	newSection       = "A new cluster, step by step"
)

// units are the services of a host: a stand-in for its Iggy, and its gate. A
// program in the place of systemctl asks for them over a socket.
type units struct {
	h       *hosts
	all     *[]*units   // of all hosts
	turn    *sync.Mutex // one request at a time
	id      int
	replica *lab.Replica
	gate    *lab.Gate
}

// planLoopback is what a plan draws addresses from, and what it is on this machine.
const planLoopback = "127.50."

// hardening gives hosts the programs that a plan's commands need: what wants root
// is done without, and the plan is told where a host's folders are.
func (h *hosts) hardening(loopback string) []*units {
	h.t.Helper()
	h.plan = loopback
	var all []*units
	turn := new(sync.Mutex)
	for i := range h.shells {
		root := h.root(i)
		h.program(i, "replgate", fmt.Sprintf(`case "$1" in
status | wait | reload | peers) exec %[1]s "$@" --socket %[2]s/admin.sock;;
harden) exec %[1]s "$@" --etc %[2]s/etc/replgate --run %[2]s --state %[2]s/state --iggy-config %[2]s/etc/iggy/config.toml \
	--loopback %[3]s0.0/16 --metrics %[3]s{replica}.250:9464 --hold 1s --strict-ready-after 5s;;
esac
exec %[1]s "$@"`, replgateBinary, root, loopback))
		h.program(i, "install", `exec /usr/bin/install $(echo "$*" | sed 's/-o replgate -g replgate//')`)
		socket := filepath.Join(root, "units.sock")
		h.program(i, "systemctl", fmt.Sprintf(`exec curl -sS --fail-with-body --unix-socket %s "http://units/$(echo "$*" | tr ' ' +)"`, socket))
		u := &units{h: h, all: &all, turn: turn, id: i, replica: &lab.Replica{ID: uint8(i), Load: standin.Load{Rate: 20, Messages: 1, Payload: 16, Metadata: 0.2}}}
		ln, err := net.Listen("unix", socket)
		h.check(err)
		server := &http.Server{Handler: u}
		go server.Serve(ln)
		h.t.Cleanup(func() {
			server.Close()
			u.end()
		})
		all = append(all, u)
	}
	return all
}

// ServeHTTP is systemctl, as far as a plan uses it.
func (u *units) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.turn.Lock()
	defer u.turn.Unlock()
	var err error
	switch words := strings.TrimPrefix(r.URL.Path, "/"); words {
	case "start+iggy-server":
		err = u.start()
	case "stop+iggy-server":
		err = u.replica.Stop()
	case "enable+--now+replgate":
		u.gate, err = lab.Start(replgateBinary, filepath.Join(u.h.root(u.id), "etc/replgate/replgate.toml"))
	case "disable+--now+replgate":
		err = u.gate.Stop(40 * time.Second)
		u.gate = nil
	default:
		err = fmt.Errorf("got systemctl %q, want what a plan asks for", words)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// start returns when the replica is whole and every gate has its links, so that the
// page need not wait: a plaintext replica takes a link for up before it is proven.
func (u *units) start() error {
	if err := u.replica.Start(filepath.Join(u.h.root(u.id), "etc/iggy/config.toml")); err != nil {
		return err
	}
	for deadline := time.Now().Add(ioTimeout); ; {
		err := u.replica.Whole()
		for _, other := range *u.all {
			if err == nil && other.gate != nil {
				err = other.linked()
			}
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond) // real time: sockets carry the rest
	}
}

func (u *units) linked() error {
	samples, err := lab.Scrape(fmt.Sprintf("%s%d.250:9464", u.h.plan, u.id))
	if up := samples.Sum("replgate_links"); err == nil && int(up) != len(u.h.shells)-1 {
		err = fmt.Errorf("got %v links through gate %d, want all", up, u.id)
	}
	return err
}

func (u *units) end() {
	u.turn.Lock()
	defer u.turn.Unlock()
	if err := u.replica.Stop(); err != nil {
		u.h.t.Errorf("replica %d: %v", u.id, err)
	}
	if u.gate != nil {
		u.h.t.Errorf("got gate %d, which still runs after the way back", u.id)
		u.gate.Stop(40 * time.Second)
	}
}

// The section on hardening, there and back, on a plaintext cluster that is in use.
// Secret and certificates are made by the commands of the section before it, to
// which it points.
func TestHardeningCommands(t *testing.T) {
	needs(t, "bash", "openssl", "curl", "patch", "install", "awk", "sed")
	h := newHosts(t)
	all := h.hardening(fmt.Sprintf("127.%d.", 192+rand.IntN(62)))
	pages := blocks(t, filepath.Join(docsDir, "OPERATIONS.md"))
	for _, b := range pages {
		text := strings.Join(b.lines, "\n")
		if b.language == "console" && b.reason == "" && b.section == newSection &&
			(strings.Contains(text, "> /etc/replgate/secret") || strings.Contains(text, "openssl x509") || strings.Contains(text, "scp -q")) {
			h.session(b)
		}
	}
	ran := 0
	for _, b := range pages {
		if b.section != hardeningSection {
			continue
		}
		switch b.language {
		case "toml":
			h.file(b)
			for _, u := range all {
				h.check(u.replica.Start(filepath.Join(h.root(u.id), "etc/iggy/config.toml")))
			}
			for _, u := range all {
				eventually(t, fmt.Sprintf("replica %d is whole", u.id), func() bool { return u.replica.Whole() == nil })
			}
		case "console":
			h.session(b)
			ran++
		}
		if t.Failed() {
			t.Fatal("the rest stands on this")
		}
	}
	if ran == 0 {
		t.Errorf("got no command under %q, want some", hardeningSection)
	}
}
