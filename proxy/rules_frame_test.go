package proxy_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/replgate/replgate/wire"
)

// viewChange makes a DoViewChange or StartView of replica 0 with the given suffix.
func viewChange(c wire.Command, body []byte) []byte {
	h := header(c, 0)
	wire.View.Set(&h, 7)
	wire.ViewOp.Set(&h, 3)
	wire.ViewCommit.Set(&h, 2)
	wire.ViewGroup.Set(&h, wire.MetadataGroup)
	wire.ChecksumBody.Set(&h, wire.BodySeal(body))
	return seal(h, body, false)
}

// suffixOf packs two prepares of the given ops, the first one the highest.
func suffixOf(ops ...uint64) (body []byte) {
	for i, op := range ops {
		h := prepareOf(op, 128, wire.MetadataGroup)
		wire.Size.Set(&h, wire.HeaderSize)
		wire.PrepareTimestamp.Set(&h, uint64(1000-i))
		if i+1 < len(ops) {
			below := prepareOf(ops[i+1], 128, wire.MetadataGroup)
			wire.Size.Set(&below, wire.HeaderSize)
			wire.PrepareTimestamp.Set(&below, uint64(1000-i-1))
			wire.PrepareParent.Set(&h, wire.Identity(&below))
		}
		wire.Seal(&h)
		body = append(body, h[:]...)
	}
	return body
}

var wholeSuffix = suffixOf(3, 2)

// A frame whose body is wrong and that was stored is dropped whole, alone, by the
// rule that its kind of body has.
func TestRulesStoredWrongBody(t *testing.T) {
	for _, row := range []struct {
		name string
		rule string
		good []byte
		at   int // the byte of the body to spoil
	}{
		{"metadata prepare", "body", metadata(5, []byte("a stream")), 3},
		{"repaired prepare", "body", repaired(metadata(5, []byte("a stream"))), 3},
		{"batch", "batch", messages(5, []byte("hello")), 300},
		{"batch header", "batch", messages(5, []byte("hello")), wire.BatchCount},
		{"manifest", "manifest", manifest(0, 3), 20},
		{"vote", "body", viewChange(wire.DoViewChange, wholeSuffix), 200},
		{"new view", "body", viewChange(wire.StartView, wholeSuffix), 200},
	} {
		for _, s := range securities {
			t.Run(fmt.Sprintf("%s/%s", s, row.name), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{near: s, far: s})
				from, to := g.openWay(ways[0])
				bad := spoiled(row.good, wire.HeaderSize+row.at)
				send(t, from, commit(0, 1), bad, row.good, bad, commit(0, 2))
				receive(t, to, commit(0, 1), row.good, commit(0, 2))
				g.wantRejected("in "+row.rule+" drop", "in "+row.rule+" drop")
			})
		}
	}
}

// A suffix that is sealed right and does not decode: a vote's is a matter of its
// body, a StartView's has a rule of its own.
func TestRulesSuffix(t *testing.T) {
	for _, row := range []struct {
		command wire.Command
		rule    string
	}{{wire.DoViewChange, "body"}, {wire.StartView, "suffix_sv"}} {
		t.Run(row.command.String(), func(t *testing.T) {
			g := start(t, spec{})
			from, to := g.openWay(ways[0])
			bad := viewChange(row.command, suffixOf(3, 1))
			send(t, from, bad, viewChange(row.command, wholeSuffix))
			receive(t, to, viewChange(row.command, wholeSuffix))
			g.wantRejected("in " + row.rule + " drop")
		})
	}
}

// claiming is a frame of a command that claims a size, with a seal that does not
// match and as many bytes of body as the claim wants.
func claiming(c wire.Command, sender uint8, size int) []byte {
	h := header(c, sender)
	wire.Checksum.Set(&h, wire.U128{Lo: 1})
	wire.Size.Set(&h, uint32(size))
	return append(h[:], noise(size-wire.HeaderSize, 1)...)
}

// sealSizes are the sizes next to what a command may honestly have (product.md,
// wire promises), with a seal or identity that does not match.
var sealSizes = []struct {
	command wire.Command
	size    int
	honest  bool
}{
	{wire.Commit, 256, true}, {wire.Commit, 257, false}, {wire.Commit, 512, false},
	{wire.PrepareOk, 256, true}, {wire.PrepareOk, 257, false}, {wire.StartViewChange, 4096, false},
	{wire.RequestPrepares, 256, true}, {wire.RequestPrepares, 264, false},
	{wire.ForwardLogoutResult, 256, true}, {wire.ForwardLogoutResult, 300, false},
	{wire.DoViewChange, 256, true}, {wire.DoViewChange, 512, true}, {wire.DoViewChange, 511, false},
	{wire.DoViewChange, 256 * 129, true}, {wire.DoViewChange, 256 * 130, false},
	{wire.StartView, 256, true}, {wire.StartView, 513, false}, {wire.StartView, 256 * 129, true}, {wire.StartView, 256 * 130, false},
	{wire.StateTransferTarget, 256, true}, {wire.StateTransferTarget, 257, false}, {wire.StateTransferTarget, 272, false},
	{wire.StateTransferTarget, 273, true}, {wire.StateTransferTarget, 256 + 17 + 25*65536, true}, {wire.StateTransferTarget, 256 + 18 + 25*65536, false},
	{wire.StateChunk, 256, false}, {wire.StateChunk, 257, true}, {wire.StateChunk, 262_400, true}, {wire.StateChunk, 262_401, false},
	{wire.Prepare, 256, true}, {wire.Prepare, 300, true}, {wire.Prepare, 2 << 20, true},
	{wire.RepairPrepare, 256, true}, {wire.RepairPrepare, 301, true}, {wire.RepairPrepare, 2 << 20, true},
}

