package wire

// A LayoutError is why Iggy's own validation drops a frame after its seal has
// been found right (§1). They are constants of this package: comparing with ==
// is safe and returning one does not allocate.
type LayoutError string

func (e LayoutError) Error() string { return string(e) }

// The reasons Validate gives.
const (
	errReservedFrame  = LayoutError("wire: got bytes in reserved_frame, want zero")
	errReservedTail   = LayoutError("wire: got bytes in the reserved tail, want zero")
	errOperation      = LayoutError("wire: got an operation byte that is no operation")
	errSize256        = LayoutError("wire: got a body, want size 256")
	errRelease        = LayoutError("wire: got a release, want zero")
	errLogView        = LayoutError("wire: got log_view above view")
	errCommitAboveOp  = LayoutError("wire: got commit above op")
	errSuffixSize     = LayoutError("wire: got a suffix that is no multiple of 256 bytes or has more than 128 entries")
	errSuffixBits     = LayoutError("wire: got a bit for an entry that the suffix does not have")
	errRange          = LayoutError("wire: got from_op of zero or above to_op")
	errAvailable      = LayoutError("wire: got available or unavailable_transient above 1, or both set")
	errRefusalBody    = LayoutError("wire: got a body on a refused state transfer")
	errChunkLen       = LayoutError("wire: got a chunk request of zero bytes")
	errClientZero     = LayoutError("wire: got client zero")
	errNonceZero      = LayoutError("wire: got nonce zero")
	errOutcome        = LayoutError("wire: got an outcome outside its list")
	errOutcomePayload = LayoutError("wire: got a result beside an outcome that is not Ok")
	errSession        = LayoutError("wire: got session or request zero")
)

// Validate reports what Iggy's typed decode and its per-command validate refuse
// in h, seals apart: nil, or a LayoutError. Commands without rules of their own
// pass. It reads the header only and does not allocate.
func Validate(h *Header) error {
	switch h.Command() {
	case Prepare, RepairPrepare:
		return validatePrepare(h)
	case PrepareOk:
		return validateOperation(Operation(PrepareOkOperation.Get(h)))
	case Commit, RequestStateTransfer:
		return validateHeaderOnly(h)
	case StartViewChange, RequestStartView:
		return validateRelease(h)
	case DoViewChange:
		return validateDoViewChange(h)
	case StartView:
		return validateView(h)
	case RequestPrepares:
		if from := RequestPreparesFrom.Get(h); from == 0 || from > RequestPreparesTo.Get(h) {
			return errRange
		}
	case StateTransferTarget:
		return validateTarget(h)
	case RequestStateChunk:
		if RequestChunkLen.Get(h) == 0 {
			return errChunkLen
		}
		return validateHeaderOnly(h)
	case ForwardRegister, ForwardRegisterResult, ForwardLogout, ForwardLogoutResult:
		return validateForward(h)
	}
	return nil
}

func validateOperation(o Operation) error {
	if o.Class() == ClassUnknown {
		return errOperation
	}
	return nil
}

func validateHeaderOnly(h *Header) error {
	if Size.Get(h) != HeaderSize {
		return errSize256
	}
	return nil
}

func validateRelease(h *Header) error {
	if Release.Get(h) != 0 {
		return errRelease
	}
	return nil
}

// validatePrepare is §1.2: both reserved runs are zero, nothing else is looked at.
func validatePrepare(h *Header) error {
	switch {
	case Operation(PrepareOperation.Get(h)).Class() == ClassUnknown:
		return errOperation
	case !ReservedFrameZero(h):
		return errReservedFrame
	case !allZero(h[prepareReserved:]):
		return errReservedTail
	}
	return nil
}

// validateView holds what DoViewChange and StartView have in common (§1.6, §1.7).
func validateView(h *Header) error {
	body := Size.Get(h) - HeaderSize
	switch {
	case Release.Get(h) != 0:
		return errRelease
	case ViewCommit.Get(h) > ViewOp.Get(h):
		return errCommitAboveOp
	case body%HeaderSize != 0 || body/HeaderSize > SuffixMax:
		return errSuffixSize
	}
	return nil
}

