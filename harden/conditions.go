package harden

import (
	"fmt"
	"strings"
)

// Where `replgate status --json` has what a plan asks for, beside its links.
const (
	pathReady     = "strict_ready"
	provedNothing = "" // the name is not there then
)

func pathProved(peer int) string { return fmt.Sprintf("peers[peer=%d].proved", peer) }

// whole is the cluster as it stands between two steps, with every link up: what
// must hold before a node is touched, and what a step has to lead to.
func (m *maker) whole() []Condition {
	var all []Condition
	for i := range m.places {
		all = append(all, Condition{Node: i, Says: "Iggy is whole", Service: Iggy, State: Whole})
	}
	for i := range m.places {
		if m.gated[i] {
			all = append(all, m.links(i))
		}
	}
	return all
}

// links is every link of node i's gate: up for a while, as secure as both ends of
// it can be by now, and not one frame refused.
func (m *maker) links(i int) Condition {
	values := []Value{{Path: "mode", Equals: m.mode[i]}}
	speaking := map[string][]string{}
	for j := range m.places {
		if j == i {
			continue
		}
		far := "plaintext"
		if m.gated[j] {
			far = "tls"
		}
		speaking[far] = append(speaking[far], fmt.Sprint(j))
		link := fmt.Sprintf("peers[peer=%d].links[far=%s].", j, far)
		values = append(values, Value{Path: link + "since", For: m.options.Hold.String()},
			Value{Path: link + "in.dropped", Equals: 0}, Value{Path: link + "out.dropped", Equals: 0})
	}
	var says []string
	for _, far := range []string{"tls", "plaintext"} {
		if ids := speaking[far]; ids != nil {
			says = append(says, fmt.Sprintf("%s to %s", far, strings.Join(ids, " ")))
		}
	}
	text := fmt.Sprintf("%s, up for %s: %s; nothing dropped", m.mode[i], short(m.options.Hold), strings.Join(says, ", "))
	return m.status(i, text, values...)
}

// status is something that node i's gate says of itself.
func (m *maker) status(i int, says string, values ...Value) Condition {
	return Condition{Node: i, Says: says, Argv: m.ask(i, "status", "--json"), Values: values}
}

func (m *maker) stopped(i int, service string) Condition {
	name := map[string]string{Iggy: "Iggy", Gate: "its gate"}[service]
	return Condition{Node: i, Says: name + " is stopped", Service: service, State: Stopped}
}

// runs is a command that must exit 0.
func (m *maker) runs(i int, says string, argv ...string) Condition {
	return Condition{Node: i, Says: says, Argv: argv}
}
