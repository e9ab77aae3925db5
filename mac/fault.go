package mac

import (
	"errors"
	"fmt"

	"github.com/replgate/replgate/wire"
)

// The faults of a handshake that a caller tells apart. Each comes wrapped in an
// error that says what was expected and what was found.
var (
	// ErrCommand: the frame is another than the one whose turn it is.
	ErrCommand = errors.New("mac: another command")
	// ErrMalformed: the frame has a body or bytes set where builders write zero.
	// Iggy accepts it; whether it is refused is the caller's setting.
	ErrMalformed = errors.New("mac: malformed handshake frame")
	// ErrAuthRequired: the Hello has no nonce and this side requires the MAC. The
	// dialer cannot read an answer.
	ErrAuthRequired = errors.New("mac: authentication required")
	// ErrMismatch: neither secret made the MAC.
	ErrMismatch = errors.New("mac: mismatch")
)

// A RejectedError is the acceptor's refusal, as the dialer reads it.
type RejectedError struct{ Status wire.Status }

func (e *RejectedError) Error() string {
	return fmt.Sprintf("mac: got a reject with status %v, want a Challenge", e.Status)
}

func wantCommand(h *wire.Header, want wire.Command) error {
	if got := h.Command(); got != want {
		return fmt.Errorf("%w: got %v, want %v", ErrCommand, got, want)
	}
	return nil
}

// checkClean is the strict reading of a handshake frame.
func checkClean(h *wire.Header, strict bool) error {
	if strict && !wire.HandshakeClean(h) {
		return fmt.Errorf("%w: got a %v with a body or non-zero reserved bytes, want 256 bytes as builders write them", ErrMalformed, h.Command())
	}
	return nil
}
