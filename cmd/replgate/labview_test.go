package main

import (
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/replgate/replgate/internal/lab"
)

// TestLabScreen: the screen shows every stand-in, and q ends it.
func TestLabScreen(t *testing.T) {
	s := labSnapshot{Seconds: 3, Links: 3, Frames: 12, PerSecond: 4, Replicas: []lab.Report{
		{ID: 0, Links: 2, Commit: 7, Hash: "00000000000000aa", GapMS: 510}, {ID: 1, Links: 2, View: 1, Primary: 1, Commit: 7}, {ID: 2}}}
	screen := liveLab{now: s}.View()
	for _, want := range []string{"links between gates 3", "frames 12 (4/s)", "510 ms", "00000000000000aa", "q ends it"} {
		if !strings.Contains(screen, want) {
			t.Errorf("got a screen without %q:\n%s", want, screen)
		}
	}
	if _, quit := (liveLab{}).Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("q")}); quit == nil {
		t.Error("got no end of the screen by q, want one")
	}
	if line := s.line(); !strings.Contains(line, "gap=510ms") || strings.Contains(line, "\n") {
		t.Errorf("got line %q, want one with the longest gap", line)
	}
}
