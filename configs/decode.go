package configs

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"time"
)

// layer puts one decoded TOML document into a Config. Keys that the document
// does not have keep their value from the layer below.
type layer struct {
	rep *report
	// iggy reads Iggy's own file: keys that only Iggy knows are its business,
	// and its words for zero count.
	iggy bool
}

// table walks the keys of one table into the struct v.
func (l *layer) table(path string, m map[string]any, v reflect.Value) {
	for _, key := range sortedKeys(m) {
		at := join(path, key)
		if f, ok := field(v, key); ok {
			l.value(at, m[key], f)
		} else if !l.iggy && !iggyOnly(at) {
			l.rep.add(at, "expected a known key, found %q; %s", key, advice(key, fieldNames(v)))
		}
	}
}

// value puts one TOML value into a field.
func (l *layer) value(at string, raw any, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[Secret]() {
			break
		}
		if m, ok := raw.(map[string]any); ok {
			l.table(at, m, v)
		} else {
			l.rep.add(at, "expected a table, found %s; write it as [%s]", kind(raw), at)
		}
		return
	case reflect.Slice:
		l.tables(at, raw, v)
		return
	case reflect.Map:
		l.verdicts(at, raw, v.Addr().Interface().(*map[string]string))
		return
	}
	if err := l.scalar(raw, v); err != nil {
		l.rep.add(at, "%v", err)
	}
}

// tables fills a slice of structs from an array of tables. The array replaces
// what the layer below had: half of one roster and half of another is none.
func (l *layer) tables(at string, raw any, v reflect.Value) {
	list, ok := raw.([]map[string]any)
	if items, plain := raw.([]any); plain {
		ok = true
		for _, item := range items {
			m, isTable := item.(map[string]any)
			ok = ok && isTable
			list = append(list, m)
		}
	}
	if !ok {
		l.rep.add(at, "expected an array of tables, found %s; write each entry as [[%s]]", kind(raw), at)
		return
	}
	out := reflect.MakeSlice(v.Type(), len(list), len(list))
	for i, m := range list {
		out.Index(i).FieldByName("ReplicaID").SetInt(Unset)
		l.table(at+index(i), m, out.Index(i))
	}
	v.Set(out)
}

// verdicts fills [frames.rules].
func (l *layer) verdicts(at string, raw any, rules *map[string]string) {
	m, ok := raw.(map[string]any)
	if !ok {
		l.rep.add(at, "expected a table of rules, found %s; write it as [%s]", kind(raw), at)
		return
	}
	for _, name := range sortedKeys(m) {
		verdict, ok := m[name].(string)
		if !ok {
			l.rep.add(join(at, name), `expected a verdict in quotes, found %s; write for example "drop"`, kind(m[name]))
			continue
		}
		(*rules)[name] = verdict
	}
}

// scalar puts one value into a field; its error is the text of the fault. It
// never shows the value of a Secret.
func (l *layer) scalar(raw any, v reflect.Value) error {
	text, isText := raw.(string)
	number, isNumber := raw.(int64)
	want := `a string in quotes`
	switch p := v.Addr().Interface().(type) {
	case *Secret:
		if isText {
			*p = NewSecret([]byte(text))
			return nil
		}
	case *Duration:
		want = `a duration in quotes with a unit, such as "5s"`
		if isText {
			return set(p, pick(l.iggy, parseIggyDuration, ParseDuration), text)
		}
	case *Size:
		want = `a size in quotes with a unit, such as "64MiB"`
		if isText {
			return set(p, pick(l.iggy, parseIggySize, ParseSize), text)
		}
		if isNumber && number >= 0 {
			*p = Size(number)
			return nil
		}
	case *bool:
		want = "true or false"
		if b, ok := raw.(bool); ok {
			*p = b
			return nil
		}
	case *int:
		want = "a whole number"
		if isNumber {
			*p = int(number)
			return nil
		}
	default: // string and Security
		if isText {
			v.SetString(text)
			return nil
		}
	}
	return fmt.Errorf("expected %s, found %s; change its type", want, kind(raw))
}

func set[T any](p *T, parse func(string) (T, error), text string) error {
	v, err := parse(text)
	if err == nil {
		*p = v
	}
	return err
}

func pick[T any](cond bool, a, b T) T {
	if cond {
		return a
	}
	return b
}

// field finds the struct field of a TOML key.
func field(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("toml") == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

func fieldNames(v reflect.Value) []string {
	var names []string
	for i := range v.NumField() {
		names = append(names, v.Type().Field(i).Tag.Get("toml"))
	}
	return names
}

// leaves visits every scalar key of a Config that is not inside an array or a
// map: the keys that the environment can set.
func leaves(v reflect.Value, path string, visit func(path string, v reflect.Value)) {
	for i := range v.NumField() {
		f, at := v.Field(i), join(path, v.Type().Field(i).Tag.Get("toml"))
		switch {
		case f.Kind() == reflect.Slice || f.Kind() == reflect.Map:
		case f.Kind() == reflect.Struct && f.Type() != reflect.TypeFor[Secret]():
			leaves(f, at, visit)
		default:
			visit(at, f)
		}
	}
}

// kind names a TOML type; the value itself is left out, it may be a secret.
func kind(raw any) string {
	switch raw.(type) {
	case string:
		return "a string"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case bool:
		return "a boolean"
	case time.Time:
		return "a date"
	case map[string]any:
		return "a table"
	case []map[string]any, []any:
		return "an array"
	}
	return "nothing"
}

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// advice proposes the known word nearest to a wrong one.
func advice(word string, known []string) string {
	best, near := "", 3 // at most two slips
	for _, k := range known {
		if d := distance(strings.ToLower(word), k); d < near {
			best, near = k, d
		}
	}
	if best != "" {
		return fmt.Sprintf("write %q, or remove it", best)
	}
	sorted := slices.Clone(known)
	slices.Sort(sorted)
	return "remove it, or use one of " + strings.Join(sorted, " ")
}

// distance counts the insertions, deletions and replacements between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
