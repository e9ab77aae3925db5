package configs

import (
	"math"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	good := map[string]time.Duration{
		"5s": 5 * time.Second, "5 s": 5 * time.Second, " 5s ": 5 * time.Second, "0s": 0,
		"500ms": 500 * time.Millisecond, "2m": 2 * time.Minute, "1m30s": 90 * time.Second,
		"1m 30 s": 90 * time.Second, "1h": time.Hour, "3ns": 3, "7us": 7 * time.Microsecond,
		"7µs": 7 * time.Microsecond, "1.5s": 1500 * time.Millisecond,
	}
	for text, want := range good {
		if d, err := ParseDuration(text); err != nil || d.Std() != want {
			t.Errorf("%q: got %v, %v, want %v", text, d, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "5", "0", "-5s", "+5s", "5x", "s", "5 s 3", "1.2.3s", ".s", "5sec", "disabled",
		"1d", "5S", "5s,", "9999999999h", "5\ns", "5 µ s", "1e3s",
	} {
		if d, err := ParseDuration(text); err == nil || d != 0 {
			t.Errorf("%q: got %v, %v, want an error", text, d, err)
		}
	}
}

func TestParseIggyDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "disabled": 0, "Unlimited": 0, "5 s": 5 * time.Second, "5 sec": 5 * time.Second,
		"2 minutes": 2 * time.Minute, "1 hour 5 min": 65 * time.Minute, "3 msec": 3 * time.Millisecond,
		"4 usec": 4 * time.Microsecond, "5 nsec": 5,
	} {
		if d, err := parseIggyDuration(text); err != nil || d.Std() != want {
			t.Errorf("%q: got %v, %v, want %v", text, d, err, want)
		}
	}
	if _, err := parseIggyDuration("5"); err == nil {
		t.Error("a bare number was accepted")
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "65536": 65536, "64MiB": 64 << 20, "64 MiB": 64 << 20, "256KiB": 256 << 10,
		"2 MB": 2_000_000, "1GiB": 1 << 30, "1GB": 1e9, "3KB": 3000, "1200 B": 1200, " 7B ": 7,
		"18446744073709551615": math.MaxUint64,
	} {
		if s, err := ParseSize(text); err != nil || s != want {
			t.Errorf("%q: got %d, %v, want %d", text, s, err, want)
		}
	}
	for _, text := range []string{
		"", "MiB", "-1", "1.5MiB", "64Mib", "64 M", "64MiB x", "18446744073709551616", "99999999999GiB",
		"unlimited", "0x10", "1_000",
	} {
		if s, err := ParseSize(text); err == nil || s != 0 {
			t.Errorf("%q: got %d, %v, want an error", text, s, err)
		}
	}
	if s, err := parseIggySize("unlimited"); err != nil || s != 0 {
		t.Errorf("unlimited: got %d, %v, want 0", s, err)
	}
}

func TestUnitsPrint(t *testing.T) {
	for d, want := range map[Duration]string{
		0: "0s", 5 * second: "5s", 120 * second: "2m", 5400 * second: "1h30m", 3600 * second: "1h",
		600 * second: "10m", second / 2: "500ms", 3601 * second: "1h0m1s",
	} {
		if d.String() != want {
			t.Errorf("got %s, want %s", d, want)
		}
	}
	for s, want := range map[Size]string{
		0: "0B", 1: "1B", 1000: "1KB", 1024: "1KiB", 64 << 20: "64MiB", 2e6: "2MB", 1 << 30: "1GiB", 1001: "1001B",
	} {
		if s.String() != want {
			t.Errorf("got %s, want %s", s, want)
		}
	}
}

// What is read prints as something that reads back as the same.
func FuzzUnits(f *testing.F) {
	for _, s := range []string{"5 s", "1h2m3.5s", "64 MiB", "1_0", "0", "µs", "5µs", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := ParseDuration(text); err == nil {
			if back, err := ParseDuration(d.String()); err != nil || back != d || d < 0 {
				t.Errorf("%q is %d, prints %s, reads back as %d, %v", text, d, d, back, err)
			}
		}
		if s, err := ParseSize(text); err == nil {
			if back, err := ParseSize(s.String()); err != nil || back != s {
				t.Errorf("%q is %d, prints %s, reads back as %d, %v", text, s, s, back, err)
			}
		}
		_, _ = parseIggyDuration(text)
	})
}
