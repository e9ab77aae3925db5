package configs

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// PrintOptions of Print.
type PrintOptions struct {
	Rules []RuleSpec // printed in this order under [frames.rules]
}

// Print writes the whole schema as TOML that Load accepts. A secret appears
// only as a redacted comment; a key that has no default and no value appears
// as a comment too.
func Print(w io.Writer, c *Config, opt PrintOptions) error {
	p := &printer{rules: opt.Rules, verdicts: c.Frames.Rules}
	p.table("", reflect.ValueOf(c).Elem())
	_, err := io.WriteString(w, strings.TrimPrefix(p.out.String(), "\n"))
	return err
}

type printer struct {
	out      strings.Builder
	rules    []RuleSpec
	verdicts map[string]string
}

// table writes a table: in the schema its scalars come before its tables, as
// TOML demands.
func (p *printer) table(path string, v reflect.Value) {
	if path != "" {
		p.line("\n[%s]", path)
	}
	for i := range v.NumField() {
		f, key := v.Field(i), v.Type().Field(i).Tag.Get("toml")
		at := join(path, key)
		switch {
		case f.Kind() == reflect.Slice:
			p.tables(at, f)
		case f.Kind() == reflect.Map:
			p.frameRules(at)
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[Secret]():
			p.table(at, f)
		default:
			p.scalar(key, f)
		}
	}
}

// tables writes an array of tables; an empty one shows its shape in comments.
func (p *printer) tables(path string, list reflect.Value) {
	if list.Len() == 0 {
		p.line("\n# [[%s]]", path)
		for _, key := range fieldNames(reflect.New(list.Type().Elem()).Elem()) {
			p.line("# %s =", key)
		}
	}
	for i := range list.Len() {
		p.line("\n[[%s]]", path)
		e := list.Index(i)
		for j := range e.NumField() {
			key, f := e.Type().Field(j).Tag.Get("toml"), e.Field(j)
			if f.Kind() == reflect.Struct {
				p.line("%s = { %s = %d }", key, fieldNames(f)[0], f.Field(0).Int())
			} else if f.Kind() == reflect.Int || !f.IsZero() {
				p.scalar(key, f)
			}
		}
	}
}

func (p *printer) scalar(key string, v reflect.Value) {
	switch x := v.Interface().(type) {
	case Secret:
		if x.IsSet() {
			p.line("# %s = %s", key, quote(redacted))
		} else {
			p.line(`%s = ""`, key)
		}
	case int:
		if x == Unset {
			p.line("# %s =  # required", key)
		} else {
			p.line("%s = %d", key, x)
		}
	case bool:
		p.line("%s = %t", key, x)
	default: // strings, and what prints as one
		p.line("%s = %s", key, quote(fmt.Sprint(x)))
	}
}

// frameRules says of every rule whether Iggy has it too: an over-strict one
// wedges a consensus group, so whoever turns one should know.
func (p *printer) frameRules(path string) {
	p.line("\n[%s]", path)
	for _, r := range p.rules {
		note := "as Iggy"
		if r.Stricter {
			note = "stricter than Iggy"
		}
		if r.Note != "" {
			note += "; " + strings.Join(strings.Fields(r.Note), " ")
		}
		if len(r.Allowed) == 0 {
			p.line("# %s is always %s, it has no switch  # %s", r.Name, r.Default, note)
			continue
		}
		verdict, ok := p.verdicts[r.Name]
		if !ok {
			verdict = r.Default
		}
		p.line("%s = %s  # %s", r.Name, quote(verdict), note)
	}
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

// quote writes a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
