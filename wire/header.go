package wire

import (
	"bytes"
	"encoding/binary"
)

// HeaderSize is the length of every header, and the size of a frame without a
// body (§0).
const HeaderSize = 256

// Header is the 256 bytes in front of every frame, viewed in place:
//
//	h := (*wire.Header)(buf)
//
// Its fields are read and written through the typed offsets of layout.go:
//
//	size := wire.Size.Get(h)
//	wire.View.Set(h, 7)
type Header [HeaderSize]byte

// U128 is a 128-bit value of the wire: a client id, a nonce or a widened hash.
// Two are equal when == says so.
type U128 struct{ Lo, Hi uint64 }

// IsZero reports whether all sixteen bytes are zero.
func (v U128) IsZero() bool { return v == U128{} }

// Wide widens a 64-bit hash as Iggy does: the upper half is zero (§4.1).
func Wide(hash uint64) U128 { return U128{Lo: hash} }

// The typed offsets. Each is the position of a field's first byte; Get and Set
// read and write the field there.
type (
	// U8 is the offset of a one-byte field.
	U8 uint8
	// U32 is the offset of a four-byte little-endian field.
	U32 uint8
	// U64 is the offset of an eight-byte little-endian field.
	U64 uint8
	// Wide128 is the offset of a sixteen-byte little-endian field.
	Wide128 uint8
)

// Get returns the byte of h at f.
func (f U8) Get(h *Header) uint8 { return h[f] }

// Set writes v to h at f.
func (f U8) Set(h *Header, v uint8) { h[f] = v }

// Get returns the four bytes of h at f.
func (f U32) Get(h *Header) uint32 { return binary.LittleEndian.Uint32(h[f:]) }

// Set writes v to h at f.
func (f U32) Set(h *Header, v uint32) { binary.LittleEndian.PutUint32(h[f:], v) }

// Get returns the eight bytes of h at f.
func (f U64) Get(h *Header) uint64 { return binary.LittleEndian.Uint64(h[f:]) }

// Set writes v to h at f.
func (f U64) Set(h *Header, v uint64) { binary.LittleEndian.PutUint64(h[f:], v) }

// Get returns the sixteen bytes of h at f.
func (f Wide128) Get(h *Header) U128 {
	return U128{Lo: binary.LittleEndian.Uint64(h[f:]), Hi: binary.LittleEndian.Uint64(h[f+8:])}
}

// Set writes v to h at f.
func (f Wide128) Set(h *Header, v U128) {
	binary.LittleEndian.PutUint64(h[f:], v.Lo)
	binary.LittleEndian.PutUint64(h[f+8:], v.Hi)
}

// Command returns byte 60. It may be no command of the registry: see
// Command.Valid.
func (h *Header) Command() Command { return Command(h[CommandAt]) }

// SetCommand writes byte 60.
func (h *Header) SetCommand(c Command) { h[CommandAt] = byte(c) }

// ClusterID is bytes 32..48 as they stand on the wire.
func (h *Header) ClusterID() ClusterID { return ClusterID(h[Cluster : Cluster+16]) }

// SetClusterID writes bytes 32..48.
func (h *Header) SetClusterID(id ClusterID) { copy(h[Cluster:], id[:]) }

// Operation returns the operation byte of a command that carries one, and
// whether it does (§1.14).
func (h *Header) Operation() (Operation, bool) {
	switch h.Command() {
	case Prepare, RepairPrepare, Reply:
		return Operation(h[PrepareOperation]), true
	case PrepareOk:
		return Operation(h[PrepareOkOperation]), true
	case Request:
		return Operation(h[RequestOperation]), true
	}
	return 0, false
}

// Group returns the consensus group a frame belongs to, and whether its command
// carries one: handshake and session-forwarding frames do not (§1).
func (h *Header) Group() (uint64, bool) {
	at := h.Command().info().group
	if at == 0 {
		return 0, false
	}
	return at.Get(h), true
}

// allZero reports whether b holds only zero bytes.
func allZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }

// zeros is as long as the longest run of reserved bytes. Comparing with it is
// several times as fast as a loop.
var zeros [HeaderSize]byte
