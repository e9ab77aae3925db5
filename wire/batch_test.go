package wire

import (
	"bytes"
	"testing"

	"github.com/zeebo/xxh3"
)

const batchTime = 1700000000000000

// message builds a message by its fields; SealBatch writes its checksum.
func message(id uint64, payload, headers string, offset, timestamp uint32) []byte {
	m := make([]byte, MessageHeaderSize, MessageHeaderSize+len(payload)+len(headers))
	le.PutUint64(m[MessageID:], id)
	le.PutUint32(m[MessageOffset:], offset)
	le.PutUint32(m[MessageTimestamp:], timestamp)
	le.PutUint32(m[MessageUserHeaders:], uint32(len(headers)))
	le.PutUint32(m[MessagePayload:], uint32(len(payload)))
	return append(append(m, payload...), headers...)
}

// batch puts messages behind a batch header, checksums missing.
func batch(messages ...[]byte) []byte {
	b := append(make([]byte, BatchHeaderSize), bytes.Join(messages, nil)...)
	le.PutUint64(b[BatchPartition:], 3)
	le.PutUint64(b[BatchBaseOffset:], 10)
	le.PutUint64(b[BatchBaseTimestamp:], batchTime)
	le.PutUint64(b[BatchOriginTimestamp:], batchTime-1000000)
	le.PutUint64(b[BatchLength:], uint64(len(b)))
	le.PutUint32(b[BatchCount:], uint32(len(messages)))
	return b
}

// send is a SendMessages prepare of a partition.
func send(body []byte) []byte {
	f := frame(Prepare, 2, 1, body)
	h := (*Header)(f)
	PrepareClient.Set(h, Wide(0x99))
	PrepareParent.Set(h, Wide(0xfa))
	PrepareOp.Set(h, 5)
	PrepareCommit.Set(h, 4)
	PrepareTimestamp.Set(h, batchTime)
	PrepareRequest.Set(h, 8)
	PrepareOperation.Set(h, uint8(OpSendMessages))
	PrepareGroup.Set(h, 0x300001002)
	PrepareUser.Set(h, 1)
	Seal(h)
	return f
}

// sealedBatch is batch with its checksums.
func sealedBatch(messages ...[]byte) []byte {
	b := batch(messages...)
	SealBatch(b)
	return b
}

func fourMessages() [][]byte {
	return [][]byte{message(1, "hello", "", 0, 0), message(2, "", "", 1, 3), message(3, "", "hdr", 2, 4), message(4, "payload", "headers", 3, 5)}
}

// §5.1, §5.2: messages without payload, with user headers only, with both.
func TestBatchShapes(t *testing.T) {
	frames := [][]byte{send(sealedBatch(message(1, "", "", 0, 0))), send(sealedBatch(fourMessages()...))}
	sameShapes(t, "batches", frames...)
	var v BodyVerifier
	for i, f := range frames {
		if err := v.Verify((*Header)(f), f[HeaderSize:]); err != nil || !refBatch(f[HeaderSize:], batchTime) {
			t.Errorf("batch %d: got %v", i, err)
		}
	}
}

// resum seals a batch as far as its messages can be told apart; it does not mind
// lengths that lead out of the batch.
func resum(b []byte) {
	messages, _ := refTiles(b)
	preimage := append(bytes.Clone(b[:40]), b[48:52]...)
	for _, m := range messages {
		le.PutUint64(m, xxh3.Hash(m[8:]))
		preimage = append(preimage, m[:8]...)
	}
	le.PutUint64(b[40:], xxh3.Hash(preimage))
}

// A batchFault is one way to break a batch: edit before it is sealed again, spoil
// after that.
type batchFault struct {
	name        string
	want        error
	edit, spoil func(b []byte) []byte
}

func inPlace(f func(b []byte)) func([]byte) []byte {
	return func(b []byte) []byte { f(b); return b }
}

func add64(at int, n uint64) func([]byte) []byte {
	return inPlace(func(b []byte) { le.PutUint64(b[at:], le.Uint64(b[at:])+n) })
}

func put32(at int, v uint32) func([]byte) []byte {
	return inPlace(func(b []byte) { le.PutUint32(b[at:], v) })
}

// batchFaults are in the order of §5.4: the first that a batch has is its verdict.
func batchFaults() []batchFault {
	last := BatchHeaderSize + 3*MessageHeaderSize + 5 + 3 // the fourth message
	return []batchFault{
		{"§5.4 reserved", errBatchReserved, inPlace(func(b []byte) { b[200] = 1 }), nil},
		{"§5.4 batch_length", errBatchLength, add64(BatchLength, 1), nil},
		{"§5.4 checksum of the first message", errMessageSum, nil, inPlace(func(b []byte) { b[BatchHeaderSize+MessageHeaderSize] ^= 1 })},
		{"§5.4 last message longer than the batch", errMessageTail, put32(last+MessagePayload, 8), nil},
		{"§5.4 message_count", errBatchCount, put32(BatchCount, 5), nil},
		{"§5.4 batch_checksum", errBatchChecksum, nil, add64(BatchChecksum, 1)},
		{"§5.5 base_timestamp", errBatchTimestamp, add64(BatchBaseTimestamp, 1), nil},
	}
}

func (f batchFault) apply(spoil bool, b []byte) []byte {
	if edit := f.edit; !spoil && edit != nil {
		return edit(b)
	}
	if spoil && f.spoil != nil {
		return f.spoil(b)
	}
	return b
}

