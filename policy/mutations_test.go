package policy_test

import (
	"bufio"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// rulesOf says by which rules a gate sees the faults of a clause.
var rulesOf = map[string][]string{
	"§1.0": {"command_unexpected", "client_request", "header_only_size", "layout"},
	"§1.2": {"layout"}, "§1.8": {"command_unexpected"}, "§1.14": {"layout", "plane"},
	"§3.1": {"cluster"}, "§3.2": {"sender", "replica_range"}, "§3.3": {}, "§3.4": {"release", "layout"}, "§3.5": {"reserved_frame", "layout"},
	"§4.3": {"seal"}, "§4.4": {"identity", "identity_absent", "identity_absent_repair"}, "§4.5": {"body"}, "§4.6": {"body", "suffix_sv", "layout"},
	"§5.1": {"batch"}, "§5.2": {"batch"}, "§5.3": {"batch"}, "§5.4": {"batch"}, "§6.1": {"manifest"},
}

// A second opinion: 10,000 recorded frames of which one byte was changed, and what
// a checker written apart from this project found. A gate must name a fault of
// one of the clauses where it saw one, and none where it saw none.
func TestMutations(t *testing.T) {
	const dir = "../internal/replica/testdata" // the mutations are of the subset
	file, err := os.Open(path.Join(dir, "mutations.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	recordings := map[string][]byte{}
	rules, chain, seen := table(t), new(policy.Chain), 0
	for lines := bufio.NewScanner(file); lines.Scan(); seen++ {
		m := strings.Split(lines.Text(), "\t")
		recording := recordings[m[0]]
		if recording == nil {
			if recording, err = os.ReadFile(path.Join(dir, "recordings", m[0])); err != nil {
				t.Fatal(err)
			}
			recordings[m[0]] = recording
		}
		frame := mutated(t, recording, m)
		l := leg()
		if base := path.Base(m[0]); strings.Contains(base, ".d2a.") {
			l.Sender = base[4] - '0'
		} else {
			l.Sender = base[6] - '0'
		}
		chain.Reset()
		if got, fits := opinion(policy.NewJudge(rules, l, chain), frame, m[4]); !fits {
			t.Errorf("%v: got %s", m, got)
		}
	}
	if seen != 10_000 {
		t.Errorf("got %d mutations, want 10000", seen)
	}
}

// mutated takes a line's frame out of its recording and changes its byte.
func mutated(t *testing.T, recording []byte, m []string) []byte {
	t.Helper()
	var n [3]int
	for i := range n {
		var err error
		if n[i], err = strconv.Atoi(m[1+i]); err != nil {
			t.Fatal(err)
		}
	}
	recording = recording[n[0]:]
	frame := slices.Clone(recording[:wire.Size.Get((*wire.Header)(recording))])
	frame[n[1]] = byte(n[2])
	return frame
}

// opinion judges a frame and holds the verdict against the checker's.
func opinion(j *policy.Judge, frame []byte, verdict string) (got string, fits bool) {
	f, err := framed(frame)
	if err != nil || f.Head() == nil || f.Long() { // the bytes that a Long one claims are not there
		return "framing", verdict == "framing"
	}
	v := look(j, f.Bytes)
	names := observed(v.Observed)
	if v.Rule != policy.None {
		names = append(names, v.Rule.String())
	}
	if len(names) == 0 {
		return "ok", verdict == "ok"
	}
	for _, clause := range strings.Split(verdict, ",") {
		if slices.ContainsFunc(names, func(n string) bool { return slices.Contains(rulesOf[clause], n) }) {
			return "", true
		}
	}
	return strings.Join(names, " "), false
}
