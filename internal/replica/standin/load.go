package standin

import (
	"math/rand/v2"
	"time"

	"github.com/replgate/replgate/wire"
)

// Load is what clients do. Every node draws the same kind of operations and does
// those that it may: a primary its groups', a backup the sign-ins. With one
// primary for all groups, the rate is the cluster's.
type Load struct {
	// Rate is operations per second; what does not fit a pipeline is left out.
	Rate float64
	// Messages and Payload are the messages of a batch, 1, and the bytes of each.
	Messages, Payload int
	// Metadata, Offsets and SignIns are the shares of metadata operations,
	// consumer offsets and sign-ins, each 0..1; the rest are batches. Without
	// partition groups all is metadata.
	Metadata, Offsets, SignIns float64
}

// driver turns a Load into operations; equal seeds and times make equal ones.
type driver struct {
	load   Load
	random *rand.Rand
	last   time.Time
	budget float64
	number uint64
}

// step does what is due. What a group does not take is lost: a client that has to
// try again is none of ours.
func (d *driver) step(c *Core, now time.Time) {
	if !d.last.IsZero() {
		d.budget = min(d.budget+d.load.Rate*now.Sub(d.last).Seconds(), max(1, d.load.Rate))
	}
	d.last = now
	for ; d.budget >= 1; d.budget-- {
		d.once(c, now)
	}
	for _, r := range c.TakeResults() {
		if !r.Out && r.Outcome == outcomeOk {
			_ = c.SignOut(r.Client, r.Session, ^uint64(0), now)
		}
	}
}

func (d *driver) once(c *Core, now time.Time) {
	kind, group := d.random.Float64(), 0
	if c.cfg.Groups > 0 {
		group = 1 + d.random.IntN(c.cfg.Groups)
	}
	if kind < d.load.SignIns {
		if !c.groups[0].leads() {
			_ = c.SignIn(wire.U128{Lo: d.random.Uint64() | 1, Hi: d.random.Uint64()}, 0, now)
		}
		return
	}
	if kind -= d.load.SignIns; kind < d.load.Metadata {
		group = 0
	}
	g := c.groups[group]
	if !g.leads() {
		return
	}
	d.number++
	op := Op{Group: g.key, Client: wire.Wide(uint64(c.cfg.ID) + 1), Request: d.number}
	switch {
	case group == 0:
		op.Operation, op.Body = updateStream, make([]byte, 16)
		fill(op.Body, d.random)
	case kind < d.load.Metadata+d.load.Offsets:
		op.Operation, op.Body = wire.OpStoreConsumerOffset, make([]byte, offsetSize)
		fill(op.Body, d.random)
	default:
		op.Operation, op.Body = wire.OpSendMessages, Batch(max(1, d.load.Messages), d.load.Payload, d.random)
	}
	_, _ = c.Submit(op, now)
}

// offsetSize is the body of a consumer offset, as recorded.
const offsetSize = 37

// updateStream stands for every metadata operation.
const updateStream wire.Operation = 129
