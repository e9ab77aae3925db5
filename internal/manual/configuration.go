package manual

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"github.com/replgate/replgate/configs"
)

// head is everything above the first table.
const head = `# Configuration

*Made by ` + "`make docs`" + ` from the schema and from the comments of ` + "`configs/replgate.toml`" + `; change those, not this page.*

A gate reads one TOML file. Where a key stands in more than one place, the later wins: the default, the Iggy configuration
that ` + "`cluster_from`" + ` names, the file, the environment. An unknown key, a bad unit or a conflict is an error with file, line
and key, all of them at once; ` + "`replgate check --config FILE`" + ` shows them and opens no socket, and every command that reads
a configuration then exits with code 3.

| type | written as |
|---|---|
| text | ` + "`\"iggy-cluster\"`" + ` |
| secret | text of at least 32 bytes; never printed, never logged |
| address | ` + "`\"10.0.1.6:9190\"`, `\"[fd00::6]:9190\"`, `\":9190\"`" + `; where the gate dials, a DNS name will do too |
| duration | a number with a unit, ns us ms s m h: ` + "`\"500ms\"`, `\"1m 30s\"`" + ` |
| size | bytes, or a number with a unit: ` + "`\"256KiB\"`, `\"64 MiB\"`, `65536`" + ` |
| security | ` + "`\"plaintext\"`" + ` (Hello only), ` + "`\"psk\"`" + ` (MAC handshake), ` + "`\"tls\"`" + ` (TLS 1.3 and MAC handshake) |

Every key with an environment name can be set there; it wins over the file, an empty variable counts as unset, and an unknown
` + "`REPLGATE_`" + ` variable is a warning. The arrays ` + "`[[cluster.nodes]]` and `[[peers]]`" + ` come from the file only. A relative path is
relative to the working directory; ` + "`cluster_from`" + ` alone is relative to the folder of the file.

The files of secrets and certificates are read again when they change; this file too on SIGHUP and ` + "`replgate reload`" + `. A
configuration that is not valid changes nothing. Addresses, ids, the roster, sizes and limits need a restart: a reload that
changes them is refused, and says so.
`

// Key is one key of the schema.
type Key struct {
	Path    string // cluster.auth.enabled
	Type    string
	Default string // "required" where there is none, empty inside an array
	Env     string // empty inside an array
	Meaning string
}

// table is a table of the schema with the keys that stand in it.
type table struct {
	path, note string
	array      bool
	keys       []Key
}

// Configuration returns the page.
func Configuration(rules []configs.RuleSpec) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(head)
	for _, t := range tables() {
		writeTable(&out, t)
		for _, k := range t.keys {
			if k.Meaning == "" {
				return nil, fmt.Errorf("manual: got no comment for %s in configs/replgate.toml, want one", k.Path)
			}
		}
		if t.path == "frames" {
			writeRules(&out, rules)
		}
	}
	return out.Bytes(), nil
}

// Keys returns every key of the schema, without the frame rules.
func Keys() (all []Key) {
	for _, t := range tables() {
		all = append(all, t.keys...)
	}
	return all
}

func tables() []table {
	w := &walker{notes: readNotes(configs.Example())}
	c := configs.Default()
	w.table("", reflect.ValueOf(c), false)
	return w.tables
}

// walker goes through the schema in the order of the file.
type walker struct {
	notes  notes
	tables []table
}

func (w *walker) table(path string, v reflect.Value, array bool) {
	at := len(w.tables)
	w.tables = append(w.tables, table{path: path, note: w.notes.tables[path], array: array})
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Tag.Get("toml")
		below := join(path, name)
		switch {
		case f.Kind() == reflect.Map: // [frames.rules], written from the table of rules
		case f.Kind() == reflect.Slice:
			w.table(below, reflect.New(f.Type().Elem()).Elem(), true)
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[configs.Secret]() && array: // ports = { … }
			w.tables[at].keys = append(w.tables[at].keys, w.key(join(below, f.Type().Field(0).Tag.Get("toml")), f.Field(0), true))
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[configs.Secret]():
			w.table(below, f, false)
		default:
			w.tables[at].keys = append(w.tables[at].keys, w.key(below, f, array))
		}
	}
}

