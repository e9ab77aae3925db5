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

// Edit is a change of whole lines of a text, in which Old stands exactly once.
type Edit struct {
	Line     int    // of the file that was read, the first one that Old has
	Old, New string // without the end of the last line
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
// and leave every other byte as it is, in the order of the file. Clients are told
// the ip of an entry where nothing else is advertised, so an entry that has no
// advertised_address gets its old ip as one.
func (g *Iggy) Move(to map[int]netip.AddrPort) ([]Edit, error) {
	var regions []region
	for i, n := range g.Cluster.Nodes {
		if address, ok := to[n.ReplicaID]; ok {
			regions = append(regions, g.region(i, n, address))
		}
	}
	slices.SortFunc(regions, func(a, b region) int { return cmp.Compare(a.from, b.from) })
	text := g.at.src
	var edits []Edit
	for _, r := range merged(regions) {
		e, err := g.edit(r)
		if err != nil {
			return nil, err
		}
		edits = append(edits, e)
		text = strings.Replace(text, e.Old, e.New, 1)
	}
	return edits, g.verify(text, to)
}

// verify reads the result. The scanner recognises keys, it does not judge them:
// what it was wrong about shows here.
func (g *Iggy) verify(text string, to map[int]netip.AddrPort) error {
	moved, err := LoadIggy(g.report.file, Options{ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
	if err != nil {
		return fmt.Errorf("configs: got a roster that cannot be edited in place: %w", err)
	}
	for i, n := range g.Cluster.Nodes {
		address, ok := to[n.ReplicaID]
		if ok {
			n.IP, n.Ports.TCPReplica = address.Addr().String(), int(address.Port())
		}
		if got := moved.Cluster.Nodes[i]; got != n || ok && !moved.rows[i].advertised {
			return fmt.Errorf("configs: got the entry %+v for replica %d after an edit in place, want %+v, advertised", got, n.ReplicaID, n)
		}
	}
	return nil
}

// change puts a text in the place of some bytes of the file.
type change struct {
	from, end int
	text      string
}

// region is whole lines of one entry, or of several that share a line, with the
// changes in them.
type region struct {
	from, end int
	entry     int // the first
	changes   []change
}

// region is from the first line that an edit of entry i must know to the last one.
// The id is among them, so that the text stands there once.
func (g *Iggy) region(i int, n Node, to netip.AddrPort) region {
	at := "cluster.nodes" + index(i)
	ip, port, id := g.at.places[at+".ip"], g.at.places[at+".ports.tcp_replica"], g.at.places[at+".replica_id"]
	r := region{entry: i, from: min(ip.key, port.key, id.key), end: max(ip.end, port.end, id.end)}
	r.changes = []change{{ip.value, ip.end, quote(to.Addr().String())}, {port.value, port.end, strconv.Itoa(int(to.Port()))}}
	advertised, written := g.at.places[at+".advertised_address"]
	switch {
	case g.rows[i].advertised:
	case written: // as an empty string
		r.from, r.end = min(r.from, advertised.key), max(r.end, advertised.end)
		r.changes = append(r.changes, change{advertised.value, advertised.end, quote(n.IP)})
	default:
		r.changes = append(r.changes, change{ip.key, ip.key, "advertised_address = " + quote(n.IP) + g.separator(ip)})
	}
	r.from, r.end = g.lineStart(r.from), g.lineEnd(r.end)
	return r
}

// merged joins regions that share a line.
func merged(sorted []region) (out []region) {
	for _, r := range sorted {
		if last := len(out) - 1; last >= 0 && r.from < out[last].end {
			out[last].end = max(out[last].end, r.end)
			out[last].changes = append(out[last].changes, r.changes...)
			continue
		}
		out = append(out, r)
	}
	return out
}

// edit carries out the changes of a region.
func (g *Iggy) edit(r region) (Edit, error) {
	slices.SortFunc(r.changes, func(a, b change) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	pos := r.from
	for _, c := range r.changes {
		b.WriteString(g.at.src[pos:c.from] + c.text)
		pos = c.end
	}
	e := Edit{Line: 1 + strings.Count(g.at.src[:r.from], "\n"), Old: g.at.src[r.from:r.end], New: b.String() + g.at.src[pos:r.end]}
	at := "cluster.nodes" + index(r.entry)
	if n := strings.Count(g.at.src, e.Old); n != 1 {
		return Edit{}, Faults{g.Fault(at, fmt.Sprintf("expected an entry whose text stands in the file once, found it %d times; take the copy out", n))}
	}
	// An edit is printed. The keys of one entry may have other tables between them.
	if strings.Contains(strings.ToLower(e.Old), "secret") {
		return Edit{}, Faults{g.Fault(at, "expected the keys of an entry together, found a secret between them; write the entry in one piece")}
	}
	return e, nil
}

func (g *Iggy) lineStart(pos int) int { return strings.LastIndexByte(g.at.src[:pos], '\n') + 1 }

// lineEnd is where a line ends, before its end's own bytes.
func (g *Iggy) lineEnd(pos int) int {
	rest := g.at.src[pos:] + "\n"
	return pos + len(strings.TrimSuffix(rest[:strings.IndexByte(rest, '\n')], "\r"))
}

// separator is what stands between a new pair and the one at p.
func (g *Iggy) separator(p place) string {
	if p.inline {
		return ", "
	}
	end := "\n"
	if strings.HasPrefix(g.at.src[g.lineEnd(p.key):], "\r") {
		end = "\r\n"
	}
	return end + g.at.src[g.lineStart(p.key):p.key]
}
