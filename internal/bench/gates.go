//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/replgate/replgate/internal/replica"
)

// serverName is the name in every certificate of the bench.
const serverName = "replica.test"

// secret is every gate's; it guards nothing.
const secret = "the bench's secret guards nothing at all"

// gateRole is one gate of a target: which replica it stands in front of and where
// its way goes on.
type gateRole struct {
	name     string
	replica  int
	replicas int
	// listen is where it is entered: as ingress by peers, or as egress by its
	// own replica, which is replica 0 and dials replica 1.
	listen string
	egress bool
	far    string // security of the far leg
	next   string // upstream, or the peer's address
}

// write writes the gate's configuration below dir and returns its path.
func (g gateRole) write(dir string, pki replica.PKI) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "[cluster]\nname = %q\n[cluster.auth]\nshared_secret = %q\n", clusterName, secret)
	fmt.Fprintf(&b, "[cluster.tls]\ncert_file = %q\nkey_file = %q\nca_file = %q\n", pki.Cert, pki.Key, pki.CA)
	for i := range g.replicas {
		fmt.Fprintf(&b, "[[cluster.nodes]]\nip = \"127.0.50.%d\"\nreplica_id = %d\nports = { tcp_replica = 9090 }\n", i, i)
	}
	fmt.Fprintf(&b, "[gate]\nreplica_id = %d\n", g.replica)
	if g.egress {
		fmt.Fprintf(&b, "[[peers]]\nreplica_id = 1\nlisten = %q\naddress = %q\nsecurity = %q\nserver_name = %q\n",
			g.listen, g.next, g.far, serverName)
	} else {
		fmt.Fprintf(&b, "[ingress]\nlisten = %q\nsecurity = %q\nupstream = %q\n", g.listen, g.far, g.next)
	}
	b.WriteString("[limits]\nhandshakes = 512\nhandshakes_per_source = 512\n")
	b.WriteString("[admin]\nlisten = \"\"\n[metrics]\nlisten = \"\"\n[log]\nlevel = \"error\"\n")
	path := filepath.Join(dir, g.name+".toml")
	return path, os.WriteFile(path, []byte(b.String()), 0o600)
}
