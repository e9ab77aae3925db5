package wire

import "testing"

// honest is a header of c that Iggy's validation accepts, with a value in every
// field that a rule looks at.
func honest(c Command) (h Header) {
	h = *(*Header)(frame(c, 9, 1, nil))
	switch c {
	case Prepare, RepairPrepare:
		PrepareOperation.Set(&h, uint8(OpSendMessages))
	case PrepareOk:
		PrepareOkOperation.Set(&h, uint8(OpLogout))
	case DoViewChange:
		Size.Set(&h, HeaderSize+2*HeaderSize)
		ViewOp.Set(&h, 7)
		ViewCommit.Set(&h, 7)
		DoViewChangeLogView.Set(&h, 9)
		DoViewChangeNacks.Set(&h, U128{Lo: 0b01})
		DoViewChangePresent.Set(&h, U128{Lo: 0b10})
	case StartView:
		Size.Set(&h, HeaderSize+128*HeaderSize)
		ViewOp.Set(&h, 7)
		ViewCommit.Set(&h, 7)
	case RequestPrepares:
		RequestPreparesFrom.Set(&h, 1)
		RequestPreparesTo.Set(&h, 1)
	case StateTransferTarget:
		Size.Set(&h, HeaderSize+manifestOverhead)
		TargetAvailable.Set(&h, 1)
	case RequestStateChunk:
		RequestChunkLen.Set(&h, 1)
	case ForwardRegister, ForwardLogout:
		ForwardClient.Set(&h, U128{Hi: 1})
		ForwardNonce.Set(&h, U128{Hi: 1})
		if c == ForwardLogout {
			ForwardSession.Set(&h, 1)
			ForwardRequest.Set(&h, 1)
		}
	case ForwardRegisterResult:
		ResultNonce.Set(&h, U128{Hi: 1})
		ResultClient.Set(&h, U128{Hi: 1})
		RegisterEpoch.Set(&h, 5)
		RegisterWatermark.Set(&h, 6)
	case ForwardLogoutResult:
		ResultNonce.Set(&h, U128{Hi: 1})
		ResultClient.Set(&h, U128{Hi: 1})
		LogoutCommit.Set(&h, 5)
	}
	return h
}

// A refusal is one rule of §1, one header that breaks it, and its honest neighbour.
type refusal struct {
	rule     string
	commands []Command
	bad      func(h *Header)
	want     error
	good     func(h *Header)
}

func set8(f U8, v uint8) func(*Header)       { return func(h *Header) { f.Set(h, v) } }
func set32(f U32, v uint32) func(*Header)    { return func(h *Header) { f.Set(h, v) } }
func set64(f U64, v uint64) func(*Header)    { return func(h *Header) { f.Set(h, v) } }
func set128(f Wide128, v U128) func(*Header) { return func(h *Header) { f.Set(h, v) } }

func both(edits ...func(*Header)) func(*Header) {
	return func(h *Header) {
		for _, e := range edits {
			e(h)
		}
	}
}

var prepares = []Command{Prepare, RepairPrepare}

