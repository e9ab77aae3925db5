package proxy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

const recordings = "../internal/replica/testdata/recordings"

// recorded is a frame of frames/, as replica `sender` would send it: the sender's
// byte of a control frame is made its own, where that is not the fault itself.
func recorded(t testing.TB, name string, sender uint8) []byte {
	t.Helper()
	frame, err := os.ReadFile(filepath.Join(recordings, "frames", name+".bin"))
	if err != nil {
		t.Fatal(err)
	}
	h := headOf(frame)
	if h.Command().Sealed() && wire.Replica.Get(h) == 0 {
		whole := wire.SealOK(h)
		wire.Replica.Set(h, sender)
		if whole {
			wire.Seal(h)
		}
	}
	return frame
}

// firstPrepare is what prepare-foreign-parent must stand behind to be foreign.
func firstPrepare(t testing.TB) []byte {
	t.Helper()
	all, err := replica.Recordings(recordings)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if r.Scenario != "tour-plaintext" || r.Pair.Dialer != 0 || r.Pair.Acceptor != 1 {
			continue
		}
		frames, _, err := replica.Frames(r.Dialer)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range frames {
			if headOf(f).Command() == wire.Prepare {
				return f
			}
		}
	}
	t.Fatal("got no prepare from 0 to 1 in tour-plaintext, want one")
	return nil
}

// badFrame is a file of frames/ and its line in the table of product.md.
type badFrame struct {
	file    string
	rule    string
	verdict string
	inward  bool // the rule is about frames toward the local replica only
}

var badFrames = []badFrame{
	{"command-31", "frame_command", "close", false},
	{"size-255", "frame_size", "close", false},
	{"commit-bad-seal", "seal", "drop", false},
	{"commit-foreign-cluster", "cluster", "drop", false},
	{"dvc-replica-200", "replica_range", "drop", false},
	{"hello-late", "command_unexpected", "drop", false},
	{"reply", "command_unexpected", "drop", false},
	{"request-register", "client_request", "drop", false},
	{"request-create-stream", "client_request", "drop", false},
	{"prepare-foreign-parent", "metadata_chain", "drop", true},
	{"commit-token-from-the-future", "token_jump", "observe", false},
}

// The table is held against the folder: a recording that nobody sends tests
// nothing.
func TestBadFramesAreAll(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(recordings, "frames", "*.bin"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d recordings (%v), want some", len(files), err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".bin")
		if !slices.ContainsFunc(badFrames, func(b badFrame) bool { return b.file == name }) {
			t.Errorf("got recording %s, want it in the table of this test", name)
		}
	}
}

// Every frame that kills, misleads or commands a real Iggy (frames/) stops at the
// gate, on all four ways, between plaintext legs and between TLS legs, and where
// the link stays the honest frame behind it arrives.
func TestBadFramesStop(t *testing.T) {
	for _, security := range []proxy.Security{proxy.Plaintext, proxy.TLS} {
		for _, w := range ways {
			for _, b := range badFrames {
				t.Run(fmt.Sprintf("%s/%s/%s", security, w.name, b.file), func(t *testing.T) {
					t.Parallel()
					g := start(t, spec{near: security, far: security})
					b.run(t, g, w)
				})
			}
		}
	}
}

// run sends an honest frame, the bad one and another honest one.
func (b badFrame) run(t *testing.T, g *gate, w way) {
	from, to := g.openWay(w)
	sender := g.sender(w)
	bad := recorded(t, b.file, sender)
	before, behind := slices.Concat(firstPrepare(t), commit(sender, 12)), commit(sender, 13)
	send(t, from, before, bad, behind)
	passes := b.verdict == "observe" || b.inward && w.outward
	switch {
	case passes:
		receive(t, to, before, bad, behind)
	case b.verdict == "drop":
		receive(t, to, before, behind)
	default:
		receive(t, to, before)
		ended(t, to)
		hangUp(from, to)
		g.wantClosed(b.rule)
		g.wantRejected(w.label() + " " + b.rule + " " + b.verdict)
		return
	}
	if b.inward && w.outward {
		g.wantRejected()
	} else {
		g.wantRejected(w.label() + " " + b.rule + " " + b.verdict)
	}
	from.Close()
	got, err := rest(to)
	if len(got) != 0 || err != nil {
		t.Errorf("got %d more bytes and %v, want none and an end", len(got), err)
	}
	hangUp(to)
	g.wantClosed(w.side() + "_eof")
	g.wantFrames(w, 4, len(before)+len(bad)+len(behind), passes)
}

// wantFrames holds that every frame was counted once and under its fate.
func (g *gate) wantFrames(w way, frames, bytes int, passes bool) {
	g.t.Helper()
	forwarded, dropped := frames, 0
	if !passes {
		forwarded, dropped = frames-1, 1
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	way := w.label()
	f, d, l := g.frames[way+" forwarded"], g.frames[way+" dropped"], g.frames[way+" lost"]
	if f != forwarded || d != dropped || l != 0 {
		g.t.Errorf("got %d frames forwarded, %d dropped, %d lost, want %d, %d, 0", f, d, l, forwarded, dropped)
	}
	if n := g.volume[way+" forwarded"] + g.volume[way+" dropped"]; n != bytes {
		g.t.Errorf("got %d bytes counted, want %d", n, bytes)
	}
}

// The one that passes by default is dropped by its switch.
func TestBadTokenDropped(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			g := start(t, spec{rules: map[string]string{"token_jump": "drop"}})
			badFrame{"commit-token-from-the-future", "token_jump", "drop", false}.run(t, g, w)
		})
	}
}

// The first token of a group is nobody's jump (product.md): a replica that comes
// back to a long-lived primary sees a large one at once.
func TestBadTokenFirstPasses(t *testing.T) {
	g := start(t, spec{rules: map[string]string{"token_jump": "drop"}})
	e := g.openIngress()
	first, near := commit(0, 1_000_000), commit(0, 1_010_000)
	send(t, e.far, first, near)
	receive(t, e.near, first, near)
	g.wantRejected()
}

// The same recordings whose rule has a switch, set to close: the link ends under
// the rule's name and the frame behind does not arrive.
func TestBadFramesClose(t *testing.T) {
	for _, b := range badFrames {
		if b.verdict == "close" {
			continue
		}
		t.Run(b.file, func(t *testing.T) {
			t.Parallel()
			g := start(t, spec{rules: map[string]string{b.rule: "close"}})
			b.verdict = "close"
			b.run(t, g, ways[0])
		})
	}
}
