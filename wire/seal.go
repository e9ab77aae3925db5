package wire

import "github.com/zeebo/xxh3"

// Hash is the one hash of the replica plane: XXH3-64, seed 0, default secret
// (§4.1).
func Hash(b []byte) uint64 { return xxh3.Hash(b) }

// FrameSeal returns what bytes 0..16 of a sealed command must hold: the hash of
// bytes 16..256, the body excluded (§4.3).
func FrameSeal(h *Header) U128 { return Wide(xxh3.Hash(h[16:])) }

// SealOK reports whether h's frame seal holds, upper half included. There is no
// bypass for zero.
func SealOK(h *Header) bool { return Checksum.Get(h) == FrameSeal(h) }

// Identity returns the identity of a prepare: the hash of its whole header with
// checksum and view zero and the command set to 6, so that a retransmit under a
// new view and a repair under command 19 keep it (§4.4).
func Identity(h *Header) U128 {
	t := *h
	clear(t[Checksum : Checksum+16])
	clear(t[View : View+4])
	t.SetCommand(Prepare)
	return Wide(xxh3.Hash(t[:]))
}

// Seal writes into h the checksum its command carries: the frame seal, the
// identity, or nothing. Call it when every other field is final.
func Seal(h *Header) {
	switch c := h.Command(); {
	case c.IsPrepare():
		Checksum.Set(h, Identity(h))
	case c.Sealed():
		Checksum.Set(h, FrameSeal(h))
	}
}

// BodySeal returns what checksum_body of a DoViewChange or StartView must hold:
// the hash of its body, or zero for none (§4.5).
func BodySeal(body []byte) U128 {
	if len(body) == 0 {
		return U128{}
	}
	return Wide(xxh3.Hash(body))
}
