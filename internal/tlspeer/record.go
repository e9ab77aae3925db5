package tlspeer

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
)

// Sizes of RFC 8446 §5.1 and §5.2.
const (
	recordHead = 5
	maxPlain   = 1 << 14
	maxCipher  = maxPlain + 256
	maxRecord  = recordHead + maxCipher
)

// The content types that occur after the handshake.
const (
	typeAlert       = 21
	typeHandshake   = 22
	typeApplication = 23
)

// half is one direction: its secret, the keys made of it, and the number of the
// next record.
type half struct {
	hash   func() hash.Hash
	keyLen int
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

// newHalf starts a direction with its first application secret.
func newHalf(suite uint16, secret []byte) (half, error) {
	h := half{secret: secret}
	switch suite {
	case tls.TLS_AES_128_GCM_SHA256:
		h.hash, h.keyLen = sha256.New, 16
	case tls.TLS_AES_256_GCM_SHA384:
		h.hash, h.keyLen = sha512.New384, 32
	default:
		return h, fmt.Errorf("tlspeer: got %s, want an AES-GCM suite", tls.CipherSuiteName(suite))
	}
	if want := h.hash().Size(); len(secret) != want {
		return h, fmt.Errorf("tlspeer: got a traffic secret of %d bytes, want %d", len(secret), want)
	}
	return h, h.rekey()
}

// rekey makes key and iv of the secret (RFC 8446 §7.3) and counts from zero.
func (h *half) rekey() error {
	key, err := h.expand("key", h.keyLen)
	if err != nil {
		return err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return err
	}
	if h.aead, err = cipher.NewGCM(block); err != nil {
		return err
	}
	h.seq = 0
	h.iv, err = h.expand("iv", h.aead.NonceSize())
	return err
}

// update goes on to the next secret (RFC 8446 §7.2).
func (h *half) update() error {
	secret, err := h.expand("traffic upd", h.hash().Size())
	if err != nil {
		return err
	}
	h.secret = secret
	return h.rekey()
}

// expand is HKDF-Expand-Label with an empty context (RFC 8446 §7.1).
func (h *half) expand(label string, n int) ([]byte, error) {
	label = "tls13 " + label
	info := binary.BigEndian.AppendUint16(nil, uint16(n))
	info = append(info, byte(len(label)))
	info = append(info, label...)
	info = append(info, 0)
	return hkdf.Expand(h.hash, h.secret, string(info), n)
}

// nonce is the iv with the record's number in its last eight bytes (RFC 8446 §5.3).
func (h *half) nonce() []byte {
	nonce := append([]byte(nil), h.iv...)
	tail := nonce[len(nonce)-8:]
	binary.BigEndian.PutUint64(tail, binary.BigEndian.Uint64(tail)^h.seq)
	return nonce
}

// seal appends one whole record to dst.
func (h *half) seal(dst []byte, typ byte, plain []byte) []byte {
	dst = append(dst, typeApplication, 3, 3)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(plain)+1+h.aead.Overhead()))
	head := dst[len(dst)-recordHead:]
	body := len(dst)
	dst = append(append(dst, plain...), typ)
	dst = h.aead.Seal(dst[:body], h.nonce(), dst[body:], head)
	h.seq++
	return dst
}

// open decrypts one whole record into dst and returns the content type that was
// inside, its padding taken off.
func (h *half) open(dst, record []byte) (typ byte, plain []byte, err error) {
	plain, err = h.aead.Open(dst, h.nonce(), record[recordHead:], record[:recordHead])
	if err != nil {
		return 0, nil, fmt.Errorf("tlspeer: record %d: %w", h.seq, err)
	}
	h.seq++
	for i := len(plain) - 1; i >= 0; i-- {
		if plain[i] != 0 {
			return plain[i], plain[:i], nil
		}
	}
	return 0, nil, errors.New("tlspeer: got a record without content type, want one")
}
