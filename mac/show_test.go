package mac_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// random is what a showing wants of randomness, told apart by its byte.
func random(b byte) (r [mac.ShowRandom]byte) {
	for i := range r {
		r[i] = b
	}
	return r
}

// session names a link's channel in tests.
func session(b byte) mac.Session { return mac.Session(filled(b)) }

// shown is how far a showing came and what each end made of it.
type shown struct {
	hello, challenge, finish, receipt wire.Header
	signs                             mac.Slot // what the dialer found the acceptor to sign with
	proved                            mac.Slot // what the acceptor found the dialer to show
	challengeErr, finishErr           error
	receiptErr                        error
	dialerLinked, acceptorLinked      bool
}

// show runs one, as far as it goes. bend may change the frames on their way.
func show(t testing.TB, dialer, acceptor mac.Options, which mac.Slot, links [2]mac.Session, bend func(*wire.Header)) (s shown) {
	t.Helper()
	d := mac.NewShowing(mac.Pair{Dialer: 0, Acceptor: 1}, dialer, which)
	a := mac.NewAcceptor(1, acceptor)
	s.hello = d.Hello(random(1))
	if err := errors.Join(a.Hello(&s.hello), a.Accept()); err != nil {
		t.Fatal(err)
	}
	s.challenge = a.ChallengeAsGate(random(2))
	if s.finish, s.signs, s.challengeErr = d.Challenge(&s.challenge, links[0]); s.challengeErr != nil {
		return s
	}
	bend(&s.finish)
	if s.receipt, s.proved, s.acceptorLinked, s.finishErr = a.Shown(&s.finish, links[1]); s.finishErr != nil {
		return s
	}
	bend(&s.receipt)
	s.dialerLinked, s.receiptErr = d.Receipt(&s.receipt, links[0])
	return s
}

func straight(*wire.Header) {}

func holding(t testing.TB, secrets ...string) mac.Options {
	return mac.Options{Cluster: cluster, Keys: keyring(t, secrets...), Strict: true}
}

// What two gates learn of each other in every pair of stages of a rotation (§8.2),
// whichever secret is shown. Written by hand: the slot that the dialer finds the
// acceptor to sign with, "-" where it verifies none; the slot in which the acceptor
// finds what is shown, "-" for one that it does not hold.
func TestShowingMatrix(t *testing.T) {
	type want struct{ signs, current, other string }
	none := want{"-", "", ""}
	table := [4][4]want{
		{{"current", "current", ""}, {"current", "current", ""}, none, none},
		{{"current", "current", "-"}, {"current", "current", "previous"}, {"previous", "previous", "current"}, {"previous", "-", "current"}},
		{{"previous", "-", "current"}, {"previous", "previous", "current"}, {"current", "current", "previous"}, {"current", "current", "-"}},
		{none, none, {"current", "current", ""}, {"current", "current", ""}},
	}
	for i, dialer := range stages {
		for j, acceptor := range stages {
			t.Run(fmt.Sprintf("%s to %s", dialer.name, acceptor.name), func(t *testing.T) {
				w := table[i][j]
				for which, shows := range map[mac.Slot]string{mac.SlotCurrent: w.current, mac.SlotPrevious: w.other} {
					if which == mac.SlotPrevious && len(dialer.secrets) == 1 {
						continue
					}
					s := show(t, holding(t, dialer.secrets...), holding(t, acceptor.secrets...), which, [2]mac.Session{}, straight)
					checkSlot(t, "dialer", s.signs, s.challengeErr, w.signs)
					if s.challengeErr != nil {
						continue
					}
					checkSlot(t, "acceptor, shown its "+string(which), s.proved, s.finishErr, shows)
					if s.finishErr == nil && s.receiptErr != nil {
						t.Errorf("got receipt %v, want none of its faults", s.receiptErr)
					}
				}
			})
		}
	}
}

