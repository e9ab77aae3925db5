package house

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// checkSleeps finds tests that wait for real time to pass. In a synctest bubble time is virtual and a sleep is exact;
// elsewhere it is a guess about the machine, which a comment `// real time: …` must justify. Code that runs in a
// bubble of its caller's says `// virtual time: …`.
func checkSleeps(s source) (complaints []string) {
	if !s.isTest() {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if s.isCall(n, "testing/synctest", "Test") {
			return false
		}
		if !s.isCall(n, "time", "Sleep") {
			return true
		}
		if c := s.commentNear(n.Pos(), 1); !marked(c, "real time:") && !marked(c, "virtual time:") {
			complaints = append(complaints, s.complain(n.Pos(),
				"time.Sleep outside a bubble: wait for what is to happen, or say why not with // real time:"))
		}
		return true
	})
	return complaints
}

// marked tells whether a comment has the mark and a reason behind it.
func marked(comment, mark string) bool {
	_, reason, ok := strings.Cut(comment, mark)
	return ok && strings.TrimSpace(reason) != ""
}

// checkSkips finds tests that leave without a word. The comment stands beside the skip or above it, or above the `if`
// around it.
func checkSkips(s source) (complaints []string) {
	if !s.isTest() {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		on, name := called(n)
		isTest := slices.Contains([]string{"t", "b", "f", "tb"}, on)
		isSkip := slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, name)
		if isTest && isSkip && s.commentNear(n.Pos(), 2) == "" {
			complaints = append(complaints, s.complain(n.Pos(), "a skip without a comment: what is not tested then, and who does?"))
		}
		return true
	})
	return complaints
}

// checkClocks finds pure rooms that look at a clock: time is an argument there, or the tests cannot own it.
func checkClocks(s source) (complaints []string) {
	from, ok := doorOf(module + "/" + folderOf(s.name))
	if !ok || !isPure(from.room) || s.isTest() {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if s.isCall(n, "time", "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick") {
			complaints = append(complaints, s.complain(n.Pos(), "%s looks at a clock: time is an argument there", from.room))
		}
		if g, ok := n.(*ast.GoStmt); ok {
			complaints = append(complaints, s.complain(g.Pos(), "%s starts a goroutine: only the caller decides who runs", from.room))
		}
		return true
	})
	return complaints
}

func folderOf(name string) string {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)]
}

// checkWords finds what no text of the project may contain: notes to oneself, which nobody finds again, and paths of
// one particular machine, which mean nothing on any other.
func checkWords(name, text string) (complaints []string) {
	// Written so that these patterns do not match this file.
	note := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	machine := regexp.MustCompile(`(^|[\s"'` + "`" + `(=:])/(home|root|work|Users)/\w`)
	number := 0
	for line := range strings.Lines(text) {
		number++
		if w := note.FindString(line); w != "" && !strings.HasSuffix(name, ".md") {
			complaints = append(complaints, fmt.Sprintf("%s:%d: %s: do it, or open an issue", name, number, w))
		}
		if w := machine.FindString(line); w != "" {
			complaints = append(complaints, fmt.Sprintf("%s:%d: %s…: a path of one machine", name, number, strings.TrimSpace(w)))
		}
	}
	return complaints
}
