package mac_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// §7.2: every property of the two ends verifies, drawn at random.
func TestHonestHandshakeAlwaysVerifies(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 2))
	for i := range 500 {
		dialer := uint8(random.UintN(255))
		pair := mac.Pair{Dialer: dialer, Acceptor: dialer + 1 + uint8(random.UintN(uint(255-dialer)))}
		opts := mac.Options{Cluster: wire.ClusterID(randomBytes(random, 16)), Strict: i%2 == 0}
		opts.Keys = keyring(t, string(randomBytes(random, 32+random.IntN(100))))
		if i%3 == 0 {
			opts.Binding = mac.TLS(nonce(randomBytes(random, mac.ExporterSize)))
		}
		both := side{pair, opts}
		r := shake(t, both, both, nonce(randomBytes(random, wire.NonceSize)), nonce(randomBytes(random, wire.NonceSize)))
		if err := errors.Join(r.dialerErr, r.acceptorErr); err != nil {
			t.Fatalf("try %d, %+v: %v", i, pair, err)
		}
		if r.dialer != mac.SlotCurrent || r.acceptor != mac.SlotCurrent {
			t.Fatalf("try %d: got slots %q and %q, want current", i, r.dialer, r.acceptor)
		}
	}
}

// §7.2: one property of the transcript or the key differs between the ends: the
// dialer must find the Challenge wrong.
func TestDialerRefusesAnotherTranscript(t *testing.T) {
	for name, change := range differences(t) {
		t.Run(name, func(t *testing.T) {
			dialer, acceptor := sides(t)
			change(&dialer, &acceptor)
			r := shake(t, dialer, acceptor, filled(0x11), filled(0x22))
			if !errors.Is(r.dialerErr, mac.ErrMismatch) || r.dialer != mac.SlotNone {
				t.Errorf("got slot %q, error %v, want ErrMismatch", r.dialer, r.dialerErr)
			}
			if r.finish != (wire.Header{}) {
				t.Errorf("got a Finish after a mismatch, want none: it would prove our secret to a stranger")
			}
		})
	}
}

// The same for the acceptor: a Finish made by a side that differs.
func TestAcceptorRefusesAnotherTranscript(t *testing.T) {
	for name, change := range differences(t) {
		t.Run(name, func(t *testing.T) {
			dialer, acceptor := sides(t)
			change(&dialer, &acceptor)
			// An end that agrees with the dialer in everything leads it to its Finish.
			leader := mac.NewAcceptor(dialer.pair.Acceptor, dialer.opts)
			d := mac.NewDialer(dialer.pair, dialer.opts)
			hello := d.Hello(filled(0x11))
			a := mac.NewAcceptor(acceptor.pair.Acceptor, acceptor.opts)
			if err := errors.Join(leader.Hello(&hello), a.Hello(&hello)); err != nil {
				t.Fatal(err)
			}
			a.Challenge(filled(0x22))
			challenge := leader.Challenge(filled(0x22))
			finish, _, err := d.Challenge(&challenge)
			if err != nil {
				t.Fatal(err)
			}
			if slot, err := a.Finish(&finish); !errors.Is(err, mac.ErrMismatch) || slot != mac.SlotNone {
				t.Errorf("got slot %q, error %v, want ErrMismatch", slot, err)
			}
		})
	}
}

// differences are what must not verify: each changes one end.
func differences(t *testing.T) map[string]func(d, a *side) {
	other := wire.ClusterIDOf("test-cluster")
	return map[string]func(d, a *side){
		"wrong secret":                   func(_, a *side) { a.opts.Keys = keyring(t, secretTwo) },
		"secret with a newline":          func(_, a *side) { a.opts.Keys = keyring(t, secretOne+"\n") },
		"other cluster":                  func(_, a *side) { a.opts.Cluster = other },
		"another acceptor":               func(_, a *side) { a.pair.Acceptor = 2 },
		"a dialer that meant another":    func(d, _ *side) { d.pair.Acceptor = 2 },
		"ids swapped":                    func(d, _ *side) { d.pair = mac.Pair{Dialer: 1, Acceptor: 0} },
		"plaintext dialer, TLS acceptor": func(_, a *side) { a.opts.Binding = exporter(0xAA) },
		"TLS dialer, plaintext acceptor": func(d, _ *side) { d.opts.Binding = exporter(0xAA) },
		"plaintext, exporter of zeros":   func(_, a *side) { a.opts.Binding = exporter(0) },
		"exporter of another session (relay)": func(d, a *side) {
			d.opts.Binding, a.opts.Binding = exporter(0xAA), exporter(0xAB)
		},
	}
}

// §7.2, the direction byte: a MAC sent back to where it came from proves nothing.
func TestReflection(t *testing.T) {
	opts := options(t)
	a, _ := challenged(t, opts)
	_, challenge := waiting(t, opts) // the same nonces: the MAC that a itself sent
	reflected := wire.NewFinish(cluster, 0, challenge.MAC())
	if slot, err := a.Finish(&reflected); !errors.Is(err, mac.ErrMismatch) {
		t.Errorf("got slot %q, error %v for the acceptor's own MAC, want ErrMismatch", slot, err)
	}
	d, challenge := waiting(t, opts)
	_, finish := challenged(t, opts)
	copy(challenge.MAC(), finish.MAC())
	if _, slot, err := d.Challenge(&challenge); !errors.Is(err, mac.ErrMismatch) {
		t.Errorf("got slot %q, error %v for the dialer's own MAC, want ErrMismatch", slot, err)
	}
}

