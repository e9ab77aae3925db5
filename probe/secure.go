package probe

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// alpn is the only application protocol of the replica plane (§7.8).
const alpn = "iggy-replica"

// secure tries TLS, and sends a Hello where it works.
func (v *visit) secure() {
	v.secured.tls = true
	within := min(v.Timeout, tlsTimeout)
	if v.Expected == TLS {
		within = v.Timeout
	}
	raw, err := v.connect(within)
	if err != nil {
		v.secured.refused = err
		return
	}
	defer raw.Close()
	c := tls.Client(raw, v.config())
	err = c.HandshakeContext(v.ctx)
	first := raw.first
	v.secured.spoken = isRecord(first)
	if err != nil {
		v.secured.refused = err
		v.secured.answer = recognise(first)
		return
	}
	v.secured.state, v.secured.tried = c.ConnectionState(), true
	v.allow(raw, v.Timeout)
	v.secured.answer = v.ask(c, v.stranger())
}

// isRecord reports whether b begins as a TLS handshake or alert record does.
func isRecord(b []byte) bool {
	return len(b) > 1 && (b[0] == 0x16 || b[0] == 0x15) && b[1] == 0x03
}

// config is a gate's TLS with the judgement of certificates left to us, so that
// every fault is found and not only the first. We show no certificate.
func (v *visit) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS13,
		NextProtos: []string{alpn}, ServerName: v.ServerName,
		CurvePreferences:       []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256, tls.CurveP384},
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		Rand:                   new(marking),
	}
}

// The bytes of a ClientHello that crypto/tls asks of its random source first, and
// those among them that a plaintext replica reads as a frame's size: bytes 48..52,
// which lie in the session id.
const (
	sizeFrom = 32 + 4
	sizeTo   = sizeFrom + 4
)

// marking is a random source whose first bytes mark a ClientHello as a probe's and
// give it the size of no frame, so that a plaintext replica closes at once instead
// of waiting for the rest (Appendix B). All else is random.
type marking struct{ at int }

func (m *marking) Read(b []byte) (int, error) {
	n, err := rand.Read(b)
	for i := range b[:n] {
		switch at := m.at + i; {
		case at < len(wire.ProbeMark):
			b[i] = wire.ProbeMark[at]
		case at >= sizeFrom && at < sizeTo:
			b[i] = 0xFF
		case at >= sizeTo:
			m.at = sizeTo // no need to count any further
			return n, err
		}
	}
	m.at += n
	return n, err
}

// bind ties the MAC to the channel (§7.2).
func bind(state tls.ConnectionState) (mac.Binding, error) {
	exporter, err := state.ExportKeyingMaterial(mac.ExporterLabel, nil, mac.ExporterSize)
	if err != nil {
		return mac.Binding{}, fmt.Errorf("probe: exporter: %w", err)
	}
	return mac.TLS([mac.ExporterSize]byte(exporter)), nil
}
