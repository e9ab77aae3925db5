package configs

import (
	"maps"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

func TestKeyLines(t *testing.T) {
	tests := []struct {
		name, doc string
		want      map[string]int
	}{
		{"root and table", "a = 1\n[t]\n# c = 1\nb = 2\n", map[string]int{"a": 1, "t": 2, "t.b": 4}},
		{"sub-table names its parents", "[a.b]\nc = 1", map[string]int{"a": 1, "a.b": 1, "a.b.c": 2}},
		{"dotted", "a.b . c = 1", map[string]int{"a": 1, "a.b": 1, "a.b.c": 1}},
		{"crlf", "a = 1\r\n\r\n[t]\r\nb = 1\r\n", map[string]int{"a": 1, "t": 3, "t.b": 4}},
		{"bom", "\ufeffa = 1", map[string]int{"a": 1}},
		{"no last newline", "a = 1 # = b", map[string]int{"a": 1}},
		{"array of tables", "[[n]]\nip = 1\n[[n]]\n\nip = 2\n[n.p]\nq = 1\n[[n.s]]\nr = 1\n[[n.s]]\nr = 2\n",
			map[string]int{
				"n": 1, "n[0]": 1, "n[0].ip": 2, "n[1]": 3, "n[1].ip": 5, "n[1].p": 6, "n[1].p.q": 7,
				"n[1].s": 8, "n[1].s[0]": 8, "n[1].s[0].r": 9, "n[1].s[1]": 10, "n[1].s[1].r": 11,
			}},
		{"inline table", "p = { a = 1, b.c = \"}\", d = {} }\nq = 1",
			map[string]int{"p": 1, "p.a": 1, "p.b": 1, "p.b.c": 1, "p.d": 1, "q": 2}},
		{"inline array of tables", "n = [\n  { ip = 1 }, # ]\n  { ip = 2 },\n]\nz = 1",
			map[string]int{"n": 1, "n[0]": 2, "n[0].ip": 2, "n[1]": 3, "n[1].ip": 3, "z": 5}},
		{"nested arrays", "a = [[1, 2], [{x = 1}]]",
			map[string]int{"a": 1, "a[0]": 1, "a[0][0]": 1, "a[0][1]": 1, "a[1]": 1, "a[1][0]": 1, "a[1][0].x": 1}},
		{"quoted keys", "\"a.b\" = 1\n'c d'.e = 2\n\"\\u0066\" = 3\n[\"g#\"]\nh = 1",
			map[string]int{`"a.b"`: 1, `"c d"`: 2, `"c d".e`: 2, "f": 3, `"g#"`: 4, `"g#".h`: 5}},
		{"multi-line strings", "a = \"\"\"\nb = 1\n\\\"\"\" # \"\"\"\"\"\nc = '''\nd = ''\n'''''\ne = 1",
			map[string]int{"a": 1, "c": 4, "e": 7}},
		{"quotes before the closing three", "a = [\"\"\"x\"\"\"\"\", ''''y''''', {\nb = 1}]",
			map[string]int{"a": 1, "a[0]": 1, "a[1]": 1, "a[2]": 1, "a[2].b": 2}},
		{"strings with everything", "a = \"# \\\" [x]\" # y = 1\nb = '\\'\nc = 1979-05-27 07:32:00 # d\ne = [1979-05-27 07:32:00]",
			map[string]int{"a": 1, "b": 2, "c": 3, "e": 4, "e[0]": 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var v map[string]any
			if _, err := toml.Decode(tt.doc, &v); err != nil {
				t.Fatalf("the test itself is no TOML: %v", err)
			}
			if got := keyLines(tt.doc); !maps.Equal(got, tt.want) {
				t.Errorf("got  %v\nwant %v", got, tt.want)
			}
		})
	}
}

// paths lists the path of every key, table and element of a decoded document,
// with the key's name, or empty for an element.
func paths(at string, v any, visit func(path, key string)) {
	elem := func(i int, e any) {
		visit(at+index(i), "")
		paths(at+index(i), e, visit)
	}
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			visit(join(at, key), key)
			paths(join(at, key), e, visit)
		}
	case []map[string]any:
		for i, e := range v {
			elem(i, e)
		}
	case []any:
		for i, e := range v {
			elem(i, e)
		}
	}
}

// Oracle: the decoder. Every key it reports is found, and stands on its line.
func FuzzKeyLines(f *testing.F) {
	f.Add(string(Example()))
	f.Add(base)
	f.Add("a=[{b=1,\nc=2},]\n[[x.y]]\n[x.y.z]\n'k'.\"l\"=\"\"\"\n\\\"\"\"\"\"")
	f.Add("a = [ [ ], # ]\n [ '''\n''' ] ]\n\r\nb = { }")
	f.Add("[[a]]\n[[a]]\nb.c=1\n[a.d]\n")
	f.Fuzz(func(t *testing.T, doc string) {
		lines := keyLines(doc) // must end, and not panic, whatever the text
		var root map[string]any
		if _, err := toml.Decode(doc, &root); err != nil {
			return
		}
		text := strings.Split(doc, "\n")
		paths("", root, func(path, key string) {
			line, ok := lines[path]
			if !ok || line < 1 || line > len(text) {
				t.Fatalf("%s: got line %d, want one of 1 to %d", path, line, len(text))
			}
			// An escaped key does not stand there in its own letters.
			if !strings.Contains(text[line-1], key) && !strings.Contains(text[line-1], `\`) {
				t.Fatalf("%s: line %d is %q", path, line, text[line-1])
			}
		})
	})
}