func (w *walker) key(path string, v reflect.Value, inArray bool) Key {
	k := Key{Path: path, Type: typeOf(path, v)}
	if !inArray {
		k.Env = Env(path)
		k.Default = defaultOf(v)
	}
	k.Meaning = strings.TrimSuffix(withoutDefault(w.notes.keys[path], k.Default), ".")
	return k
}

// Env is the environment's name of a key.
func Env(path string) string {
	return "REPLGATE_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

func typeOf(path string, v reflect.Value) string {
	switch v.Interface().(type) {
	case bool:
		return "true or false"
	case int:
		return "whole number"
	case configs.Duration:
		return "duration"
	case configs.Size:
		return "size"
	case configs.Secret:
		return "secret"
	case configs.Security:
		return "security"
	}
	switch path[strings.LastIndexByte(path, '.')+1:] {
	case "listen", "upstream", "address":
		return "address"
	}
	return "text"
}

func defaultOf(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case int:
		if x == configs.Unset {
			return "required"
		}
	case bool:
	default:
		return fmt.Sprintf("%q", fmt.Sprint(x))
	}
	return fmt.Sprint(v.Interface())
}

// withoutDefault takes out of a comment what the column beside it says.
func withoutDefault(note, value string) string {
	bare := strings.Trim(value, `"`)
	for _, said := range []string{"default " + bare, "default", "required"} {
		if note == said && said != "required" {
			return "–"
		}
		if rest, ok := strings.CutPrefix(note, said+"; "); ok && (said != "required" || value == said) {
			return rest
		}
	}
	if rest, ok := strings.CutPrefix(note, "default "+bare+": "); ok && bare != "" {
		return bare + ": " + rest
	}
	return note
}

// capital makes a comment the beginning of a sentence.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func writeTable(out *bytes.Buffer, t table) {
	if len(t.keys) == 0 {
		return
	}
	switch {
	case t.path == "":
		out.WriteString("\n## At the top\n\n")
	case t.array:
		fmt.Fprintf(out, "\n## `[[%s]]`\n\n", t.path)
	default:
		fmt.Fprintf(out, "\n## `[%s]`\n\n", t.path)
	}
	if t.note != "" {
		fmt.Fprintf(out, "%s.\n\n", strings.TrimSuffix(capital(t.note), "."))
	}
	if t.array {
		out.WriteString("| key | type | meaning |\n|---|---|---|\n")
	} else {
		out.WriteString("| key | type | default | environment | meaning |\n|---|---|---|---|---|\n")
	}
	for _, k := range t.keys {
		name := strings.TrimPrefix(strings.TrimPrefix(k.Path, t.path), ".")
		if t.array {
			fmt.Fprintf(out, "| `%s` | %s | %s |\n", name, k.Type, cell(k.Meaning))
			continue
		}
		value := k.Default
		if value != "required" {
			value = "`" + value + "`"
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | `%s` | %s |\n", name, k.Type, value, k.Env, cell(k.Meaning))
	}
}

func writeRules(out *bytes.Buffer, rules []configs.RuleSpec) {
	out.WriteString("\n## `[frames.rules]`\n\n")
	out.WriteString("One line for each frame rule, in the order in which they are judged: `sender = \"observe\"`. The first rule that drops or\n" +
		"closes decides; one that only observes is counted, and those behind it are still applied. **A rule that is stricter than Iggy\n" +
		"can stop a consensus group for ever** if it is wrong, because Iggy sends a refused frame again byte by byte: that is what the\n" +
		"switch is for. The environment's name is `REPLGATE_FRAMES_RULES_` and the rule.\n\n")
	out.WriteString("| rule | default | may be | against Iggy | refuses |\n|---|---|---|---|---|\n")
	for _, r := range rules {
		allowed, compared := strings.Join(r.Allowed, ", "), "as Iggy"
		if allowed == "" {
			allowed = "no switch"
		}
		if r.Stricter {
			compared = "stricter"
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s | %s |\n", r.Name, r.Default, allowed, compared, cell(r.Note))
	}
}

// cell makes text fit into one cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