func consensusRefusals() []refusal {
	votes := []Command{DoViewChange}
	views := []Command{DoViewChange, StartView}
	one := func(at int) func(*Header) { return func(h *Header) { h[at] = 1 } }
	return []refusal{
		{"§1.2 operation", prepares, set8(PrepareOperation, 5), errOperation, set8(PrepareOperation, 0)},
		{"§1.2 reserved_frame, first byte", prepares, one(62), errReservedFrame, one(61)},
		{"§1.2 reserved_frame, last byte", prepares, one(127), errReservedFrame, one(128)},
		{"§1.2 reserved, first byte", prepares, one(228), errReservedTail, one(227)},
		{"§1.2 reserved, last byte", prepares, one(255), errReservedTail, one(209)},
		{"§1.2 release and padding are free", prepares, one(240), errReservedTail, both(set32(Release, 1), one(215))},
		{"§1.3 operation", []Command{PrepareOk}, set8(PrepareOkOperation, 70), errOperation, set8(PrepareOkOperation, 68)},
		{"§1.3 no size, reserved or release rule", []Command{PrepareOk}, set8(PrepareOkOperation, 255), errOperation,
			both(set32(Size, 300), one(62), one(255), set32(Release, 1))},
		{"§1.4 size", []Command{Commit}, set32(Size, 257), errSize256, one(255)},
		{"§1.5 release", []Command{StartViewChange}, set32(Release, 1), errRelease, set32(Size, 300)},
		{"§1.6, §1.7 release", views, set32(Release, 1<<31), errRelease, set32(Release, 0)},
		{"§1.6, §1.7 commit above op", views, set64(ViewCommit, 8), errCommitAboveOp, set64(ViewCommit, 0)},
		{"§1.6 log_view above view", votes, set32(DoViewChangeLogView, 10), errLogView, set32(DoViewChangeLogView, 8)},
		{"§1.6, §1.7 suffix not in entries", views, set32(Size, 256+2*256+1), errSuffixSize, set32(Size, 256+2*256)},
		{"§1.6, §1.7 suffix of 129", views, set32(Size, 256+129*256), errSuffixSize, set32(Size, 256+128*256)},
		{"§1.6, §1.7 size 0", views, set32(Size, 0), errSuffixSize, set32(Size, 256+2*256)},
		{"§1.6 nack bit 2 of 2 entries", votes, set128(DoViewChangeNacks, U128{Lo: 4}), errSuffixBits, set128(DoViewChangeNacks, U128{Lo: 3})},
		{"§1.6 present bit 2 of 2 entries", votes, set128(DoViewChangePresent, U128{Lo: 4}), errSuffixBits, set128(DoViewChangePresent, U128{})},
		{"§1.6 bit 127 of 2 entries", votes, set128(DoViewChangePresent, U128{Hi: 1 << 63}), errSuffixBits, set128(DoViewChangePresent, U128{Lo: 1})},
		{"§1.6 bit 0 of none", votes, both(set32(Size, 256), set128(DoViewChangeNacks, U128{}), set128(DoViewChangePresent, U128{Lo: 1})), errSuffixBits,
			both(set32(Size, 256), set128(DoViewChangeNacks, U128{}), set128(DoViewChangePresent, U128{}))},
		{"§1.6 bit 64 of 64", votes, both(set32(Size, 256+64*256), set128(DoViewChangeNacks, U128{Hi: 1})), errSuffixBits,
			both(set32(Size, 256+64*256), set128(DoViewChangeNacks, U128{Lo: 1 << 63}))},
		{"§1.6 bit 65 of 65", votes, both(set32(Size, 256+65*256), set128(DoViewChangePresent, U128{Hi: 2})), errSuffixBits,
			both(set32(Size, 256+65*256), set128(DoViewChangePresent, U128{Hi: 1}))},
		{"§1.6 bit 127 of 127", votes, both(set32(Size, 256+127*256), set128(DoViewChangePresent, U128{Hi: 1 << 63})), errSuffixBits,
			both(set32(Size, 256+128*256), set128(DoViewChangePresent, U128{^uint64(0), ^uint64(0)}))},
		{"§1.9 release", []Command{RequestStartView}, set32(Release, 1), errRelease, one(200)},
	}
}

