package wire

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// A SendMessages prepare's body: a batch header of 256 bytes, then the messages
// back to back (§5).
const (
	BatchHeaderSize   = 256
	MessageHeaderSize = 48

	// Fields of the batch header, offsets from the body's start (§5.1).
	BatchPartition       = 0
	BatchBaseOffset      = 8
	BatchBaseTimestamp   = 16
	BatchOriginTimestamp = 24
	BatchLength          = 32
	BatchChecksum        = 40
	BatchCount           = 48
	batchReserved        = 52

	// Fields of a message, offsets from its start (§5.2). The payload comes
	// first and the user headers after it, although their lengths stand the
	// other way round.
	MessageChecksum    = 0
	MessageID          = 8
	MessageOffset      = 24
	MessageTimestamp   = 28
	MessageUserHeaders = 32
	MessagePayload     = 36
	messageReserved    = 40
)

// The reasons a batch is refused, in the order of §5.4.
const (
	errBatchReserved  = BodyError("batch: got reserved bytes set")
	errBatchLength    = BodyError("batch: got a batch_length that is not the body's length")
	errBatchCount     = BodyError("batch: got another number of messages than message_count")
	errBatchEmpty     = BodyError("batch: got message_count zero")
	errBatchTimestamp = BodyError("batch: got a base_timestamp that is not the prepare's timestamp")
	errBatchChecksum  = BodyError("batch: got a batch_checksum that does not match")
	errMessageSum     = BodyError("batch: got a message whose checksum does not match")
	errMessageTail    = BodyError("batch: got a message that does not fit the batch")
	errMessageZero    = BodyError("batch: got a message with reserved bytes set")
)

// batchVerifier checks a batch while its bytes arrive in pieces of any size. A
// message that lies whole in one piece is hashed in one go.
type batchVerifier struct {
	sums    xxh3.Hasher // over the batch header's 44 bytes and each message's checksum (§5.3)
	message xxh3.Hasher // over the message that is under way
	head    [BatchHeaderSize]byte
	headLen int
	part    [MessageHeaderSize]byte // of the message under way
	partLen int
	left    uint64 // bytes of the message under way that are still to come, its header apart
	rest    uint64 // bytes of the body still to come
	count   uint32
	err     error
}

// start begins a batch of length bytes whose prepare carries timestamp.
func (v *batchVerifier) start(length uint64) {
	v.sums.Reset()
	v.headLen, v.partLen, v.left, v.count, v.err = 0, 0, 0, 0, nil
	v.rest = length
}

func (v *batchVerifier) write(p []byte) {
	v.rest -= uint64(len(p))
	if v.headLen < BatchHeaderSize {
		n := copy(v.head[v.headLen:], p)
		v.headLen += n
		p = p[n:]
		if v.headLen == BatchHeaderSize {
			v.header(uint64(len(p)) + v.rest)
		}
	}
	for v.err == nil && len(p) > 0 {
		p = p[v.messageBytes(p):]
	}
}

// header judges the batch header; blob is the length of all that follows it.
func (v *batchVerifier) header(blob uint64) {
	switch {
	case !allZero(v.head[batchReserved:]):
		v.err = errBatchReserved
	case binary.LittleEndian.Uint64(v.head[BatchLength:]) != blob+BatchHeaderSize:
		v.err = errBatchLength
	}
	v.sums.Write(v.head[:BatchChecksum])
	v.sums.Write(v.head[BatchCount:batchReserved])
}

// messageBytes takes the next bytes of p and returns how many it took.
func (v *batchVerifier) messageBytes(p []byte) int {
	if v.partLen == 0 && len(p) >= MessageHeaderSize {
		if end := messageEnd(p); end <= uint64(len(p)) {
			v.finish(p[:MessageHeaderSize], xxh3.Hash(p[MessageID:end]))
			return int(end)
		}
	}
	if v.partLen < MessageHeaderSize {
		n := copy(v.part[v.partLen:], p)
		if v.partLen += n; v.partLen == MessageHeaderSize {
			v.message.Reset()
			v.message.Write(v.part[MessageID:])
			v.left = messageEnd(v.part[:]) - MessageHeaderSize
			if v.left > uint64(len(p)-n)+v.rest {
				v.err = errMessageTail
			}
			v.close()
		}
		return n
	}
	n := len(p)
	if uint64(n) > v.left {
		n = int(v.left)
	}
	v.message.Write(p[:n])
	v.left -= uint64(n)
	v.close()
	return n
}

// close ends the message under way once its last byte is in.
func (v *batchVerifier) close() {
	if v.left == 0 && v.err == nil {
		v.finish(v.part[:], v.message.Sum64())
		v.partLen = 0
	}
}

// finish judges one whole message by its header and the hash of its bytes 8..end.
func (v *batchVerifier) finish(head []byte, sum uint64) {
	switch {
	case binary.LittleEndian.Uint64(head[MessageChecksum:]) != sum:
		v.err = errMessageSum
	case binary.LittleEndian.Uint64(head[messageReserved:]) != 0:
		v.err = errMessageZero
	}
	v.sums.Write(head[:MessageID])
	v.count++
}

// sum returns the verdict on the whole batch. timestamp is the prepare's.
func (v *batchVerifier) sum(timestamp uint64) error {
	switch {
	case v.headLen < BatchHeaderSize:
		return errBatchLength
	case v.err != nil:
		return v.err
	case v.partLen != 0:
		return errMessageTail
	case v.count != binary.LittleEndian.Uint32(v.head[BatchCount:]):
		return errBatchCount
	case v.sums.Sum64() != binary.LittleEndian.Uint64(v.head[BatchChecksum:]):
		return errBatchChecksum
	case v.count == 0:
		return errBatchEmpty
	case binary.LittleEndian.Uint64(v.head[BatchBaseTimestamp:]) != timestamp:
		return errBatchTimestamp
	}
	return nil
}

// messageEnd returns the length of the message that starts at m.
func messageEnd(m []byte) uint64 {
	return MessageHeaderSize + uint64(binary.LittleEndian.Uint32(m[MessagePayload:])) +
		uint64(binary.LittleEndian.Uint32(m[MessageUserHeaders:]))
}

// SealBatch writes the checksums of every message and of the batch into body,
// which must be a batch whose lengths are right: a builder's last step.
func SealBatch(body []byte) {
	var sums xxh3.Hasher
	sums.Write(body[:BatchChecksum])
	sums.Write(body[BatchCount:batchReserved])
	for m := body[BatchHeaderSize:]; len(m) >= MessageHeaderSize; {
		end := messageEnd(m)
		binary.LittleEndian.PutUint64(m, xxh3.Hash(m[MessageID:end]))
		sums.Write(m[:MessageID])
		m = m[end:]
	}
	binary.LittleEndian.PutUint64(body[BatchChecksum:], sums.Sum64())
}
