package policy_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// framesOfTheSubset is the number of frames of the recordings in the project that
// are no handshake: 2774 less 25 Hellos, 11 Challenges and 11 Finishes.
const framesOfTheSubset = 2774 - 25 - 11 - 11

// Honest traffic is never refused: every frame of every recording, at the gates of
// both its ends, under the default table, observing rules included.
func TestHonestTrafficIsNeverRefused(t *testing.T) {
	judged := 0
	for _, scenario := range scenarios(t) {
		all := events(t, scenario)
		for local := range replicasOf(scenario) {
			g := newRecordedGate(t, uint8(local), new(policy.Chain))
			judged += g.play(all, replicasOf(scenario), func(e event, v policy.Verdict) {
				t.Errorf("%s, gate %d, connection %d, %d to %d: %s", scenario, local, e.conn, e.from, e.to, told(e, v))
			})
		}
	}
	if os.Getenv("REPLGATE_CAPTURES") == "" && judged != 2*framesOfTheSubset {
		t.Errorf("got %d frames judged, want %d", judged, 2*framesOfTheSubset)
	}
}

func told(e event, v policy.Verdict) string {
	h := (*wire.Header)(e.frame)
	return fmt.Sprintf("%v view %d: %v by %v, observed %v, %v", h.Command(), wire.View.Get(h), v.Action, v.Rule, observed(v.Observed), v.Cause)
}

// A cluster of the same name that was wiped and made anew comes through the same
// memory, emptied when the local replica's last leg ended. Were it not emptied,
// its honest prepares would be refused.
func TestSecondClusterOfTheSameName(t *testing.T) {
	first, second := events(t, "tour-plaintext"), events(t, "tour-psk")
	for _, forgets := range []bool{true, false} {
		chain := new(policy.Chain)
		refusals := 0
		for i, all := range [][]event{first, second, first} {
			g := newRecordedGate(t, 1, chain)
			g.forgets = forgets
			g.play(all, 3, func(e event, v policy.Verdict) {
				if refusals++; forgets || v.Rule != policy.MetadataChain {
					t.Errorf("cluster %d, forgets %v: %s", i, forgets, told(e, v))
				}
			})
		}
		if !forgets && refusals == 0 {
			t.Error("got no refusal with the memory of another cluster: this test proves nothing")
		}
	}
}

// The other direction: what comes back from a gate whose chain was fed by a
// recording is still refused when it is foreign.
func TestRecordedChainRefusesAForeignParent(t *testing.T) {
	g := newRecordedGate(t, 1, new(policy.Chain))
	g.forgets = false
	all := events(t, "tour-psk")
	g.play(all, 3, func(e event, v policy.Verdict) { t.Error(told(e, v)) })
	tried := 0
	for _, e := range all {
		if e.frame == nil || e.to != 1 {
			continue
		}
		h := (*wire.Header)(e.frame)
		if h.Command() != wire.Prepare || wire.PrepareGroup.Get(h) != wire.MetadataGroup {
			continue
		}
		tried++
		foreign := with(e.frame, func(h *wire.Header) { h[144] ^= 1 })
		wantRefused(t, "foreign parent", g.look(event{conn: e.conn, from: e.from, to: e.to, frame: foreign}), policy.Drop, "metadata_chain")
	}
	if tried < 20 {
		t.Errorf("got %d metadata prepares, want a log", tried)
	}
}
