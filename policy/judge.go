package policy

import (
	"errors"

	"github.com/replgate/replgate/wire"
)

// Verdict is the outcome for one frame. It has no more fields than the compiler
// keeps in registers: with a fifth one, copying it costs more than the rules.
type Verdict struct {
	// Action is Forward, Drop or Close.
	Action Action
	// Rule is the one that decided, None when the frame is forwarded.
	Rule Rule
	// Observed are the rules that only count.
	Observed RuleSet
	// Cause is the finding of package wire where there is one.
	Cause error
}

// errUnframed is the cause of a verdict after which no length can be trusted.
var errUnframed = errors.New("policy: got a size that the command cannot have, want an honest one behind a seal that does not match")

// Unframed says that the size is no longer to be trusted: the seal did not match
// and the command cannot have that size (§2.5).
func (v Verdict) Unframed() bool { return v.Cause == errUnframed }

// Leg is what a judge knows of the side that sent a frame.
type Leg struct {
	Cluster  wire.ClusterID
	Replicas int
	// Sender is the replica at the other end of the leg.
	Sender uint8
	// Inward is set for frames on their way to the local replica.
	Inward bool
	// MaxFrame is the configured max_message_size, in bytes.
	MaxFrame uint32
}

// Judge judges the frames of one direction of one link. It is used by one
// goroutine; what it shares with others is the chain.
type Judge struct {
	table  *Table
	leg    Leg
	chain  *Chain
	tokens tokens
	body   *wire.BodyVerifier
}

// NewJudge returns a judge for one pump. chain is the gate's.
func NewJudge(table *Table, leg Leg, chain *Chain) *Judge {
	return &Judge{table: table, leg: leg, chain: chain}
}

// hit applies rule r to v and reports whether it decided.
func (j *Judge) hit(v *Verdict, r Rule, cause error) bool {
	switch a := j.table[r]; a {
	case Observe:
		v.Observed.add(r)
		return false
	default:
		v.Action, v.Rule, v.Cause = a, r, cause
		return true
	}
}

// Header judges a frame by its header: everything but body, batch, manifest and
// suffix. Size and command have been judged by wire.Reader. It does not
// allocate.
func (j *Judge) Header(h *wire.Header) (v Verdict) {
	c := h.Command()
	switch {
	case c == wire.Request:
		j.hit(&v, ClientRequest, nil)
		return v // a Request has no seal and no sender: no other rule is about it
	case !c.ReplicaPlane():
		j.hit(&v, CommandUnexpected, nil)
		return v
	}
	_ = j.sealed(h, c, &v) || j.shaped(h, c, &v) || j.addressed(h, c, &v) || j.remembered(h, c, &v)
	return v
}

// sealed judges seal and identity.
func (j *Judge) sealed(h *wire.Header, c wire.Command, v *Verdict) bool {
	rule, ok := Seal, true
	switch {
	case c.Sealed():
		ok = wire.SealOK(h)
	case wire.Checksum.Get(h).IsZero():
		rule = IdentityAbsent
		if c == wire.RepairPrepare {
			rule = IdentityAbsentRepair
		}
		return j.hit(v, rule, nil)
	default:
		rule, ok = Identity, wire.Checksum.Get(h) == wire.Identity(h)
	}
	if ok || !j.hit(v, rule, nil) {
		return false
	}
	if !c.HonestSize(wire.Size.Get(h), j.leg.MaxFrame) {
		v.Action, v.Cause = Close, errUnframed
	}
	return true
}

// shaped judges layout and size.
func (j *Judge) shaped(h *wire.Header, c wire.Command, v *Verdict) bool {
	if err := wire.Validate(h); err != nil && j.hit(v, Layout, err) {
		return true
	}
	return c.HeaderOnly() && wire.Size.Get(h) != wire.HeaderSize && j.hit(v, HeaderOnlySize, nil)
}

// addressed judges who sent it, to which plane, and what must be zero.
func (j *Judge) addressed(h *wire.Header, c wire.Command, v *Verdict) bool {
	replica := wire.Replica.Get(h)
	control := c.Sealed()
	switch {
	case h.ClusterID() != j.leg.Cluster && j.hit(v, Cluster, nil),
		int(replica) >= j.leg.Replicas && j.hit(v, ReplicaRange, nil),
		control && replica != j.leg.Sender && j.hit(v, Sender, nil),
		!onPlane(h, c) && j.hit(v, Plane, nil),
		control && wire.Release.Get(h) != 0 && j.hit(v, Release, nil),
		control && !wire.ReservedFrameZero(h) && j.hit(v, ReservedFrame, nil),
		!wire.ReservedTailZero(h) && j.hit(v, ReservedTail, nil):
		return true
	}
	return false
}

