package wire

import (
	"bytes"
	"testing"
)

var testCluster = ClusterIDOf("iggy-cluster")

// rawHandshake writes a handshake frame by the table of §1.8.
func rawHandshake(command, replica byte, nonce, mac []byte, status byte) (h Header) {
	copy(h[32:], "\x21\xbb\x05\xc8\x87\x27\xba\xb8\x8d\x0e\xc2\x7b\xe8\xa7\x2d\x46")
	h[49] = 1 // size 256
	h[60], h[61] = command, replica
	copy(h[128:160], nonce)
	copy(h[160:192], mac)
	h[192] = status
	return h
}

// §1.8, line by line: the five forms that builders write.
func TestHandshakeForms(t *testing.T) {
	nonce, mac := bytes.Repeat([]byte{0x11}, 32), bytes.Repeat([]byte{0x22}, 32)
	for _, row := range []struct {
		name      string
		got, want Header
		hasNonce  bool
	}{
		{"§1.8 Hello, auth on", NewHello(testCluster, 0, nonce), rawHandshake(14, 0, nonce, nil, 0), true},
		{"§1.8 Hello, auth off", NewHello(testCluster, 2, nil), rawHandshake(14, 2, nil, nil, 0), false},
		{"§1.8 Challenge", NewChallenge(testCluster, 1, nonce, mac), rawHandshake(15, 1, nonce, mac, 0), true},
		{"§1.8 Challenge, reject", NewReject(testCluster, 1, StatusDirectionalRule), rawHandshake(15, 1, nil, nil, 3), false},
		{"§1.8 Finish", NewFinish(testCluster, 0, mac), rawHandshake(16, 0, nil, mac, 0), false},
	} {
		if row.got != row.want {
			t.Errorf("%s: got\n%x\nwant\n%x", row.name, row.got[:], row.want[:])
		}
		if !HandshakeClean(&row.got) || row.got.HasNonce() != row.hasNonce || *rebuild(&row.got) != row.got {
			t.Errorf("%s: clean %v, nonce %v", row.name, HandshakeClean(&row.got), row.got.HasNonce())
		}
		if !bytes.Equal(row.got.Nonce(), row.want[128:160]) || !bytes.Equal(row.got.MAC(), row.want[160:192]) {
			t.Errorf("%s: got nonce %x, MAC %x", row.name, row.got.Nonce(), row.got.MAC())
		}
	}
}

// §1.8: each byte that a form leaves zero makes it dirty, each byte that it may
// set does not. Iggy accepts both.
func TestHandshakeDirt(t *testing.T) {
	nonce, mac := bytes.Repeat([]byte{0x11}, 32), bytes.Repeat([]byte{0x22}, 32)
	type span struct{ from, to int }
	free := []span{{32, 48}, {61, 62}} // cluster and replica
	for _, row := range []struct {
		name string
		h    Header
		free []span
	}{
		{"Hello", NewHello(testCluster, 0, nonce), []span{{128, 160}}},
		{"Challenge", NewChallenge(testCluster, 1, nonce, mac), []span{{128, 192}}},
		{"reject", NewReject(testCluster, 1, StatusClusterMismatch), []span{{192, 193}}},
		{"Finish", NewFinish(testCluster, 0, mac), []span{{160, 192}}},
	} {
		for i := range row.h {
			h := row.h
			h[i] ^= 0x40
			want := false
			for _, s := range append(free, row.free...) {
				want = want || i >= s.from && i < s.to
			}
			if got := HandshakeClean(&h); got != want {
				t.Errorf("§1.8 %s, byte %d changed: got clean %v, want %v", row.name, i, got, want)
			}
		}
	}
	for c := range Command(255) {
		h := rawHandshake(byte(c), 0, nil, nil, 0)
		if got, want := HandshakeClean(&h), c >= 14 && c <= 16; got != want {
			t.Errorf("§1.8 %v: got clean %v, want %v", c, got, want)
		}
	}
}

// §7.1: any byte of 128..160 announces that an answer will be read.
func TestHasNonce(t *testing.T) {
	for i := range HeaderSize {
		var h Header
		h[i] = 1
		if got, want := h.HasNonce(), i >= 128 && i < 160; got != want {
			t.Errorf("byte %d: got %v, want %v", i, got, want)
		}
	}
}

// §7.1: the statuses; a byte outside the list reads as UnknownCommand.
func TestStatuses(t *testing.T) {
	for s, want := range map[Status]string{StatusOk: "Ok", 1: "UnknownCommand", 2: "ClusterMismatch", 3: "DirectionalRule",
		4: "AuthRequired", 5: "MacMismatch", 6: "UnknownCommand (6)", 255: "UnknownCommand (255)"} {
		if got := s.String(); got != want {
			t.Errorf("%d: got %s, want %s", uint8(s), got, want)
		}
	}
}

// The whole recorded handshake frames are clean; so is none of another command.
func TestRecordedHandshakes(t *testing.T) {
	for _, r := range recordings(t) {
		if got, want := HandshakeClean(r.head()), r.bytes[60] >= 14 && r.bytes[60] <= 16; got != want {
			t.Errorf("%v: §1.8: got clean %v, want %v", r, got, want)
		}
	}
}