// After a mismatch the size is believed only if it is one that the command may
// have: then the frame is dropped alone, else the link ends.
func TestRulesSealAndSize(t *testing.T) {
	for _, row := range sealSizes {
		t.Run(fmt.Sprintf("%s/%d", row.command, row.size), func(t *testing.T) {
			t.Parallel()
			g := start(t, spec{})
			from, to := g.openWay(ways[0])
			rule := "seal"
			if row.command.IsPrepare() {
				rule = "identity"
			}
			go from.Write(slices.Concat(commit(0, 1), claiming(row.command, 0, row.size), commit(0, 2)))
			receive(t, to, commit(0, 1))
			if row.honest {
				receive(t, to, commit(0, 2))
				g.wantRejected("in " + rule + " drop")
				return
			}
			ended(t, to)
			hangUp(from, to)
			g.wantClosed("seal_header")
			g.wantRejected("in " + rule + " close")
		})
	}
}

// The upper half of a seal counts, and so does zero: there is no bypass.
func TestRulesSealUpperHalf(t *testing.T) {
	g := start(t, spec{})
	from, to := g.openWay(ways[0])
	zero := commit(0, 1)
	clear(zero[:16])
	send(t, from, spoiled(commit(0, 1), 15), zero, commit(0, 2))
	receive(t, to, commit(0, 2))
	g.wantRejected("in seal drop", "in seal drop")
}

// Under validation = "observe" everything that has framing passes and is counted as
// what would have happened to it; what has none still ends the link.
func TestRulesObserveMode(t *testing.T) {
	for _, w := range []way{ways[0], ways[2]} {
		t.Run(w.name, func(t *testing.T) {
			g := start(t, spec{observe: true, rules: map[string]string{"reserved_frame": "close"}})
			from, to := g.openWay(w)
			sender := g.sender(w)
			var all []byte
			var counts []string
			for _, b := range badFrames {
				frame := recorded(t, b.file, sender)
				if b.verdict == "close" || b.inward && w.outward {
					continue
				}
				if b.file == "prepare-foreign-parent" {
					all = append(all, firstPrepare(t)...)
				}
				if b.rule == "token_jump" {
					all = append(all, commit(sender, 1)...)
				}
				all = append(all, frame...)
				verdict := "would_drop"
				if b.verdict == "observe" {
					verdict = "observe"
				}
				counts = append(counts, w.label()+" "+b.rule+" "+verdict)
			}
			dirty := commit(sender, 3)
			dirty[100] = 1
			wire.Seal(headOf(dirty))
			all = slices.Concat(all, dirty, claiming(wire.Commit, sender, 300), foreignised(metadata(9, noise(1<<20, 1))))
			counts = append(counts, w.label()+" reserved_frame would_close", w.label()+" seal would_close", w.label()+" cluster would_drop")
			bad := spoiled(messages(9, noise(1<<20, 1)), 1<<19)
			all = slices.Concat(all, bad, commit(sender, 4))
			counts = append(counts, w.label()+" batch would_drop")
			go from.Write(all)
			receive(t, to, all)
			g.wantRejected(counts...)
			if n := g.count(g.frames, w.label()+" dropped"); n != 0 {
				t.Errorf("got %d frames dropped, want none", n)
			}
			send(t, from, recorded(t, "size-255", sender))
			ended(t, to)
			hangUp(from, to)
			g.wantClosed("frame_size")
		})
	}
}

func TestRulesObserveModeCommand(t *testing.T) {
	g := start(t, spec{observe: true})
	from, to := g.openWay(ways[0])
	send(t, from, commit(0, 1), recorded(t, "command-31", 0))
	receive(t, to, commit(0, 1))
	ended(t, to)
	hangUp(from, to)
	g.wantClosed("frame_command")
}

// Observed or not, the first rule gives its name and a frame is counted once.
func TestRulesObserveModeOnce(t *testing.T) {
	for name, size := range map[string]int{"stored": 100, "long": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			g := start(t, spec{observe: true})
			from, to := g.openWay(ways[0])
			frame := foreignised(messages(5, noise(size, 1)))
			bad := spoiled(frame, len(frame)-1)
			go from.Write(slices.Concat(bad, commit(0, 1)))
			receive(t, to, bad, commit(0, 1))
			g.wantRejected("in cluster would_drop")
		})
	}
}

// What observe lets pass does not become the memory that later frames are judged
// by: the chain holds what the replica took for good.
func TestRulesObserveModeMemory(t *testing.T) {
	for name, body := range map[string]int{"stored": 8, "long": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			g := start(t, spec{observe: true})
			from, to := g.openWay(ways[0])
			first := metadata(1, []byte("first"))
			broken := metadata(2, noise(body, 1)) // its parent is zero
			h := prepareOf(2, 128, wire.MetadataGroup)
			wire.PrepareParent.Set(&h, wire.Checksum.Get(headOf(first)))
			second := seal(h, []byte("second"), true)
			go from.Write(slices.Concat(first, broken, second))
			receive(t, to, first, broken, second)
			g.wantRejected("in metadata_chain would_drop")
		})
	}
}

// Two frames of the same fault are counted twice and told once.
func TestRulesToldOnce(t *testing.T) {
	g := start(t, spec{})
	from, to := g.openWay(ways[0])
	bad := spoiled(commit(0, 1), 0)
	send(t, from, bytes.Repeat(bad, 100), commit(0, 2))
	receive(t, to, commit(0, 2))
	g.await("a hundred counts", func() bool { return g.rejected["in seal drop"] == 100 })
	if n := strings.Count(g.text(), `"frame refused"`); n != 1 {
		t.Errorf("got %d lines, want 1", n)
	}
}
