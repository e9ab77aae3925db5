package mac

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/replgate/replgate/wire"
)

// The vectors of Appendix A, computed from the rules of §7.2 apart from this
// code. This file looks inside the package: neither the derived key nor the
// transcript is to be had outside.
const (
	vectorSecret = "0123456789abcdef0123456789abcdef"
	vectorKey    = "39ec545024b097198cbf082b239525e97c0da3a60f3a18fd29f7d169de6a54be"
)

var vectors = []struct {
	name       string
	binding    Binding
	macA, macD string
}{
	{"plaintext", Binding{},
		"044b521980f2163017c3fa3730ab0587838513d52fe697b0c6f947a3e8d33b48",
		"a883c0ee40ebada280ceb697aba6e4555ccf902d9f033f2691ab08708cb2cd08"},
	{"tls", TLS([ExporterSize]byte(bytes.Repeat([]byte{0xAA}, ExporterSize))),
		"d9d576ee50d07a184910cc10957126348ecf2985f2f973d341932449d15a003c",
		"8d69167eaeb3a71c59b68846e5bb28e52c591351aa2b1e3ee81533671e7ae2e2"},
}

func repeated(b byte) (n [wire.NonceSize]byte) {
	copy(n[:], bytes.Repeat([]byte{b}, wire.NonceSize))
	return n
}

// §7.2, first line: the key of a secret.
func TestVectorKey(t *testing.T) {
	key := deriveKey(keyContext, []byte(vectorSecret))
	if got := hex.EncodeToString(key[:]); got != vectorKey {
		t.Errorf("got key %s, want %s", got, vectorKey)
	}
}

// §7.2: both MACs over both channels, as they stand in the frames (§1.8).
func TestVectorMACs(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			keys, err := NewKeyring([]byte(vectorSecret), nil)
			if err != nil {
				t.Fatal(err)
			}
			opts := Options{Cluster: wire.ClusterIDOf("iggy-cluster"), Keys: keys, Binding: v.binding, Strict: true}
			d, a := NewDialer(Pair{Dialer: 0, Acceptor: 1}, opts), NewAcceptor(1, opts)
			hello := d.Hello(repeated(0x11))
			if err := a.Hello(&hello); err != nil {
				t.Fatal(err)
			}
			challenge := a.Challenge(repeated(0x22))
			if got := hex.EncodeToString(challenge.MAC()); got != v.macA {
				t.Errorf("got mac_a %s, want %s", got, v.macA)
			}
			finish, _, err := d.Challenge(&challenge)
			if err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(finish.MAC()); got != v.macD {
				t.Errorf("got mac_d %s, want %s", got, v.macD)
			}
		})
	}
}

// §7.2, the table of T: 143 bytes, each where the table says.
func TestTranscriptLayout(t *testing.T) {
	want := "apache-iggy replica-auth v1" + // 27
		"\x21\xbb\x05\xc8\x87\x27\xba\xb8\x8d\x0e\xc2\x7b\xe8\xa7\x2d\x46" + // cluster
		"\x03\x04" + // dialer, acceptor
		string(bytes.Repeat([]byte{0x11}, 32)) + string(bytes.Repeat([]byte{0x22}, 32)) +
		"\x01" + string(bytes.Repeat([]byte{0xAA}, 32)) + "\x02"
	if len(want) != 143 {
		t.Fatalf("the test's own transcript has %d bytes, want 143", len(want))
	}
	tr := newTranscript(wire.ClusterIDOf("iggy-cluster"), Pair{Dialer: 3, Acceptor: 4}, vectors[1].binding)
	d, a := repeated(0x11), repeated(0x22)
	copy(tr.dialerNonce(), d[:])
	copy(tr.acceptorNonce(), a[:])
	if got := string(tr.from(fromAcceptor)[:]); got != want {
		t.Errorf("got transcript\n%x, want\n%x", got, want)
	}
	if got := tr.from(fromDialer)[142]; got != 1 {
		t.Errorf("got direction %d for mac_d, want 1", got)
	}
}

// §7.2: what the TLS session is asked for.
func TestExporter(t *testing.T) {
	if ExporterLabel != "iggy replica psk binding" || ExporterSize != 32 {
		t.Errorf("got %q and %d bytes, want the label of §7.2 and 32", ExporterLabel, ExporterSize)
	}
}