func validateDoViewChange(h *Header) error {
	if err := validateView(h); err != nil {
		return err
	}
	if DoViewChangeLogView.Get(h) > View.Get(h) {
		return errLogView
	}
	entries := uint(Size.Get(h)-HeaderSize) / HeaderSize
	if bitsFrom(DoViewChangeNacks.Get(h), entries) || bitsFrom(DoViewChangePresent.Get(h), entries) {
		return errSuffixBits
	}
	return nil
}

// bitsFrom reports whether any bit of v at position n or above is set.
func bitsFrom(v U128, n uint) bool {
	switch {
	case n >= 128:
		return false
	case n >= 64:
		return v.Hi>>(n-64) != 0
	}
	return v.Hi != 0 || v.Lo>>n != 0
}

func validateTarget(h *Header) error {
	available, transient := TargetAvailable.Get(h), TargetTransient.Get(h)
	switch {
	case available > 1 || transient > 1 || available == 1 && transient == 1:
		return errAvailable
	case available == 0 && Size.Get(h) != HeaderSize:
		return errRefusalBody
	}
	return nil
}

// The largest outcome byte of each result (§1.13).
const (
	registerOutcomeMax = 6
	logoutOutcomeMax   = 4
)

// validateForward is §1.13. reserved_frame is not looked at there.
func validateForward(h *Header) error {
	switch {
	case Size.Get(h) != HeaderSize:
		return errSize256
	case !ReservedTailZero(h):
		return errReservedTail
	}
	switch h.Command() {
	case ForwardRegister:
		return validateForwardIDs(ForwardClient.Get(h), ForwardNonce.Get(h))
	case ForwardLogout:
		if ForwardSession.Get(h) == 0 || ForwardRequest.Get(h) == 0 {
			return errSession
		}
		return validateForwardIDs(ForwardClient.Get(h), ForwardNonce.Get(h))
	case ForwardRegisterResult:
		if err := validateOutcome(h, registerOutcomeMax, RegisterEpoch.Get(h)|RegisterWatermark.Get(h)); err != nil {
			return err
		}
	case ForwardLogoutResult:
		if err := validateOutcome(h, logoutOutcomeMax, LogoutCommit.Get(h)); err != nil {
			return err
		}
	}
	return validateForwardIDs(ResultClient.Get(h), ResultNonce.Get(h))
}

func validateOutcome(h *Header, max uint8, payload uint64) error {
	outcome := ResultOutcome.Get(h)
	switch {
	case outcome > max:
		return errOutcome
	case outcome != 0 && payload != 0:
		return errOutcomePayload
	}
	return nil
}

func validateForwardIDs(client, nonce U128) error {
	switch {
	case client.IsZero():
		return errClientZero
	case nonce.IsZero():
		return errNonceZero
	}
	return nil
}

// ReservedFrameZero reports whether bytes 62..128 are zero, as every builder
// writes them (§3.5).
func ReservedFrameZero(h *Header) bool { return allZero(h[reservedFrame:areaStart]) }

// ReservedTailZero reports whether the bytes of h's area that no field of its
// command covers are zero.
func ReservedTailZero(h *Header) bool {
	c := h.Command()
	if !c.Valid() {
		return true
	}
	for _, gap := range reservedTails[c] {
		if !allZero(h[gap.from:gap.to]) {
			return false
		}
	}
	return true
}

// gap is a run of reserved bytes, from inclusive, to exclusive.
type gap struct{ from, to uint16 }

// reservedTails is the complement of Layout in 128..256, worked out once.
var reservedTails = func() (all [Commands][]gap) {
	for c := range all {
		at := areaStart
		for _, f := range Layout(Command(c)) {
			if f.At > at {
				all[c] = append(all[c], gap{uint16(at), uint16(f.At)})
			}
			at = f.At + f.Len
		}
		if at < HeaderSize {
			all[c] = append(all[c], gap{uint16(at), HeaderSize})
		}
	}
	return all
}()
