package metrics

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// T43: the number of series is a function of peers and enums alone. After one value that is in no set, ten thousand
// more of every kind change nothing.
func TestStrangeValuesMakeNoSeries(t *testing.T) {
	r := New(testLabels())
	touchAll(r, "strange", 29)
	_, before := scrape(t, r)
	rnd := rand.New(rand.NewPCG(43, 43))
	for range 10_000 {
		touchAll(r, junk(rnd), uint8(3+rnd.IntN(253)))
	}
	_, after := scrape(t, r)
	if b, a := gateSeries(before), gateSeries(after); b != a {
		t.Errorf("got %d series after 10,000 strange values, want %d as before", a, b)
	}
	expect(t, after, 10_001, "replgate_plaintext_links_total", "peer", "other")
	expect(t, after, 10_001, "replgate_links_closed_total",
		"peer", "other", "direction", "other", "reason", "other")
}

// Every combination of legal and strange values at once: what is shown stays within the bound that List gives.
func TestBoundsHold(t *testing.T) {
	l := testLabels()
	r := New(l)
	for _, v := range append(append(l.Peers, l.Endings...), "ok", "x", "current", "leaf", "acceptor", "unknown") {
		touchAll(r, v, 1)
	}
	for _, peer := range append(l.Peers, "unknown", "x") {
		for _, way := range []string{"in", "out", "x"} {
			for c := range 256 {
				for result := range 5 {
					r.Frames(peer, way).Add(Result(result), uint8(c), 1, 256)
				}
			}
		}
	}
	_, samples := scrape(t, r)
	count := map[string]int{}
	for _, s := range samples {
		count[s.name]++
	}
	for _, f := range r.List() {
		if f.Type != "histogram" && count[f.Name] > f.Bound {
			t.Errorf("%s: got %d series, want at most %d", f.Name, count[f.Name], f.Bound)
		}
	}
	// peers and unknown and other × in, out, other × three commands and other × three results and other
	if got := count["replgate_frames_total"]; got != 4*3*4*4 {
		t.Errorf("replgate_frames_total: got %d series, want all %d", got, 4*3*4*4)
	}
}

// touchAll uses one value wherever a label is taken.
func touchAll(r *Registry, v string, command uint8) {
	r.LinkOpened(v, v, v)
	r.LinkClosed(v, v, v, v)
	r.Refused(v, v)
	f := r.Frames(v, v)
	f.Add(Lost+1, command, 1, 256)
	f.Rejected(v, v)
	r.Handshake(v, v, time.Second)
	r.SecretProof(v, v)
	r.PlaintextLink(v)
	r.Reload(v, v)
	r.Credentials([]Certificate{{Role: v, NotAfter: time.Unix(1, 0)}}, []Credential{{Kind: v, Fingerprint: v}}, done)
}

// junk is an address, a file name, bytes that are not UTF-8, or the end of a quoted string.
func junk(rnd *rand.Rand) string {
	switch rnd.IntN(4) {
	case 0:
		return fmt.Sprintf("10.%d.%d.%d:%d", rnd.IntN(256), rnd.IntN(256), rnd.IntN(256), rnd.IntN(65536))
	case 1:
		return fmt.Sprintf("CN=node-%d", rnd.Uint64())
	case 2:
		return string([]byte{0xff, byte(rnd.IntN(256)), 0xfe})
	default:
		return fmt.Sprintf("x\"} %d\n", rnd.Uint64())
	}
}

func gateSeries(samples []sample) (n int) {
	for _, s := range samples {
		if len(s.name) > 9 && s.name[:9] == "replgate_" {
			n++
		}
	}
	return n
}

// Names given twice, empty ones, "other" and bytes that are not UTF-8 in the closed lists themselves do no harm.
func TestOddSets(t *testing.T) {
	s := newSet("a", "", "other", "b", "a", "\xff")
	if got := fmt.Sprint(s.names); got != "[a b ? other]" {
		t.Errorf("got %s, want [a b ? other]", got)
	}
	if s.fold("b") != "b" || s.fold("") != Other || s.fold("c") != Other {
		t.Errorf("got %s, %s, %s, want b, other, other", s.fold("b"), s.fold(""), s.fold("c"))
	}
	r := New(Labels{Version: "\xff", Peers: []string{"\xff", "0", "0"}, Commands: []string{"\xfe"}})
	touchAll(r, "0", 0)
	scrape(t, r)
}
