package certs

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// Hello is the note taken of one client's ClientHello. crypto/tls refuses a
// version or an application protocol with an untyped error, and nothing here
// matches on text, so [ClassifyServer] asks the note what was offered.
//
// The zero value is ready; one Hello serves one connection. It is written
// inside the handshake and may be read when HandshakeContext has returned.
type Hello struct {
	seen     bool
	version  bool // TLS 1.3 was among the offers
	alpn     bool // nothing was offered, or ours was among the offers
	versions []uint16
	protos   []string
}

// maxNoted bounds what is kept of each list: a ClientHello may carry 64 KiB of
// anything, and one log line has to hold it.
const maxNoted = 8

// Watch returns a copy of a server configuration that takes the note. The copy
// behaves as the original does: the hook only looks and never fails. An earlier
// GetConfigForClient still decides.
func (h *Hello) Watch(cfg *tls.Config) *tls.Config {
	watched := cfg.Clone()
	before := cfg.GetConfigForClient
	watched.GetConfigForClient = func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		h.take(info)
		if before != nil {
			return before(info)
		}
		return nil, nil // go on with this configuration
	}
	return watched
}

// take copies the offers; info is not ours to keep.
func (h *Hello) take(info *tls.ClientHelloInfo) {
	h.seen = true
	h.version = slices.Contains(info.SupportedVersions, tls.VersionTLS13)
	h.alpn = len(info.SupportedProtos) == 0 || slices.Contains(info.SupportedProtos, ALPN)
	h.versions, h.protos = nil, nil
	for _, version := range info.SupportedVersions {
		// RFC 8701: values a client throws in to keep servers tolerant.
		if version&0x0f0f != 0x0a0a && len(h.versions) < maxNoted {
			h.versions = append(h.versions, version)
		}
	}
	for _, proto := range info.SupportedProtos {
		if len(h.protos) < maxNoted {
			h.protos = append(h.protos, strings.Clone(clip(proto)))
		}
	}
}

// Seen reports whether a whole ClientHello arrived: before it silence is
// tls_timeout, after it hello_timeout.
func (h *Hello) Seen() bool { return h != nil && h.seen }

// Versions returns the TLS versions the client offered, at most eight.
func (h *Hello) Versions() []uint16 { return slices.Clone(h.versions) }

// Protocols returns the application protocols the client offered, at most eight.
func (h *Hello) Protocols() []string { return slices.Clone(h.protos) }

// refusedVersion reports a client that cannot speak TLS 1.3.
func (h *Hello) refusedVersion() bool { return h.Seen() && !h.version }

// refusedALPN reports a client that offered protocols, and not ours.
func (h *Hello) refusedALPN() bool { return h.Seen() && !h.alpn }

// offeredVersions prints the versions as people write them.
func (h *Hello) offeredVersions() string {
	names := make([]string, len(h.versions))
	for i, version := range h.versions {
		names[i] = tls.VersionName(version)
	}
	return strings.Join(names, ", ")
}

// offeredProtocols prints the protocols quoted: they are the client's bytes.
func (h *Hello) offeredProtocols() string {
	names := make([]string, len(h.protos))
	for i, proto := range h.protos {
		names[i] = fmt.Sprintf("%q", proto)
	}
	return strings.Join(names, ", ")
}
