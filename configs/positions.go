package configs

import (
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// keyLines maps the path of every key and table of a TOML document, such as
// cluster.nodes[1].ip, to the line it first stands on. The decoder forgets
// lines, and a fault without one sends people searching.
//
// The document has been accepted by the decoder before: the scanner recognises,
// it does not judge. On anything else it ends without a panic, with a part of
// the keys.
func keyLines(doc string) map[string]int { return scan(doc).lines }

func scan(doc string) *scanner {
	s := &scanner{src: strings.TrimPrefix(doc, "\ufeff"), line: 1, lines: map[string]int{}, elems: map[string]int{}, places: map[string]place{}}
	table := ""
	for s.blank(); s.pos < len(s.src); s.blank() {
		if s.src[s.pos] == '[' {
			table = s.header()
		} else {
			s.pair(table)
		}
		s.until("\n") // the rest is white space or a comment
	}
	return s
}

type scanner struct {
	src       string
	pos, line int
	lines     map[string]int
	elems     map[string]int // array of tables → elements seen
	places    map[string]place
	depth     int // of inline tables
}

// place is where a pair stands in scanner.src: from its key's first byte to its
// value's last.
type place struct {
	key, value, end int
	inline          bool // inside an inline table, so no line of its own
}

// header reads [a.b] or [[a.b]] and returns the path that the keys below it have.
func (s *scanner) header() string {
	array := strings.HasPrefix(s.src[s.pos:], "[[")
	s.pos++
	if array {
		s.pos++
	}
	parts := s.key()
	path := ""
	for i, p := range parts {
		path = join(path, p)
		last := i == len(parts)-1
		if array && last {
			s.mark(path)
			s.elems[path]++
		}
		// A path through an array of tables means its newest element.
		if n := s.elems[path]; n > 0 {
			path += index(n - 1)
		}
		s.mark(path)
	}
	return path
}

// pair reads key = value.
func (s *scanner) pair(table string) {
	path, at := table, place{key: s.pos, inline: s.depth > 0}
	for _, p := range s.key() {
		path = join(path, p)
		s.mark(path)
	}
	s.spaces()
	if s.pos < len(s.src) && s.src[s.pos] == '=' {
		s.pos++
		s.spaces()
		at.value = s.pos
		s.value(path)
		// What ends a number or a boolean may stand behind blanks.
		at.end = len(strings.TrimRight(s.src[:s.pos], " \t\r\n"))
		if _, ok := s.places[path]; !ok {
			s.places[path] = at
		}
	}
}

// key reads a dotted key and stops behind it.
func (s *scanner) key() []string {
	var parts []string
	for {
		s.spaces()
		if s.pos == len(s.src) {
			return parts
		}
		start := s.pos
		if c := s.src[s.pos]; c == '"' || c == '\'' {
			s.text()
			parts = append(parts, unquote(s.src[start:s.pos]))
		} else {
			s.until(" \t\r\n.=]\"'")
			parts = append(parts, s.src[start:s.pos])
		}
		s.spaces()
		if s.pos == len(s.src) || s.src[s.pos] != '.' {
			return parts
		}
		s.pos++
	}
}

// value passes over a value and marks the keys inside it.
func (s *scanner) value(path string) {
	if s.pos == len(s.src) {
		return
	}
	switch s.src[s.pos] {
	case '"', '\'':
		s.text()
	case '[':
		s.pos++
		for i := 0; s.item(']'); i++ {
			s.mark(path + index(i))
			s.value(path + index(i))
		}
	case '{':
		s.pos++
		s.depth++
		for s.item('}') {
			s.pair(path)
		}
		s.depth--
	default:
		s.until(",]}#\n") // numbers, booleans, dates with a space inside
	}
}

// item moves to the next item of an array or inline table; at the end it steps
// over the closing bracket and reports false.
func (s *scanner) item(end byte) bool {
	before := s.pos
	for s.blank(); s.pos < len(s.src) && s.src[s.pos] == ','; s.blank() {
		s.pos++
	}
	if s.pos == len(s.src) {
		return false
	}
	if s.src[s.pos] == end {
		s.pos++
		return false
	}
	// A stray byte that is no item would stand still for ever.
	if s.pos == before && strings.IndexByte("]}=#", s.src[s.pos]) >= 0 {
		s.pos = len(s.src)
		return false
	}
	return true
}

// text passes over a string of any of the four kinds.
func (s *scanner) text() {
	quote := s.src[s.pos : s.pos+1]
	if strings.HasPrefix(s.src[s.pos:], strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	s.pos += len(quote)
	for s.pos < len(s.src) && !strings.HasPrefix(s.src[s.pos:], quote) {
		if s.src[s.pos] == '\\' && quote[0] == '"' {
			s.step() // what is escaped does not end the string
		}
		s.step()
	}
	s.pos = min(s.pos+len(quote), len(s.src))
	// Up to two more quotes before the closing three belong to the text.
	for i := 0; len(quote) == 3 && i < 2 && strings.HasPrefix(s.src[s.pos:], quote[:1]); i++ {
		s.pos++
	}
}

// blank passes over white space, line ends and comments.
func (s *scanner) blank() {
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.step()
		case '#':
			s.until("\n")
		default:
			return
		}
	}
}

func (s *scanner) spaces() {
	for s.pos < len(s.src) && strings.IndexByte(" \t", s.src[s.pos]) >= 0 {
		s.pos++
	}
}

// until stops at one of the given bytes.
func (s *scanner) until(stop string) {
	for s.pos < len(s.src) && strings.IndexByte(stop, s.src[s.pos]) < 0 {
		s.step()
	}
}

func (s *scanner) step() {
	if s.pos < len(s.src) {
		if s.src[s.pos] == '\n' {
			s.line++
		}
		s.pos++
	}
}

// mark keeps the first line of a path.
func (s *scanner) mark(path string) {
	if _, ok := s.lines[path]; !ok {
		s.lines[path] = s.line
	}
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// join appends a key to a path, quoted where TOML would quote it.
func join(path, key string) string {
	key = toml.Key{key}.String()
	if path == "" {
		return key
	}
	return path + "." + key
}

// unquote lets the decoder itself read a quoted key: escapes are its business.
func unquote(raw string) string {
	var v struct{ K string }
	if _, err := toml.Decode("K = "+raw, &v); err != nil {
		return raw
	}
	return v.K
}
