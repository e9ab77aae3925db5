package proxy

import (
	"fmt"
	"testing"
	"time"

	"github.com/replgate/replgate/mac"
)

// Who is awaited in which phase, by what one peer has proved. The current secret is
// "c", the previous "p"; "x" is one that was removed.
func TestRotationJudge(t *testing.T) {
	at := time.Date(2026, 8, 21, 14, 2, 11, 0, time.UTC)
	peer := func(signs mac.Fingerprint, kind Kind, linked, proven bool, holds ...mac.Fingerprint) PeerRotation {
		p := PeerRotation{Peer: 2, Kind: kind, SignsWith: signs, Linked: linked, LinkProven: proven}
		if signs != "" {
			p.Signed = &at
		}
		for _, f := range holds {
			p.Holds = append(p.Holds, HeldSecret{Fingerprint: f})
		}
		return p
	}
	const seenOld, seenNew = "; last seen signing with the old one at 2026-08-21T14:02:11Z", "; last seen signing with the new one at 2026-08-21T14:02:11Z"
	for _, c := range []struct {
		phase Phase
		peer  PeerRotation
		want  []Awaited
	}{
		{PhaseOne, peer("c", KindGate, true, false, "c", "p"), nil},
		{PhaseOne, peer("p", KindGate, true, false, "p"), nil}, // it has swapped already
		{PhaseOne, peer("c", KindGate, true, true, "c"), []Awaited{{2, "showing that it holds the new secret" + seenOld, false}}},
		{PhaseOne, peer("c", KindUnknown, true, true, "c"), []Awaited{{2, "showing that it holds the new secret, which a native replica cannot" + seenOld, false}}},
		{PhaseOne, peer("c", KindNative, true, true, "c"), []Awaited{{2, "holding the new secret: it is native and cannot show it" + seenOld, true}}},
		{PhaseOne, peer("", KindUnknown, false, false), []Awaited{{2, "showing that it holds the new secret, which a native replica cannot; nothing was seen of it", false}}},
		{PhaseTwo, peer("c", KindNative, true, true, "c"), nil},
		{PhaseTwo, peer("c", KindGate, false, false, "c"), nil}, // no link, nothing to cut
		{PhaseTwo, peer("c", KindGate, true, false, "c", "p"), []Awaited{{2, "a link that the new secret proves" + seenNew, false}}},
		{PhaseTwo, peer("p", KindGate, true, true, "c", "p"), []Awaited{{2, "signing with the new secret" + seenOld, false}}},
		{PhaseTwo, peer("x", KindGate, true, false), []Awaited{{2, "signing with the new secret; last seen signing with the removed one at 2026-08-21T14:02:11Z", false}}},
		{PhaseUnknown, peer("c", KindGate, true, true, "c", "p"), nil},
		{PhaseUnknown, peer("c", KindGate, true, true, "c"), []Awaited{{2, "showing that it holds the previous secret; last seen signing with the current one at 2026-08-21T14:02:11Z", false}}},
		{PhaseUnknown, peer("p", KindGate, true, false, "c", "p"), []Awaited{{2, "signing with the current secret; last seen signing with the previous one at 2026-08-21T14:02:11Z", false}}},
		{PhaseNone, peer("x", KindUnknown, true, false), nil},
	} {
		r := Rotation{Phase: c.phase, Current: "c", Previous: "p", Safe: true}
		c.peer.Signs = r.name(c.peer.SignsWith)
		r.Peers = []PeerRotation{c.peer}
		r.judge()
		if got, want := fmt.Sprintf("%+v", r.Awaited), fmt.Sprintf("%+v", c.want); got != want || r.Safe != (c.want == nil) || r.Why == "" {
			t.Errorf("phase %s, %+v:\ngot  %s, safe %v, %q\nwant %s", c.phase, c.peer, got, r.Safe, r.Why, want)
		}
	}
}

// The phase follows the order in which the secrets came, through a whole rotation
// and back, and is not known of two that came together.
func TestPhaseFollowsTheYounger(t *testing.T) {
	ring := func(secrets ...string) *mac.Keyring {
		var previous []byte
		if len(secrets) > 1 {
			previous = []byte(secrets[1])
		}
		k, err := mac.NewKeyring([]byte(secrets[0]), previous)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	const a, b, c = "secret a, of thirty-two bytes ....", "secret b, of thirty-two bytes ....", "secret c, of thirty-two bytes ...."
	for name, steps := range map[string][]struct {
		keys *mac.Keyring
		want Phase
	}{
		"in order":         {{ring(a), PhaseNone}, {ring(a, b), PhaseOne}, {ring(b, a), PhaseTwo}, {ring(b), PhaseNone}, {ring(b, c), PhaseOne}},
		"and back":         {{ring(a), PhaseNone}, {ring(a, b), PhaseOne}, {ring(b, a), PhaseTwo}, {ring(a, b), PhaseOne}, {ring(a), PhaseNone}},
		"to the old again": {{ring(a), PhaseNone}, {ring(b, a), PhaseTwo}, {ring(b), PhaseNone}, {ring(b, a), PhaseOne}},
		"started between":  {{ring(a, b), PhaseUnknown}, {ring(b, a), PhaseUnknown}, {ring(b), PhaseNone}, {ring(b, c), PhaseOne}},
		"both others":      {{ring(a), PhaseNone}, {ring(b, c), PhaseUnknown}},
		"the first one":    {{nil, PhaseNone}, {ring(a), PhaseNone}, {ring(a, b), PhaseOne}},
	} {
		s := &Server{born: map[mac.Fingerprint]int{}}
		for i, step := range steps {
			set := &Settings{Keys: step.keys}
			s.meet(set)
			s.settings.Store(set)
			if got := s.Rotation().Phase; got != step.want {
				t.Errorf("%s, step %d: got phase %q, want %q", name, i, got, step.want)
			}
		}
	}
}
