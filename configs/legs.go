package configs

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// endpoint is one address of the gate, with the key that gave it.
type endpoint struct {
	key, text string
	host      string
	addr      netip.Addr // invalid when the host is a name or absent
	port      uint16
}

// securities checks the words; an empty one means the default.
func (k *checker) securities() {
	check := func(key string, s Security) {
		if s != "" {
			k.word(key, string(s), string(Plaintext), string(PSK), string(TLS))
		}
	}
	check("ingress.security", k.c.Ingress.Security)
	check("ingress.upstream_security", k.c.Ingress.UpstreamSecurity)
	check("egress.security", k.c.Egress.Security)
	for i, p := range k.c.Peers {
		check("peers"+index(i)+".security", p.Security)
	}
}

// farDefault is the security of a far leg that nobody wrote.
func (k *checker) farDefault() Security {
	switch {
	case k.c.Cluster.TLS.Enabled:
		return TLS
	case k.c.Cluster.Auth.Enabled:
		return PSK
	}
	return Plaintext
}

// ingress fills in and checks the way in.
func (k *checker) ingress() {
	in := &k.c.Ingress
	local, _ := k.c.Node(k.c.Gate.ReplicaID)
	in.Security = cmp.Or(in.Security, k.farDefault())
	in.UpstreamSecurity = cmp.Or(in.UpstreamSecurity, Plaintext)
	in.Upstream = cmp.Or(in.Upstream, rosterAddress(local))
	k.c.Egress.Security = cmp.Or(k.c.Egress.Security, Plaintext)
	k.dial("ingress.upstream", in.Upstream)
	switch {
	case in.Listen != "":
		k.listen("ingress.listen", in.Listen, 1)
	case local.ReplicaID > 0:
		k.rep.add("ingress.listen", "expected an address, found none; replicas with ids below %d dial this gate, write where, for example 10.0.1.6:9190", local.ReplicaID)
	}
}

// spellings checks the addresses that are written when the roster is unusable:
// whose they are cannot be said then, but a slip of the pen can.
func (k *checker) spellings() {
	written := func(key, text string, check func(key, text string)) {
		if text != "" {
			check(key, text)
		}
	}
	listen := func(key, text string) { k.listen(key, text, 1) }
	dial := func(key, text string) { k.dial(key, text) }
	written("ingress.listen", k.c.Ingress.Listen, listen)
	written("ingress.upstream", k.c.Ingress.Upstream, dial)
	for i, p := range k.c.Peers {
		written("peers"+index(i)+".listen", p.Listen, listen)
		written("peers"+index(i)+".address", p.Address, dial)
	}
}

// peers checks the entries and completes them to one for every other replica,
// in the order of the ids.
func (k *checker) peers() {
	written := map[int]int{}
	for i, p := range k.c.Peers {
		at := "peers" + index(i) + ".replica_id"
		first, dup := written[p.ReplicaID]
		_, known := k.c.Node(p.ReplicaID)
		switch {
		case p.ReplicaID == Unset && !k.rep.given(at):
			k.rep.add(at, "expected the id of a peer, found none; write replica_id = N")
		case !known:
			k.rep.add(at, "expected an id of the roster, found %d; add the node under [[cluster.nodes]] or correct the id", p.ReplicaID)
		case p.ReplicaID == k.c.Gate.ReplicaID:
			k.rep.add(at, "expected the id of a peer, found our own (%d); the local replica stands in [ingress] and [egress]", p.ReplicaID)
		case dup:
			k.rep.add(at, "expected one entry for each peer, found %d as in peers[%d]; remove one", p.ReplicaID, first)
		default:
			written[p.ReplicaID] = i
		}
	}
	var all []Peer
	var missing []string
	for id := range len(k.c.Cluster.Nodes) {
		i, ok := written[id]
		switch at := "peers" + index(i); {
		case id == k.c.Gate.ReplicaID:
		case id < k.c.Gate.ReplicaID && ok:
			all = append(all, k.lower(at, k.c.Peers[i]))
		case id < k.c.Gate.ReplicaID:
			all = append(all, Peer{ReplicaID: id, Security: k.c.Ingress.Security})
		case ok:
			all = append(all, k.higher(at, k.c.Peers[i]))
		default:
			missing = append(missing, strconv.Itoa(id))
		}
	}
	if missing != nil {
		k.rep.add("peers", "expected an entry for each higher id, found none for %s; add [[peers]] with its replica_id and address", strings.Join(missing, ", "))
	}
	k.c.Peers = all
}

// lower completes a peer that dials us. Its security may differ from what the
// other dialers speak; it has no address, since nobody dials it.
func (k *checker) lower(at string, p Peer) Peer {
	for _, f := range [][2]string{{".listen", p.Listen}, {".address", p.Address}, {".server_name", p.ServerName}} {
		if f[1] != "" {
			k.rep.add(at+f[0], "expected only security for replica %d, found %q; a lower id dials this gate, remove it", p.ReplicaID, f[1])
		}
	}
	return Peer{ReplicaID: p.ReplicaID, Security: cmp.Or(p.Security, k.c.Ingress.Security)}
}