func repairRefusals() []refusal {
	target := []Command{StateTransferTarget}
	refused := both(set8(TargetAvailable, 0), set32(Size, 256))
	return []refusal{
		{"§1.10 from_op zero", []Command{RequestPrepares}, set64(RequestPreparesFrom, 0), errRange, set64(RequestPreparesTo, 9)},
		{"§1.10 from_op above to_op", []Command{RequestPrepares}, set64(RequestPreparesFrom, 2), errRange,
			both(set64(RequestPreparesFrom, 1<<63), set64(RequestPreparesTo, 1<<63))},
		{"§1.12 size of RequestStateTransfer", []Command{RequestStateTransfer}, set32(Size, 512), errSize256, set32(Release, 1)},
		{"§1.12 available above 1", target, set8(TargetAvailable, 2), errAvailable, set8(TargetAvailable, 1)},
		{"§1.12 transient above 1", target, both(refused, set8(TargetTransient, 2)), errAvailable, both(refused, set8(TargetTransient, 1))},
		{"§1.12 available and transient", target, set8(TargetTransient, 1), errAvailable, refused},
		{"§1.12 body on a refusal", target, set8(TargetAvailable, 0), errRefusalBody, refused},
		{"§1.12 chunk of zero bytes", []Command{RequestStateChunk}, set32(RequestChunkLen, 0), errChunkLen, set32(RequestChunkLen, 1<<31)},
		{"§1.12 size of RequestStateChunk", []Command{RequestStateChunk}, set32(Size, 257), errSize256, set64(ChunkOffset, 1)},
	}
}

func forwardRefusals() []refusal {
	requests, results := []Command{ForwardRegister, ForwardLogout}, []Command{ForwardRegisterResult, ForwardLogoutResult}
	all := []Command{ForwardRegister, ForwardLogout, ForwardRegisterResult, ForwardLogoutResult}
	one := func(at int) func(*Header) { return func(h *Header) { h[at] = 1 } }
	rows := []refusal{
		{"§1.13 size", all, set32(Size, 257), errSize256, one(62)}, // reserved_frame is free
		{"§1.13 reserved", all, one(176), errReservedTail, one(127)},
		{"§1.13 reserved, last byte before the outcome", all, one(254), errReservedTail, set32(Release, 1)},
		{"§1.13 reserved, last byte", requests, one(255), errReservedTail, set32(View, 0)},
		{"§1.13 reserved behind user_id", []Command{ForwardRegister}, one(164), errReservedTail, one(163)},
		{"§1.13 reserved behind commit", []Command{ForwardLogoutResult}, one(168), errReservedTail, one(167)},
		{"§1.13 client zero", requests, set128(ForwardClient, U128{}), errClientZero, set128(ForwardClient, U128{Lo: 1})},
		{"§1.13 nonce zero", requests, set128(ForwardNonce, U128{}), errNonceZero, set128(ForwardNonce, U128{Lo: 1})},
		{"§1.13 client zero in a result", results, set128(ResultClient, U128{}), errClientZero, set128(ResultClient, U128{Lo: 1})},
		{"§1.13 nonce zero in a result", results, set128(ResultNonce, U128{}), errNonceZero, set128(ResultNonce, U128{Lo: 1})},
		{"§1.13 session zero", []Command{ForwardLogout}, set64(ForwardSession, 0), errSession, set64(ForwardSession, 1<<63)},
		{"§1.13 request zero", []Command{ForwardLogout}, set64(ForwardRequest, 0), errSession, set64(ForwardRequest, 1<<63)},
	}
	register, logout := []Command{ForwardRegisterResult}, []Command{ForwardLogoutResult}
	empty := both(set64(RegisterEpoch, 0), set64(RegisterWatermark, 0))
	return append(rows,
		refusal{"§1.13 outcome of 27 above 6", register, both(empty, set8(ResultOutcome, 7)), errOutcome, both(empty, set8(ResultOutcome, 6))},
		refusal{"§1.13 epoch beside a refusal", register, both(set64(RegisterWatermark, 0), set8(ResultOutcome, 1)), errOutcomePayload,
			both(empty, set8(ResultOutcome, 1))},
		refusal{"§1.13 watermark beside a refusal", register, both(set64(RegisterEpoch, 0), set8(ResultOutcome, 6)), errOutcomePayload, empty},
		refusal{"§1.13 outcome of 29 above 4", logout, both(set64(LogoutCommit, 0), set8(ResultOutcome, 5)), errOutcome,
			both(set64(LogoutCommit, 0), set8(ResultOutcome, 4))},
		refusal{"§1.13 commit beside a refusal", logout, set8(ResultOutcome, 1), errOutcomePayload, set64(LogoutCommit, 0)},
	)
}

