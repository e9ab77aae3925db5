package proxy_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// longFrame is a frame above the store limit whose body carries a seal.
type longFrame struct {
	name string
	rule string
	make func(sender uint8) []byte
}

var longFrames = []longFrame{
	{"metadata prepare", "body", func(uint8) []byte { return metadata(5, noise(1<<20, 1)) }},
	{"repaired prepare", "body", func(uint8) []byte { return repaired(metadata(5, noise(1<<20, 2))) }},
	{"batch", "batch", func(uint8) []byte { return messages(5, noise(1<<20, 3)) }},
	{"manifest", "manifest", func(sender uint8) []byte { return manifest(sender, 20_000) }},
	{"just above the limit", "body", func(uint8) []byte { return metadata(5, noise(storeLimit-wire.HeaderSize+1, 4)) }},
}

// repaired is a prepare as repair serves it: its identity stays.
func repaired(prepare []byte) []byte {
	prepare = slices.Clone(prepare)
	headOf(prepare).SetCommand(wire.RepairPrepare)
	return prepare
}

// securities are those of both legs that the rules are tried on.
var securities = []proxy.Security{proxy.Plaintext, proxy.TLS}

// A body that does not match its seal is found when the receiver has most of it:
// the last byte is never sent, a reset says that the rest will not come, and the
// link ends under the rule's name.
func TestRulesLongWrongBody(t *testing.T) {
	for _, s := range securities {
		for _, w := range []way{ways[0], ways[2]} {
			for _, f := range longFrames {
				for place, at := range map[string]func(n int) int{
					"first byte":  func(int) int { return wire.HeaderSize },
					"middle byte": func(n int) int { return n / 2 },
					"last byte":   func(n int) int { return n - 1 },
				} {
					if s == proxy.TLS && place != "middle byte" {
						continue // where the fault lies and what it travels in have nothing to do with each other
					}
					t.Run(fmt.Sprintf("%s/%s/%s/%s", s, w.name, f.name, place), func(t *testing.T) {
						t.Parallel()
						g := start(t, spec{near: s, far: s})
						from, to := g.openWay(w)
						sender := g.sender(w)
						send(t, from, commit(sender, 1))
						receive(t, to, commit(sender, 1))
						frame := f.make(sender)
						bad := spoiled(frame, at(len(frame)))
						go from.Write(slices.Concat(bad, commit(sender, 2))) // fails when the link ends
						go listenTo(from)
						got, err := rest(to)
						if len(got) >= len(bad) || !bytes.HasPrefix(bad, got) {
							t.Errorf("got %d bytes of a bad frame of %d, prefix %v, want fewer", len(got), len(bad), bytes.HasPrefix(bad, got))
						}
						if !isReset(err) {
							t.Errorf("got an end by %v, want a reset", err)
						}
						g.wantClosed(f.rule)
						g.wantRejected(w.label() + " " + f.rule + " drop")
						if n := g.count(g.frames, w.label()+" dropped"); n != 1 {
							t.Errorf("got %d frames dropped, want 1", n)
						}
					})
				}
			}
		}
	}
}

// What matches passes byte for byte, sealed or not, and the frame behind it too.
func TestRulesLongPasses(t *testing.T) {
	unsealed := []longFrame{
		{"largest chunk", "", func(sender uint8) []byte { return chunk(sender, noise(wire.ChunkMax, 5)) }},
		{"consumer offset", "", func(uint8) []byte { return offset(5, noise(1<<20, 6)) }},
		{"prepare without body seal", "", func(uint8) []byte { return seal(prepareOf(5, 128, wire.MetadataGroup), noise(1<<20, 7), false) }},
	}
	for _, s := range securities {
		for _, w := range ways {
			for _, f := range slices.Concat(longFrames, unsealed) {
				t.Run(fmt.Sprintf("%s/%s/%s", s, w.name, f.name), func(t *testing.T) {
					t.Parallel()
					g := start(t, spec{near: s, far: s})
					from, to := g.openWay(w)
					sender := g.sender(w)
					all := slices.Concat(commit(sender, 1), f.make(sender), commit(sender, 2), f.make(sender), commit(sender, 3))
					go from.Write(all) // what does not arrive fails below
					receive(t, to, all)
					g.wantRejected()
				})
			}
		}
	}
}

// A body without a seal is not held back: each part goes on as it comes.
func TestRulesLongUnsealedFlows(t *testing.T) {
	g := start(t, spec{})
	from, to := g.openWay(ways[0])
	frame := offset(5, noise(1<<20, 6))
	for at := 0; at < len(frame); at += 100_000 {
		part := frame[at:min(at+100_000, len(frame))]
		send(t, from, part)
		receive(t, to, part)
	}
}

