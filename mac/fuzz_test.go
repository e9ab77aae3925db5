package mac_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// head cuts or fills arbitrary bytes to one header.
func head(b []byte) *wire.Header {
	h := new(wire.Header)
	copy(h[:], b)
	return h
}

// seeds are the frames of honest handshakes and small changes of them.
func seeds(f *testing.F) {
	opts := options(f)
	_, challenge := waiting(f, opts)
	_, finish := challenged(f, opts)
	n := filled(0x11)
	for _, h := range []wire.Header{wire.NewHello(cluster, 0, n[:]), wire.NewHello(cluster, 0, nil), challenge, finish,
		wire.NewReject(cluster, 1, wire.StatusClusterMismatch), {}} {
		f.Add(h[:])
		h[170] ^= 1
		f.Add(h[:])
	}
	f.Add(bytes.Repeat([]byte{0xFF}, 256))
}

// FuzzAcceptor: an arbitrary first frame, and an arbitrary Finish. The oracle is
// the honest Finish: nothing verifies but its MAC, under its command.
func FuzzAcceptor(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, frame []byte) {
		h := head(frame)
		for _, strict := range []bool{false, true} {
			opts := options(t)
			opts.Strict = strict
			a, finish := challenged(t, opts)
			honest := h.Command() == wire.ReplicaFinish && bytes.Equal(h[160:192], finish[160:192])
			slot, err := a.Finish(h)
			switch {
			case !honest && (err == nil || slot != mac.SlotNone):
				t.Fatalf("strict %v: verified %x", strict, h)
			case honest && !strict && (err != nil || slot != mac.SlotCurrent):
				t.Fatalf("refused an honest MAC: %v", err)
			}
			fuzzHello(t, h, opts)
		}
	})
}

// fuzzHello takes h as a first frame. Whatever it is, the MAC of another dialer's
// Finish must not answer the Challenge to it, unless it is that dialer's.
func fuzzHello(t *testing.T, h *wire.Header, opts mac.Options) {
	a := mac.NewAcceptor(1, opts)
	if err := a.Hello(h); (err == nil) != (h[60] == 14) {
		t.Fatalf("Hello: got %v for command %d", err, h[60])
	}
	announced := !bytes.Equal(h[128:160], make([]byte, 32))
	if err := a.Accept(); errors.Is(err, mac.ErrAuthRequired) == announced {
		t.Fatalf("Accept: got %v, nonce %x", err, h[128:160])
	}
	if _, readable := a.Reject(wire.StatusUnknownCommand); readable != announced {
		t.Fatalf("Reject: got %v, nonce %x", readable, h[128:160])
	}
	a.Challenge(filled(0x22))
	_, finish := challenged(t, opts)
	n := filled(0x11)
	same := h[61] == 0 && bytes.Equal(h[128:160], n[:])
	if _, err := a.Finish(&finish); (err == nil) != same {
		t.Fatalf("a Finish for nonce %x of replica 0 answered %x of replica %d: %v", n, h[128:160], h[61], err)
	}
}

// FuzzDialer: an arbitrary answer. Nothing verifies but the honest nonce and MAC
// with status 0, and without a Finish nothing is proved.
func FuzzDialer(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, frame []byte) {
		h := head(frame)
		for _, strict := range []bool{false, true} {
			opts := options(t)
			opts.Strict = strict
			d, challenge := waiting(t, opts)
			honest := h[60] == 15 && h[192] == 0 && bytes.Equal(h[128:192], challenge[128:192])
			finish, slot, err := d.Challenge(h)
			switch {
			case !honest && (err == nil || slot != mac.SlotNone || finish != wire.Header{}):
				t.Fatalf("strict %v: verified %x", strict, h)
			case honest && !strict && (err != nil || slot != mac.SlotCurrent || finish[60] != 16):
				t.Fatalf("refused an honest answer: %v", err)
			}
		}
	})
}

// §7.2: every bit of nonce and MAC counts.
func TestEveryBitIsProved(t *testing.T) {
	opts := options(t)
	for bit := 128 * 8; bit < 192*8; bit++ {
		d, challenge := waiting(t, opts)
		challenge[bit/8] ^= 1 << (bit % 8)
		if _, slot, err := d.Challenge(&challenge); !errors.Is(err, mac.ErrMismatch) || slot != mac.SlotNone {
			t.Fatalf("Challenge, byte %d: got %q, %v", bit/8, slot, err)
		}
		if bit < 160*8 {
			continue // a Finish has no nonce of its own
		}
		a, finish := challenged(t, opts)
		finish[bit/8] ^= 1 << (bit % 8)
		if slot, err := a.Finish(&finish); !errors.Is(err, mac.ErrMismatch) || slot != mac.SlotNone {
			t.Fatalf("Finish, byte %d: got %q, %v", bit/8, slot, err)
		}
	}
}

// FuzzShowing: an arbitrary Finish and an arbitrary receipt. Nothing shows a secret
// but the honest MAC, and nothing binds it to the link but the honest nonce.
func FuzzShowing(f *testing.F) {
	seeds(f)
	opts, links := holding(f, secretOne), [2]mac.Session{session(1), session(1)}
	honest := show(f, opts, opts, mac.SlotCurrent, links, straight)
	f.Add(honest.finish[:])
	f.Add(honest.receipt[:])
	f.Fuzz(func(t *testing.T, frame []byte) {
		h := head(frame)
		for _, of := range []wire.Header{honest.finish, honest.receipt} {
			s := show(t, opts, opts, mac.SlotCurrent, links, func(on *wire.Header) {
				if on.Command() == of.Command() {
					*on = *h
				}
			})
			isFinish := of.Command() == wire.ReplicaFinish
			err, linked := s.receiptErr, s.dialerLinked
			if isFinish {
				err, linked = s.finishErr, s.acceptorLinked
			}
			sameMAC := h.Command() == of.Command() && bytes.Equal(h.MAC(), of.MAC())
			switch {
			case err == nil && !sameMAC, linked && !bytes.Equal(h.Nonce(), of.Nonce()):
				t.Fatalf("as %v: took %x, linked %v", of.Command(), h, linked)
			case *h == of && (err != nil || !linked):
				t.Fatalf("as %v: refused the honest frame: %v, linked %v", of.Command(), err, linked)
			}
		}
	})
}
