package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replgate/replgate/configs"
)

// Manual pages are written here and not by cobra/doc: that would put a Markdown
// and a YAML parser into a program that guards a network, for pages of this size.
// They have no date, which would change with every run and say nothing.

// exitCodes are in the order of their numbers.
func exitCodes() []string {
	return []string{
		exitOK:       "all is well",
		exitFailure:  "it failed while it ran",
		exitUsage:    "wrong usage",
		exitConfig:   "the configuration, or a file that it names, cannot be used, or a running gate refuses it",
		exitFault:    "a probe or an online check found a fault, or the next step of a rotation may cut a link",
		exitDeadline: "links had to be cut inside a frame at the deadline of a shutdown",
		exitNotReady: "the gate was not ready, or a step not safe, in time",
	}
}

// manPages makes a page for each command that help shows.
func manPages(files map[string][]byte) {
	root := newRoot(stdio{})
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		files["man/"+pageName(cmd)+".1"] = []byte(manPage(cmd))
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func manPage(cmd *cobra.Command) string {
	p := &page{}
	p.request("TH", strings.ToUpper(pageName(cmd)), "1", "", "replgate", "replgate manual")
	p.request("SH", "NAME")
	p.text(pageName(cmd) + " - " + cmd.Short)
	p.request("SH", "SYNOPSIS")
	p.text(synopsis(cmd))
	p.request("SH", "DESCRIPTION")
	p.text(strings.TrimSuffix(description(cmd), ".") + ".")
	p.commands(cmd)
	p.options(cmd)
	if !cmd.HasParent() {
		p.program()
	}
	p.seeAlso(cmd)
	return p.out.String()
}

func synopsis(cmd *cobra.Command) string {
	if cmd.HasSubCommands() {
		return cmd.CommandPath() + " COMMAND"
	}
	return strings.TrimSuffix(cmd.UseLine(), " [flags]")
}

func description(cmd *cobra.Command) string {
	if cmd.Long != "" {
		return cmd.Long
	}
	return cmd.Short
}

// page is a manual page in roff.
type page struct{ out strings.Builder }

func (p *page) request(name string, args ...string) {
	p.out.WriteString("." + name)
	for _, a := range args {
		p.out.WriteString(` "` + strings.ReplaceAll(roff(a), `"`, `\(dq`) + `"`)
	}
	p.out.WriteString("\n")
}

func (p *page) text(s string) {
	for line := range strings.Lines(s) {
		p.out.WriteString(`\&` + roff(strings.TrimSpace(line)) + "\n")
	}
}

// item is a word with its explanation.
func (p *page) item(word, text string) {
	p.request("TP")
	p.text(word)
	p.text(text)
}

// roff escapes what roff would read as its own.
func roff(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...", "’", "'").Replace(s)
}

func (p *page) commands(cmd *cobra.Command) {
	if !cmd.HasSubCommands() {
		return
	}
	p.request("SH", "COMMANDS")
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			p.item(strings.TrimPrefix(synopsis(sub), cmd.CommandPath()+" "), sub.Short)
		}
	}
}

func (p *page) options(cmd *cobra.Command) {
	if !cmd.Flags().HasAvailableFlags() {
		return
	}
	p.request("SH", "OPTIONS")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		word := strings.TrimSpace("--" + f.Name + " " + value)
		if f.DefValue != "" && f.DefValue != "false" && !strings.Contains(usage, "default") {
			usage += " (default " + f.DefValue + ")"
		}
		p.item(word, usage)
	})
}

// program is what is said once, on the page of the program itself.
func (p *page) program() {
	p.request("SH", "EXIT STATUS")
	for code, meaning := range exitCodes() {
		p.item(fmt.Sprint(code), meaning)
	}
	p.request("SH", "ENVIRONMENT")
	p.text("Every scalar key of the configuration has a name here, REPLGATE_ and its path, such as REPLGATE_INGRESS_LISTEN.\n" +
		"It wins over the file; an empty one counts as unset.")
	p.request("SH", "FILES")
	socket := strings.TrimPrefix(configs.Default().Admin.Listen, "unix:")
	p.item("/etc/replgate/replgate.toml", "the usual place of the configuration; every command is told with --config")
	p.item(socket, "the admin socket of a running gate")
	p.request("SH", "DIAGNOSTICS")
	p.text("Errors go to standard error, one a line: what was expected, what was found, what to do.\n" +
		"A running gate logs there too, as JSON by default; replgate reasons lists every ending of a connection.")
}

// seeAlso names the command above and those below.
func (p *page) seeAlso(cmd *cobra.Command) {
	var others []string
	if cmd.HasParent() {
		others = append(others, pageName(cmd.Parent())+"(1)")
	}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			others = append(others, pageName(sub)+"(1)")
		}
	}
	slices.Sort(others)
	p.request("SH", "SEE ALSO")
	p.text(strings.Join(others, ", "))
}
