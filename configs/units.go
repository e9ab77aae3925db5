package configs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const second = Duration(time.Second)

// Duration is a length of time as Iggy writes it: "5s", "5 s", "1m 30s".
type Duration time.Duration

// Size is a number of bytes: "64MiB", "64 MiB", 65536.
type Size uint64

// ParseDuration reads a duration: numbers with a unit (ns us ms s m h), spaces
// allowed between them. A bare number is refused, since nobody can tell whether
// seconds or milliseconds were meant.
func ParseDuration(text string) (Duration, error) { return parseDuration(text, goUnit) }

// parseIggyDuration also knows the unit names and words for zero that Iggy takes.
func parseIggyDuration(text string) (Duration, error) {
	if iggyZero(text) {
		return 0, nil
	}
	return parseDuration(text, iggyUnit)
}

func parseDuration(text string, unit func(string) string) (Duration, error) {
	bad := fmt.Errorf(`expected a duration with a unit (ns us ms s m h), found %q; write for example "500ms" or "1m 30s"`, text)
	var compact strings.Builder
	rest := strings.TrimSpace(text)
	for rest != "" {
		n := span(rest, "0123456789.")
		number := rest[:n]
		rest = strings.TrimLeft(rest[n:], " ")
		u := len(rest) - len(strings.TrimLeftFunc(rest, func(r rune) bool { return !strings.ContainsRune("0123456789. ", r) }))
		name := unit(rest[:u])
		if number == "" || name == "" {
			return 0, bad
		}
		compact.WriteString(number + name)
		rest = strings.TrimLeft(rest[u:], " ")
	}
	d, err := time.ParseDuration(compact.String()) // refuses the empty text, two dots, an overflow
	if err != nil {
		return 0, bad
	}
	return Duration(d), nil
}

// span returns the length of the leading part of s made of the given bytes.
func span(s, of string) int { return len(s) - len(strings.TrimLeft(s, of)) }

func goUnit(u string) string {
	switch u {
	case "ns", "us", "µs", "ms", "s", "m", "h":
		return u
	}
	return ""
}

func iggyUnit(u string) string {
	switch u {
	case "nsec":
		return "ns"
	case "usec":
		return "us"
	case "msec":
		return "ms"
	case "sec", "second", "seconds":
		return "s"
	case "min", "minute", "minutes":
		return "m"
	case "hr", "hour", "hours":
		return "h"
	}
	return goUnit(u)
}

// iggyZero reports the words that Iggy reads as zero, for durations and sizes.
func iggyZero(text string) bool {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "0", "disabled", "unlimited":
		return true
	}
	return false
}

// Std returns the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String prints a form that ParseDuration reads back: "5s", "2m", "1h30m".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// sizeUnits, largest first, the exact powers of two before those of ten.
func sizeUnits() []struct {
	name  string
	bytes uint64
} {
	return []struct {
		name  string
		bytes uint64
	}{
		{"GiB", 1 << 30},
		{"MiB", 1 << 20},
		{"KiB", 1 << 10},
		{"GB", 1e9},
		{"MB", 1e6},
		{"KB", 1e3},
		{"B", 1},
	}
}

// ParseSize reads a whole number with a unit (B KB KiB MB MiB GB GiB), a space
// allowed between them; without a unit it counts bytes.
func ParseSize(text string) (Size, error) {
	bad := fmt.Errorf(`expected a size with a unit (B KB KiB MB MiB GB GiB), found %q; write for example "256KiB" or "64 MiB"`, text)
	s := strings.TrimSpace(text)
	digits := span(s, "0123456789")
	unit := strings.TrimLeft(s[digits:], " ")
	n, err := strconv.ParseUint(s[:digits], 10, 64)
	if err != nil {
		return 0, bad
	}
	if unit == "" {
		return Size(n), nil
	}
	for _, u := range sizeUnits() {
		if u.name == unit {
			if n > math.MaxUint64/u.bytes {
				return 0, bad
			}
			return Size(n * u.bytes), nil
		}
	}
	return 0, bad
}

// parseIggySize also knows Iggy's words for zero.
func parseIggySize(text string) (Size, error) {
	if iggyZero(text) {
		return 0, nil
	}
	return ParseSize(text)
}

// String prints a form that ParseSize reads back, in the largest unit that
// keeps the number whole.
func (s Size) String() string {
	for _, u := range sizeUnits() {
		if s > 0 && uint64(s)%u.bytes == 0 {
			return strconv.FormatUint(uint64(s)/u.bytes, 10) + u.name
		}
	}
	return "0B"
}
