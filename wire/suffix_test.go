package wire

import (
	"testing"
)

// links is a suffix with a chain, a blank and a gap: ops 40, 39, blank 38, 37.
func links() []Header {
	e39 := entry(39, 1039, Wide(0x3838))
	return []Header{entry(40, 1040, Checksum.Get(&e39)), e39, blank(38), entry(37, 1037, Wide(0x3636))}
}

// resealed edits entry i and gives it its identity again.
func resealed(i int, edit func(h *Header)) func(s []Header) {
	return func(s []Header) {
		edit(&s[i])
		Seal(&s[i])
	}
}

// §4.6, rule by rule: what is refused, beside what is not.
func TestSuffixRefusals(t *testing.T) {
	for _, row := range []struct {
		name string
		op   uint64
		edit func(s []Header)
		want error
	}{
		{"§4.6 rule 1: as built", 40, func(s []Header) {}, nil},
		{"§4.6 rule 2: command above 29", 40, func(s []Header) { s[1].SetCommand(30) }, errSuffixOperation},
		{"§4.6 rule 2: operation unknown", 40, resealed(1, func(h *Header) { PrepareOperation.Set(h, 5) }), errSuffixOperation},
		{"§4.6 rule 2: operation 2, which Iggy knows", 40, resealed(3, func(h *Header) { PrepareOperation.Set(h, 2) }), nil},
		{"§4.6 rule 3: repaired form", 40, func(s []Header) { s[1].SetCommand(RepairPrepare) }, errSuffixCommand},
		{"§4.6 rule 3: command of a blank", 40, func(s []Header) { s[2].SetCommand(Reserved) }, errSuffixCommand},
		{"§4.6 rule 3: reserved_frame", 40, resealed(1, func(h *Header) { h[62] = 1 }), errSuffixReserved},
		{"§4.6 rule 3: reserved_frame, last byte, of a blank", 40, func(s []Header) { s[2][127] = 1 }, errSuffixReserved},
		{"§4.6 rule 3: reserved", 40, resealed(1, func(h *Header) { h[228] = 1 }), errSuffixReserved},
		{"§4.6 rule 3: reserved, last byte, of a blank", 40, func(s []Header) { s[2][255] = 1 }, errSuffixReserved},
		{"§4.6 rule 3: the padding at 209 is free", 40, resealed(3, func(h *Header) { h[209], h[215] = 1, 1 }), nil},
		{"§4.6 rule 4: head is another op", 41, func(s []Header) {}, errSuffixOp},
		{"§4.6 rule 4: an op twice", 40, resealed(1, func(h *Header) { PrepareOp.Set(h, 40) }), errSuffixOp},
		{"§4.6 rule 4: op of a blank", 40, func(s []Header) { SetBlank(&s[2], 37) }, errSuffixOp},
		{"§4.6 rule 5: blank but for its view, so its timestamp counts", 40, func(s []Header) { View.Set(&s[2], 1) }, errSuffixTime},
		{"§4.6 rule 6: identity", 40, func(s []Header) { s[3][129] ^= 1 }, errSuffixIdentity},
		{"§4.6 rule 6: identity, upper half", 40, func(s []Header) { s[3][15] = 1 }, errSuffixIdentity},
		{"§4.6 rule 6: view is not part of it", 40, func(s []Header) { View.Set(&s[3], 77) }, nil},
		{"§4.6 rule 6: checksum zero is not compared", 40, func(s []Header) { s[3] = unsealed(s[3]); s[3][129] ^= 1 }, nil},
		{"§4.6 rule 7: timestamps equal", 40, resealed(0, func(h *Header) { PrepareTimestamp.Set(h, 1039) }), errSuffixTime},
		{"§4.6 rule 7: timestamps fall", 40, resealed(0, func(h *Header) { PrepareTimestamp.Set(h, 1038) }), errSuffixTime},
		{"§4.6 rule 7: timestamps one apart across a blank", 40, resealed(3, func(h *Header) { PrepareTimestamp.Set(h, 1038) }), nil},
		{"§4.6 rule 7: timestamps equal across a blank", 40, resealed(3, func(h *Header) { PrepareTimestamp.Set(h, 1039) }), errSuffixTime},
		{"§4.6 rule 7: another parent", 40, resealed(0, func(h *Header) { PrepareParent.Set(h, Wide(1)) }), errSuffixParent},
		{"§4.6 rule 7: another parent, upper half", 40, resealed(0, func(h *Header) { h[159] = 1 }), errSuffixParent},
		{"§4.6 rule 7: parent across a blank is free", 40, resealed(3, func(h *Header) { PrepareParent.Set(h, Wide(1)) }), nil},
		{"§4.6 rule 7: parent of an entry without checksum is free", 40, func(s []Header) { s[1] = unsealed(s[1]) }, nil},
		{"§4.6 rule 8: sizes, clusters and groups are free", 40, resealed(3, func(h *Header) {
			Size.Set(h, 1<<31)
			h.SetClusterID(ClusterID{})
			PrepareGroup.Set(h, 12)
		}), nil},
	} {
		s := links()
		row.edit(s)
		body := suffix(s...)
		if got := CheckSuffix(row.op, body); got != row.want {
			t.Errorf("%s: got %v, want %v", row.name, got, row.want)
		}
		if got := refSuffix(row.op, body); got != (row.want == nil) {
			t.Errorf("%s: by the clauses %v", row.name, got)
		}
	}
}

// §4.6 rules 1 and 4: lengths, and ops that would pass below zero.
func TestSuffixLengths(t *testing.T) {
	for _, row := range []struct {
		name string
		op   uint64
		body []byte
		want error
	}{
		{"no entries", 7, nil, nil},
		{"128 entries", 500, suffix(chain(500, 128)...), nil},
		{"129 entries", 500, suffix(chain(500, 129)...), errSuffixSize},
		{"255 bytes", 500, make([]byte, 255), errSuffixSize},
		{"half an entry more", 40, append(suffix(links()...), make([]byte, 128)...), errSuffixSize},
		{"down to op 0", 2, suffix(blank(2), blank(1), blank(0)), nil},
		{"below op 0", 1, suffix(blank(1), blank(0), blank(1<<64-1)), errSuffixOp},
	} {
		if got := CheckSuffix(row.op, row.body); got != row.want || refSuffix(row.op, row.body) != (row.want == nil) {
			t.Errorf("§4.6 %s: got %v, want %v", row.name, got, row.want)
		}
	}
}

// §4.6 rule 5: a blank is exactly {6, operation 0, op}.
func TestBlank(t *testing.T) {
	var want Header
	want[60] = 6
	le.PutUint64(want[176:], 0x0102030405060708)
	h := entry(9, 9, U128{})
	SetBlank(&h, 0x0102030405060708)
	if h != want || !Blank(&h, 0x0102030405060708) || Blank(&h, 0x0102030405060707) {
		t.Errorf("got %x", h[:])
	}
	for i := range h {
		dirty := want
		dirty[i] ^= 1
		if Blank(&dirty, 0x0102030405060708) {
			t.Errorf("byte %d changed, and it is blank", i)
		}
	}
}
