package policy_test

import (
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// honestSizes is product.md's list of the sizes that a command may honestly have,
// at its edges.
var honestSizes = []struct {
	commands           []wire.Command
	honest, impossible []uint32
}{
	{[]wire.Command{7, 9, 10, 17, 18, 20, 21, 22, 24, 26, 27, 28, 29}, // header-only
		[]uint32{256}, []uint32{257, 272, 512, 262_400, maxFrame}},
	{[]wire.Command{11, 12}, // 256 + 256·k, k ≤ 128
		[]uint32{256, 512, 768, 256 + 256*127, 256 + 256*128}, []uint32{257, 511, 513, 256 + 256*129, maxFrame}},
	{[]wire.Command{23}, // 256 or 273..1.64 MB
		[]uint32{256, 273, 298, 256 + 17 + 25*65536}, []uint32{257, 272, 256 + 17 + 25*65536 + 1, maxFrame}},
	{[]wire.Command{25}, // 257..262,400
		[]uint32{257, 1000, 262_400}, []uint32{256, 262_401, maxFrame}},
	{[]wire.Command{6, 19}, // 256..max
		[]uint32{256, 257, 1 << 20, maxFrame}, nil},
}

// §2.5 and the text behind the rules: after a seal or identity mismatch a frame is
// dropped alone only if its size can be right; else framing is lost.
func TestSizeAfterAMismatch(t *testing.T) {
	for _, line := range honestSizes {
		for _, c := range line.commands {
			rule := "seal"
			if c.IsPrepare() {
				rule = "identity"
			}
			for _, size := range line.honest {
				mismatch(t, c, size, rule, false)
			}
			for _, size := range line.impossible {
				mismatch(t, c, size, rule, true)
			}
		}
	}
}

func mismatch(t *testing.T, c wire.Command, size uint32, rule string, unframed bool) {
	t.Helper()
	var h wire.Header
	copy(h[:], honest(c))
	wire.Size.Set(&h, size)
	wire.Seal(&h)
	h[3] ^= 0x10
	for _, set := range []policy.Action{policy.Drop, policy.Close} {
		v := newJudge(t, rule, set.String()).Header(&h)
		want := set
		if unframed {
			want = policy.Close
		}
		if v.Unframed() != unframed {
			t.Errorf("%v of size %d, %s = %v: got unframed %v, want %v", c, size, rule, set, v.Unframed(), unframed)
		}
		wantRefused(t, c.String(), v, want, rule)
	}
	v := newJudge(t, rule, "observe").Header(&h)
	if v.Unframed() || !v.Observed.Has(byName(t, rule).Rule) || v.Rule.String() == rule {
		t.Errorf("%v of size %d, %s = observe: got %+v, want it observed", c, size, rule, v)
	}
}

// The edge is max_message_size, inclusive, wherever it lies.
func TestSizeAfterAMismatchKnowsMaxFrame(t *testing.T) {
	l := leg()
	l.MaxFrame = 1000
	for size, unframed := range map[uint32]bool{1000: false, 1001: true} {
		var h wire.Header
		copy(h[:], honest(wire.Prepare))
		wire.Size.Set(&h, size)
		wire.Seal(&h)
		h[3] ^= 1
		if v := policy.NewJudge(table(t), l, new(policy.Chain)).Header(&h); v.Unframed() != unframed {
			t.Errorf("size %d: got unframed %v", size, v.Unframed())
		}
	}
}
