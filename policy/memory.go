package policy

import (
	"sync"

	"github.com/replgate/replgate/wire"
)

// The bounds of a chain. A view moves on by one op per metadata write, so 1024
// ops are minutes even on a busy cluster; views change rarely, and four leave
// room for an election that does not settle at once.
const (
	chainViews = 4
	chainOps   = 1024
	chainGaps  = 64
)

// Chain remembers the identities of metadata prepares by view and op: those that
// were forwarded to the local replica, and those that the local replica itself
// sent on. A replica's shard panics on a prepare whose parent is another than the
// one in its log (§2.6 c).
//
// A prepare that leaves a gap is dropped by the replica, and another may honestly
// come in its place. It is set aside, and remembered when the replica's PrepareOk
// names it. The view of a PrepareOk is only a bound there: it is the replica's own, and
// a replica that was primary once acknowledges what it has under any later view.
//
// It is the gate's and shared by all its links. The zero value is ready. Its
// memory is at most about 170 KiB.
type Chain struct {
	mu    sync.Mutex
	views [chainViews]*chainView
	gaps  [chainGaps]chainGap // the last ones set aside, a ring
	gap   int
	// confirmed is the view of what the local replica last named. It is never
	// pushed out by views that only peers claim.
	confirmed uint32
}

type chainGap struct {
	view uint32
	chainOp
}

type chainView struct {
	view    uint32
	highest uint64
	ops     [chainOps]chainOp
}

type chainOp struct {
	op uint64
	id wire.U128
}

// at returns the identity remembered for op. Op 0 does not exist.
func (v *chainView) at(op uint64) (wire.U128, bool) {
	e := v.ops[op%chainOps]
	return e.id, op != 0 && e.op == op
}

// past reports whether op is older than the window: its slot belongs to a newer
// one.
func (v *chainView) past(op uint64) bool {
	return v.highest >= chainOps && op <= v.highest-chainOps
}

func (v *chainView) put(op uint64, id wire.U128) {
	v.ops[op%chainOps] = chainOp{op, id}
	v.highest = max(v.highest, op)
}

// find returns what is remembered of view, nil when nothing is.
func (c *Chain) find(view uint32) *chainView {
	for _, v := range c.views {
		if v != nil && v.view == view {
			return v
		}
	}
	return nil
}

// make returns a view's memory, in place of the lowest view that is not
// confirmed when there is no room.
func (c *Chain) make(view uint32) *chainView {
	victim := -1
	for i, v := range c.views {
		if v == nil {
			victim = i
			break
		}
		if v.view != c.confirmed && (victim < 0 || v.view < c.views[victim].view) {
			victim = i
		}
	}
	if c.views[victim] == nil {
		c.views[victim] = new(chainView)
	}
	*c.views[victim] = chainView{view: view} // in place: whoever claims views makes no garbage
	return c.views[victim]
}

// fits reports whether a metadata prepare agrees with what is remembered of its
// view: same identity for its op, and its parent is the op before.
func (c *Chain) fits(h *wire.Header) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.agrees(h)
}

// agrees is fits; the caller holds mu.
func (c *Chain) agrees(h *wire.Header) bool {
	v := c.find(wire.View.Get(h))
	if v == nil {
		return true
	}
	op := wire.PrepareOp.Get(h)
	if id, ok := v.at(op); ok && id != wire.Checksum.Get(h) {
		return false
	}
	parent, ok := v.at(op - 1)
	return !ok || parent == wire.PrepareParent.Get(h)
}

// admit takes in a prepare that goes to the local replica, unless it does not fit
// any more: since its header was judged another link may have brought another.
func (c *Chain) admit(h *wire.Header) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.agrees(h) {
		return false
	}
	c.remember(wire.View.Get(h), wire.PrepareOp.Get(h), wire.Checksum.Get(h))
	return true
}

// took takes in a prepare that goes to the local replica whether it fits or not.
func (c *Chain) took(h *wire.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remember(wire.View.Get(h), wire.PrepareOp.Get(h), wire.Checksum.Get(h))
}

// remember takes in a prepare forwarded to the local replica. The caller holds mu.
func (c *Chain) remember(view uint32, op uint64, id wire.U128) {
	v := c.find(view)
	switch {
	case v == nil:
		c.make(view).put(op, id)
	case op <= v.highest+1 && !v.past(op):
		v.put(op, id)
	default:
		c.gaps[c.gap] = chainGap{view, chainOp{op, id}}
		c.gap = (c.gap + 1) % chainGaps
	}
}

// sent takes in a prepare that the local replica sent: its own log.
func (c *Chain) sent(view uint32, op uint64, id wire.U128) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirm(view, op, id)
}

// named takes in a prepare that was set aside, now that the local replica has
// acknowledged it in view. It was sent under that view or one before: what claims
// a later one, the replica has not taken.
func (c *Chain) named(view uint32, op uint64, id wire.U128) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if op == 0 {
		return
	}
	want := chainOp{op, id}
	for _, g := range c.gaps {
		if g.chainOp == want && g.view <= view {
			c.confirm(g.view, op, id)
		}
	}
	for _, v := range c.views {
		if v != nil && v.view <= view && v.ops[op%chainOps] == want {
			c.confirmed = max(c.confirmed, v.view)
		}
	}
}

func (c *Chain) confirm(view uint32, op uint64, id wire.U128) {
	c.confirmed = max(c.confirmed, view)
	v := c.find(view)
	if v == nil {
		v = c.make(view)
	}
	if v.past(op) {
		*v = chainView{view: view} // a peer claimed an op far above the replica's log
	}
	v.put(op, id)
}

// Reset forgets everything: the local replica is gone, and the next one may have
// another log.
func (c *Chain) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.views, c.gaps, c.gap, c.confirmed = [chainViews]*chainView{}, [chainGaps]chainGap{}, 0, 0
}

// tokenJump is how far above the last one a Commit token is suspicious. Tokens
// count broadcasts, two a second: 10,000 is over an hour of them.
const (
	tokenJump   = 10_000
	tokenGroups = 1024
)

// tokens remembers the last Commit token of each group from one sender on one
// link. Beyond tokenGroups groups, new ones are not judged.
type tokens struct{ last map[uint64]uint64 }

func (t *tokens) jumps(group, token uint64) bool {
	last, ok := t.last[group]
	return ok && token > last && token-last > tokenJump
}

func (t *tokens) remember(group, token uint64) {
	if t.last == nil {
		t.last = make(map[uint64]uint64)
	}
	if _, ok := t.last[group]; ok || len(t.last) < tokenGroups {
		t.last[group] = token
	}
}
