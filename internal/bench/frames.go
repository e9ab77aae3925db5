//go:build linux

package main

import (
	"math/rand/v2"

	"github.com/replgate/replgate/internal/replica/standin"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// clusterName is the cluster of every frame and gate of the bench.
const clusterName = "iggy-cluster"

var cluster = wire.ClusterIDOf(clusterName)

// What a Commit asks of the sink stands in its group: a proxy that knows frames
// lets all of them through, one that knows bytes does so anyway.
const (
	groupLoad   = 3
	groupBegin  = 101 // a burst begins: count from zero
	groupEnd    = 102 // it has ended: answer with the counts
	groupPing   = 103 // answer at once
	groupAnswer = 104
)

// asking is a Commit that asks something of the sink. Its view is the replica that
// the sink answers as: a gate holds the sender of every frame against its leg.
func asking(group uint64, pair mac.Pair) wire.Header {
	h := commit(pair.Dialer, group)
	wire.View.Set(&h, uint32(pair.Acceptor))
	wire.Seal(&h)
	return h
}

// commit is a sealed Commit of the given replica.
func commit(replica uint8, group uint64) wire.Header {
	var h wire.Header
	h.SetCommand(wire.Commit)
	h.SetClusterID(cluster)
	wire.Size.Set(&h, wire.HeaderSize)
	wire.Replica.Set(&h, replica)
	wire.CommitToken.Set(&h, 1)
	wire.CommitGroup.Set(&h, group)
	wire.Seal(&h)
	return h
}

// bad is a frame that Iggy and a gate drop: a Commit whose seal does not match.
// Its length can be trusted, so the stream goes on.
func bad() wire.Header {
	h := commit(0, groupLoad)
	wire.CommitCommit.Set(&h, 1) // after the seal
	return h
}

// counts are the frames that the sink found right, and those it did not.
type counts struct{ good, wrong uint64 }

// answer is what the sink says to a Commit that asks.
func answer(to *wire.Header, n counts) wire.Header {
	h := commit(uint8(wire.View.Get(to)), groupAnswer)
	wire.CommitCommit.Set(&h, n.good)
	wire.View.Set(&h, uint32(n.wrong))
	wire.Seal(&h)
	return h
}

// A body of frames: what the sender fills its frames with.
type body string

const (
	unsealed body = "unsealed" // StateChunk: only the header carries a seal
	sealed   body = "sealed"   // a prepare of SendMessages: identity, batch and message checksums
)

// train is a run of whole frames of size bytes each, at least 1 MiB in all, so
// that a burst is many trains. Its contents do not repeat inside a frame.
func train(size int, kind body) []byte {
	random := rand.NewChaCha8([32]byte{byte(size >> 8)})
	var out []byte
	for len(out) < 1<<20 {
		switch {
		case size == wire.HeaderSize:
			h := commit(0, groupLoad)
			out = append(out, h[:]...)
		case kind == sealed:
			out = append(out, prepare(size, random)...)
		default:
			out = append(out, chunk(size, random)...)
		}
	}
	return out
}

// trainFrames is how many frames of size bytes a train has.
func trainFrames(size int) int { return (1<<20 + size - 1) / size }

func chunk(size int, random *rand.ChaCha8) []byte {
	frame := make([]byte, size)
	h := (*wire.Header)(frame)
	h.SetCommand(wire.StateChunk)
	h.SetClusterID(cluster)
	wire.Size.Set(h, uint32(size))
	wire.ChunkNonce.Set(h, wire.U128{Lo: 1})
	wire.ChunkGroup.Set(h, groupLoad)
	wire.Seal(h)
	random.Read(frame[wire.HeaderSize:]) // never fails
	return frame
}

// prepare is a SendMessages prepare with one message.
func prepare(size int, random *rand.ChaCha8) []byte {
	frame := make([]byte, size)
	h, batch := (*wire.Header)(frame), frame[wire.HeaderSize:]
	copy(batch, standin.Batch(1, len(batch)-wire.BatchHeaderSize-wire.MessageHeaderSize, rand.New(random)))
	wire.SealBatch(batch)
	h.SetCommand(wire.Prepare)
	h.SetClusterID(cluster)
	wire.Size.Set(h, uint32(size))
	wire.PrepareOp.Set(h, 1)
	wire.PrepareOperation.Set(h, uint8(wire.OpSendMessages))
	wire.PrepareGroup.Set(h, groupLoad)
	wire.Seal(h)
	return frame
}