// onPlane reports whether the operation of a prepare or its acknowledgement
// belongs to its group (§1.14).
func onPlane(h *wire.Header, c wire.Command) bool {
	op, ok := h.Operation()
	if !ok {
		return true
	}
	group, _ := h.Group()
	switch op.Class() {
	case wire.ClassPartition:
		return group <= wire.PartitionGroupMax
	case wire.ClassMetadata:
		// Logs written by older builds hold metadata operations under group 0, and
		// repair serves them as they were written.
		return group == wire.MetadataGroup || c == wire.RepairPrepare && group == 0
	case wire.ClassSession:
		return group == wire.MetadataGroup
	}
	return false
}

// remembered judges what only memory can tell.
func (j *Judge) remembered(h *wire.Header, c wire.Command, v *Verdict) bool {
	switch c {
	case wire.Prepare:
		if j.leg.Inward && wire.PrepareGroup.Get(h) == wire.MetadataGroup && !j.chain.fits(h) {
			return j.hit(v, MetadataChain, nil)
		}
	case wire.Commit:
		if j.tokens.jumps(wire.CommitGroup.Get(h), wire.CommitToken.Get(h)) {
			return j.hit(v, TokenJump, nil)
		}
	}
	return false
}

// Body judges the body of a frame that is there as a whole and whose header
// passed; v is the header's verdict and is returned with what was found added.
func (j *Judge) Body(h *wire.Header, body []byte, v Verdict) Verdict {
	if wire.BodyKindOf(h) == wire.BodyUnsealed {
		return v // which no suffix is
	}
	return j.BodyResult(h, j.Verifier().Verify(h, body), body, v)
}

// Verifier returns the judge's body verifier, for a body that is taken in pieces:
// Start, Write, and its Sum given to BodyResult.
func (j *Judge) Verifier() *wire.BodyVerifier {
	if j.body == nil {
		j.body = new(wire.BodyVerifier)
	}
	return j.body
}

// BodyResult turns a body's finding into a verdict. body is needed only for
// suffixes, which are always there as a whole.
func (j *Judge) BodyResult(h *wire.Header, found error, body []byte, v Verdict) Verdict {
	if found != nil && j.hit(&v, bodyRule(h), found) {
		return v
	}
	switch h.Command() {
	case wire.DoViewChange:
		if err := wire.CheckSuffix(wire.ViewOp.Get(h), body); err != nil {
			j.hit(&v, Body, err)
		}
	case wire.StartView:
		if err := wire.CheckSuffix(wire.ViewOp.Get(h), body); err != nil {
			j.hit(&v, SuffixSV, err)
		}
	}
	return v
}

// bodyRule names the rule that a frame's body falls under.
func bodyRule(h *wire.Header) Rule {
	switch wire.BodyKindOf(h) {
	case wire.BodyBatch:
		return Batch
	case wire.BodyManifest:
		return Manifest
	}
	return Body
}

// Forwarded feeds the memories with a frame that passed, before its last byte
// leaves and before the next frame of the link is judged. A metadata prepare is
// held against the chain once more, in one step with remembering it: other links
// go on while a body comes. v is returned with what was found added.
func (j *Judge) Forwarded(h *wire.Header, v Verdict) Verdict {
	switch h.Command() {
	case wire.Prepare:
		switch {
		case wire.PrepareGroup.Get(h) != wire.MetadataGroup:
		case !j.leg.Inward:
			j.chain.sent(wire.View.Get(h), wire.PrepareOp.Get(h), wire.Checksum.Get(h))
		case j.table[MetadataChain] == Observe: // counted by its header, and it goes
			j.chain.took(h)
		case !j.chain.admit(h):
			j.hit(&v, MetadataChain, nil)
		}
	case wire.PrepareOk:
		if !j.leg.Inward && wire.PrepareOkGroup.Get(h) == wire.MetadataGroup {
			j.chain.named(wire.View.Get(h), wire.PrepareOkOp.Get(h), wire.PrepareOkChecksum.Get(h))
		}
	case wire.Commit:
		j.tokens.remember(wire.CommitGroup.Get(h), wire.CommitToken.Get(h))
	}
	return v
}
