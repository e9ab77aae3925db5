package mac_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/replgate/replgate/mac"
)

const (
	oldSecret = "the secret of before, 32+ bytes long"
	newSecret = "the secret of after,  32+ bytes long"
)

// §8.2: the keys of a replica before, in and after the three rolls.
var stages = []struct {
	name    string
	secrets []string
}{
	{"old", []string{oldSecret}},
	{"old, previous new", []string{oldSecret, newSecret}},
	{"new, previous old", []string{newSecret, oldSecret}},
	{"new", []string{newSecret}},
}

// slots is what a pair of stages gives: the slot in which the dialer finds the
// acceptor's secret, and the acceptor the dialer's. "-" is a refusal.
type slots struct{ dialer, acceptor string }

// matrix is written by hand: rows are the dialer's stage, columns the acceptor's.
// Neighbouring stages always prove; first and last, which no orderly rotation
// brings together, never do. Where the Challenge is refused there is no Finish.
var matrix = [4][4]slots{
	{{"current", "current"}, {"current", "current"}, {"-", ""}, {"-", ""}},
	{{"current", "current"}, {"current", "current"}, {"previous", "previous"}, {"previous", "-"}},
	{{"previous", "-"}, {"previous", "previous"}, {"current", "current"}, {"current", "current"}},
	{{"-", ""}, {"-", ""}, {"current", "current"}, {"current", "current"}},
}

// §7.2: signing with the current secret, verifying with current, then previous.
func TestRotationMatrix(t *testing.T) {
	for i, dialer := range stages {
		for j, acceptor := range stages {
			t.Run(fmt.Sprintf("%s to %s", dialer.name, acceptor.name), func(t *testing.T) {
				d, a := sides(t)
				d.opts.Keys, a.opts.Keys = keyring(t, dialer.secrets...), keyring(t, acceptor.secrets...)
				r := shake(t, d, a, filled(0x11), filled(0x22))
				want := matrix[i][j]
				checkSlot(t, "dialer", r.dialer, r.dialerErr, want.dialer)
				if want.acceptor != "" {
					checkSlot(t, "acceptor", r.acceptor, r.acceptorErr, want.acceptor)
				}
			})
		}
	}
}

func checkSlot(t *testing.T, who string, slot mac.Slot, err error, want string) {
	t.Helper()
	if want == "-" {
		if !errors.Is(err, mac.ErrMismatch) || slot != mac.SlotNone {
			t.Errorf("%s: got %q, %v, want a refusal", who, slot, err)
		}
		return
	}
	if err != nil || string(slot) != want {
		t.Errorf("%s: got %q, %v, want %q", who, slot, err, want)
	}
}
