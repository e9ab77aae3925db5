package configs

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Iggy is a real Iggy configuration, read for what it says about its cluster.
type Iggy struct {
	Cluster        Cluster  // Auth.Enabled and TLS.Enabled are Iggy's own switches
	Enabled        bool     // cluster.enabled; without it there is no replica port
	MaxMessageSize Size     // of a frame
	Handshake      Duration // message_bus.handshake_grace
	Reconnect      Duration // between two sweeps of a dialer
	// HTTPForwards is whether followers forward HTTP requests to the primary: HTTP
	// is on, and its tokens have a key that all nodes share (§8.2).
	HTTPForwards bool

	report *report
	at     *scanner
	rows   []rosterRow // as Cluster.Nodes
}

// rosterRow is what an edit of one entry must know of it.
type rosterRow struct{ advertised bool }

// Edit is a change of a text in which Old stands exactly once.
type Edit struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// LoadIggy reads the file at path as Iggy would, as far as its replica port is
// concerned, and checks it like a configuration of ours; the error is of type
// Faults. Of opt only ReadFile counts: what Iggy's environment says is unknown.
func LoadIggy(path string, opt Options) (*Iggy, error) {
	l := &loader{opt: opt, rep: &report{file: path}, cfg: Default(), out: &Loaded{}}
	doc, fault := l.document(path, "")
	if fault != nil {
		return nil, Faults{*fault}
	}
	// Every key of this file counts as Iggy's; there is no file of ours above it.
	l.rep.iggyFile, l.rep.iggy = path, iggyLines(doc.lines, nil)
	l.iggyLayer(doc)
	k := &checker{c: &l.cfg, rep: l.rep}
	k.cluster()
	k.roster()
	k.timeouts()
	k.sizes()
	// A prove timeout that does not fit is ours to choose, not Iggy's to name.
	l.rep.forget("timeouts.prove")
	if err := l.rep.err(); err != nil {
		return nil, err
	}
	g := &Iggy{Cluster: l.cfg.Cluster, MaxMessageSize: l.cfg.MessageBus.MaxMessageSize, Handshake: l.cfg.Timeouts.Handshake,
		Reconnect: 5 * second, report: l.rep, at: scan(doc.text)}
	g.rest(doc.root)
	return g, nil
}

// rest takes what only a plan asks for; a wrong type is Iggy's to complain of.
func (g *Iggy) rest(root map[string]any) {
	table := func(m map[string]any, key string) map[string]any {
		t, _ := m[key].(map[string]any)
		return t
	}
	cluster, http := table(root, "cluster"), table(root, "http")
	g.Enabled, _ = cluster["enabled"].(bool)
	if text, ok := table(root, "message_bus")["reconnect_period"].(string); ok {
		if d, err := parseIggyDuration(text); err == nil {
			g.Reconnect = d
		}
	}
	on, written := http["enabled"].(bool)
	key, _ := table(http, "jwt")["encoding_secret"].(string)
	g.HTTPForwards = (on || !written) && (key != "" || g.Cluster.Auth.Enabled)
	entries, _ := cluster["nodes"].([]map[string]any)
	if items, inline := cluster["nodes"].([]any); inline {
		for _, item := range items {
			entry, _ := item.(map[string]any)
			entries = append(entries, entry)
		}
	}
	for _, entry := range entries {
		address, _ := entry["advertised_address"].(string)
		g.rows = append(g.rows, rosterRow{advertised: address != ""})
	}
}

// Fault is one that the file has for a purpose that LoadIggy does not know.
func (g *Iggy) Fault(key, text string) Fault {
	file, line := g.report.locate(key)
	return Fault{File: file, Line: line, Key: key, Text: text}
}

// Move returns the edits that give replicas other addresses in this file's roster
// and leave every other byte as it is, in the order of the entries. Clients are
// told the ip of an entry where nothing else is advertised, so an entry that has
// no advertised_address gets its old ip as one.
func (g *Iggy) Move(to map[int]netip.AddrPort) ([]Edit, error) {
	var edits []Edit
	text := g.at.src
	for i, n := range g.Cluster.Nodes {
		address, ok := to[n.ReplicaID]
		if !ok {
			continue
		}
		edit, err := g.move(i, n, address)
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit)
		text = strings.Replace(text, edit.Old, edit.New, 1)
	}
	// The scanner recognises keys, it does not judge them: what it was wrong about
	// shows when the result is read.
	moved, err := LoadIggy(g.report.file, Options{ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
	if err != nil {
		return nil, fmt.Errorf("configs: got a roster that cannot be edited in place: %w", err)
	}
	for i, n := range g.Cluster.Nodes {
		if address, ok := to[n.ReplicaID]; ok {
			n.IP, n.Ports.TCPReplica = address.Addr().String(), int(address.Port())
		}
		if moved.Cluster.Nodes[i] != n || !moved.rows[i].advertised && to[n.ReplicaID].IsValid() {
			return nil, fmt.Errorf("configs: got the entry %+v for replica %d after an edit in place, want %+v", moved.Cluster.Nodes[i], n.ReplicaID, n)
		}
	}
	return edits, nil
}

// change puts a text in the place of some bytes of the file.
type change struct {
	from, end int
	text      string
}

// move edits one entry: the text from its first key that an edit must know to the
// last one. The id is among them, so that the text stands there once.
func (g *Iggy) move(i int, n Node, to netip.AddrPort) (Edit, error) {
	at := "cluster.nodes" + index(i)
	ip, port, id := g.at.places[at+".ip"], g.at.places[at+".ports.tcp_replica"], g.at.places[at+".replica_id"]
	from, end := min(ip.key, port.key, id.key), max(ip.end, port.end, id.end)
	changes := []change{
		{ip.value, ip.end, quote(to.Addr().String())},
		{port.value, port.end, strconv.Itoa(int(to.Port()))},
	}
	if !g.rows[i].advertised {
		changes = append(changes, change{ip.key, ip.key, "advertised_address = " + quote(n.IP) + g.separator(ip)})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	pos := from
	for _, c := range changes {
		b.WriteString(g.at.src[pos:c.from] + c.text)
		pos = c.end
	}
	edit := Edit{Old: g.at.src[from:end], New: b.String() + g.at.src[pos:end]}
	if n := strings.Count(g.at.src, edit.Old); n != 1 {
		return Edit{}, Faults{g.Fault(at, fmt.Sprintf("expected an entry whose text stands in the file once, found it %d times; take the copy out of the comments", n))}
	}
	// An edit is printed. The keys of one entry may have other tables between them.
	if strings.Contains(strings.ToLower(edit.Old), "secret") {
		return Edit{}, Faults{g.Fault(at, "expected the keys of an entry together, found a secret between them; write the entry in one piece")}
	}
	return edit, nil
}

// separator is what stands between a new pair and the one at p.
func (g *Iggy) separator(p place) string {
	if p.inline {
		return ", "
	}
	line := strings.LastIndexByte(g.at.src[:p.key], '\n') + 1
	end := "\n"
	if rest := g.at.src[p.key:]; strings.HasSuffix(rest[:strings.IndexByte(rest+"\n", '\n')], "\r") {
		end = "\r\n"
	}
	return end + g.at.src[line:p.key]
}
