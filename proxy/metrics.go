package proxy

import "time"

// Metrics takes the counts of a server. Words are those of the vocabulary;
// peers are ids in decimal. Implementations are safe for concurrent use.
type Metrics interface {
	// LinkOpened and LinkClosed bracket a link. direction is ingress or egress.
	LinkOpened(peer, direction, security string)
	LinkClosed(peer, direction, security, ending string)
	// Refused counts a connection that ended before it was proven.
	Refused(direction, ending string)
	// Unauthenticated moves the number of connections in handshake.
	Unauthenticated(delta int)
	// Handshake counts one side of a handshake; role is acceptor or dialer,
	// result is "ok" or an ending.
	Handshake(role, result string, took time.Duration)
	// SecretProof says which secret a peer proved.
	SecretProof(peer, slot string)
	// PlaintextLink counts a link whose far leg is plaintext.
	PlaintextLink(peer string)
	// WriteBlocked adds the time a write had to wait for its reader.
	WriteBlocked(d time.Duration)
	// Frames returns the counters of one direction of a peer's links; way is in
	// or out. It is asked once per pump.
	Frames(peer, way string) FrameCounter
}

// Result is what became of a frame.
type Result uint8

// The results.
const (
	Forwarded Result = iota
	Dropped
	Lost
)

// FrameCounter counts the frames of one direction. It must not allocate.
type FrameCounter interface {
	Add(result Result, command uint8, frames, bytes uint64)
	Rejected(rule, verdict string)
}

// noMetrics counts nothing.
type noMetrics struct{}

func (noMetrics) LinkOpened(_, _, _ string)              {}
func (noMetrics) LinkClosed(_, _, _, _ string)           {}
func (noMetrics) Refused(_, _ string)                    {}
func (noMetrics) Unauthenticated(int)                    {}
func (noMetrics) Handshake(_, _ string, _ time.Duration) {}
func (noMetrics) SecretProof(_, _ string)                {}
func (noMetrics) PlaintextLink(string)                   {}
func (noMetrics) WriteBlocked(time.Duration)             {}
func (noMetrics) Frames(_, _ string) FrameCounter        { return noFrames{} }

type noFrames struct{}

func (noFrames) Add(Result, uint8, uint64, uint64) {}
func (noFrames) Rejected(_, _ string)              {}