// higher completes a peer that we dial.
func (k *checker) higher(at string, p Peer) Peer {
	n, _ := k.c.Node(p.ReplicaID)
	p.Security = cmp.Or(p.Security, k.farDefault())
	p.Listen = cmp.Or(p.Listen, rosterAddress(n))
	k.listen(at+".listen", p.Listen, 1)
	if p.Address == "" {
		k.rep.add(at+".address", "expected the address of replica %d, found none; write where its gate or it itself listens, for example iggy-%[1]d.iggy:9190", p.ReplicaID)
		return p
	}
	if to, ok := k.dial(at+".address", p.Address); ok && p.ServerName == "" {
		p.ServerName = strings.TrimSuffix(to.host, ".")
	}
	if p.ServerName != "" && !isHost(p.ServerName) {
		k.rep.add(at+".server_name", "expected a host name or an IP address, found %q; write the name in the peer's certificate", p.ServerName)
	}
	return p
}

func rosterAddress(n Node) string {
	return net.JoinHostPort(n.IP, strconv.Itoa(n.Ports.TCPReplica))
}

// listen checks an address that the gate binds. A name is refused: what it
// resolves to at start would decide who can connect.
func (k *checker) listen(key, text string, minPort uint16) {
	e, ok := parseEndpoint(key, text)
	if !ok || e.port < minPort || e.host != "" && !e.addr.IsValid() {
		k.rep.add(key, "expected IP:PORT to listen on, found %q; write for example 10.0.1.6:9190, [::1]:9190, or :9190 for every address", text)
		return
	}
	k.listens = append(k.listens, e)
}

// dial checks an address that the gate connects to.
func (k *checker) dial(key, text string) (endpoint, bool) {
	e, ok := parseEndpoint(key, text)
	if !ok || e.port == 0 || !isHost(e.host) || e.addr.IsValid() && e.addr.IsUnspecified() {
		k.rep.add(key, "expected HOST:PORT to connect to, found %q; write for example 10.0.1.7:9190, [fd00::7]:9190 or iggy-2.iggy:9190", text)
		return e, false
	}
	k.dials = append(k.dials, e)
	return e, true
}

func parseEndpoint(key, text string) (endpoint, bool) {
	host, port, err := net.SplitHostPort(text)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil || span(port, "0123456789") != len(port) {
		return endpoint{}, false
	}
	addr, _ := netip.ParseAddr(host)
	return endpoint{key, text, host, addr.Unmap(), uint16(n)}, true
}

// isHost accepts a literal address or a DNS name. A name whose last label is a
// number is a mistyped address, and resolvers disagree about it.
func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, l := range labels {
		bad := strings.Trim(strings.ToLower(l), "abcdefghijklmnopqrstuvwxyz0123456789-_")
		if l == "" || len(l) > 63 || bad != "" {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(host) <= 253 && span(last, "0123456789") < len(last)
}

// endpoints finds listeners that collide and addresses that lead back to us.
func (k *checker) endpoints() {
	if k.c.Metrics.Listen != "" {
		k.listen("metrics.listen", k.c.Metrics.Listen, 0) // port 0: any free one
	}
	for i, a := range k.listens {
		for _, b := range k.listens[:i] {
			if a.port != 0 && collide(a, b) {
				k.rep.add(a.key, "expected a listener of its own, found %s, which collides with %s (%s); give it another address or port", a.text, b.key, b.text)
			}
		}
	}
	for _, l := range k.listens {
		for _, d := range k.dials {
			loop := d.addr.IsValid() && l.port == d.port && (l.addr == d.addr || anyAddr(l) && d.addr.IsLoopback())
			if loop {
				k.rep.add(d.key, "expected an address other than our own listener, found %s, which is %s (%s); the gate would dial itself", d.text, l.key, l.text)
			}
		}
	}
}

func anyAddr(e endpoint) bool { return e.host == "" || e.addr.IsUnspecified() }

// collide reports whether the kernel would refuse the second listener.
func collide(a, b endpoint) bool {
	if a.port != b.port {
		return false
	}
	if !anyAddr(a) && !anyAddr(b) {
		return a.addr == b.addr
	}
	// 0.0.0.0 leaves the IPv6 addresses free; [::] and no host take both.
	only4 := func(e endpoint) bool { return e.addr.IsValid() && e.addr.Is4() && e.addr.IsUnspecified() }
	only6 := func(e endpoint) bool { return e.addr.IsValid() && e.addr.Is6() && !e.addr.IsUnspecified() }
	return !(only4(a) && only6(b) || only6(a) && only4(b))
}

// tls checks that there is something to speak TLS with.
func (k *checker) tls() {
	t := &k.c.Cluster.TLS
	files := [][2]string{{"cert_file", t.CertFile}, {"key_file", t.KeyFile}, {"ca_file", t.CAFile}}
	if t.SelfSigned {
		for _, f := range files {
			if f[1] != "" {
				k.rep.add("cluster.tls.self_signed", "expected either self_signed or certificate files, found both (%s); remove one", f[0])
			}
		}
		return
	}
	if !k.c.UsesTLS() {
		return
	}
	var missing []string
	for _, f := range files {
		if f[1] == "" {
			missing = append(missing, fmt.Sprintf("cluster.tls.%s", f[0]))
		}
	}
	if missing != nil {
		slices.Sort(missing)
		k.rep.add(missing[0], "expected cert_file, key_file and ca_file because a leg speaks tls, found no %s; name the files, or write self_signed = true", strings.Join(missing, ", "))
	}
}
