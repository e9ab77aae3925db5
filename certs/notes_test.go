package certs_test

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"
)

// A leaf of 2030 under a CA of 2029 to 2031.
func TestNotesOutsideValidity(t *testing.T) { // T46
	from := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	to := time.Date(2030, 12, 31, 23, 59, 59, 0, time.UTC)
	ca := sign(t, nil, ecdsaKey(t), func(c *x509.Certificate) {
		c.IsCA, c.NotBefore, c.NotAfter = true, from.AddDate(-1, 0, 0), to.AddDate(1, 0, 0)
	})
	set := loadPair(t, sign(t, ca, ecdsaKey(t), func(c *x509.Certificate) {
		forHosts("127.0.0.1")(c)
		c.NotBefore, c.NotAfter = from, to
	}), ca)
	for now, want := range map[time.Time][]string{
		from:                                     nil,
		to:                                       nil,
		from.Add(-time.Second):                   {"own certificate", "not valid yet for 1s:"},
		from.Add(-time.Millisecond):              {"own certificate", "not valid yet for 1s:"},
		from.Add(-26 * time.Hour):                {"own certificate", "not valid yet for 1d2h:"},
		to.Add(90 * time.Minute):                 {"own certificate", "expired since 1h30m:"},
		from.AddDate(-2, 0, 0):                   {"own certificate", "CA certificate"},
		time.Unix(0, 0):                          {"own certificate", "not valid yet for 21915d:"},
		to.AddDate(2000, 0, 0):                   {"own certificate", "expired since 730485d:"},
		time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC): {"own certificate", "not valid yet for 741"},
	} {
		notes := set.Notes(now)
		if len(want) == 0 && len(notes) != 0 || len(want) > 0 && len(notes) == 0 {
			t.Errorf("%v: got notes %q, want %q", now, notes, want)
			continue
		}
		all := strings.Join(notes, "\n")
		for _, part := range want {
			if !strings.Contains(all, part) {
				t.Errorf("%v: got notes %q, want %q in them", now, notes, part)
			}
		}
		for _, note := range notes {
			for _, part := range []string{"NotBefore 20", "NotAfter 20", "local time " + now.UTC().Format(time.RFC3339), "_file"} {
				if !strings.Contains(note, part) {
					t.Errorf("%v: got %q, want %q in it", now, note, part)
				}
			}
		}
	}
}

func TestNotesOnYear4096(t *testing.T) { // Appendix B
	ca := sign(t, nil, ecdsaKey(t), func(c *x509.Certificate) { year4096(c); c.IsCA = true })
	set := loadPair(t, sign(t, ca, ecdsaKey(t), func(c *x509.Certificate) { year4096(c); forHosts("127.0.0.1")(c) }), ca)
	notes := set.Notes(time.Date(1974, 12, 31, 0, 0, 0, 0, time.UTC))
	if len(notes) != 2 || !strings.Contains(notes[0], "not valid yet for 1d: NotBefore 1975-01-01T00:00:00Z, NotAfter 4096-01-01T00:00:00Z") {
		t.Errorf("got %q, want both dates and one day", notes)
	}
}

func TestNotesOnTrust(t *testing.T) {
	ca := newCA(t, "ca")
	for name, row := range map[string]struct {
		edit func(*x509.Certificate)
		by   *pair
		want string
	}{
		"no SAN":       {nil, ca, "no IP or DNS SAN"},
		"a CA":         {func(c *x509.Certificate) { forHosts("h")(c); c.IsCA = true }, ca, "is a CA"},
		"client usage": {usage(x509.ExtKeyUsageClientAuth), ca, "serverAuth"},
		"foreign":      {forHosts("h"), newCA(t, "other"), "signed by no CA of ca_file"},
		"any usage":    {usage(x509.ExtKeyUsageAny), ca, ""},
	} {
		notes := loadPair(t, sign(t, row.by, ecdsaKey(t), row.edit), ca).Notes(time.Now())
		if row.want == "" && len(notes) == 0 {
			continue
		}
		if len(notes) != 1 || !strings.Contains(notes[0], row.want) {
			t.Errorf("%s: got notes %q, want one with %q", name, notes, row.want)
		}
	}
	if notes := minted(t, "127.0.0.1").Notes(time.Now()); len(notes) != 0 {
		t.Errorf("self-signed: got notes %q, want none", notes)
	}
}
