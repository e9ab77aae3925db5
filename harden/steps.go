package harden

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maker makes the steps of a plan, one after another, and knows how the cluster
// stands between them.
type maker struct {
	cluster Cluster
	options Options
	places  []Place
	gated   []bool   // by id: the node stands behind its gate
	mode    []string // by id: the mode of that gate
	number  int
}

// step gives a step its number.
func (m *maker) step(s Step) Step {
	m.number++
	s.Number = m.number
	if s.After != nil {
		s.Within = cmp.Or(s.Within, short(m.options.Within))
	}
	return s
}

// down and up are the orders of the nodes. From the highest id down, a gate never
// dials a replica that has none: all higher ids have theirs, and the lower ones
// dial it. And of the restarts at most two hit the leader of a view: it moves to
// the next id, which has had its restart.
func (m *maker) down() []int {
	var ids []int
	for i := len(m.places) - 1; i >= 0; i-- {
		ids = append(ids, i)
	}
	return ids
}

func (m *maker) up() []int {
	ids := make([]int, len(m.places))
	for i := range ids {
		ids[i] = i
	}
	return ids
}

// harden puts one node after another behind a permissive gate. The roster is edited
// only when Iggy is down and its gate is up: one that its manager starts again by
// itself, whenever that is, finds a file that fits what is around it.
func (m *maker) harden() (Phase, error) {
	p := Phase{Name: PhaseHarden, Title: "every node behind a permissive gate, one at a time"}
	for _, i := range m.down() {
		edits, err := m.move(i)
		if err != nil {
			return p, err
		}
		at := m.places[i]
		p.Steps = append(p.Steps,
			m.step(Step{Node: i, Kind: Write, Title: "the gate's files", Before: m.whole(), Files: m.files(i),
				Why: "the cluster must be able to miss this node before anything happens to it"}),
			m.step(Step{Node: i, Kind: Stop, Title: "stop Iggy", Service: m.service(i, Iggy, "stop"),
				Before: append([]Condition{m.runs(i, "its gate's configuration holds", "replgate", "check", "--config", at.Gate)}, m.whole()...)}),
			m.step(Step{Node: i, Kind: Start, Title: "start its gate", Service: m.service(i, Gate, "start"), Before: []Condition{m.stopped(i, Iggy)},
				Why: "the gate listens where Iggy did, so that replicas with lower ids need not know"}))
		m.gated[i], m.mode[i] = true, "permissive"
		p.Steps = append(p.Steps,
			m.step(Step{Node: i, Kind: Start, Title: "start Iggy with its new roster", Edits: edits, Service: m.service(i, Iggy, "start"),
				Before: []Condition{m.status(i, "its gate serves", Value{Path: "mode", Equals: "permissive"}, Value{Path: "draining", Equals: false}), m.stopped(i, Iggy)},
				Why:    "its own entry is behind the gate now, and those of higher ids are at the gate; a boot that finds a peer absent may elect, so the gate is there first"}),
			m.step(Step{Node: i, Kind: Wait, Title: "look, before the next node", Before: []Condition{}, After: m.whole()}))
	}
	p.Goal = m.whole()
	return p, nil
}

// strict forbids whatever is weaker than TLS, which nobody speaks any more. No link
// is made anew for it, so every link is older than this phase when it is done.
func (m *maker) strict() (Phase, error) {
	p := Phase{Name: PhaseStrict, Title: "every gate strict"}
	ready := m.whole()
	for i := range m.places {
		ready = append(ready, m.status(i, "ready for strict", Value{Path: pathReady, Equals: true}))
	}
	p.Steps = append(p.Steps, m.step(Step{Node: Every, Kind: Wait, Title: "until every gate is ready for strict", Before: m.whole(), After: ready,
		Within: short(m.options.StrictReadyAfter + m.options.Within),
		Why:    "a gate is ready when every peer has proved itself and it has got no plaintext link for " + short(m.options.StrictReadyAfter)}))
	for _, i := range m.down() {
		before := append(m.whole(), m.status(i, "ready for strict", Value{Path: pathReady, Equals: true}))
		m.mode[i] = "strict"
		p.Steps = append(p.Steps, m.reload(i, "make its gate strict", before, modePermissive, modeStrict))
	}
	p.Goal = m.whole()
	return p, nil
}

// permissive takes strict back.
func (m *maker) permissive() (Phase, error) {
	p := Phase{Name: PhasePermissive, Title: "every gate permissive again"}
	for _, i := range m.up() {
		before := m.whole()
		m.mode[i] = "permissive"
		p.Steps = append(p.Steps, m.reload(i, "make its gate permissive", before, modeStrict, modePermissive))
	}
	p.Goal = m.whole()
	return p, nil
}

// reload edits one line of a gate's configuration and lets the gate take it. Both
// are one step: an edit alone changes nothing until the next restart, which would
// come as a surprise then.
func (m *maker) reload(i int, title string, before []Condition, old, new string) Step {
	at, text := m.places[i], m.gateTOML(i)
	e := Edit{1 + strings.Count(text[:strings.Index(text, modePermissive)], "\n"), old, new}
	return m.step(Step{Node: i, Kind: Reload, Title: title, Before: before, Edits: []FileEdit{{at.Gate, []Edit{e}}}, After: m.whole(),
		Commands: []Command{{i, []string{"replgate", "check", "--config", at.Gate}}, {i, m.ask(i, "reload")}}})
}

