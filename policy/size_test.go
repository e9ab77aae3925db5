package policy

import (
	"reflect"
	"testing"
)

// What Chain's documentation promises of its memory. This file looks inside the
// package: a size has no other door.
func TestChainSize(t *testing.T) {
	const promised = 170 << 10
	got := reflect.TypeFor[Chain]().Size() + chainViews*reflect.TypeFor[chainView]().Size()
	if got > promised {
		t.Errorf("got %d bytes, want at most %d", got, promised)
	}
	if ruleCount > 32 {
		t.Errorf("got %d rules, want at most 32: a RuleSet has a bit for each", ruleCount)
	}
}
