//go:build !race

package policy_test

import (
	"testing"
	"time"

	"github.com/replgate/replgate/wire"
)

// TestGuardHeaderCost holds what all the rules cost on a frame that passes against
// the one thing that cannot be saved, the hash of its header. Both run by turns on
// the same machine at the same moment, and the fastest turn of each counts: what
// disturbs one disturbs both.
func TestGuardHeaderCost(t *testing.T) {
	const turns, each, most = 200, 500, 6
	frame := honest(wire.StateChunk)
	h, j := (*wire.Header)(frame), newJudge(t)
	if v := j.Header(h); v.Rule != 0 {
		t.Fatalf("got rule %v, want a frame that passes", v.Rule)
	}
	var sum uint64
	hash, judge := time.Hour, time.Hour
	for range turns {
		began := time.Now()
		for range each {
			sum += wire.Hash(frame[16:wire.HeaderSize])
		}
		hashed := time.Now()
		for range each {
			sum += uint64(j.Header(h).Rule)
		}
		hash, judge = min(hash, hashed.Sub(began)), min(judge, time.Since(hashed))
	}
	ratio := float64(judge) / float64(hash)
	t.Logf("the rules cost %.1f hashes (%d)", ratio, sum&1)
	if ratio > most {
		t.Errorf("got all rules at %.1f hashes of a header, want at most %d", ratio, most)
	}
}