// back takes the gates away again, the last one first. In this order too no gate
// dials a replica that has none: who has gone back dials the ones that have not.
func (m *maker) back() (Phase, error) {
	p := Phase{Name: PhaseBack, Title: "every node as it was, one at a time"}
	for _, i := range m.up() {
		edits, err := m.move(i)
		if err != nil {
			return p, err
		}
		m.places[i].Back = m.number + 1
		p.Steps = append(p.Steps,
			m.step(Step{Node: i, Kind: Stop, Title: "stop Iggy", Before: m.whole(), Service: m.service(i, Iggy, "stop")}),
			m.step(Step{Node: i, Kind: Stop, Title: "stop its gate", Before: []Condition{m.stopped(i, Iggy)}, Service: m.service(i, Gate, "stop"),
				Why: "never before Iggy: a replica that loses all its links at once may vote"}))
		start := Step{Node: i, Kind: Start, Title: "start Iggy with its roster as it was", Edits: reversed(edits), Service: m.service(i, Iggy, "start"),
			Before: []Condition{m.stopped(i, Gate), m.stopped(i, Iggy)}}
		if higher := higher(m.places[i]); higher != nil {
			s := Step{Node: Every, Kind: Reset, Title: fmt.Sprintf("let the other gates forget what replica %d has proved", i), Before: []Condition{m.stopped(i, Gate)},
				Why: "a peer that has once proved itself is never again accepted weaker; its gate is stopped, so it cannot prove itself again meanwhile"}
			for _, j := range higher {
				s.Commands = append(s.Commands, Command{j, m.ask(j, "peers", "reset", strconv.Itoa(i))})
				start.Before = append(start.Before, m.status(j, fmt.Sprintf("replica %d may speak plaintext", i), Value{Path: pathProved(i), Equals: provedNothing}))
			}
			p.Steps = append(p.Steps, m.step(s))
		}
		m.gated[i], m.mode[i] = false, ""
		p.Steps = append(p.Steps, m.step(start), m.step(Step{Node: i, Kind: Wait, Title: "look, before the next node", Before: []Condition{}, After: m.whole()}))
	}
	p.Goal = m.whole()
	for i := range m.places {
		p.Goal = append(p.Goal, m.stopped(i, Gate))
	}
	return p, nil
}

// move are the edits of node i's own Iggy file: its entry behind the gate, those
// of higher ids at the gate.
func (m *maker) move(i int) ([]FileEdit, error) {
	to := map[int]netip.AddrPort{i: m.places[i].Behind}
	for j, a := range m.places[i].Egress {
		to[j] = a
	}
	changes, err := m.cluster.Move(to)
	if err != nil {
		return nil, err
	}
	return []FileEdit{{m.places[i].Iggy, changes}}, nil
}

// reversed takes edits back.
func reversed(edits []FileEdit) []FileEdit {
	var out []FileEdit
	for _, e := range edits {
		r, shift := FileEdit{Path: e.Path}, 0
		for _, c := range e.Changes {
			r.Changes = append(r.Changes, Edit{c.Line + shift, c.New, c.Old})
			shift += strings.Count(c.New, "\n") - strings.Count(c.Old, "\n")
		}
		out = append(out, r)
	}
	return out
}

// files are what a gate reads. What it reads and the plan cannot hold is in the same
// list: a step that leaves a gate without its secret is no step.
func (m *maker) files(i int) []File {
	p := m.places[i]
	return []File{
		{Path: p.Gate, Mode: "0600", Contents: m.gateTOML(i)},
		{Path: p.SecretFile, Mode: "0600", Need: NeedSecret},
		{Path: p.CertFile, Mode: "0644", Need: NeedCertificate, Names: []string{p.Address.Addr().String()}},
		{Path: p.KeyFile, Mode: "0600", Need: NeedKey},
		{Path: p.CAFile, Mode: "0644", Need: NeedCA},
	}
}

// service is one of node i, with what stops or starts it under systemd. A gate
// also comes back, or stays away, when its host starts.
func (m *maker) service(i int, name, verb string) *Service {
	p := m.places[i]
	if name == Iggy {
		return &Service{name, p.Iggy, []string{"systemctl", verb, p.iggyUnit}}
	}
	verb = map[string]string{"start": "enable", "stop": "disable"}[verb]
	return &Service{name, p.Gate, []string{"systemctl", verb, "--now", p.gateUnit}}
}

// ask is a command to node i's running gate.
func (m *maker) ask(i int, words ...string) []string {
	argv := append([]string{"replgate"}, words...)
	if socket := m.places[i].Socket; socket != defaultSocket {
		argv = append(argv, "--socket", socket)
	}
	return argv
}

// defaultSocket is where the command line looks by itself.
const defaultSocket = "/run/replgate/admin.sock"

// short is a duration as people write it.
func short(d fmt.Stringer) string {
	text := d.String()
	for _, zero := range [][2]string{{"m0s", "m"}, {"h0m", "h"}} {
		if cut, ok := strings.CutSuffix(text, zero[0]); ok {
			text = cut + zero[1]
		}
	}
	return text
}
