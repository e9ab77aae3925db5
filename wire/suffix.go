package wire

// Suffix is the body of a DoViewChange or StartView: packed prepare headers, the
// highest op first (§4.6). Entries are views into the body.
type Suffix []byte

// Len returns the number of whole entries.
func (s Suffix) Len() int { return len(s) / HeaderSize }

// Entry returns entry i, which stands for op header.op - i.
func (s Suffix) Entry(i int) *Header { return (*Header)(s[i*HeaderSize:]) }

// The reasons CheckSuffix gives.
const (
	errSuffixOperation = LayoutError("wire: got a suffix entry with a byte that is no operation")
	errSuffixCommand   = LayoutError("wire: got a suffix entry that is no prepare")
	errSuffixReserved  = LayoutError("wire: got a suffix entry with reserved bytes set")
	errSuffixOp        = LayoutError("wire: got suffix entries that are not consecutive and descending")
	errSuffixIdentity  = LayoutError("wire: got a suffix entry whose identity does not match")
	errSuffixTime      = LayoutError("wire: got suffix timestamps that do not rise with the op")
	errSuffixParent    = LayoutError("wire: got a suffix entry whose child names another parent")
)

// Blank reports whether e stands for an op that its sender does not have: a
// prepare of operation 0 with nothing but its op set (§4.6 rule 5).
func Blank(e *Header, op uint64) bool {
	var blank Header
	blank.SetCommand(Prepare)
	PrepareOp.Set(&blank, op)
	return *e == blank
}

// SetBlank makes e the blank for op.
func SetBlank(e *Header, op uint64) {
	*e = Header{}
	e.SetCommand(Prepare)
	PrepareOp.Set(e, op)
}

// CheckSuffix applies the decode rules of §4.6 to the suffix whose first entry is
// op: nil, or a LayoutError. It does not allocate.
func CheckSuffix(op uint64, s Suffix) error {
	if len(s)%HeaderSize != 0 || s.Len() > SuffixMax {
		return errSuffixSize
	}
	var child *Header
	for i := range s.Len() {
		e := s.Entry(i)
		if err := checkEntry(e); err != nil {
			return err
		}
		if uint64(i) > op || PrepareOp.Get(e) != op-uint64(i) {
			return errSuffixOp
		}
		if Blank(e, op-uint64(i)) {
			continue
		}
		if err := checkLink(e, child); err != nil {
			return err
		}
		child = e
	}
	return nil
}

// checkEntry is what an entry must satisfy by itself, blanks included.
func checkEntry(e *Header) error {
	switch {
	case !e.Command().Valid() || Operation(PrepareOperation.Get(e)).Class() == ClassUnknown:
		return errSuffixOperation
	case e.Command() != Prepare:
		return errSuffixCommand
	case !ReservedFrameZero(e) || !allZero(e[prepareReserved:]):
		return errSuffixReserved
	}
	return nil
}

// checkLink holds a valid entry against itself and the nearest valid one above.
// Views are deliberately not compared.
func checkLink(e, child *Header) error {
	sum := Checksum.Get(e)
	if !sum.IsZero() && sum != Identity(e) {
		return errSuffixIdentity
	}
	if child == nil {
		return nil
	}
	if PrepareTimestamp.Get(e) >= PrepareTimestamp.Get(child) {
		return errSuffixTime
	}
	next := PrepareOp.Get(e)+1 == PrepareOp.Get(child)
	if next && !sum.IsZero() && PrepareParent.Get(child) != sum {
		return errSuffixParent
	}
	return nil
}
