package mac_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// §7.1: without a nonce there is no way in where authentication is on; with
// authentication off a nonce, if any, is ignored.
func TestAcceptNeedsANonce(t *testing.T) {
	n := filled(0x11)
	for _, c := range []struct {
		auth  bool
		nonce []byte
		want  error
	}{
		{true, nil, mac.ErrAuthRequired},
		{true, make([]byte, wire.NonceSize), mac.ErrAuthRequired},
		{true, n[:], nil},
		{false, nil, nil},
		{false, n[:], nil},
	} {
		for _, strict := range []bool{false, true} {
			opts := mac.Options{Cluster: cluster, Strict: strict}
			if c.auth {
				opts.Keys = keyring(t, secretOne)
			}
			a := mac.NewAcceptor(1, opts)
			hello := wire.NewHello(cluster, 0, c.nonce)
			if err := a.Hello(&hello); err != nil {
				t.Fatal(err)
			}
			if err := a.Accept(); !errors.Is(err, c.want) {
				t.Errorf("auth %v, nonce %x: got %v, want %v", c.auth, c.nonce, err, c.want)
			}
		}
	}
}

// §1.8, "Hello (auth off)": the dialer's frame carries no nonce, whatever it is
// given.
func TestPlaintextHello(t *testing.T) {
	got := mac.NewDialer(mac.Pair{Dialer: 0, Acceptor: 1}, mac.Options{Cluster: cluster}).Hello(filled(0x11))
	if want := wire.NewHello(cluster, 0, nil); got != want {
		t.Errorf("got\n%x, want\n%x", got, want)
	}
}

// One byte of a nonce, anywhere, is one (§7.1: any non-zero byte in 128..160).
func TestEveryByteOfANonceCounts(t *testing.T) {
	for at := range 256 {
		hello := wire.NewHello(cluster, 0, nil)
		hello[at] ^= 0x80
		a := mac.NewAcceptor(1, options(t))
		a.Hello(&hello) // another command is another test's
		_, readable := a.Reject(wire.StatusClusterMismatch)
		if want := at >= 128 && at < 160; readable != want {
			t.Errorf("byte %d: got readable %v, want %v", at, readable, want)
		}
	}
}

// §7.1, who may be sent a reject: auth on and a nonce, whatever the command; and
// only statuses 1, 2 and 3 are ever said.
func TestReject(t *testing.T) {
	for _, command := range []wire.Command{wire.ReplicaHello, wire.ReplicaFinish, wire.Request, wire.Reserved, wire.ForwardLogoutResult} {
		for _, auth := range []bool{false, true} {
			for _, announced := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v auth %v nonce %v", command, auth, announced), func(t *testing.T) {
					opts := mac.Options{Cluster: cluster}
					if auth {
						opts.Keys = keyring(t, secretOne)
					}
					first := wire.NewHello(cluster, 0, nil)
					if announced {
						first[140] = 1
					}
					first.SetCommand(command)
					a := mac.NewAcceptor(1, opts)
					a.Hello(&first)
					checkRejects(t, a, auth && announced)
				})
			}
		}
	}
}

func checkRejects(t *testing.T, a *mac.Acceptor, want bool) {
	t.Helper()
	for status := range 256 {
		frame, readable := a.Reject(wire.Status(status))
		if sayable := status >= 1 && status <= 3; readable != (want && sayable) {
			t.Errorf("status %d: got readable %v", status, readable)
		}
		if !readable {
			continue
		}
		var shape wire.Header // §1.8, "Challenge reject"
		shape.SetCommand(wire.ReplicaChallenge)
		shape.SetClusterID(cluster)
		shape[48], shape[49], shape[61], shape[192] = 0, 1, 1, byte(status)
		if frame != shape {
			t.Errorf("status %d: got\n%x, want\n%x", status, frame, shape)
		}
	}
}

// The dialer reads what the acceptor refuses with.
func TestRejectArrives(t *testing.T) {
	d, a := mac.NewDialer(mac.Pair{Dialer: 0, Acceptor: 1}, options(t)), mac.NewAcceptor(1, options(t))
	hello := d.Hello(filled(0x11))
	if err := a.Hello(&hello); err != nil {
		t.Fatal(err)
	}
	reject, _ := a.Reject(wire.StatusDirectionalRule)
	_, _, err := d.Challenge(&reject)
	if rejected, ok := errors.AsType[*mac.RejectedError](err); !ok || rejected.Status != wire.StatusDirectionalRule {
		t.Errorf("got %v, want status DirectionalRule", err)
	}
	if want := "mac: got a reject with status DirectionalRule, want a Challenge"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