// A native acceptor is told by its Challenge, and gets no Finish: it would take
// that for a link. What it signs with is learnt all the same.
func TestShowingLeavesANativeAcceptor(t *testing.T) {
	for _, secrets := range [][]string{{oldSecret}, {newSecret, oldSecret}} {
		d := mac.NewShowing(mac.Pair{Dialer: 0, Acceptor: 1}, holding(t, oldSecret, newSecret), mac.SlotPrevious)
		a := mac.NewAcceptor(1, holding(t, secrets...))
		hello := d.Hello(random(1))
		if err := errors.Join(a.Hello(&hello), a.Accept()); err != nil {
			t.Fatal(err)
		}
		challenge := a.Challenge(filled(0x22))
		finish, slot, err := d.Challenge(&challenge, session(9))
		want := mac.SlotCurrent
		if secrets[0] == newSecret {
			want = mac.SlotPrevious
		}
		if !errors.Is(err, mac.ErrNative) || slot != want || finish != (wire.Header{}) {
			t.Errorf("%q: got %v, slot %q and a Finish %v, want ErrNative, %q and none", secrets, err, slot, finish != wire.Header{}, want)
		}
	}
}

// Every bit of the mark counts; the rest of the nonce is random. The MAC is made
// anew each time, so that only the mark can be at fault.
func TestGateMark(t *testing.T) {
	opts := holding(t, oldSecret)
	honest := show(t, opts, opts, mac.SlotCurrent, [2]mac.Session{}, straight).challenge
	for at := range wire.NonceSize {
		for bit := range 8 {
			d, a := mac.NewShowing(mac.Pair{Dialer: 0, Acceptor: 1}, opts, mac.SlotCurrent), mac.NewAcceptor(1, opts)
			hello := d.Hello(random(1))
			if err := errors.Join(a.Hello(&hello), a.Accept()); err != nil {
				t.Fatal(err)
			}
			nonce := [wire.NonceSize]byte(honest.Nonce())
			nonce[at] ^= 1 << bit
			challenge := a.Challenge(nonce)
			if _, _, err := d.Challenge(&challenge, mac.Session{}); errors.Is(err, mac.ErrNative) != (at < 16) {
				t.Errorf("byte %d bit %d: got %v", at, bit, err)
			}
		}
	}
}

// A secret is shown over a link's channel only when both ends mean the same one:
// whoever stands between two links has two.
func TestShownOverTheLink(t *testing.T) {
	opts := holding(t, newSecret, oldSecret)
	for _, c := range []struct {
		links [2]mac.Session
		want  bool
	}{
		{[2]mac.Session{session(1), session(1)}, true},
		{[2]mac.Session{session(1), session(2)}, false},
		{[2]mac.Session{session(1), {}}, false},
		{[2]mac.Session{{}, session(1)}, false},
		{[2]mac.Session{}, false},
	} {
		for _, which := range []mac.Slot{mac.SlotCurrent, mac.SlotPrevious} {
			s := show(t, opts, opts, which, c.links, straight)
			if s.finishErr != nil || s.receiptErr != nil || s.dialerLinked != c.want || s.acceptorLinked != c.want {
				t.Errorf("%x: got linked %v and %v (%v, %v), want %v", c.links, s.dialerLinked, s.acceptorLinked, s.finishErr, s.receiptErr, c.want)
			}
		}
	}
}

// Each byte of a Finish and of a receipt: the MAC proves the secret, the nonce the
// channel, and neither does the other's.
func TestShowingEveryByte(t *testing.T) {
	opts, both := holding(t, oldSecret), [2]mac.Session{session(1), session(1)}
	for at := 128; at < 192; at++ {
		for _, command := range []wire.Command{wire.ReplicaFinish, wire.ReplicaChallenge} {
			s := show(t, opts, opts, mac.SlotCurrent, both, func(h *wire.Header) {
				if h.Command() == command {
					h[at] ^= 0x40
				}
			})
			isMAC, isFinish := at >= 160, command == wire.ReplicaFinish
			if (s.finishErr != nil) != (isMAC && isFinish) || (s.receiptErr != nil) != (isMAC && !isFinish) {
				t.Errorf("%v byte %d: got %v, %v", command, at, s.finishErr, s.receiptErr)
			}
			if s.acceptorLinked == isFinish || isFinish && !isMAC && !s.dialerLinked || !isFinish && s.dialerLinked {
				t.Errorf("%v byte %d: got linked %v at the dialer, %v at the acceptor", command, at, s.dialerLinked, s.acceptorLinked)
			}
		}
	}
}

