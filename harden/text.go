package harden

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// Text prints the plan for people, as Markdown: the same steps, with the commands
// to copy. It prints nothing that the plan does not hold.
func (p *Plan) Text(w io.Writer) error {
	t := &text{plan: p}
	t.head()
	for _, phase := range p.Phases {
		t.line("\n## %s: %s", phase.Name, phase.Title)
		for _, s := range phase.Steps {
			t.step(phase, s)
		}
		t.line("\nThe phase %s is done, and this is a state to stay in.", phase.Name)
	}
	_, err := io.WriteString(w, t.out.String())
	return err
}

// text is a plan on its way to paper.
type text struct {
	plan *Plan
	out  strings.Builder
	// shown is the list of conditions that was printed last, and by which step.
	shown string
	by    int
}

func (t *text) line(format string, args ...any) { fmt.Fprintf(&t.out, format+"\n", args...) }

// head is what one must know before the first step: where everything will stand,
// what is true of this cluster, what has to be made by hand, and how to read a
// step.
func (t *text) head() {
	t.line("# From plaintext to strict, and back: cluster %q\n", t.plan.Cluster)
	t.line("| replica | node | dialed at, as before | its Iggy goes to | its gate takes it to peers at |\n|---|---|---|---|---|")
	for _, n := range t.plan.Nodes {
		var egress []string
		for _, j := range higher(n) {
			egress = append(egress, fmt.Sprintf("%d: %v", j, n.Egress[j]))
		}
		t.line("| %d | %s | %v | %v | %s |", n.ID, n.Name, n.Address, n.Behind, orNone(strings.Join(egress, ", ")))
	}
	t.line("")
	for _, n := range t.plan.Notes {
		t.line("* %s", n)
	}
	t.line(`
Once, before the first step: the secret, a certificate authority, and a certificate for each node.

* ` + "`replgate secret generate`" + ` makes the secret. The same file goes to every node.
* Each node has a certificate of one authority for the address at which its gate is dialed, for TLS servers and clients.

Commands are for root on the node that the step names. *Before* must hold, or it is not the step's turn. *After* must come true
in the time that stands there, or go back: the last line of a node's steps says where that begins. If the node itself is why
you go back, the first Before there need not hold, and what is done already is left out.

**Whole** is an Iggy with a link to every other replica, none of its groups in a view change or recovering: its log says
"replica mesh complete: all peer connections established", and ` + "`iggy cluster metadata`" + ` shows the node in its place. What a
gate must say is in ` + "`replgate status`" + `, and for programs in ` + "`replgate status --json`" + `.`)
}

func orNone(s string) string {
	if s == "" {
		return "nobody"
	}
	return s
}

// name is a node's in the roster: people know hosts by it and not by their ids.
func (t *text) name(node int) string {
	if node == Every {
		return "every node"
	}
	return t.plan.Nodes[node].Name
}

// step is one heading with all that belongs to it, in the order in which it is
// carried out. Commands for another node than the heading's say so above.
func (t *text) step(phase Phase, s Step) {
	t.line("\n### Step %d. %s: %s", s.Number, t.name(s.Node), s.Title)
	if s.Why != "" {
		t.line("\n%s.", strings.ToUpper(s.Why[:1])+s.Why[1:])
	}
	t.conditions("Before", s.Number, s.Before)
	t.files(s)
	var commands []string
	for _, e := range s.Edits {
		commands = append(commands, editCommand(e))
	}
	on := s.Node
	for _, c := range s.Commands {
		if c.Node != on {
			commands = append(commands, "# on "+t.name(c.Node))
			on = c.Node
		}
		commands = append(commands, shell(c.Argv))
	}
	if s.Service != nil {
		commands = append(commands, shell(s.Service.Argv))
	}
	t.block(commands)
	if s.After != nil {
		t.conditions("After, within "+s.Within, s.Number, s.After)
	}
	if phase.Name == PhaseHarden && s.Kind == Wait {
		t.line("\nWay back of this node: step %d and what follows it there.", t.plan.Nodes[s.Node].Back)
	}
}