// §7.2, nonce order: with the two nonces changed for one another the MACs must
// differ.
func TestNoncesSwapped(t *testing.T) {
	both, _ := sides(t)
	straight := shake(t, both, both, filled(0x11), filled(0x22))
	swapped := shake(t, both, both, filled(0x22), filled(0x11))
	d := mac.NewDialer(both.pair, both.opts)
	d.Hello(filled(0x11))
	challenge := wire.NewChallenge(cluster, 1, straight.challenge.Nonce(), swapped.challenge.MAC())
	if _, _, err := d.Challenge(&challenge); !errors.Is(err, mac.ErrMismatch) {
		t.Errorf("dialer: got %v, want ErrMismatch", err)
	}
	a, _ := challenged(t, both.opts)
	if _, err := a.Finish(&swapped.finish); !errors.Is(err, mac.ErrMismatch) {
		t.Errorf("acceptor: got %v, want ErrMismatch", err)
	}
}

// §7.1: a proof is for its own session: the frames of an earlier one are refused.
func TestReplayOfAnEarlierSession(t *testing.T) {
	both, _ := sides(t)
	earlier := shake(t, both, both, filled(0x11), filled(0x33))
	a, _ := challenged(t, both.opts) // the same dialer's nonce, a fresh one of ours
	if _, err := a.Finish(&earlier.finish); !errors.Is(err, mac.ErrMismatch) {
		t.Errorf("acceptor: got %v, want ErrMismatch", err)
	}
	d := mac.NewDialer(both.pair, both.opts)
	d.Hello(filled(0x12))
	if _, _, err := d.Challenge(&earlier.challenge); !errors.Is(err, mac.ErrMismatch) {
		t.Errorf("dialer: got %v, want ErrMismatch", err)
	}
}

// §7.1: each side takes one command in its turn, out of all 256 bytes.
func TestWrongCommand(t *testing.T) {
	for c := range 256 {
		command := wire.Command(c)
		a, finish := challenged(t, options(t))
		finish.SetCommand(command)
		if _, err := a.Finish(&finish); errors.Is(err, mac.ErrCommand) == (command == wire.ReplicaFinish) {
			t.Errorf("Finish: got %v for %v", err, command)
		}
		d, challenge := waiting(t, options(t))
		challenge.SetCommand(command)
		if _, _, err := d.Challenge(&challenge); errors.Is(err, mac.ErrCommand) == (command == wire.ReplicaChallenge) {
			t.Errorf("Challenge: got %v for %v", err, command)
		}
		hello := wire.NewHello(cluster, 0, nil)
		hello.SetCommand(command)
		if err := mac.NewAcceptor(1, options(t)).Hello(&hello); errors.Is(err, mac.ErrCommand) == (command == wire.ReplicaHello) {
			t.Errorf("Hello: got %v for %v", err, command)
		}
	}
}

// §7.1, the dialer's order: the status is read before the MAC, and any byte but
// zero is a refusal, with or without a MAC beside it.
func TestDialerReadsEveryStatus(t *testing.T) {
	for status := range 256 {
		for _, strict := range []bool{false, true} {
			opts := options(t)
			opts.Strict = strict
			d, honest := waiting(t, opts)
			reject := wire.NewReject(cluster, 1, wire.Status(status))
			want := status != 0
			for _, challenge := range []wire.Header{reject, honest} {
				challenge[192] = byte(status)
				finish, slot, err := d.Challenge(&challenge)
				rejected, is := errors.AsType[*mac.RejectedError](err)
				if is != want || is && (rejected.Status != wire.Status(status) || slot != mac.SlotNone || finish != (wire.Header{})) {
					t.Errorf("status %d strict %v: got %q, %v", status, strict, slot, err)
				}
			}
			if _, _, err := d.Challenge(&reject); status == 0 && !errors.Is(err, mac.ErrMismatch) {
				t.Errorf("a Challenge of zeros: got %v, want ErrMismatch", err)
			}
		}
	}
}

// §7.1: the dialer looks neither at Challenge.cluster nor at Challenge.replica,
// and the acceptor at neither in the Finish: the MAC holds both.
func TestIdentityOfLaterFramesIsNotRead(t *testing.T) {
	d, challenge := waiting(t, options(t))
	challenge.SetClusterID(wire.ClusterIDOf("test-cluster"))
	wire.Replica.Set(&challenge, 77)
	if _, slot, err := d.Challenge(&challenge); err != nil || slot != mac.SlotCurrent {
		t.Errorf("Challenge: got %q, %v", slot, err)
	}
	a, finish := challenged(t, options(t))
	finish.SetClusterID(wire.ClusterIDOf("test-cluster"))
	wire.Replica.Set(&finish, 77)
	if slot, err := a.Finish(&finish); err != nil || slot != mac.SlotCurrent {
		t.Errorf("Finish: got %q, %v", slot, err)
	}
}
