package standin

import (
	"github.com/replgate/replgate/wire"
)

// The reasons of a Fault, beside those of package wire.
const (
	errSize        Reason = "another size than the frame's"
	errCommand     Reason = "a command that stand-ins do not speak"
	errSeal        Reason = "a seal that does not match"
	errIdentity    Reason = "an identity that does not match"
	errReserved    Reason = "reserved bytes set"
	errHeaderOnly  Reason = "a body behind a header-only command"
	errCluster     Reason = "another cluster"
	errReplica     Reason = "another replica id than the connection's"
	errBuilder     Reason = "a prepare whose builder did not lead the view it was built in"
	errGroup       Reason = "a group that does not exist"
	errPlane       Reason = "an operation of another plane"
	errBodySeal    Reason = "checksum_body set or unset against its plane"
	errRequestSum  Reason = "another body than request_checksum says"
	errRestamp     Reason = "a prepare under another view than its sender may put there"
	errViewBack    Reason = "a view below what the same connection has said"
	errCommitBack  Reason = "a commit point below what the same connection has said"
	errPrepareOld  Reason = "a live prepare of an op that its sender called committed"
	errToken       Reason = "a token that does not rise"
	errNotPrimary  Reason = "a primary's frame from another replica"
	errNotForMe    Reason = "an acknowledgement for another primary"
	errParent      Reason = "a parent that breaks the chain"
	errTimestamp   Reason = "a timestamp that does not rise"
	errOffset      Reason = "a base_offset that is not the partition's next"
	errOtherOp     Reason = "another prepare for an op of this view"
	errCommitted   Reason = "another prepare for a committed op"
	errEcho        Reason = "an acknowledgement that does not echo its prepare"
	errEntry       Reason = "a suffix entry of another group or cluster"
	errLostCommit  Reason = "a view that has lost a committed op"
	errUnasked     Reason = "an answer to no question"
	errRepairRange Reason = "a repair outside what was asked for"
)

// header judges what a header can be judged by alone, so also before a byte of
// its body is awaited.
func header(h *wire.Header) error {
	c := h.Command()
	switch {
	case !c.ReplicaPlane() || c >= wire.RangeEvicted && c <= wire.StateChunk:
		return errCommand
	case c.Sealed() && !wire.SealOK(h):
		return errSeal
	case c.IsPrepare() && wire.Checksum.Get(h) != wire.Identity(h):
		return errIdentity
	}
	if err := wire.Validate(h); err != nil {
		return err
	}
	switch {
	case c.HeaderOnly() && wire.Size.Get(h) != wire.HeaderSize:
		return errHeaderOnly
	case !wire.ReservedFrameZero(h) || !wire.ReservedTailZero(h) || wire.Release.Get(h) != 0:
		return errReserved
	}
	return nil
}

// check judges a frame by itself and by what its connection has said before.
// It returns the frame's group; forwarding frames belong to the metadata group.
func (c *Core) check(from uint8, frame []byte) (*group, error) {
	h := (*wire.Header)(frame)
	if int(wire.Size.Get(h)) != len(frame) {
		return nil, errSize
	}
	if err := header(h); err != nil {
		return nil, err
	}
	if h.ClusterID() != c.cfg.Cluster {
		return nil, errCluster
	}
	g := c.groups[0]
	if key, ok := h.Group(); ok {
		if g = c.index[key]; g == nil {
			return nil, errGroup
		}
	}
	if h.Command().IsPrepare() {
		return g, c.checkPrepare(g, from, frame)
	}
	if wire.Replica.Get(h) != from {
		return nil, errReplica
	}
	switch h.Command() {
	case wire.RequestPrepares, wire.RepairDone: // their view is always 0 (§3.3)
		return g, nil
	case wire.DoViewChange, wire.StartView:
		if err := c.checkSuffix(g, frame); err != nil {
			return nil, err
		}
	}
	return g, c.checkSaid(g, from, h)
}

// checkPrepare judges 6 and 19. request_checksum holds the hash of the body and
// the view of building: with it no byte of a prepare is open.
func (c *Core) checkPrepare(g *group, from uint8, frame []byte) error {
	h, body := (*wire.Header)(frame), frame[wire.HeaderSize:]
	sum, view := wire.PrepareRequestChecksum.Get(h), wire.View.Get(h)
	op, _ := h.Operation()
	metadata := g.key == wire.MetadataGroup
	if class := op.Class(); class == wire.ClassNever || metadata == (class == wire.ClassPartition) {
		return errPlane
	}
	if metadata == wire.ChecksumBody.Get(h).IsZero() {
		return errBodySeal
	}
	if err := c.verifier.Verify(h, body); err != nil {
		return err
	}
	built := uint32(sum.Hi)
	switch {
	case sum.Lo != wire.Hash(body):
		return errRequestSum
	case wire.PrepareOp.Get(h) == 0:
		return errOtherOp
	case wire.Replica.Get(h) != c.primary(built):
		return errBuilder
	case h.Command() == wire.RepairPrepare:
		if view != built {
			return errRestamp
		}
		return nil
	case view < built || view > built && from != c.primary(view):
		return errRestamp
	}
	l := c.links[from]
	if wire.PrepareOp.Get(h) <= l.commit[g.index] {
		return errPrepareOld
	}
	if from == c.primary(view) && view == built {
		l.commit[g.index] = max(l.commit[g.index], wire.PrepareCommit.Get(h))
	}
	return l.say(g, view)
}

// say holds a view against the highest that the connection has named for the
// group: a sender's view never goes back.
func (l *link) say(g *group, view uint32) error {
	if view < l.view[g.index] {
		return errViewBack
	}
	l.view[g.index] = view
	return nil
}

// checkSaid holds a control frame against what its connection has said.
func (c *Core) checkSaid(g *group, from uint8, h *wire.Header) error {
	l, view := c.links[from], wire.View.Get(h)
	if err := l.say(g, view); err != nil {
		return err
	}
	var commit uint64
	switch h.Command() {
	case wire.Commit:
		token := wire.CommitToken.Get(h)
		if token <= l.token[g.index] {
			return errToken
		}
		l.token[g.index] = token
		commit = wire.CommitCommit.Get(h)
	case wire.StartView:
		commit = wire.ViewCommit.Get(h)
	case wire.PrepareOk:
		if c.primary(view) != c.cfg.ID {
			return errNotForMe
		}
		return nil
	default:
		return nil
	}
	switch {
	case from != c.primary(view):
		return errNotPrimary
	case commit < l.commit[g.index]:
		return errCommitBack
	}
	l.commit[g.index] = commit
	return nil
}

// checkSuffix judges the body of 11 and 12.
func (c *Core) checkSuffix(g *group, frame []byte) error {
	h, suffix := (*wire.Header)(frame), wire.Suffix(frame[wire.HeaderSize:])
	if len(suffix) == 0 && !wire.ChecksumBody.Get(h).IsZero() {
		return errBodySeal
	}
	if err := c.verifier.Verify(h, suffix); err != nil {
		return err
	}
	op := wire.ViewOp.Get(h)
	if err := wire.CheckSuffix(op, suffix); err != nil {
		return err
	}
	for i := range suffix.Len() {
		e := suffix.Entry(i)
		blank := h.Command() == wire.DoViewChange && wire.Blank(e, op-uint64(i))
		if !blank && (wire.PrepareGroup.Get(e) != g.key || e.ClusterID() != c.cfg.Cluster) {
			return errEntry
		}
	}
	return nil
}
