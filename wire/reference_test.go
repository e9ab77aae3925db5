package wire

import (
	"bytes"
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// The protocol once more, from its clauses: raw offsets, the simplest code that
// can be right, and no call into the package. What the package says about a frame
// is held against what this file says.

var le = binary.LittleEndian

// refPrint is a 64-bit hash as it stands on the wire, widened to 16 bytes (§4.1).
func refPrint(b []byte) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 0, 16), xxh3.Hash(b))[:16]
}

func refZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// refIdentity is §4.4.
func refIdentity(h []byte) []byte {
	t := bytes.Clone(h[:256])
	clear(t[0:16])
	clear(t[52:56])
	t[60] = 6
	return refPrint(t)
}

// refSealed is the column "sealed" of §1.0.
func refSealed(c byte) bool {
	return bytes.IndexByte([]byte{7, 9, 10, 11, 12, 17, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29}, c) >= 0
}

// refHeaderOnly is the last sentence of §1.0.
func refHeaderOnly(c byte) bool {
	return bytes.IndexByte([]byte{7, 9, 10, 14, 15, 16, 17, 18, 20, 21, 22, 24, 26, 27, 28, 29}, c) >= 0
}

// refOperation is the first sentence of §1.14.
func refOperation(o byte) bool {
	return o <= 3 || o >= 64 && o <= 68 || o >= 128 && o <= 149 || o >= 160 && o <= 162
}

// refTiles returns the messages of a batch, and whether they fill it exactly (§5.2).
func refTiles(batch []byte) (messages [][]byte, ok bool) {
	for p := batch[256:]; len(p) > 0; {
		if len(p) < 48 {
			return messages, false
		}
		end := 48 + uint64(le.Uint32(p[32:])) + uint64(le.Uint32(p[36:]))
		if end > uint64(len(p)) {
			return messages, false
		}
		messages = append(messages, p[:end])
		p = p[end:]
	}
	return messages, true
}

// refBatch is §5.1 to §5.5: whether a SendMessages body holds together.
func refBatch(b []byte, timestamp uint64) bool {
	if len(b) < 256 || le.Uint64(b[32:]) != uint64(len(b)) || !refZero(b[52:256]) {
		return false
	}
	messages, ok := refTiles(b)
	preimage := append(bytes.Clone(b[:40]), b[48:52]...)
	for _, m := range messages {
		ok = ok && xxh3.Hash(m[8:]) == le.Uint64(m) && le.Uint64(m[40:]) == 0
		preimage = append(preimage, m[:8]...)
	}
	return ok && len(messages) > 0 && uint64(len(messages)) == uint64(le.Uint32(b[48:])) &&
		xxh3.Hash(preimage) == le.Uint64(b[40:]) && le.Uint64(b[16:]) == timestamp
}

// refSuffix is §4.6, the rules for entries.
func refSuffix(op uint64, body []byte) bool {
	if len(body)%256 != 0 || len(body)/256 > 128 {
		return false
	}
	var child []byte
	for i := range uint64(len(body) / 256) {
		e := body[i*256:][:256]
		if e[60] != 6 || !refOperation(e[208]) || !refZero(e[62:128]) || !refZero(e[228:]) ||
			i > op || le.Uint64(e[176:]) != op-i {
			return false
		}
		blank := make([]byte, 256)
		blank[60] = 6
		le.PutUint64(blank[176:], op-i)
		if bytes.Equal(e, blank) {
			continue
		}
		unsealed := refZero(e[:16])
		if !unsealed && !bytes.Equal(e[:16], refIdentity(e)) {
			return false
		}
		if child != nil {
			if le.Uint64(e[192:]) >= le.Uint64(child[192:]) {
				return false
			}
			if le.Uint64(child[176:]) == op-i+1 && !unsealed && !bytes.Equal(child[144:160], e[:16]) {
				return false
			}
		}
		child = e
	}
	return true
}

// refManifest is §6.1.
func refManifest(b []byte) (artifacts []Artifact, ok bool) {
	if len(b) < 17 || string(b[:4]) != "ISM1" {
		return nil, false
	}
	count, entry := uint64(le.Uint32(b[4:])), uint64(b[8])
	if count > 65536 || entry < 25 || uint64(len(b)) != 17+count*entry ||
		xxh3.Hash(b[:len(b)-8]) != le.Uint64(b[len(b)-8:]) {
		return nil, false
	}
	for e := b[9 : len(b)-8]; len(e) > 0; e = e[entry:] {
		artifacts = append(artifacts, Artifact{ArtifactKind(e[0]), le.Uint64(e[1:]), le.Uint64(e[9:]), le.Uint64(e[17:])})
	}
	return artifacts, true
}

// refValidate is what §1 lets Iggy refuse in a header whose command is known.
func refValidate(h []byte) bool {
	u32, u64 := func(at int) uint32 { return le.Uint32(h[at:]) }, func(at int) uint64 { return le.Uint64(h[at:]) }
	size, body := u32(48), u32(48)-256
	suffix := size >= 256 && body%256 == 0 && body <= 128*256
	switch h[60] {
	case 6, 19:
		return refOperation(h[208]) && refZero(h[62:128]) && refZero(h[228:256])
	case 7:
		return refOperation(h[192])
	case 9, 22:
		return size == 256
	case 10, 17:
		return u32(56) == 0
	case 11:
		if !suffix || u32(56) != 0 || u32(152) > u32(52) || u64(136) > u64(128) {
			return false
		}
		for bit := int(body / 256); bit < 128; bit++ {
			if (h[224+bit/8]|h[240+bit/8])>>(bit%8)&1 != 0 {
				return false
			}
		}
		return true
	case 12:
		return suffix && u32(56) == 0 && u64(136) <= u64(128)
	case 18:
		return u64(144) >= 1 && u64(144) <= u64(152)
	case 23:
		return h[160] <= 1 && h[161] <= 1 && h[160]+h[161] < 2 && (h[160] == 1 || size == 256)
	case 24:
		return u32(160) != 0 && size == 256
	case 26, 27, 28, 29:
		return size == 256 && !refZero(h[128:144]) && !refZero(h[144:160]) && refForward(h)
	}
	return true
}

// refForward is the rest of §1.13: what each of the four keeps at 160.
func refForward(h []byte) bool {
	switch h[60] {
	case 26:
		return refZero(h[164:256])
	case 27:
		return refZero(h[176:255]) && h[255] <= 6 && (h[255] == 0 || refZero(h[160:176]))
	case 28:
		return refZero(h[176:256]) && !refZero(h[160:168]) && !refZero(h[168:176])
	}
	return refZero(h[168:255]) && h[255] <= 4 && (h[255] == 0 || refZero(h[160:168]))
}
