package wire

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A mutation is a recorded frame of which one byte was changed, and what a checker
// written apart from this project found in it.
type mutation struct {
	recorded
	what    string // file, offset, byte, value
	byte    int
	verdict []string
}

// mutations reads the subset's list; it has no others, so REPLGATE_CAPTURES does
// not matter here.
func mutations(t *testing.T) (all []mutation) {
	t.Helper()
	text, err := os.ReadFile(subset + "/../mutations.tsv")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]map[int]recorded{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if files[f[0]] == nil {
			frames, err := readFile(os.DirFS(subset), f[0])
			if err != nil {
				t.Fatal(err)
			}
			files[f[0]] = map[int]recorded{}
			for _, r := range frames {
				files[f[0]][r.at] = r
			}
		}
		var n [3]int
		for i := range n {
			if n[i], err = strconv.Atoi(f[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		m := mutation{recorded: files[f[0]][n[0]], what: strings.Join(f[:4], " "), byte: n[1], verdict: strings.Split(f[4], ",")}
		m.bytes = bytes.Clone(m.bytes)
		m.bytes[n[1]] = byte(n[2])
		all = append(all, m)
	}
	return all
}

// clauses judges the bytes the way a gate does, with this package's answers, and
// names what it finds by the clauses of the protocol: nil when all is well.
func clauses(v *BodyVerifier, b []byte, sender uint8) (found []string) {
	r := NewReader(Limits{MaxFrame: uint32(len(b)), Store: len(b), Buffer: len(b)})
	for in := b; len(in) > 0; {
		n := copy(r.Free(), in)
		r.Filled(n)
		in = in[n:]
	}
	f, err := r.Next()
	if err != nil {
		return []string{"framing"}
	}
	h := f.Head()
	c := h.Command()
	add := func(clause string, ok bool) {
		if !ok && !slices.Contains(found, clause) {
			found = append(found, clause)
		}
	}
	add("§3.1", h.ClusterID() == testCluster)
	add("§3.5", ReservedFrameZero(h))
	add("§1.0", !c.HeaderOnly() || Size.Get(h) == HeaderSize)
	switch {
	case c >= ReplicaHello && c <= ReplicaFinish:
		add("§1.8", HandshakeClean(h))
		return found
	case !c.ReplicaPlane():
		add("§1.0", false)
		return found
	case c.Sealed():
		add("§4.3", SealOK(h))
		add("§3.2", Replica.Get(h) == sender)
		add("§3.4", Release.Get(h) == 0)
	default:
		add("§4.4", Checksum.Get(h) == Identity(h))
		add("§3.2", Replica.Get(h) < 3)
		add("§1.14", onPlane(h))
	}
	add(layoutClause(h), Validate(h) == nil)
	body := v.Verify(h, f.Bytes[HeaderSize:])
	add(bodyClause(h, body), body == nil)
	if c == DoViewChange || c == StartView {
		add("§4.6", CheckSuffix(ViewOp.Get(h), f.Bytes[HeaderSize:]) == nil)
	}
	return found
}

// layoutClause is the clause behind Validate's refusal.
func layoutClause(h *Header) string {
	switch err := Validate(h); {
	case err == errOperation:
		return "§1.14"
	case err == errReservedFrame:
		return "§3.5"
	case err == errReservedTail && h.Command().IsPrepare():
		return "§1.2"
	case err == errSize256:
		return "§1.0"
	case err == errRelease:
		return "§3.4"
	}
	return "Validate"
}

// bodyClause is the clause behind a body's refusal.
func bodyClause(h *Header, err error) string {
	switch kind := BodyKindOf(h); {
	case err == errBodySeal:
		return "§4.5"
	case kind == BodyBatch:
		return "§5"
	}
	return "§6.1"
}

// onPlane is §1.14: the group of a prepare is one of its operation's plane.
func onPlane(h *Header) bool {
	op, _ := h.Operation()
	group, _ := h.Group()
	switch op.Class() {
	case ClassPartition:
		return group <= PartitionGroupMax
	case ClassMetadata, ClassSession:
		return group == MetadataGroup
	}
	return false
}

// The reasons why a clause may be named by one side only. None of them changes
// whether a frame is refused.
const (
	viewIsNoRule   = "§3.3 builders leave the view of these commands zero; a gate has no rule for it, the seal covers it"
	sealUnused     = "§4.5 a sealed command without a suffix: Iggy does not look at its checksum_body, the seal covers it"
	sealByGroup    = "§4.5 whether a prepare's body is sealed: the checker asks the group, Iggy and we ask the field"
	valuesOfSealed = "§1 values and reserved tails of sealed commands: the checker leaves them to the seal"
	upperHalf      = "§4.1 the upper half of a body seal or of an entry's identity: the checker compares the lower"
)

// disagreement returns the reason for a clause that only one side names, or
// nothing.
func disagreement(m mutation, d difference) string {
	c, at := m.head().Command(), m.byte
	switch {
	case !d.ours && d.clause == "§3.3":
		return viewIsNoRule
	case !d.ours && d.clause == "§4.5" && c.Sealed() && BodyKindOf(m.head()) != BodySealed:
		return sealUnused
	case !d.ours && d.clause == "§4.5" && c.IsPrepare():
		return sealByGroup
	case d.ours && c.Sealed() && (d.clause == "Validate" || d.clause == "§1.14"):
		return valuesOfSealed
	case d.ours && d.clause == "§4.5" && c.IsPrepare() && at >= 24 && at < 32,
		d.ours && d.clause == "§4.6" && at%HeaderSize >= 8 && at%HeaderSize < 16:
		return upperHalf
	}
	return ""
}

// For each of 10,000 frames with one byte changed we refuse what the checker
// refuses and accept what it accepts; and we name the same clauses, but for the
// listed differences.
func TestMutations(t *testing.T) {
	var v BodyVerifier
	all := mutations(t)
	accepted, differ := 0, map[string]int{}
	for _, m := range all {
		found := clauses(&v, m.bytes, m.sender)
		if want := !slices.Equal(m.verdict, []string{"ok"}); len(found) > 0 != want {
			t.Errorf("%s: got %v, the checker %v", m.what, found, m.verdict)
		}
		if len(found) == 0 {
			accepted++
		}
		for _, d := range compare(found, m.verdict) {
			why := disagreement(m, d)
			if why == "" {
				t.Errorf("%s, now %v: got %v, the checker %v", m.what, m.head().Command(), found, m.verdict)
			}
			differ[why]++
		}
	}
	if len(all) != 10000 || accepted != 105 {
		t.Errorf("got %d mutations of which %d pass, want 10000 and 105", len(all), accepted)
	}
	want := map[string]int{viewIsNoRule: 85, sealUnused: 590, sealByGroup: 9, valuesOfSealed: 842, upperHalf: 24}
	if !maps.Equal(differ, want) {
		t.Errorf("got differences %v, want %v", differ, want)
	}
}

type difference struct {
	clause string
	ours   bool
}

// compare returns the clauses that only one side names. The checker tells the
// parts of a batch apart; for us a batch holds or does not.
func compare(ours, theirs []string) (out []difference) {
	var t []string
	for _, c := range theirs {
		if strings.HasPrefix(c, "§5") {
			c = "§5"
		}
		if c != "ok" {
			t = append(t, c)
		}
	}
	for _, c := range ours {
		if !slices.Contains(t, c) {
			out = append(out, difference{c, true})
		}
	}
	for _, c := range slices.Compact(t) {
		if !slices.Contains(ours, c) {
			out = append(out, difference{c, false})
		}
	}
	return out
}