// What one side says is no use to the other, nor in another showing.
func TestShowingIsNotReflected(t *testing.T) {
	opts, link := holding(t, oldSecret), session(1)
	d := mac.NewShowing(mac.Pair{Dialer: 0, Acceptor: 1}, opts, mac.SlotCurrent)
	a := mac.NewAcceptor(1, opts)
	hello := d.Hello(random(1))
	if err := errors.Join(a.Hello(&hello), a.Accept()); err != nil {
		t.Fatal(err)
	}
	challenge := a.ChallengeAsGate(random(2))
	finish, _, err := d.Challenge(&challenge, link)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Receipt(&challenge, link); !errors.Is(err, mac.ErrMismatch) {
		t.Errorf("the Challenge as a receipt: got %v, want ErrMismatch", err)
	}
	echo := finish
	echo.SetCommand(wire.ReplicaChallenge)
	if _, err := d.Receipt(&echo, link); !errors.Is(err, mac.ErrMismatch) {
		t.Errorf("the Finish as a receipt: got %v, want ErrMismatch", err)
	}
	receipt, _, _, err := a.Shown(&finish, link)
	if err != nil {
		t.Fatal(err)
	}
	copy(receipt.Nonce(), finish.Nonce())
	if linked, err := d.Receipt(&receipt, link); err != nil || linked {
		t.Errorf("the dialer's own proof of the channel: got linked %v, %v, want none", linked, err)
	}
	again := mac.NewAcceptor(1, opts)
	if err := errors.Join(again.Hello(&hello), again.Accept()); err != nil {
		t.Fatal(err)
	}
	again.ChallengeAsGate(random(3))
	if _, _, _, err := again.Shown(&finish, link); !errors.Is(err, mac.ErrMismatch) {
		t.Errorf("the Finish in another showing: got %v, want ErrMismatch", err)
	}
}

// The two ends of a handshake name its channel alike, and every other one
// otherwise; a Challenge's direction is no part of it.
func TestSession(t *testing.T) {
	seen := map[mac.Session]string{{}: "none"}
	for name, c := range map[string]struct {
		binding mac.Binding
		nonce   byte
	}{"plaintext": {mac.Binding{}, 1}, "another nonce": {mac.Binding{}, 2}, "tls": {exporter(1), 1}, "another tls": {exporter(2), 1}} {
		opts := holding(t, oldSecret)
		opts.Binding = c.binding
		d, a := mac.NewDialer(mac.Pair{Dialer: 0, Acceptor: 1}, opts), mac.NewAcceptor(1, opts)
		hello := d.Hello(filled(c.nonce))
		if err := a.Hello(&hello); err != nil {
			t.Fatal(err)
		}
		challenge := a.Challenge(filled(0x22))
		finish, _, err := d.Challenge(&challenge)
		if err != nil {
			t.Fatal(err)
		}
		before := d.Session()
		if _, err := a.Finish(&finish); err != nil || a.Session() != before {
			t.Errorf("%s: got %x and %x, %v, want one session", name, a.Session(), before, err)
		}
		if other, ok := seen[before]; ok {
			t.Errorf("%s: got the session of %s, want its own", name, other)
		}
		seen[before] = name
	}
}

// The name of a secret is the same in every slot of every keyring, and on every
// gate: this one was computed apart from this code, by the rules that
// docs/PROTOCOL.md has.
func TestFingerprint(t *testing.T) {
	const want = "961ce92ca99b96fb"
	alone, rolled := keyring(t, oldSecret), keyring(t, newSecret, oldSecret)
	old := alone.Fingerprint(mac.SlotCurrent)
	if old != want {
		t.Errorf("got %q, want %q", old, want)
	}
	for _, c := range []struct {
		k    *mac.Keyring
		f    mac.Fingerprint
		slot mac.Slot
	}{
		{alone, old, mac.SlotCurrent},
		{alone, rolled.Fingerprint(mac.SlotCurrent), mac.SlotNone},
		{rolled, old, mac.SlotPrevious},
		{rolled, rolled.Fingerprint(mac.SlotCurrent), mac.SlotCurrent},
		{rolled, "", mac.SlotNone},
		{alone, "", mac.SlotNone},
	} {
		if got := c.k.Slot(c.f); got != c.slot || c.slot != mac.SlotNone && c.k.Fingerprint(c.slot) != c.f {
			t.Errorf("%q: got slot %q, want %q", c.f, got, c.slot)
		}
	}
	if got := alone.Fingerprint(mac.SlotPrevious) + rolled.Fingerprint(mac.SlotNone); got != "" {
		t.Errorf("got %q for slots without a secret, want nothing", got)
	}
}
