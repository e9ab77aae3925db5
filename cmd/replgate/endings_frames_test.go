//go:build linux

package main

import (
	"encoding/binary"
	"slices"

	"github.com/replgate/replgate/wire"
)

// The frames that these tests say. A frame is honest until a change is made; the
// seal is made last, and what must be wrong in it is spoilt after that.

type change func(h *wire.Header)

// speech makes a frame of c from replica, sealed after the changes.
func speech(c wire.Command, replica uint8, body []byte, changes ...change) []byte {
	h := new(wire.Header)
	h.SetCommand(c)
	h.SetClusterID(stageCluster)
	wire.Size.Set(h, uint32(wire.HeaderSize+len(body)))
	wire.View.Set(h, 1)
	wire.Replica.Set(h, replica)
	for _, f := range changes {
		f(h)
	}
	wire.Seal(h)
	return append(h[:], body...)
}

// commit is a heartbeat of a partition group.
func commit(replica uint8, token uint64, changes ...change) []byte {
	return speech(wire.Commit, replica, nil, slices.Concat([]change{func(h *wire.Header) {
		wire.CommitToken.Set(h, token)
		wire.CommitGroup.Set(h, 7)
	}}, changes)...)
}

// offset is a consumer-offset prepare: its body has no seal, so that it may be of
// any length up to the largest frame.
func offset(replica uint8, op uint64, body []byte) []byte {
	return speech(wire.Prepare, replica, body, func(h *wire.Header) {
		wire.PrepareOp.Set(h, op)
		wire.PrepareOperation.Set(h, uint8(wire.OpStoreConsumerOffset))
		wire.PrepareGroup.Set(h, 7)
	})
}

// metadata is a metadata prepare with a sealed body.
func metadata(replica uint8, op uint64, parent wire.U128, body []byte) []byte {
	return speech(wire.Prepare, replica, body, func(h *wire.Header) {
		wire.PrepareOp.Set(h, op)
		wire.PrepareParent.Set(h, parent)
		wire.PrepareOperation.Set(h, uint8(metadataOperation()))
		wire.PrepareGroup.Set(h, wire.MetadataGroup)
		wire.ChecksumBody.Set(h, wire.BodySeal(body))
	})
}

// metadataOperation is the first operation of the metadata plane.
func metadataOperation() wire.Operation {
	for i := range 256 {
		if o := wire.Operation(i); o.Class() == wire.ClassMetadata {
			return o
		}
	}
	panic("got no operation of the metadata plane, want one")
}

// messages is a SendMessages prepare of one message with a payload of n bytes.
func messages(replica uint8, op uint64, n int) []byte {
	const head = wire.BatchHeaderSize
	body := make([]byte, head+wire.MessageHeaderSize+n)
	binary.LittleEndian.PutUint64(body[wire.BatchLength:], uint64(len(body)))
	binary.LittleEndian.PutUint32(body[wire.BatchCount:], 1)
	binary.LittleEndian.PutUint64(body[wire.BatchBaseTimestamp:], 5)
	binary.LittleEndian.PutUint32(body[head+wire.MessagePayload:], uint32(n))
	wire.SealBatch(body)
	return speech(wire.Prepare, replica, body, func(h *wire.Header) {
		wire.PrepareOp.Set(h, op)
		wire.PrepareTimestamp.Set(h, 5)
		wire.PrepareOperation.Set(h, uint8(wire.OpSendMessages))
		wire.PrepareGroup.Set(h, 7)
	})
}

// manifest is a state-transfer target with n artifacts.
func manifest(replica uint8, n int) []byte {
	return speech(wire.StateTransferTarget, replica, wire.AppendManifest(nil, make([]wire.Artifact, n)), func(h *wire.Header) {
		wire.TargetAvailable.Set(h, 1)
		wire.TargetGroup.Set(h, 7)
	})
}

// startView is a StartView whose body is suffix, right in its seal.
func startView(replica uint8, op uint64, suffix []byte) []byte {
	return speech(wire.StartView, replica, suffix, func(h *wire.Header) {
		wire.ViewOp.Set(h, op)
		wire.ViewGroup.Set(h, 7)
		wire.ChecksumBody.Set(h, wire.BodySeal(suffix))
	})
}

