package harden

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The line of a gate's configuration that the phases change.
const (
	modePermissive = `mode = "permissive"`
	modeStrict     = `mode = "strict"`
)

// gateTOML is the configuration of node i's gate. It names no secret, only where
// it lies.
func (m *maker) gateTOML(i int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	c, p := m.cluster, m.places[i]
	line("# The gate of replica %d, by `replgate harden plan`. Name, roster, timers and limits", i)
	line("# are those of Iggy's own configuration and must stay so.")
	line("[cluster]\nname = %s\nheartbeat_timeout = %s", quote(c.Name), quote(c.Heartbeat.String()))
	line("\n[cluster.auth]\nenabled = true\nshared_secret_file = %s", quote(p.SecretFile))
	line("previous_shared_secret_file = %s", quote(p.PreviousFile)) // none is there before the first rotation
	line("\n[cluster.tls]\nenabled = true\ncert_file = %s\nkey_file = %s\nca_file = %s", quote(p.CertFile), quote(p.KeyFile), quote(p.CAFile))
	for id, n := range c.Nodes {
		line("\n[[cluster.nodes]]")
		if n.Name != "" {
			line("name = %s", quote(n.Name))
		}
		line("ip = %s\nreplica_id = %d\nports = { tcp_replica = %d }", quote(n.Address.Addr().String()), id, n.Address.Port())
	}
	line("\n[message_bus]\nmax_message_size = %s", quote(c.MaxMessageSize))
	line("\n[gate]\nreplica_id = %d\nstate_dir = %s", i, quote(p.StateDir))
	if i > 0 { // nobody dials replica 0
		line("\n[ingress]\nlisten = %s\nupstream = %s", quote(p.Address.String()), quote(p.Behind.String()))
	}
	for _, j := range higher(p) {
		line("\n[[peers]]\nreplica_id = %d\nlisten = %s\naddress = %s", j, quote(p.Egress[j].String()), quote(m.places[j].Address.String()))
	}
	line("\n[security]\n%s", modePermissive)
	if m.options.StrictReadyAfter != strictReadyAfter {
		line("strict_ready_after = %s", quote(m.options.StrictReadyAfter.String()))
	}
	line("\n[timeouts]\nhandshake = %s\nprove = %s", quote(c.Handshake.String()), quote(prove(c.Heartbeat).String()))
	line("\n[admin]\nlisten = %s", quote("unix:"+p.Socket))
	line("\n[metrics]\nlisten = %s", quote(p.Metrics))
	return b.String()
}

// prove is the time for the far leg of a link: the default where it is below half
// of the heartbeat timeout, as it must be, else four tenths.
func prove(heartbeat time.Duration) time.Duration {
	return min(2*time.Second, heartbeat*4/10)
}

// higher are the ids above a node's own.
func higher(p Place) []int {
	var ids []int
	for j := range p.Egress {
		ids = append(ids, j)
	}
	slices.Sort(ids)
	return ids
}

// quote writes a string as TOML does; what JSON escapes, and how, TOML reads.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always has a JSON form
	}
	return string(b)
}
