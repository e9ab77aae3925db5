package mac

import (
	"lukechampine.com/blake3"

	"github.com/replgate/replgate/wire"
)

// ExporterLabel and ExporterSize are what a TLS session is asked for (RFC 8446
// §7.5, no context) to bind the handshake to it (§7.2).
const (
	ExporterLabel = "iggy replica psk binding"
	ExporterSize  = 32
)

// Binding ties a handshake to the channel it runs on. The zero value is a
// plaintext channel.
type Binding struct {
	tls      bool
	exporter [ExporterSize]byte
}

// TLS returns the binding to the TLS session whose exporter gave these bytes.
func TLS(exporter [ExporterSize]byte) Binding { return Binding{tls: true, exporter: exporter} }

// Pair is a link's two ends by id: the lower dials, the higher accepts.
type Pair struct{ Dialer, Acceptor uint8 }

// The last byte of the transcript: who is speaking.
const (
	fromDialer   = 1
	fromAcceptor = 2
)

const prefix = "apache-iggy replica-auth v1"

// transcript is what both MACs are computed over (§7.2): the prefix, the
// cluster, both ids, both nonces, the channel and the direction.
type transcript [len(prefix) + 16 + 2 + 2*wire.NonceSize + 1 + ExporterSize + 1]byte

func newTranscript(cluster wire.ClusterID, pair Pair, binding Binding) *transcript {
	t := new(transcript)
	at := copy(t[:], prefix)
	at += copy(t[at:], cluster[:])
	t[at], t[at+1] = pair.Dialer, pair.Acceptor
	at += 2 + 2*wire.NonceSize
	if binding.tls {
		t[at] = 1
	}
	copy(t[at+1:], binding.exporter[:])
	return t
}

const nonceAt = len(prefix) + 16 + 2

func (t *transcript) dialerNonce() []byte { return t[nonceAt : nonceAt+wire.NonceSize] }
func (t *transcript) acceptorNonce() []byte {
	return t[nonceAt+wire.NonceSize : nonceAt+2*wire.NonceSize]
}

func (t *transcript) from(direction byte) *transcript {
	t[len(t)-1] = direction
	return t
}

// Session names one proven channel, as only its two ends can: the hash of all that
// its handshake was about, the channel's binding with it. Over TLS nobody else can
// know it. The zero value is no channel.
type Session [32]byte

func (t *transcript) session() Session { return blake3.Sum256(t.from(0)[:]) }
