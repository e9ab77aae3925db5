package manual

import "testing"

// Which comment belongs to which key, and what a page leaves out of it.
func TestNotes(t *testing.T) {
	n := readNotes([]byte(`# A file's own comment.

# Above the top.
top = ""         # default: none

[one]            # a table
# Above a group.
a = 1            # behind a
b = 2
c = 3            # behind c

# Nobody's.

d = 4
[[two]]
inner = { x = 1 } # behind inner
a = 5            # first
[[two]]
a = 6            # second
`))
	for key, want := range map[string]string{
		"top": "Above the top. Default: none", "one.a": "Above a group. Behind a", "one.b": "Above a group.",
		"one.c": "behind c", "one.d": "", "two.inner.x": "behind inner", "two.a": "first",
	} {
		if got := n.keys[key]; got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if got := n.tables["one"]; got != "a table" {
		t.Errorf("got %q for a table, want its comment", got)
	}
}

func TestWithoutDefault(t *testing.T) {
	for _, c := range []struct{ note, value, want string }{
		{"default", `"5s"`, "–"},
		{"default; at least 2s", `"5s"`, "at least 2s"},
		{"default false; true makes psk", "false", "true makes psk"},
		{"default: its roster address", `""`, "default: its roster address"},
		{"default 0: no limit", "0", "0: no limit"},
		{"required: who it is", "required", "required: who it is"},
		{"default; \"\" is off", `"x"`, `"" is off`},
	} {
		if got := withoutDefault(c.note, c.value); got != c.want {
			t.Errorf("%q beside %s: got %q, want %q", c.note, c.value, got, c.want)
		}
	}
}
