package tlspeer

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"testing"
)

// unhex reads a vector.
func unhex(t *testing.T, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// RFC 8446 §7.1 to §7.3. The first secret, key and iv are RFC 8448 §3's server
// application traffic; the rest was computed apart from this code, with HMAC.
func TestKeys(t *testing.T) {
	for _, row := range []struct {
		suite                 uint16
		secret, key, iv, next string
	}{
		{
			tls.TLS_AES_128_GCM_SHA256,
			"a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643",
			"9f02283b6c9c07efc26bb9f2ac92e356", "cf782b88dd83549aadf1e984",
			"51921b8aa3001976eb401d0a4319a8516416a6c56001a357e5d162031e84f916",
		},
		{
			tls.TLS_AES_256_GCM_SHA384,
			"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f",
			"6877d022f1c61d24ebb7487c16752d9a4798e40431c75b39320e537c90e23225", "42822531a0fe88648fc09e9f",
			"401331b63e9d59f202e8f041042d9516f4cd7fa2e2ee14631d3b49fc340d7af37fc2c0c9f252d8036f81ec5b85cbe5db",
		},
	} {
		h, err := newHalf(row.suite, unhex(t, row.secret))
		if err != nil {
			t.Fatal(err)
		}
		key, err := h.expand("key", h.keyLen)
		if err != nil || !bytes.Equal(key, unhex(t, row.key)) {
			t.Errorf("got key %x and %v, want %s", key, err, row.key)
		}
		if !bytes.Equal(h.iv, unhex(t, row.iv)) {
			t.Errorf("got iv %x, want %s", h.iv, row.iv)
		}
		h.seq = 7
		if err := h.update(); err != nil || h.seq != 0 || !bytes.Equal(h.secret, unhex(t, row.next)) {
			t.Errorf("got secret %x, record %d and %v, want %s, 0 and none", h.secret, h.seq, err, row.next)
		}
	}
}

func TestRecordRoundTrip(t *testing.T) {
	for suite, size := range map[uint16]int{tls.TLS_AES_128_GCM_SHA256: 32, tls.TLS_AES_256_GCM_SHA384: 48} {
		secret := bytes.Repeat([]byte{7}, size)
		out, err := newHalf(suite, secret)
		if err != nil {
			t.Fatal(err)
		}
		in := out
		for i, plain := range [][]byte{{}, {0, 0}, bytes.Repeat([]byte{1, 0}, maxPlain/2)} {
			record := out.seal([]byte("before"), typeApplication, plain)[len("before"):]
			typ, got, err := in.open(nil, record)
			if err != nil || typ != typeApplication || !bytes.Equal(got, plain) {
				t.Errorf("record %d: got type %d, %d bytes and %v, want %d bytes", i, typ, len(got), err, len(plain))
			}
			if len(record) > maxRecord {
				t.Errorf("record %d: got %d bytes, want at most %d", i, len(record), maxRecord)
			}
		}
		again := out.seal(nil, typeApplication, []byte("x"))
		in.seq++
		if _, _, err := in.open(nil, again); err == nil {
			t.Error("got a record of another number open, want an error")
		}
	}
	if _, err := newHalf(tls.TLS_CHACHA20_POLY1305_SHA256, nil); err == nil {
		t.Error("got a suite without AES, want an error")
	}
	if _, err := newHalf(tls.TLS_AES_128_GCM_SHA256, nil); err == nil {
		t.Error("got keys without a secret, want an error")
	}
}
