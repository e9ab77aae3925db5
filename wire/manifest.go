package wire

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// The manifest of a state transfer, "ISM1" (§6.1): magic, count, entry length,
// entries, and a hash over all of it.
const (
	manifestMagic    = "ISM1"
	manifestHead     = 9
	manifestTrailer  = 8
	manifestOverhead = manifestHead + manifestTrailer
	manifestEntry    = 25
	manifestCountMax = 65536
)

// ArtifactKind says what a manifest entry offers (§6.2). Unknown kinds decode.
type ArtifactKind uint8

// The kinds Iggy has today.
const (
	MetadataSnapshot ArtifactKind = iota
	ClientTable
	SegmentLog
	ConsumerOffsets
)

// Artifact is one entry of a manifest.
type Artifact struct {
	Kind     ArtifactKind
	Frontier uint64
	Len      uint64 // bytes
	Checksum uint64 // XXH3 of the artifact
}

// The reasons a manifest is refused.
const (
	errManifestShort   = BodyError("manifest: got fewer than 17 bytes")
	errManifestMagic   = BodyError("manifest: got another magic than ISM1")
	errManifestShape   = BodyError("manifest: got a length that is not count times entry length")
	errManifestEntry   = BodyError("manifest: got entries shorter than 25 bytes")
	errManifestCount   = BodyError("manifest: got more than 65536 entries")
	errManifestTrailer = BodyError("manifest: got a trailer that does not match")
)

// manifestVerifier checks a manifest while it arrives in pieces.
type manifestVerifier struct {
	hash    xxh3.Hasher
	head    [manifestHead]byte
	headLen int
	tail    [manifestTrailer]byte
	tailLen int
	body    uint64 // bytes still to come before the trailer
	length  uint64
}

func (v *manifestVerifier) start(length uint64) {
	v.hash.Reset()
	v.headLen, v.tailLen, v.length = 0, 0, length
	v.body = max(length, manifestTrailer) - manifestTrailer
}

func (v *manifestVerifier) write(p []byte) {
	n := min(uint64(len(p)), v.body)
	v.headLen += copy(v.head[v.headLen:], p[:n])
	v.hash.Write(p[:n])
	v.body -= n
	v.tailLen += copy(v.tail[v.tailLen:], p[n:])
}

func (v *manifestVerifier) sum() error {
	if v.length < manifestOverhead {
		return errManifestShort
	}
	count := uint64(binary.LittleEndian.Uint32(v.head[4:]))
	entry := uint64(v.head[8])
	switch {
	case v.hash.Sum64() != binary.LittleEndian.Uint64(v.tail[:]):
		return errManifestTrailer
	case string(v.head[:4]) != manifestMagic:
		return errManifestMagic
	case count > manifestCountMax:
		return errManifestCount
	case entry < manifestEntry:
		return errManifestEntry
	case manifestOverhead+count*entry != v.length:
		return errManifestShape
	}
	return nil
}

// DecodeManifest returns the artifacts a manifest offers. Entries longer than 25
// bytes lose their tail, as Iggy reads them.
func DecodeManifest(body []byte) ([]Artifact, error) {
	var v manifestVerifier
	v.start(uint64(len(body)))
	v.write(body)
	if err := v.sum(); err != nil {
		return nil, err
	}
	entry := int(body[8])
	artifacts := make([]Artifact, binary.LittleEndian.Uint32(body[4:]))
	for i := range artifacts {
		e := body[manifestHead+i*entry:]
		artifacts[i] = Artifact{
			Kind:     ArtifactKind(e[0]),
			Frontier: binary.LittleEndian.Uint64(e[1:]),
			Len:      binary.LittleEndian.Uint64(e[9:]),
			Checksum: binary.LittleEndian.Uint64(e[17:]),
		}
	}
	return artifacts, nil
}

// AppendManifest appends the manifest of artifacts to b.
func AppendManifest(b []byte, artifacts []Artifact) []byte {
	start := len(b)
	b = append(b, manifestMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(artifacts)))
	b = append(b, manifestEntry)
	for _, a := range artifacts {
		b = append(b, byte(a.Kind))
		b = binary.LittleEndian.AppendUint64(b, a.Frontier)
		b = binary.LittleEndian.AppendUint64(b, a.Len)
		b = binary.LittleEndian.AppendUint64(b, a.Checksum)
	}
	return binary.LittleEndian.AppendUint64(b, xxh3.Hash(b[start:]))
}
