package wire

// ProbeMark begins the nonce of a first frame that only asks who is there. A
// replica's nonce is random and never begins so; an Iggy sees a random one (§1.8).
const ProbeMark = "replgate probe:"

// Behind the mark a gate says why it comes: to show the secret that it signs with,
// or its other one. `replgate probe` has another byte there.
const (
	ShowsCurrent byte = 'c'
	ShowsOther   byte = 'o'
)

// clientHelloRandom is where the random bytes of a TLS ClientHello stand, after
// the headers of the record and of the message and a version (RFC 8446 §4.1.2).
const clientHelloRandom = 5 + 4 + 2

// IsProbe reports whether a dialer's first frame carries the mark.
func (h *Header) IsProbe() bool {
	return string(h[HelloNonce:HelloNonce+len(ProbeMark)]) == ProbeMark
}

// IsProbeHello reports whether a TLS ClientHello, of which b is the beginning,
// carries the mark in its random bytes.
func IsProbeHello(b []byte) bool {
	return len(b) >= clientHelloRandom+len(ProbeMark) &&
		string(b[clientHelloRandom:clientHelloRandom+len(ProbeMark)]) == ProbeMark
}

// Shows returns the byte behind the mark of a first frame, where a gate comes to
// show a secret with it.
func (h *Header) Shows() (which byte, ok bool) {
	which = h[HelloNonce+len(ProbeMark)]
	return which, h.IsProbe() && (which == ShowsCurrent || which == ShowsOther)
}
