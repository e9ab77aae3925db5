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
)

// Chain remembers the identities of metadata prepares by view and op: those that
// were forwarded to the local replica, and those that the local replica itself
// has named, by its PrepareOk or by sending the prepare on. A replica's shard
// panics on a prepare whose parent is another than the one in its log (§2.6 c).
//
// It is the gate's and shared by all its links. The zero value is ready. Its
// memory is at most about 160 KiB.
type Chain struct {
	mu    sync.Mutex
	views [chainViews]*chainView
	// confirmed is the view that the local replica last spoke in. It is never
	// pushed out by views that only peers claim.
	confirmed uint32
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

func (v *chainView) put(op uint64, id wire.U128) {
	if op+chainOps <= v.highest {
		return // older than the window: the slot belongs to a newer op
	}
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
	v := &chainView{view: view}
	c.views[victim] = v
	return v
}

// fits reports whether a metadata prepare agrees with what is remembered of its
// view: same identity for its op, and its parent is the op before.
func (c *Chain) fits(h *wire.Header) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// remember takes in a prepare forwarded to the local replica, unless it leaves a
// gap: the replica drops such a one, and an honest one may come in its place.
func (c *Chain) remember(view uint32, op uint64, id wire.U128) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.find(view)
	if v == nil {
		v = c.make(view)
		v.put(op, id)
		return
	}
	if op <= v.highest+1 {
		v.put(op, id)
	}
}

// confirm takes in what the local replica itself says it has.
func (c *Chain) confirm(view uint32, op uint64, id wire.U128) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirmed = view
	v := c.find(view)
	if v == nil {
		v = c.make(view)
	}
	v.put(op, id)
}

// Reset forgets everything: the local replica is gone, and the next one may have
// another log.
func (c *Chain) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.views, c.confirmed = [chainViews]*chainView{}, 0
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