// spoilt returns a copy of a frame with one byte other.
func spoilt(frame []byte, at int) []byte {
	frame = slices.Clone(frame)
	frame[at] ^= 0xff
	return frame
}

// claiming returns a frame that claims another size than it has, sealed or not as
// its command is.
func claiming(frame []byte, size uint32) []byte {
	frame = slices.Clone(frame)
	h := (*wire.Header)(frame)
	wire.Size.Set(h, size)
	wire.Seal(h)
	return frame
}

// faultyFrames are frames that one rule alone refuses, by the rule; some need an
// honest one before them.
func faultyFrames(from uint8, replicas int) map[string][][]byte {
	one := func(f []byte) [][]byte { return [][]byte{f} }
	at := func(i int) change { return func(h *wire.Header) { h[i] = 1 } }
	badBody := metadata(from, 1000, wire.U128{}, []byte("a body"))
	first := metadata(from, 10, wire.U128{}, []byte("ten"))
	manifestBody := manifest(from, 2)
	blank := make([]byte, wire.HeaderSize)
	return map[string][][]byte{
		"frame_size":             one(claiming(commit(from, 1), 100)),
		"frame_command":          one(commit(from, 1, func(h *wire.Header) { h.SetCommand(200) })),
		"command_unexpected":     one(speech(wire.Ping, from, nil)),
		"client_request":         one(speech(wire.Request, from, nil)),
		"seal":                   one(spoilt(commit(from, 1), 0)),
		"seal_header":            one(append(spoilt(claiming(commit(from, 1), 300), 0), make([]byte, 44)...)),
		"identity":               one(spoilt(offset(from, 1, nil), 0)),
		"identity_absent":        one(unsealed(offset(from, 1, nil))),
		"identity_absent_repair": one(unsealed(speech(wire.RepairPrepare, from, nil, copyOf(offset(from, 1, nil))))),
		"layout":                 one(speech(wire.RequestPrepares, from, nil)),
		"header_only_size":       one(append(claiming(speech(wire.PrepareOk, from, nil, okOp), 300), make([]byte, 44)...)),
		"cluster":                one(commit(from, 1, func(h *wire.Header) { h.SetClusterID(wire.ClusterIDOf("another")) })),
		"replica_range":          one(commit(uint8(replicas), 1)),
		"sender":                 one(commit(from+1, 1)),
		"plane":                  one(speech(wire.Prepare, from, nil, copyOf(offset(from, 1, nil)), func(h *wire.Header) { wire.PrepareGroup.Set(h, wire.MetadataGroup) })),
		"release":                one(speech(wire.RepairDone, from, nil, func(h *wire.Header) { wire.Release.Set(h, 1) })),
		"reserved_frame":         one(commit(from, 1, at(100))),
		"reserved_tail":          one(commit(from, 1, at(255))),
		"metadata_chain":         {first, metadata(from, 11, wire.U128{Lo: 99}, []byte("eleven"))},
		"token_jump":             {commit(from, 1), commit(from, 20_000)},
		"body":                   one(spoilt(badBody, len(badBody)-1)),
		"batch":                  one(spoilt(messages(from, 1, 100), wire.HeaderSize+wire.BatchHeaderSize+wire.MessageHeaderSize+1)),
		"manifest":               one(spoilt(manifestBody, wire.HeaderSize)),
		"suffix_sv":              one(startView(from, 5, append(slices.Clone(blank), blank...))),
	}
}

// copyOf takes everything that stands behind the common fields of another frame.
func copyOf(frame []byte) change {
	return func(h *wire.Header) { copy(h[128:], frame[128:wire.HeaderSize]) }
}

func okOp(h *wire.Header) {
	wire.PrepareOkOperation.Set(h, uint8(wire.OpSendMessages))
	wire.PrepareOkGroup.Set(h, 7)
}

// unsealed takes the identity away.
func unsealed(frame []byte) []byte {
	frame = slices.Clone(frame)
	clear(frame[:16])
	return frame
}