// A sealed body flows too, all but its end.
func TestRulesLongSealedFlows(t *testing.T) {
	g := start(t, spec{})
	from, to := g.openWay(ways[0])
	frame := metadata(5, noise(1<<20, 6))
	half := len(frame) / 2
	send(t, from, frame[:half])
	receive(t, to, frame[:half])
	send(t, from, frame[half:])
	receive(t, to, frame[half:])
}

// foreignised moves a frame to another cluster and seals it anew.
func foreignised(frame []byte) []byte {
	frame = slices.Clone(frame)
	headOf(frame).SetClusterID(foreign)
	wire.Seal(headOf(frame))
	return frame
}

// The header of a long frame is judged before its first byte leaves: it is dropped
// alone, body and all, and the frame behind it arrives.
func TestRulesLongHeaderDrops(t *testing.T) {
	for _, s := range securities {
		for _, w := range []way{ways[0], ways[2]} {
			for _, row := range []struct {
				name string
				rule string
				make func(sender uint8) []byte
			}{
				{"foreign metadata prepare", "cluster", func(uint8) []byte { return foreignised(metadata(5, noise(1<<20, 1))) }},
				{"foreign batch", "cluster", func(uint8) []byte { return foreignised(messages(5, noise(1<<20, 1))) }},
				{"foreign manifest", "cluster", func(sender uint8) []byte { return foreignised(manifest(sender, 20_000)) }},
				{"chunk of another sender", "sender", func(sender uint8) []byte { return chunk((sender+1)%3, noise(wire.ChunkMax, 1)) }},
				{"chunk with a bad seal", "seal", func(sender uint8) []byte { return spoiled(chunk(sender, noise(wire.ChunkMax, 1)), 0) }},
				{"prepare with a bad identity", "identity", func(uint8) []byte { return spoiled(metadata(5, noise(1<<20, 1)), 0) }},
				{"prepare without identity", "identity_absent", func(uint8) []byte {
					frame := metadata(5, noise(1<<20, 1))
					wire.Checksum.Set(headOf(frame), wire.U128{})
					return frame
				}},
				{"batch in the metadata group", "plane", func(uint8) []byte {
					frame := messages(5, noise(1<<20, 1))
					wire.PrepareGroup.Set(headOf(frame), wire.MetadataGroup)
					wire.Seal(headOf(frame))
					return frame
				}},
				{"request", "client_request", func(uint8) []byte {
					h := header(wire.Request, 0)
					return seal(h, noise(1<<20, 1), false)
				}},
				{"reply", "command_unexpected", func(uint8) []byte { return seal(header(wire.Reply, 0), noise(1<<20, 1), false) }},
			} {
				t.Run(fmt.Sprintf("%s/%s/%s", s, w.name, row.name), func(t *testing.T) {
					t.Parallel()
					g := start(t, spec{near: s, far: s})
					from, to := g.openWay(w)
					sender := g.sender(w)
					frame := row.make(sender)
					go from.Write(slices.Concat(commit(sender, 1), frame, commit(sender, 2), frame, commit(sender, 3)))
					receive(t, to, commit(sender, 1), commit(sender, 2), commit(sender, 3))
					g.wantRejected(w.label()+" "+row.rule+" drop", w.label()+" "+row.rule+" drop")
				})
			}
		}
	}
}

// The same with the rule on close: nothing of the frame leaves.
func TestRulesLongHeaderCloses(t *testing.T) {
	g := start(t, spec{rules: map[string]string{"cluster": "close"}})
	from, to := g.openWay(ways[0])
	go from.Write(slices.Concat(commit(0, 1), foreignised(metadata(5, noise(1<<20, 1))), commit(0, 2)))
	receive(t, to, commit(0, 1))
	ended(t, to)
	hangUp(from, to)
	g.wantClosed("cluster")
	g.wantRejected("in cluster close")
}

// The body rules on observe: a long frame with a wrong body passes whole.
func TestRulesLongObserved(t *testing.T) {
	for _, f := range longFrames {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			g := start(t, spec{rules: map[string]string{f.rule: "observe"}})
			from, to := g.openWay(ways[0])
			frame := f.make(0)
			bad := spoiled(frame, len(frame)-1)
			go from.Write(slices.Concat(bad, commit(0, 1)))
			receive(t, to, bad, commit(0, 1))
			g.wantRejected("in " + f.rule + " observe")
		})
	}
}

// A rule that only observes is counted, and those behind it still apply: once for
// each frame, stored or long.
func TestRulesObservedAndDropped(t *testing.T) {
	for name, size := range map[string]int{"stored": 100, "long": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			g := start(t, spec{rules: map[string]string{"cluster": "observe"}})
			from, to := g.openWay(ways[0])
			good := foreignised(messages(5, noise(size, 1)))
			bad := spoiled(good, len(good)-1)
			send(t, from, good)
			receive(t, to, good)
			go from.Write(bad) // fails when the link ends
			g.await("a dropped frame", func() bool { return g.frames["in dropped"] == 1 })
			g.wantRejected("in cluster observe", "in cluster observe", "in batch drop")
		})
	}
}
