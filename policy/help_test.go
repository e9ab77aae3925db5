package policy_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

const maxFrame = 64 << 20

var cluster = wire.ClusterIDOf("iggy-cluster")

// leg is how frames of replica 0 come in to the local replica 1 of three.
func leg() policy.Leg {
	return policy.Leg{Cluster: cluster, Replicas: 3, Sender: 0, Inward: true, MaxFrame: maxFrame}
}

// table returns the defaults with rules set otherwise: name, word, name, word…
func table(t testing.TB, set ...string) *policy.Table {
	t.Helper()
	words := map[string]string{}
	for i := 0; i < len(set); i += 2 {
		words[set[i]] = set[i+1]
	}
	made, err := policy.NewTable(words)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func newJudge(t testing.TB, set ...string) *policy.Judge {
	return policy.NewJudge(table(t, set...), leg(), new(policy.Chain))
}

// look judges a whole frame as a gate does, and feeds the memories when it passes.
func look(j *policy.Judge, frame []byte) policy.Verdict {
	h := (*wire.Header)(frame)
	v := j.Header(h)
	if v.Action == policy.Forward {
		v = j.Body(h, frame[wire.HeaderSize:], v)
	}
	if v.Action == policy.Forward {
		j.Forwarded(h, policy.Verdict{})
	}
	return v
}

// byName finds a rule of the table.
func byName(t testing.TB, name string) policy.RuleInfo {
	t.Helper()
	all := policy.Rules()
	i := slices.IndexFunc(all, func(r policy.RuleInfo) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("got no rule %q", name)
	}
	return all[i]
}

// observed lists a set's rules by name.
func observed(set policy.RuleSet) (names []string) {
	for _, r := range policy.Rules() {
		if set.Has(r.Rule) {
			names = append(names, r.Name)
		}
	}
	return names
}

func wantForward(t testing.TB, what string, v policy.Verdict) {
	t.Helper()
	if v.Action != policy.Forward || v.Rule != policy.None || v.Observed != 0 {
		t.Errorf("%s: got %v by %v, observed %v (%v), want forward", what, v.Action, v.Rule, observed(v.Observed), v.Cause)
	}
}

func wantRefused(t testing.TB, what string, v policy.Verdict, action policy.Action, rule string) {
	t.Helper()
	if v.Action != action || v.Rule.String() != rule {
		t.Errorf("%s: got %v by %v, observed %v (%v), want %v by %s", what, v.Action, v.Rule, observed(v.Observed), v.Cause, action, rule)
	}
}

// with returns a copy of a frame, changed and sealed anew. When the size changes,
// the body is cut or filled to it.
func with(frame []byte, changes ...func(h *wire.Header)) []byte {
	frame = slices.Clone(frame)
	h := (*wire.Header)(frame)
	for _, change := range changes {
		change(h)
	}
	wire.Seal(h)
	size := int(wire.Size.Get(h))
	return append(frame, make([]byte, max(0, size-len(frame)))...)[:size]
}

// spoil returns a copy of a frame with some bits of a byte changed, not sealed.
func spoil(frame []byte, at int, flip byte) []byte {
	frame = slices.Clone(frame)
	frame[at] ^= flip
	return frame
}

func setByte(at int, value byte) func(h *wire.Header) {
	return func(h *wire.Header) { h[at] = value }
}

func setSize(size uint32) func(h *wire.Header) {
	return func(h *wire.Header) { wire.Size.Set(h, size) }
}

// replicaPlane are the commands that replicas send (§1.0), written out.
func replicaPlane() []wire.Command {
	return []wire.Command{6, 7, 9, 10, 11, 12, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29}
}

// controls are those of them that carry a frame seal: all but prepares (§4.3).
func controls() []wire.Command {
	return slices.DeleteFunc(replicaPlane(), func(c wire.Command) bool { return c == 6 || c == 19 })
}

// honest builds a frame of c as replica 0 sends it, sealed.
func honest(c wire.Command) []byte {
	var h wire.Header
	var body []byte
	h.SetCommand(c)
	h.SetClusterID(cluster)
	switch c { // §3.3: zero from the builders of the rest
	case wire.RequestPrepares, wire.RepairDone, wire.RangeEvicted, wire.RequestStateTransfer, wire.RequestStateChunk, wire.StateChunk:
	default:
		wire.View.Set(&h, 7)
	}
	switch c {
	case wire.Prepare, wire.RepairPrepare:
		body = fillPrepare(&h)
	case wire.DoViewChange, wire.StartView:
		body = fillView(&h)
	case wire.StateTransferTarget:
		wire.TargetNonce.Set(&h, wire.U128{Lo: 1})
		wire.TargetGroup.Set(&h, 3)
		wire.TargetAvailable.Set(&h, 1)
		body = wire.AppendManifest(nil, []wire.Artifact{{Kind: wire.SegmentLog, Len: 5}})
	case wire.StateChunk:
		wire.ChunkGroup.Set(&h, 3)
		body = []byte("chunk")
	default:
		fillControl(&h)
	}
	return finish(h, body)
}

// finish joins header and body: size, the body's seal where the command has one,
// and the header's (§4.3, §4.4, §4.5).
func finish(h wire.Header, body []byte) []byte {
	wire.Size.Set(&h, uint32(wire.HeaderSize+len(body)))
	switch c := h.Command(); {
	case c == wire.DoViewChange, c == wire.StartView:
		wire.ChecksumBody.Set(&h, wire.BodySeal(body))
	case c.IsPrepare() && wire.PrepareGroup.Get(&h) == wire.MetadataGroup:
		wire.ChecksumBody.Set(&h, wire.Wide(wire.Hash(body)))
	}
	wire.Seal(&h)
	return append(h[:], body...)
}

func fillPrepare(h *wire.Header) (body []byte) {
	wire.PrepareClient.Set(h, wire.U128{Lo: 0x99})
	wire.PrepareParent.Set(h, wire.U128{Lo: 0x1234})
	wire.PrepareOp.Set(h, 5)
	wire.PrepareCommit.Set(h, 4)
	wire.PrepareTimestamp.Set(h, 1_700_000_000_000_000)
	wire.PrepareRequest.Set(h, 1)
	wire.PrepareOperation.Set(h, 128)
	wire.PrepareGroup.Set(h, wire.MetadataGroup)
	wire.PrepareUser.Set(h, 1)
	return []byte("a stream")
}

// fillView makes a DoViewChange or StartView with a suffix of two prepares.
func fillView(h *wire.Header) (body []byte) {
	wire.ViewOp.Set(h, 3)
	wire.ViewCommit.Set(h, 2)
	wire.ViewGroup.Set(h, wire.MetadataGroup)
	if h.Command() == wire.DoViewChange {
		wire.DoViewChangeLogView.Set(h, 6)
		wire.DoViewChangePresent.Set(h, wire.U128{Lo: 3})
	}
	return suffix(3, 2)
}

// suffix packs count prepares, the highest op first, each the parent of the one
// before (§4.6).
func suffix(op uint64, count int) (body []byte) {
	first := op + 1 - uint64(count)
	var parent wire.U128
	for o := first; o <= op; o++ {
		var e wire.Header
		e.SetCommand(wire.Prepare)
		e.SetClusterID(cluster)
		fillPrepare(&e)
		wire.Size.Set(&e, 264)
		wire.PrepareOp.Set(&e, o)
		wire.PrepareParent.Set(&e, parent)
		wire.PrepareTimestamp.Set(&e, 1000+o)
		wire.Seal(&e)
		parent = wire.Checksum.Get(&e)
		body = append(e[:], body...)
	}
	return body
}

func fillControl(h *wire.Header) {
	id, nonce := wire.U128{Lo: 0x99}, wire.U128{Lo: 7, Hi: 1}
	switch h.Command() {
	case wire.PrepareOk:
		wire.PrepareOkOp.Set(h, 5)
		wire.PrepareOkOperation.Set(h, 128)
		wire.PrepareOkGroup.Set(h, wire.MetadataGroup)
	case wire.Commit:
		wire.CommitToken.Set(h, 12)
		wire.CommitGroup.Set(h, wire.MetadataGroup)
	case wire.RequestPrepares:
		wire.RequestPreparesFrom.Set(h, 1)
		wire.RequestPreparesTo.Set(h, 3)
	case wire.RequestStateChunk:
		wire.RequestChunkLen.Set(h, wire.ChunkMax)
	case wire.ForwardRegister, wire.ForwardLogout:
		wire.ForwardClient.Set(h, id)
		wire.ForwardNonce.Set(h, nonce)
		if h.Command() == wire.ForwardLogout {
			wire.ForwardSession.Set(h, 3)
			wire.ForwardRequest.Set(h, 4)
		}
	case wire.ForwardRegisterResult, wire.ForwardLogoutResult:
		wire.ResultClient.Set(h, id)
		wire.ResultNonce.Set(h, nonce)
		wire.RegisterEpoch.Set(h, 9) // a LogoutResult's commit
	}
}

// sendMessages builds a prepare of one partition with one message (§5).
func sendMessages(op uint64, text string) []byte {
	var h wire.Header
	h.SetCommand(wire.Prepare)
	h.SetClusterID(cluster)
	fillPrepare(&h)
	wire.PrepareOp.Set(&h, op)
	wire.PrepareOperation.Set(&h, 160)
	wire.PrepareGroup.Set(&h, 3)
	body := make([]byte, 256+48+len(text))
	binary.LittleEndian.PutUint64(body[16:], wire.PrepareTimestamp.Get(&h))
	binary.LittleEndian.PutUint64(body[32:], uint64(len(body)))
	binary.LittleEndian.PutUint32(body[48:], 1)
	body[256+8] = 1 // the message's id
	binary.LittleEndian.PutUint32(body[256+36:], uint32(len(text)))
	copy(body[256+48:], text)
	wire.SealBatch(body)
	return finish(h, body)
}

// framed cuts one frame out of bytes as a gate's reader does.
func framed(b []byte) (wire.Frame, error) {
	r := wire.NewReader(wire.Limits{MaxFrame: maxFrame, Store: 2 << 20, Buffer: 2 << 20})
	for {
		n := copy(r.Free(), b)
		b = b[n:]
		r.Filled(n)
		f, err := r.Next()
		switch {
		case err != nil || f.Head() != nil:
			return f, err
		case len(b) == 0:
			return f, errors.New("part of a frame")
		}
	}
}
