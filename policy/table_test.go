package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/replgate/replgate/policy"
)

// documented is product.md's table of rules, line by line; the two defaults of
// identity_absent are two rules here, because each rule has one switch.
var documented = []struct {
	name     string
	standard policy.Action
	switched bool // may be set
	stricter bool // Iggy itself does more than drop or close
}{
	{"frame_size", policy.Close, false, false},
	{"frame_command", policy.Close, false, false},
	{"command_unexpected", policy.Drop, true, false},
	{"client_request", policy.Drop, true, true},
	{"seal", policy.Drop, true, false},
	{"identity", policy.Drop, true, false},
	{"identity_absent", policy.Drop, true, true},
	{"identity_absent_repair", policy.Observe, true, true},
	{"layout", policy.Drop, true, false},
	{"header_only_size", policy.Drop, true, true},
	{"cluster", policy.Drop, true, true},
	{"replica_range", policy.Drop, true, true},
	{"sender", policy.Drop, true, true},
	{"plane", policy.Drop, true, true},
	{"release", policy.Drop, true, true},
	{"reserved_frame", policy.Drop, true, true},
	{"reserved_tail", policy.Observe, true, true},
	{"metadata_chain", policy.Drop, true, true},
	{"token_jump", policy.Observe, true, true},
	{"body", policy.Drop, true, false},
	{"batch", policy.Drop, true, false},
	{"manifest", policy.Drop, true, false},
	{"suffix_sv", policy.Drop, true, true},
	{"hello_strict", policy.Close, true, true},
}

func TestTableIsTheDocumentedOne(t *testing.T) {
	rules := policy.Rules()
	if len(rules) != len(documented) {
		t.Fatalf("got %d rules, want %d", len(rules), len(documented))
	}
	defaults := table(t)
	for i, want := range documented {
		got := rules[i]
		if got.Name != want.name || got.Default != want.standard || got.Stricter != want.stricter || (len(got.Allowed) > 0) != want.switched {
			t.Errorf("line %d: got %+v, want %+v", i, got, want)
		}
		if got.Rule.String() != want.name || defaults[got.Rule] != want.standard {
			t.Errorf("%s: got name %v and %v in the table", want.name, got.Rule, defaults[got.Rule])
		}
		if i > 0 && rules[i-1].Rule >= got.Rule {
			t.Errorf("%s: its number is not behind that of the rule before", want.name)
		}
		if got.Refuses == "" {
			t.Errorf("%s: got no word on what it refuses", want.name)
		}
	}
	rules[0].Name = "changed" // the slice is the caller's
	if policy.Rules()[0].Name != "frame_size" {
		t.Error("got the caller's change in the next table")
	}
}

// "Every rule that is stricter than Iggy has its own switch", to observe at least.
func TestStricterRulesHaveASwitch(t *testing.T) {
	for _, r := range policy.Rules() {
		if r.Stricter && !slices.Contains(r.Allowed, policy.Observe) {
			t.Errorf("%s: got %v, want a switch to observe", r.Name, r.Allowed)
		}
		if len(r.Allowed) > 0 && !slices.Contains(r.Allowed, r.Default) {
			t.Errorf("%s: its default %v is not among %v", r.Name, r.Default, r.Allowed)
		}
	}
}

func TestNewTableSets(t *testing.T) {
	words := map[string]policy.Action{"drop": policy.Drop, "close": policy.Close, "observe": policy.Observe}
	for _, r := range policy.Rules() {
		for word, action := range words {
			made, err := policy.NewTable(map[string]string{r.Name: word})
			if !slices.Contains(r.Allowed, action) {
				if err == nil || made != nil || !strings.Contains(err.Error(), r.Name) || !strings.Contains(err.Error(), word) {
					t.Errorf("%s = %q: got %v, want a refusal that names both", r.Name, word, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s = %q: %v", r.Name, word, err)
			}
			want := *table(t)
			want[r.Rule] = action
			if *made != want {
				t.Errorf("%s = %q: got %v, want %v", r.Name, word, *made, want)
			}
		}
	}
}

func TestNewTableRefuses(t *testing.T) {
	for name, words := range map[string]map[string]string{
		"another name":          {"sender_id": "drop"},
		"capitals":              {"Sender": "drop"},
		"no name":               {"": "drop"},
		"another word":          {"sender": "forward"},
		"capitals in the word":  {"sender": "Drop"},
		"no word":               {"sender": ""},
		"no switch":             {"frame_size": "observe"},
		"hello_strict to drop":  {"hello_strict": "drop"},
		"one bad among good":    {"sender": "drop", "plane": "close", "cluster": "reject"},
		"a rule without switch": {"frame_command": "close"},
	} {
		if made, err := policy.NewTable(words); err == nil || made != nil || !strings.HasPrefix(err.Error(), "policy: got ") {
			t.Errorf("%s: got %v, %v, want a refusal", name, made, err)
		}
	}
}

func TestActionWords(t *testing.T) {
	want := []string{"forward", "observe", "drop", "close"}
	for a, word := range want {
		if got := policy.Action(a).String(); got != word {
			t.Errorf("got %q, want %q", got, word)
		}
	}
	if got := policy.None.String(); got != "" {
		t.Errorf("got %q for no rule, want nothing", got)
	}
}
