package wire

import "testing"

// The mark is the beginning of the nonce, whatever the command, and of nothing
// else; a nonce without it, or none, is a replica's.
func TestProbeMark(t *testing.T) {
	marked := make([]byte, NonceSize)
	copy(marked, ProbeMark)
	hello, plain := NewHello(testCluster, 1, marked), NewHello(testCluster, 1, nil)
	later := plain
	copy(later[HelloNonce+1:], ProbeMark)
	short := hello
	short[HelloNonce+len(ProbeMark)-1] ^= 1
	for name, c := range map[string]struct {
		h    Header
		want bool
	}{"marked": {hello, true}, "no nonce": {plain, false}, "later": {later, false}, "all but one byte": {short, false}} {
		if got := c.h.IsProbe(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
	if !HandshakeClean(&hello) {
		t.Error("got a marked Hello that is not clean, want one as builders write it (§1.8)")
	}
	client := make([]byte, 64)
	copy(client[11:], ProbeMark)
	for n := range client {
		if got, want := IsProbeHello(client[:n]), n >= 11+len(ProbeMark); got != want {
			t.Errorf("%d bytes of a ClientHello: got %v, want %v", n, got, want)
		}
	}
	client[11] ^= 1
	if IsProbeHello(client) {
		t.Error("got a mark where a byte of it differs")
	}
}

// A gate that shows a secret says which one behind the mark, and nowhere else does
// that byte mean anything: `replgate probe` has another there.
func TestShows(t *testing.T) {
	for which := range 256 {
		nonce := make([]byte, NonceSize)
		copy(nonce, ProbeMark)
		nonce[len(ProbeMark)] = byte(which)
		hello := NewHello(testCluster, 1, nonce)
		got, ok := hello.Shows()
		if want := which == 'c' || which == 'o'; ok != want || int(got) != which {
			t.Errorf("%#x: got %#x, %v, want %v", which, got, ok, want)
		}
		hello[HelloNonce] ^= 1
		if _, ok := hello.Shows(); ok {
			t.Errorf("%#x: got a showing without the mark", which)
		}
	}
}
