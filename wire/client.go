package wire

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// The three frames of Iggy's client protocol. They have no place on the replica
// plane, and a replica executes a Request all the same (§2.3), so a gate must be
// able to name what it refuses.

// EvictionReason is byte 255 of an Eviction: why a client's session is dead.
type EvictionReason uint8

// String returns Iggy's name of the reason, or "reason 99".
func (r EvictionReason) String() string {
	if int(r) < len(evictionReasons) && evictionReasons[r] != "" {
		return evictionReasons[r]
	}
	return "reason " + strconv.Itoa(int(r))
}

var evictionReasons = [...]string{
	1: "NoSession", 2: "ClientReleaseTooLow", 3: "ClientReleaseTooHigh", 4: "InvalidRequestOperation",
	5: "InvalidRequestBody", 6: "InvalidRequestBodySize", 7: "SessionTooLow", 8: "SessionReleaseMismatch",
	9: "InvalidCredentials", 10: "InvalidToken", 11: "UserInactive", 12: "SessionError", 13: "StaleClient",
	14: "IncompatibleProtocol", 15: "MalformedLogin",
}

// Result is one entry of a reply's result section: a rejection by code.
type Result struct{ Index, Code uint32 }

// resultEntry is the length of one entry, resultHead of the count before them.
const (
	resultHead  = 4
	resultEntry = 8
)

// DecodeResults splits the body of a result-framed reply into its result section
// and the payload behind it. An empty section means success. The payload is a
// view into body.
func DecodeResults(body []byte) (results []Result, payload []byte, err error) {
	if len(body) < resultHead {
		return nil, nil, fmt.Errorf("wire: got a reply body of %d bytes, want a result section of at least %d", len(body), resultHead)
	}
	count := uint64(binary.LittleEndian.Uint32(body))
	rest := body[resultHead:]
	if count*resultEntry > uint64(len(rest)) {
		return nil, nil, fmt.Errorf("wire: got %d bytes behind a result count of %d, want %d", len(rest), count, count*resultEntry)
	}
	for range count {
		results = append(results, Result{binary.LittleEndian.Uint32(rest), binary.LittleEndian.Uint32(rest[4:])})
		rest = rest[resultEntry:]
	}
	return results, rest, nil
}

// AppendResults appends a result section and a payload to b.
func AppendResults(b []byte, results []Result, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(results)))
	for _, r := range results {
		b = binary.LittleEndian.AppendUint32(b, r.Index)
		b = binary.LittleEndian.AppendUint32(b, r.Code)
	}
	return append(b, payload...)
}

// The reasons ValidateRequest gives.
const (
	errRequestOperation = LayoutError("wire: got a request for operation 0 or for a byte that is no operation")
	errRequestSession   = LayoutError("wire: got a Register with a session or a request number, or another operation without")
)

// ValidateRequest reports what a replica's decode refuses in a Request before it
// executes it (§1.1): nil, or a LayoutError.
func ValidateRequest(h *Header) error {
	op := Operation(RequestOperation.Get(h))
	session, number := RequestSession.Get(h), RequestNumber.Get(h)
	switch {
	case RequestClient.Get(h).IsZero():
		return errClientZero
	case op == OpReserved || op.Class() == ClassUnknown:
		return errRequestOperation
	case op == OpRegister && (session != 0 || number != 0):
		return errRequestSession
	case op != OpRegister && op != OpNonReplicated && (session == 0 || number == 0):
		return errRequestSession
	}
	return nil
}