// §1.2 to §1.13: each rule refuses, and refuses no more than that.
func TestValidate(t *testing.T) {
	for _, row := range append(append(consensusRefusals(), repairRefusals()...), forwardRefusals()...) {
		for _, c := range row.commands {
			h := honest(c)
			if err := Validate(&h); err != nil {
				t.Fatalf("%v: the honest header: got %v", c, err)
			}
			row.bad(&h)
			if err := Validate(&h); err != row.want {
				t.Errorf("%s, %v: got %v, want %v", row.rule, c, err, row.want)
			}
			if refValidate(h[:]) {
				t.Errorf("%s, %v: by the clauses it passes", row.rule, c)
			}
			h = honest(c)
			row.good(&h)
			if err := Validate(&h); err != nil {
				t.Errorf("%s, %v: the neighbour: got %v", row.rule, c, err)
			}
		}
	}
}

// Commands without rules of their own pass whatever they hold: 20 and 21 (§1.11),
// 25 (§1.12, its size is the reader's), and all that replicas do not send.
func TestValidateWithoutRules(t *testing.T) {
	for _, c := range []Command{0, 1, 2, 3, 4, 5, 8, 13, 14, 15, 16, RepairDone, RangeEvicted, StateChunk, 30, 255} {
		var h Header
		for i := range h {
			h[i] = 0xff
		}
		h.SetCommand(c)
		if err := Validate(&h); err != nil {
			t.Errorf("§1.11, §1.12 %v: got %v", c, err)
		}
	}
}

// §1, §3.5: every byte of a header is a field or reserved, and the two predicates
// together see each reserved one.
func TestReservedBytes(t *testing.T) {
	for c := range Command(Commands) {
		var covered [256]bool
		for _, f := range allFields(c) {
			for i := range f.len() {
				covered[f.at+i] = true
			}
		}
		for i := range HeaderSize {
			var h Header
			h.SetCommand(c)
			h[i] |= 0x80
			if i == int(CommandAt) {
				continue
			}
			if got, want := ReservedFrameZero(&h), i < 62 || i >= 128; got != want {
				t.Errorf("§3.5 %v byte %d: ReservedFrameZero %v, want %v", c, i, got, want)
			}
			if got, want := ReservedTailZero(&h), i < 128 || covered[i]; got != want {
				t.Errorf("§1 %v byte %d: ReservedTailZero %v, want %v", c, i, got, want)
			}
		}
	}
	h := Header{60: 30, 255: 1}
	if !ReservedTailZero(&h) {
		t.Error("a byte that is no command has a reserved tail")
	}
}

// The single frames that a real Iggy was sent (§2.5, §2.6): what the bytes alone
// can tell of them.
func TestSingleFrames(t *testing.T) {
	for _, row := range []struct {
		file           string
		seal, validate bool
	}{
		{"dvc-replica-200", true, true}, // the roster tells
		{"commit-token-from-the-future", true, true},
		{"commit-foreign-cluster", true, true},
		{"commit-bad-seal", false, true},
	} {
		h := single(t, row.file)
		if got := SealOK(h); got != row.seal {
			t.Errorf("%s: got seal %v, want %v", row.file, got, row.seal)
		}
		if err := Validate(h); (err == nil) != row.validate {
			t.Errorf("%s: got %v", row.file, err)
		}
	}
	for _, file := range []string{"request-register", "request-create-stream"} {
		if err := ValidateRequest(single(t, file)); err != nil {
			t.Errorf("§1.1 %s, which Iggy executed: got %v", file, err)
		}
	}
	if h := single(t, "prepare-foreign-parent"); Identity(h) != Checksum.Get(h) || Validate(h) != nil {
		t.Errorf("§2.6 c: got %v, or another identity", Validate(h))
	}
	if h := single(t, "commit-foreign-cluster"); h.ClusterID() == testCluster {
		t.Error("§3.1: the foreign cluster is our own")
	}
	if h := single(t, "hello-late"); !HandshakeClean(h) {
		t.Error("§1.8: a late Hello is no dirty one")
	}
}