// broken is the batch of four messages with the given faults.
func broken(faults ...batchFault) []byte {
	b := sealedBatch(fourMessages()...)
	for _, f := range faults {
		b = f.apply(false, b)
	}
	resum(b)
	for _, f := range faults {
		b = f.apply(true, b)
	}
	return b
}

// §5.4: each fault alone, and of two the earlier.
func TestBatchOrder(t *testing.T) {
	faults := batchFaults()
	for i, first := range faults {
		judgeBatch(t, first.name, broken(first), first.want)
		for _, second := range faults[i+1:] {
			judgeBatch(t, first.name+" before "+second.name, broken(first, second), first.want)
			judgeBatch(t, second.name+" after "+first.name, broken(second, first), first.want)
		}
	}
	judgeBatch(t, "no fault", broken(), nil)
}

// §5.1 to §5.5: the edges of each rule.
func TestBatchRefusals(t *testing.T) {
	four, messages := sealedBatch(fourMessages()...), fourMessages()
	overflow := func(at int) []byte {
		b := batch(message(1, "hello", "", 0, 0))
		b = put32(BatchHeaderSize+at, 1<<32-1)(b)
		resum(b)
		return b
	}
	bothLengths := put32(BatchHeaderSize+MessageUserHeaders, 1<<32-1)(overflow(MessagePayload))
	tail := func(n int) []byte {
		b := batch(append(messages, make([]byte, n))...)
		le.PutUint32(b[BatchCount:], 4)
		resum(b)
		return b
	}
	dirty := func(at int) []byte {
		b := batch(messages...)
		b[at] = 1
		SealBatch(b)
		return b
	}
	for _, row := range []struct {
		name string
		body []byte
		want error
	}{
		{"§5.1 nothing", nil, errBatchLength},
		{"§5.1 255 bytes", four[:255], errBatchLength},
		{"§5.1 header without its messages", four[:256], errBatchLength},
		{"§5.1 one byte short", four[:len(four)-1], errBatchLength},
		{"§5.1 reserved, first byte", dirty(52), errBatchReserved},
		{"§5.1 reserved, last byte", dirty(255), errBatchReserved},
		{"§5.2 reserved, first byte", dirty(BatchHeaderSize + 40), errMessageZero},
		{"§5.2 reserved, last byte", dirty(BatchHeaderSize + 47), errMessageZero},
		{"§5.2 payload of 2^32-1", overflow(MessagePayload), errMessageTail},
		{"§5.2 user headers of 2^32-1", overflow(MessageUserHeaders), errMessageTail},
		{"§5.2 both of 2^32-1", bothLengths, errMessageTail},
		{"§5.4 one byte behind the messages", tail(1), errMessageTail},
		{"§5.4 47 bytes behind the messages", tail(47), errMessageTail},
		{"§5.4 a message behind the count", tail(48), errBatchCount},
		{"§5.4 count of 3", withCount(four, 3), errBatchCount},
		{"§5.4 count of 2^32-1", withCount(four, 1<<32-1), errBatchCount},
		{"§5.5 no message", sealedBatch(), errBatchEmpty},
		{"§5.5 no message, and a checksum of zero", batch(), errBatchChecksum},
		{"§5.3 base_offset under the checksum", add64(BatchBaseOffset, 1)(bytes.Clone(four)), errBatchChecksum},
		{"§5.3 partition under the checksum", add64(BatchPartition, 1)(bytes.Clone(four)), errBatchChecksum},
		{"§5.3 origin_timestamp under the checksum", add64(BatchOriginTimestamp, 1)(bytes.Clone(four)), errBatchChecksum},
		{"§5.5 base_timestamp one less", resummed(add64(BatchBaseTimestamp, 1<<64-1)(bytes.Clone(four))), errBatchTimestamp},
	} {
		judgeBatch(t, row.name, row.body, row.want)
	}
}

func withCount(b []byte, n uint32) []byte { return resummed(put32(BatchCount, n)(bytes.Clone(b))) }

func resummed(b []byte) []byte {
	resum(b)
	return b
}

// judgeBatch asks for the verdict on a whole body and in pieces, and the clauses.
func judgeBatch(t *testing.T, name string, body []byte, want error) {
	t.Helper()
	f := send(body)
	if got := inAnyPieces(t, f); got != want {
		t.Errorf("%s: got %v, want %v", name, got, want)
	}
	if got := refBatch(body, batchTime); got != (want == nil) {
		t.Errorf("%s: by the clauses %v", name, got)
	}
}

// §4.5, §5.4: a SendMessages prepare whose checksum_body is set is held against it
// first, and against the batch rules all the same.
func TestBatchWithBodySeal(t *testing.T) {
	good, bad := sealedBatch(fourMessages()...), broken(batchFaults()[4])
	for _, row := range []struct {
		name string
		body []byte
		seal U128
		want error
	}{
		{"both right", good, BodySeal(good), nil},
		{"seal wrong", good, Wide(1), errBodySeal},
		{"seal right but for its upper half", good, U128{Hash(good), 1}, errBodySeal},
		{"batch wrong", bad, BodySeal(bad), errBatchCount},
		{"both wrong", bad, Wide(1), errBodySeal},
		{"no seal", good, U128{}, nil},
	} {
		f := send(row.body)
		ChecksumBody.Set((*Header)(f), row.seal)
		if got := inAnyPieces(t, f); got != row.want {
			t.Errorf("§4.5 %s: got %v, want %v", row.name, got, row.want)
		}
	}
}
