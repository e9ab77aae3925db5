package wire

import "strconv"

// Status is byte 192 of a ReplicaChallenge: whether the acceptor goes on (§7.1).
type Status uint8

// The statuses. 4 and 5 are labels for logs and never reach the wire.
const (
	StatusOk Status = iota
	StatusUnknownCommand
	StatusClusterMismatch
	StatusDirectionalRule
	StatusAuthRequired
	StatusMacMismatch
)

// String returns Iggy's name of the status. A dialer reads a byte outside the
// list as UnknownCommand, so does this; the byte stays visible.
func (s Status) String() string {
	switch s {
	case StatusOk:
		return "Ok"
	case StatusUnknownCommand:
		return "UnknownCommand"
	case StatusClusterMismatch:
		return "ClusterMismatch"
	case StatusDirectionalRule:
		return "DirectionalRule"
	case StatusAuthRequired:
		return "AuthRequired"
	case StatusMacMismatch:
		return "MacMismatch"
	}
	return "UnknownCommand (" + strconv.Itoa(int(s)) + ")"
}

// handshake builds a handshake frame: everything but command, cluster, replica
// and size is zero (§1.8).
func handshake(c Command, cluster ClusterID, replica uint8) (h Header) {
	h.SetCommand(c)
	h.SetClusterID(cluster)
	Replica.Set(&h, replica)
	Size.Set(&h, HeaderSize)
	return h
}

// NewHello builds a dialer's first frame. nonce is nil where authentication is
// off, else NonceSize bytes.
func NewHello(cluster ClusterID, dialer uint8, nonce []byte) Header {
	h := handshake(ReplicaHello, cluster, dialer)
	copy(h[HelloNonce:HelloMAC], nonce)
	return h
}

// NewChallenge builds the acceptor's answer to an admitted Hello.
func NewChallenge(cluster ClusterID, acceptor uint8, nonce, mac []byte) Header {
	h := handshake(ReplicaChallenge, cluster, acceptor)
	copy(h[HelloNonce:HelloMAC], nonce)
	copy(h[HelloMAC:HelloStatus], mac)
	return h
}

// NewReject builds the acceptor's refusal.
func NewReject(cluster ClusterID, acceptor uint8, status Status) Header {
	h := handshake(ReplicaChallenge, cluster, acceptor)
	h[HelloStatus] = byte(status)
	return h
}

// NewFinish builds the dialer's last handshake frame; its nonce stays zero.
func NewFinish(cluster ClusterID, dialer uint8, mac []byte) Header {
	h := handshake(ReplicaFinish, cluster, dialer)
	copy(h[HelloMAC:HelloStatus], mac)
	return h
}

// Nonce is bytes 128..160 of a handshake frame, MAC bytes 160..192: views into h.
func (h *Header) Nonce() []byte { return h[HelloNonce:HelloMAC] }

// MAC is bytes 160..192 of a handshake frame.
func (h *Header) MAC() []byte { return h[HelloMAC:HelloStatus] }

// HasNonce reports whether a dialer's first frame announces that it will read an
// answer: any byte of 128..160 is set, whatever the command (§7.1).
func (h *Header) HasNonce() bool { return !allZero(h.Nonce()) }

// HandshakeClean reports whether a handshake frame has no body and zeros
// wherever builders write zero. Iggy accepts others (§1.8).
func HandshakeClean(h *Header) bool {
	clean := Size.Get(h) == HeaderSize && allZero(h[Checksum:Cluster]) && allZero(h[View:CommandAt]) &&
		ReservedFrameZero(h) && ReservedTailZero(h)
	switch h.Command() {
	case ReplicaHello:
		return clean && allZero(h.MAC()) && h[HelloStatus] == 0
	case ReplicaChallenge:
		return clean && (h[HelloStatus] == 0 || allZero(h[HelloNonce:HelloStatus]))
	case ReplicaFinish:
		return clean && !h.HasNonce() && h[HelloStatus] == 0
	}
	return false
}
