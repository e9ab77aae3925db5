package mac_test

import (
	"errors"
	"testing"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// run is a stretch of a handshake frame's bytes, to excluded, and what a change in
// it leads to.
type run struct {
	from, to        int
	strict, lenient error
}

// errStatus stands for a *mac.RejectedError.
var errStatus = errors.New("a status")

// What §1.8 leaves zero in all three frames, and what is looked at (§7.1).
// cluster and replica are for policy in a Hello, and in the MAC afterwards.
var common = []run{
	{0, 16, mac.ErrMalformed, nil},  // checksum
	{16, 32, mac.ErrMalformed, nil}, // checksum_body
	{32, 48, nil, nil},              // cluster
	{48, 52, mac.ErrMalformed, nil}, // size: a body
	{52, 56, mac.ErrMalformed, nil}, // view
	{56, 60, mac.ErrMalformed, nil}, // release
	{60, 61, mac.ErrCommand, mac.ErrCommand},
	{61, 62, nil, nil},                // replica
	{62, 128, mac.ErrMalformed, nil},  // reserved_frame
	{193, 256, mac.ErrMalformed, nil}, // behind the status
}

// expect finds what a changed byte leads to. Runs must cover a frame exactly once.
func expect(t *testing.T, runs []run, at int, strict bool) (want error) {
	t.Helper()
	found := 0
	for _, r := range runs {
		if at >= r.from && at < r.to {
			found++
			if want = r.lenient; strict {
				want = r.strict
			}
		}
	}
	if found != 1 {
		t.Fatalf("byte %d is in %d runs of the test's table, want 1", at, found)
	}
	return want
}

func matches(err, want error) bool {
	if want == errStatus {
		_, ok := errors.AsType[*mac.RejectedError](err)
		return ok
	}
	return errors.Is(err, want) && (want != nil || err == nil)
}

// everyByte changes each byte of a frame, in one bit and in all, strict and not.
func everyByte(t *testing.T, runs []run, take func(t *testing.T, opts mac.Options, at int, flip byte) error) {
	for _, strict := range []bool{false, true} {
		opts := options(t)
		opts.Strict = strict
		for at := range 256 {
			for _, flip := range []byte{0x01, 0x80, 0xFF} {
				want := expect(t, runs, at, strict)
				if err := take(t, opts, at, flip); !matches(err, want) {
					t.Errorf("strict %v, byte %d xor %#x: got %v, want %v", strict, at, flip, err, want)
				}
			}
		}
	}
}

// §1.8, Hello: everything that is zero from builders is looked at where strict,
// nothing of it where not (rule hello_strict).
func TestStrictHello(t *testing.T) {
	runs := append([]run{
		{128, 160, nil, nil},              // nonce
		{160, 193, mac.ErrMalformed, nil}, // mac and status are for later frames
	}, common...)
	everyByte(t, runs, func(t *testing.T, opts mac.Options, at int, flip byte) error {
		n := filled(0x11)
		hello := wire.NewHello(cluster, 0, n[:])
		hello[at] ^= flip
		a := mac.NewAcceptor(1, opts)
		if err := a.Hello(&hello); err != nil {
			return err
		}
		return a.Accept()
	})
}

// §1.8, the same for a Hello without authentication.
func TestStrictPlaintextHello(t *testing.T) {
	runs := append([]run{
		{128, 160, nil, nil}, // a nonce is ignored
		{160, 193, mac.ErrMalformed, nil},
	}, common...)
	everyByte(t, runs, func(t *testing.T, opts mac.Options, at int, flip byte) error {
		opts.Keys = nil
		hello := wire.NewHello(cluster, 0, nil)
		hello[at] ^= flip
		a := mac.NewAcceptor(1, opts)
		return errors.Join(a.Hello(&hello), a.Accept())
	})
}

// §1.8, Challenge.
func TestStrictChallenge(t *testing.T) {
	runs := append([]run{
		{128, 192, mac.ErrMismatch, mac.ErrMismatch}, // nonce and mac
		{192, 193, errStatus, errStatus},
	}, common...)
	everyByte(t, runs, func(t *testing.T, opts mac.Options, at int, flip byte) error {
		d, challenge := waiting(t, opts)
		challenge[at] ^= flip
		finish, slot, err := d.Challenge(&challenge)
		if (err == nil) != (slot == mac.SlotCurrent) || (err == nil) != (finish != wire.Header{}) {
			t.Errorf("byte %d: got slot %q and a Finish %v beside %v", at, slot, finish != wire.Header{}, err)
		}
		return err
	})
}

// §1.8, Finish: its nonce is zero from builders and Iggy does not look at it.
func TestStrictFinish(t *testing.T) {
	runs := append([]run{
		{128, 160, mac.ErrMalformed, nil}, // nonce
		{160, 192, mac.ErrMismatch, mac.ErrMismatch},
		{192, 193, mac.ErrMalformed, nil},
	}, common...)
	everyByte(t, runs, func(t *testing.T, opts mac.Options, at int, flip byte) error {
		a, finish := challenged(t, opts)
		finish[at] ^= flip
		slot, err := a.Finish(&finish)
		if (err == nil) != (slot == mac.SlotCurrent) {
			t.Errorf("byte %d: got slot %q beside %v", at, slot, err)
		}
		return err
	})
}

// §7.1: AuthRequired is found before hello_strict, as product.md's Hello without
// a nonce must not be told apart by its other bytes.
func TestAuthRequiredBeforeStrict(t *testing.T) {
	opts := options(t)
	opts.Strict = true
	hello := wire.NewHello(cluster, 0, nil)
	wire.View.Set(&hello, 1)
	a := mac.NewAcceptor(1, opts)
	if err := errors.Join(a.Hello(&hello), a.Accept()); !errors.Is(err, mac.ErrAuthRequired) || errors.Is(err, mac.ErrMalformed) {
		t.Errorf("got %v, want ErrAuthRequired alone", err)
	}
}

// The acceptor keeps its own copy: the caller may use the frame's memory again.
func TestAcceptorKeepsTheNonce(t *testing.T) {
	opts := options(t)
	d, a := mac.NewDialer(mac.Pair{Dialer: 0, Acceptor: 1}, opts), mac.NewAcceptor(1, opts)
	hello := d.Hello(filled(0x11))
	if err := a.Hello(&hello); err != nil {
		t.Fatal(err)
	}
	clear(hello[:])
	if err := a.Accept(); err != nil {
		t.Fatal(err)
	}
	challenge := a.Challenge(filled(0x22))
	if _, _, err := d.Challenge(&challenge); err != nil {
		t.Error(err)
	}
}