// block is what can be given to a shell as it stands.
func (t *text) block(commands []string) {
	if commands != nil {
		t.line("\n```sh\n%s\n```", strings.Join(commands, "\n"))
	}
}

// conditions prints a list once; where the next step asks for the same, it says so:
// the whole cluster is asked for again and again, and only news should catch the eye.
func (t *text) conditions(word string, number int, list []Condition) {
	if len(list) == 0 {
		return
	}
	all := t.bullets(list)
	common := strings.Join(all, "\n")
	if head, rest, ok := strings.Cut(common+"\n", t.shown+"\n"); ok && t.shown != "" && t.by != number {
		if extra := strings.Trim(head+rest, "\n"); extra == "" {
			t.line("\n%s: what step %d asked for last.", word, t.by)
		} else {
			t.line("\n%s: what step %d asked for last, and\n\n%s", word, t.by, extra)
		}
		return
	}
	t.line("\n%s:\n\n%s", word, common)
	t.shown, t.by = common, number
}

// bullets are the conditions, those of every node that are one and the same in one
// line.
func (t *text) bullets(list []Condition) []string {
	var all []string
	for _, c := range list {
		same := func(o Condition) bool { return o.Says == c.Says }
		if n := slices.IndexFunc(list, same); len(t.plan.Nodes) == count(list, same) {
			if list[n].Node == c.Node {
				all = append(all, "* every node: "+c.Says)
			}
			continue
		}
		all = append(all, fmt.Sprintf("* %s: %s", t.name(c.Node), c.Says))
	}
	return all
}

func count(list []Condition, is func(Condition) bool) (n int) {
	for _, c := range list {
		if is(c) {
			n++
		}
	}
	return n
}

// files are written from here-documents; what a plan cannot hold is described.
func (t *text) files(s Step) {
	var commands, needs []string
	for _, f := range s.Files {
		if f.Need == "" {
			commands = append(commands, fmt.Sprintf("install -D -m %s -o replgate -g replgate /dev/stdin %s <<'END'\n%sEND", f.Mode, word(f.Path), f.Contents))
			continue
		}
		what := map[Need]string{NeedSecret: "the secret, the same on every node", NeedKey: "the key of that certificate",
			NeedCertificate: "a certificate for " + strings.Join(f.Names, ", "), NeedCA: "the certificate of the authority, the same on every node"}[f.Need]
		needs = append(needs, fmt.Sprintf("* `%s`, mode %s, owned by replgate: %s", f.Path, f.Mode, what))
	}
	t.block(commands)
	if needs != nil {
		t.line("\nAnd these, which are yours to make:\n\n%s", strings.Join(needs, "\n"))
	}
}

// plainLine is a text that sed takes as it is.
var plainLine = regexp.MustCompile(`^[a-z_]+ = "[a-z]+"$`)

// editCommand changes a file that is there, and nothing when it is not as the plan
// knows it. patch finds a hunk also where a host's own file has it on another line;
// hunks have no context, which might hold what is not to be printed.
func editCommand(e FileEdit) string {
	if len(e.Changes) == 1 && plainLine.MatchString(e.Changes[0].Old) && plainLine.MatchString(e.Changes[0].New) {
		return fmt.Sprintf("sed -i 's/^%s$/%s/' %s", e.Changes[0].Old, e.Changes[0].New, word(e.Path))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "patch %s <<'END'\n--- %[2]s\n+++ %[2]s\n", word(e.Path), e.Path)
	shift := 0 // of lines, by the hunks before
	for _, c := range e.Changes {
		was, is := strings.Split(c.Old, "\n"), strings.Split(c.New, "\n")
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@\n-%s\n+%s\n", c.Line, len(was), c.Line+shift, len(is), strings.Join(was, "\n-"), strings.Join(is, "\n+"))
		shift += len(is) - len(was)
	}
	return b.String() + "END"
}

// shell is a command line that a shell reads as argv.
func shell(argv []string) string {
	words := make([]string, len(argv))
	for i, a := range argv {
		words[i] = word(a)
	}
	return strings.Join(words, " ")
}

// harmless are words that need no quotes.
var harmless = regexp.MustCompile(`^[A-Za-z0-9_./:@=-]+$`)

func word(s string) string {
	if harmless.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
