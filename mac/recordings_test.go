package mac_test

import (
	"errors"
	"testing"

	"github.com/replgate/replgate/mac"
)

// replay takes both halves of a recorded handshake with the recorded nonces. Each
// frame we make must be the recorded one, byte for byte, and each recorded MAC
// must verify (§7.1, §7.2, §1.8).
func replay(t *testing.T, r recorded, dialer, acceptor *mac.Keyring) (dialerSlot, acceptorSlot mac.Slot) {
	t.Helper()
	opts := mac.Options{Cluster: cluster, Strict: true}
	opts.Keys = dialer
	d := mac.NewDialer(r.pair, opts)
	if hello := d.Hello(nonce(r.hello.Nonce())); hello != r.hello {
		t.Errorf("got Hello\n%x, recorded\n%x", hello, r.hello)
	}
	finish, dialerSlot, err := d.Challenge(&r.challenge)
	if err != nil {
		t.Fatalf("the recorded Challenge: %v", err)
	}
	if finish != r.finish {
		t.Errorf("got Finish\n%x, recorded\n%x", finish, r.finish)
	}
	opts.Keys = acceptor
	a := mac.NewAcceptor(r.pair.Acceptor, opts)
	if err := errors.Join(a.Hello(&r.hello), a.Accept()); err != nil {
		t.Fatalf("the recorded Hello: %v", err)
	}
	if challenge := a.Challenge(nonce(r.challenge.Nonce())); challenge != r.challenge {
		t.Errorf("got Challenge\n%x, recorded\n%x", challenge, r.challenge)
	}
	acceptorSlot, err = a.Finish(&r.finish)
	if err != nil {
		t.Fatalf("the recorded Finish: %v", err)
	}
	return dialerSlot, acceptorSlot
}

// §7.2 on a real cluster's handshakes, one secret.
func TestRecordedHandshakes(t *testing.T) {
	all := recordings(t, "tour-psk")
	if len(all) != 5 {
		t.Fatalf("got %d connections, want 5", len(all))
	}
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			d, a := replay(t, r, keyring(t, secretOne), keyring(t, secretOne))
			if d != mac.SlotCurrent || a != mac.SlotCurrent {
				t.Errorf("got slots %q and %q, want current twice", d, a)
			}
		})
	}
}

// §8.2, the second roll: replicas 0 and 2 have current one and previous two,
// replica 1 has current two and previous one.
func TestRecordedRotation(t *testing.T) {
	keys := map[uint8]*mac.Keyring{
		0: keyring(t, secretOne, secretTwo), 1: keyring(t, secretTwo, secretOne), 2: keyring(t, secretOne, secretTwo),
	}
	want := map[mac.Pair]mac.Slot{ // the slot in which either side finds the other's secret
		{Dialer: 0, Acceptor: 1}: mac.SlotPrevious,
		{Dialer: 1, Acceptor: 2}: mac.SlotPrevious,
		{Dialer: 0, Acceptor: 2}: mac.SlotCurrent,
	}
	all := recordings(t, "rotation-psk")
	if len(all) != len(want) {
		t.Fatalf("got %d connections, want %d", len(all), len(want))
	}
	for _, r := range all {
		t.Run(r.name, func(t *testing.T) {
			d, a := replay(t, r, keys[r.pair.Dialer], keys[r.pair.Acceptor])
			if d != want[r.pair] || a != want[r.pair] {
				t.Errorf("got slots %q and %q, want %q twice", d, a, want[r.pair])
			}
		})
	}
}

// Recorded MACs must not verify with the other secret, nor those of TLS legs
// (whose exporters were not kept) as if they were plaintext.
func TestRecordedHandshakesElsewhere(t *testing.T) {
	for scenario, secret := range map[string]string{"tour-psk": secretTwo, "tls": secretOne} {
		for _, r := range recordings(t, scenario) {
			opts := mac.Options{Cluster: cluster, Keys: keyring(t, secret)}
			d := mac.NewDialer(r.pair, opts)
			d.Hello(nonce(r.hello.Nonce()))
			if _, slot, err := d.Challenge(&r.challenge); !errors.Is(err, mac.ErrMismatch) || slot != mac.SlotNone {
				t.Errorf("%s %s: dialer: got %q, %v, want ErrMismatch", scenario, r.name, slot, err)
			}
			a := mac.NewAcceptor(r.pair.Acceptor, opts)
			if err := a.Hello(&r.hello); err != nil {
				t.Fatal(err)
			}
			a.Challenge(nonce(r.challenge.Nonce()))
			if slot, err := a.Finish(&r.finish); !errors.Is(err, mac.ErrMismatch) || slot != mac.SlotNone {
				t.Errorf("%s %s: acceptor: got %q, %v, want ErrMismatch", scenario, r.name, slot, err)
			}
		}
	}
}
