package standin

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/replgate/replgate/wire"
)

// control makes a sealed frame from this replica; set fills its own area.
func (c *Core) control(command wire.Command, view uint32, body []byte, set func(*wire.Header)) []byte {
	frame := make([]byte, wire.HeaderSize+len(body))
	copy(frame[wire.HeaderSize:], body)
	h := (*wire.Header)(frame)
	h.SetCommand(command)
	h.SetClusterID(c.cfg.Cluster)
	wire.Size.Set(h, uint32(len(frame)))
	wire.View.Set(h, view)
	wire.Replica.Set(h, c.cfg.ID)
	wire.ChecksumBody.Set(h, wire.BodySeal(body))
	set(h)
	wire.Seal(h)
	return frame
}

// Op is one operation of a client.
type Op struct {
	Group     uint64
	Operation wire.Operation
	Client    wire.U128
	User      uint32
	Request   uint64
	// Body of a SendMessages is a batch (see Batch) that Submit stamps; it must
	// not be used again.
	Body []byte
}

// prepare makes the group's next prepare.
func (g *group) prepare(o Op, now time.Time) []byte {
	frame := append(make([]byte, wire.HeaderSize, wire.HeaderSize+len(o.Body)), o.Body...)
	h, body := (*wire.Header)(frame), frame[wire.HeaderSize:]
	stamp := uint64(now.UnixMicro())
	if head := g.head(); head > 0 {
		stamp = max(stamp, wire.PrepareTimestamp.Get(g.at(head).header())+1)
	}
	switch {
	case g.key == wire.MetadataGroup:
		wire.ChecksumBody.Set(h, wire.Wide(wire.Hash(body))) // of an empty body too (§4.5)
	case o.Operation == wire.OpSendMessages:
		binary.LittleEndian.PutUint64(body[wire.BatchPartition:], g.key&(1<<20-1))
		binary.LittleEndian.PutUint64(body[wire.BatchBaseOffset:], g.offset())
		binary.LittleEndian.PutUint64(body[wire.BatchBaseTimestamp:], stamp)
		wire.SealBatch(body)
	}
	h.SetCommand(wire.Prepare)
	h.SetClusterID(g.c.cfg.Cluster)
	wire.Size.Set(h, uint32(len(frame)))
	wire.View.Set(h, g.view)
	wire.Replica.Set(h, g.c.cfg.ID)
	wire.PrepareClient.Set(h, o.Client)
	wire.PrepareParent.Set(h, g.headID())
	wire.PrepareRequestChecksum.Set(h, wire.U128{Lo: wire.Hash(body), Hi: uint64(g.view)})
	wire.PrepareOp.Set(h, g.head()+1)
	wire.PrepareCommit.Set(h, g.commit)
	wire.PrepareTimestamp.Set(h, stamp)
	wire.PrepareRequest.Set(h, o.Request)
	wire.PrepareOperation.Set(h, uint8(o.Operation))
	wire.PrepareGroup.Set(h, g.key)
	wire.PrepareUser.Set(h, o.User)
	wire.Seal(h)
	return frame
}

// restamped is a prepare under another view, its identity unchanged (§3.3).
func restamped(frame []byte, view uint32) []byte {
	if wire.View.Get((*wire.Header)(frame)) == view {
		return frame
	}
	frame = append([]byte(nil), frame...)
	wire.View.Set((*wire.Header)(frame), view)
	return frame
}

// prepareOk echoes a prepare (§1.3).
func (g *group) prepareOk(h *wire.Header) []byte {
	return g.c.control(wire.PrepareOk, g.view, nil, func(ok *wire.Header) {
		wire.PrepareOkParent.Set(ok, wire.PrepareParent.Get(h))
		wire.PrepareOkChecksum.Set(ok, wire.Checksum.Get(h))
		wire.PrepareOkOp.Set(ok, wire.PrepareOp.Get(h))
		wire.PrepareOkCommit.Set(ok, g.commitMax)
		wire.PrepareOkTimestamp.Set(ok, wire.PrepareTimestamp.Get(h))
		wire.PrepareOkRequest.Set(ok, wire.PrepareRequest.Get(h))
		wire.PrepareOkOperation.Set(ok, wire.PrepareOperation.Get(h))
		wire.PrepareOkGroup.Set(ok, g.key)
	})
}

// echoes reports whether ok says of h what prepareOk would.
func echoes(ok, h *wire.Header) bool {
	return wire.PrepareOkParent.Get(ok) == wire.PrepareParent.Get(h) &&
		wire.PrepareOkChecksum.Get(ok) == wire.Checksum.Get(h) &&
		wire.PrepareOkTimestamp.Get(ok) == wire.PrepareTimestamp.Get(h) &&
		wire.PrepareOkRequest.Get(ok) == wire.PrepareRequest.Get(h) &&
		wire.PrepareOkOperation.Get(ok) == wire.PrepareOperation.Get(h)
}

// suffix packs the headers from top down to low; above the head they are blank.
// Bit i of present and nacks belongs to op top-i (§4.6).
func (g *group) suffix(top, low uint64) (body wire.Suffix, present, nacks wire.U128) {
	low = max(low, 1)
	for op, i := top, uint(0); op >= low && i < wire.SuffixMax; op, i = op-1, i+1 {
		var e wire.Header
		bits := &present
		if op <= g.head() {
			e = *g.at(op).header()
		} else {
			wire.SetBlank(&e, op)
			bits = &nacks
		}
		if i < 64 {
			bits.Lo |= 1 << i
		} else {
			bits.Hi |= 1 << (i - 64)
		}
		body = append(body, e[:]...)
	}
	return body, present, nacks
}

// Batch makes the body of a SendMessages of count messages with size random
// payload bytes each, not yet stamped.
func Batch(count, size int, random *rand.Rand) []byte {
	body := make([]byte, wire.BatchHeaderSize+count*(wire.MessageHeaderSize+size))
	binary.LittleEndian.PutUint64(body[wire.BatchLength:], uint64(len(body)))
	binary.LittleEndian.PutUint32(body[wire.BatchCount:], uint32(count))
	for i := range count {
		m := body[wire.BatchHeaderSize+i*(wire.MessageHeaderSize+size):]
		binary.LittleEndian.PutUint64(m[wire.MessageID:], random.Uint64()|1)
		binary.LittleEndian.PutUint32(m[wire.MessageOffset:], uint32(i))
		binary.LittleEndian.PutUint32(m[wire.MessagePayload:], uint32(size))
		fill(m[wire.MessageHeaderSize:wire.MessageHeaderSize+size], random)
	}
	return body
}

func fill(b []byte, random *rand.Rand) {
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, random.Uint64())
	}
	for i := range b {
		b[i] = byte(random.Uint32())
	}
}
