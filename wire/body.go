package wire

import "github.com/zeebo/xxh3"

// BodyError is why a frame's body is refused. They are constants of this
// package, so returning one does not allocate.
type BodyError string

func (e BodyError) Error() string { return "wire: " + string(e) }

const errBodySeal = BodyError("body: got bytes that checksum_body does not match")

// BodyKind says which seal a frame's body carries.
type BodyKind uint8

const (
	// BodyUnsealed: nothing in the frame tells a changed body from a whole one:
	// state chunks and consumer-offset prepares (§5.6, §6.4).
	BodyUnsealed BodyKind = iota
	// BodySealed: checksum_body is its hash (§4.5).
	BodySealed
	// BodyBatch: a SendMessages batch (§5).
	BodyBatch
	// BodyManifest: a state-transfer manifest (§6.1).
	BodyManifest
)

// BodyKindOf returns the seal that the body of h's frame carries. A frame
// without a body can carry one too: XXH3 of nothing.
func BodyKindOf(h *Header) BodyKind {
	switch c := h.Command(); {
	case c.IsPrepare() && Operation(PrepareOperation.Get(h)) == OpSendMessages:
		return BodyBatch
	case c.IsPrepare() && !ChecksumBody.Get(h).IsZero():
		return BodySealed
	case (c == DoViewChange || c == StartView) && Size.Get(h) > HeaderSize:
		return BodySealed
	case c == StateTransferTarget && TargetAvailable.Get(h) == 1:
		return BodyManifest
	}
	return BodyUnsealed
}

// BodyVerifier checks a frame's body against its seal while the body arrives in
// pieces of any size. The zero value is ready; it is used again for frame after
// frame and does not allocate. It is about 4 KiB, so it lives with a pump and
// not with a frame.
type BodyVerifier struct {
	kind      BodyKind
	seal      U128 // checksum_body; for a batch the zero value means it is not checked
	timestamp uint64
	hash      xxh3.Hasher
	batch     batchVerifier
	manifest  manifestVerifier
}

// Start begins the body of h's frame.
func (v *BodyVerifier) Start(h *Header) {
	length := uint64(Size.Get(h)) - HeaderSize
	v.kind, v.seal = BodyKindOf(h), ChecksumBody.Get(h)
	switch v.kind {
	case BodySealed:
		v.hash.Reset()
	case BodyBatch:
		v.timestamp = PrepareTimestamp.Get(h)
		v.hash.Reset()
		v.batch.start(length)
	case BodyManifest:
		v.manifest.start(length)
	}
}

// Write takes the next bytes of the body. Across calls no more may be given than
// the header claims.
func (v *BodyVerifier) Write(p []byte) {
	switch v.kind {
	case BodySealed:
		v.hash.Write(p)
	case BodyBatch:
		if !v.seal.IsZero() {
			v.hash.Write(p)
		}
		v.batch.write(p)
	case BodyManifest:
		v.manifest.write(p)
	}
}

// Sum returns the verdict once the whole body has been written: nil, or a
// BodyError.
func (v *BodyVerifier) Sum() error {
	switch v.kind {
	case BodySealed:
		return v.sealed()
	case BodyBatch:
		if !v.seal.IsZero() {
			if err := v.sealed(); err != nil {
				return err
			}
		}
		return v.batch.sum(v.timestamp)
	case BodyManifest:
		return v.manifest.sum()
	}
	return nil
}

func (v *BodyVerifier) sealed() error {
	if Wide(v.hash.Sum64()) != v.seal {
		return errBodySeal
	}
	return nil
}

// Verify judges a body that is there as a whole.
func (v *BodyVerifier) Verify(h *Header, body []byte) error {
	v.Start(h)
	if v.kind == BodySealed {
		if Wide(xxh3.Hash(body)) != v.seal {
			return errBodySeal
		}
		return nil
	}
	v.Write(body)
	return v.Sum()
}
