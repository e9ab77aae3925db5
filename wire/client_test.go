package wire

import (
	"bytes"
	"slices"
	"testing"
)

// framing, "Eviction reasons": every reason with its name, 0 and the rest without.
func TestEvictions(t *testing.T) {
	names := []string{1: "NoSession", 2: "ClientReleaseTooLow", 3: "ClientReleaseTooHigh", 4: "InvalidRequestOperation",
		5: "InvalidRequestBody", 6: "InvalidRequestBodySize", 7: "SessionTooLow", 8: "SessionReleaseMismatch",
		9: "InvalidCredentials", 10: "InvalidToken", 11: "UserInactive", 12: "SessionError", 13: "StaleClient",
		14: "IncompatibleProtocol", 15: "MalformedLogin"}
	var frames [][]byte
	for reason := 1; reason < len(names); reason++ {
		f := frame(Eviction, 6, 1, nil)
		h := (*Header)(f)
		EvictionClient.Set(h, Wide(0x99))
		EvictionReasonAt.Set(h, uint8(reason))
		if names[reason] == "IncompatibleProtocol" {
			EvictionVersionMax.Set(h, 0x000b00)
			EvictionVersionMin.Set(h, 0x000900)
		}
		frames = append(frames, f)
		if got := EvictionReason(EvictionReasonAt.Get(h)).String(); got != names[reason] {
			t.Errorf("reason %d: got %s, want %s", reason, got, names[reason])
		}
		if *rebuild(h) != *h || !ReservedFrameZero(h) || !ReservedTailZero(h) {
			t.Errorf("reason %d: does not come back from its fields", reason)
		}
	}
	sameShapes(t, "evictions", frames...)
	for reason, want := range map[EvictionReason]string{0: "reason 0", 16: "reason 16", 255: "reason 255"} {
		if got := reason.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func reply(op Operation, status uint32, body []byte) []byte {
	f := frame(Reply, 6, 1, body)
	h := (*Header)(f)
	ReplyRequestChecksum.Set(h, Wide(0xc1))
	ReplyContext.Set(h, Wide(0xc2))
	ReplyClient.Set(h, Wide(0x99))
	ReplyOp.Set(h, 40)
	ReplyCommit.Set(h, 41)
	ReplyTimestamp.Set(h, 1700000000000000)
	ReplyRequest.Set(h, 12)
	ReplyOperation.Set(h, uint8(op))
	ReplyStatus.Set(h, status)
	return f
}

// framing, "ReplyHeader" and "Result section".
func TestReplies(t *testing.T) {
	shapes := []struct {
		op      Operation
		status  uint32
		framed  bool
		results []Result
		payload string
	}{
		{op: 64, framed: true, payload: "created"},
		{op: OpStoreConsumerOffset, framed: true},
		{op: 128, framed: true, results: []Result{{0, 1012}}},
		{op: 149, framed: true, results: []Result{{0, 7}, {1, 8}, {2, 9}}},
		{op: OpNonReplicated, payload: "payload"},
		{op: 129, status: 41, framed: true}, // a status comes with an empty body, framed or not
		{op: OpRegister, framed: true, payload: "login"},
	}
	var frames [][]byte
	for i, s := range shapes {
		body := []byte(s.payload)
		if s.framed && s.status == 0 {
			body = AppendResults(nil, s.results, body)
		}
		f := reply(s.op, s.status, body)
		frames = append(frames, f)
		h := (*Header)(f)
		if op, ok := h.Operation(); !ok || op != s.op || *rebuild(h) != *h || !ReservedTailZero(h) {
			t.Errorf("reply %d: got %v, %v, or does not come back from its fields", i, op, ok)
		}
		if s.op != OpRegister && s.op.ResultFramed() != s.framed {
			t.Errorf("%v: got ResultFramed %v, want %v", s.op, s.op.ResultFramed(), s.framed)
		}
		if !s.framed || s.status != 0 {
			continue
		}
		results, payload, err := DecodeResults(f[HeaderSize:])
		if err != nil || !slices.Equal(results, s.results) || string(payload) != s.payload {
			t.Errorf("reply %d: got %v, %q, %v, want %v, %q", i, results, payload, err, s.results, s.payload)
		}
	}
	sameShapes(t, "replies", frames...)
}

// framing, "Result section": counts that the body cannot hold.
func TestResultRefusals(t *testing.T) {
	body := AppendResults(nil, []Result{{0, 1012}, {1, 7}}, nil)
	if _, _, err := DecodeResults(body); err != nil {
		t.Errorf("got %v for a whole section", err)
	}
	huge := bytes.Repeat([]byte{0xff}, 4)
	for name, b := range map[string][]byte{"empty": nil, "3 bytes": body[:3], "one byte short": body[:19],
		"2^32-1 results in nothing": huge, "2^29 results, their length a multiple of 2^32": {0, 0, 0, 0x20}} {
		if results, payload, err := DecodeResults(b); err == nil || results != nil || payload != nil {
			t.Errorf("%s: got %v, %v, %v, want an error", name, results, payload, err)
		}
	}
}

func request(op Operation, session, number uint64, code uint32) []byte {
	f := frame(Request, 0, 0, []byte("abc"))
	h := (*Header)(f)
	RequestClient.Set(h, Wide(0x99))
	RequestChecksum.Set(h, Wide(0xc1))
	RequestTimestamp.Set(h, 17)
	RequestNumber.Set(h, number)
	RequestOperation.Set(h, uint8(op))
	RequestSession.Set(h, session)
	RequestUser.Set(h, 1)
	RequestCode.Set(h, code)
	RequestGroup.Set(h, MetadataGroup)
	return f
}

// §1.1: the forms a replica would execute.
func TestRequests(t *testing.T) {
	frames := [][]byte{request(OpRegister, 0, 0, 0), request(OpNonReplicated, 0, 0, 12), request(OpNonReplicated, 5, 9, 12),
		request(128, 5, 9, 0), request(OpSendMessages, 5, 10, 0), request(OpLogout, 5, 11, 0)}
	sameShapes(t, "requests", frames...)
	for i, f := range frames {
		h := (*Header)(f)
		if err := ValidateRequest(h); err != nil || *rebuild(h) != *h {
			t.Errorf("§1.1 request %d: got %v, or does not come back from its fields", i, err)
		}
	}
}

// §1.1, rule by rule: what a replica refuses, beside what it accepts.
func TestRequestRefusals(t *testing.T) {
	for _, row := range []struct {
		name            string
		op              Operation
		session, number uint64
		want            error
	}{
		{"§1.1 operation 0", OpReserved, 5, 9, errRequestOperation},
		{"§1.1 a byte that is no operation", 100, 5, 9, errRequestOperation},
		{"§1.1 Register with a session", OpRegister, 5, 0, errRequestSession},
		{"§1.1 Register with a number", OpRegister, 0, 9, errRequestSession},
		{"§1.1 Register with neither", OpRegister, 0, 0, nil},
		{"§1.1 Logout without a session", OpLogout, 0, 9, errRequestSession},
		{"§1.1 Logout without a number", OpLogout, 5, 0, errRequestSession},
		{"§1.1 Logout with both", OpLogout, 5, 9, nil},
		{"§1.1 SendMessages without either", OpSendMessages, 0, 0, errRequestSession},
		{"§1.1 NonReplicated with a number only", OpNonReplicated, 0, 9, nil},
		{"§1.1 DeleteSegments, which clients may send", OpDeleteSegments, 5, 9, nil},
	} {
		h := (*Header)(request(row.op, row.session, row.number, 0))
		if got := ValidateRequest(h); got != row.want {
			t.Errorf("%s: got %v, want %v", row.name, got, row.want)
		}
		RequestClient.Set(h, U128{})
		if got := ValidateRequest(h); got != errClientZero {
			t.Errorf("%s, client zero: got %v, want %v", row.name, got, errClientZero)
		}
	}
	h := (*Header)(request(OpLogout, 5, 9, 0))
	RequestClient.Set(h, U128{Hi: 1})
	if got := ValidateRequest(h); got != nil {
		t.Errorf("§1.1 client with its upper half only: got %v", got)
	}
}
