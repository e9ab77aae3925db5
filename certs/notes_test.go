package certs_test

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
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
		to:                                       {"own certificate", "expires in 0s, less than a fifth of its lifetime of 364d23h59m59s:"},
		to.AddDate(0, 0, -72):                    {"own certificate", "expires in 72d,"},
		to.AddDate(0, 0, -73):                    nil,
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

// The threshold is a fraction, so that neither a certificate of an hour nor one
// of ten years flaps.
func TestNotesOnExpiry(t *testing.T) { // T45
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	ca := sign(t, nil, ecdsaKey(t), func(c *x509.Certificate) {
		c.IsCA, c.NotBefore, c.NotAfter = true, start.AddDate(-1, 0, 0), start.AddDate(1000, 0, 0)
	})
	for _, life := range []time.Duration{time.Hour, 24 * time.Hour, 90 * 24 * time.Hour, 87660 * time.Hour} {
		set := loadPair(t, sign(t, ca, ecdsaKey(t), func(c *x509.Certificate) {
			forHosts("127.0.0.1")(c)
			c.NotBefore, c.NotAfter = start, start.Add(life)
		}), ca)
		for part, want := range map[int64]int{0: 0, 50: 0, 79: 0, 81: 1, 100: 1} {
			notes := set.Notes(start.Add(life / 100 * time.Duration(part)))
			if len(notes) != want || want == 1 && !strings.Contains(notes[0], "own certificate") {
				t.Errorf("%v at %d %%: got notes %q, want %d", life, part, notes, want)
			}
		}
	}
}

func TestNotesOnIdentity(t *testing.T) {
	ca := newCA(t, "ca")
	template := must[*certs.Template](t)(certs.NewTemplate(usualIdentity, "example.org", "prod"))
	one, two := "spiffe://example.org/iggy/prod/1", "spiffe://example.org/iggy/prod/2"
	both := func(c *x509.Certificate) {
		named(one)(c)
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	}
	server := func(c *x509.Certificate) { both(c); c.ExtKeyUsage = c.ExtKeyUsage[:1] }
	for name, row := range map[string]struct {
		edit    func(*x509.Certificate)
		options certs.Options
		want    string
	}{
		"no name, nobody asks": {forHosts("h"), certs.Options{}, ""},
		"usage, nobody asks":   {server, certs.Options{}, ""},
		"right":                {both, certs.Options{Identity: template, Replica: 1}, ""},
		"no name":              {forHosts("h"), certs.Options{Identity: template, Replica: 1}, "has no SAN \"" + one},
		"another's":            {named(two), certs.Options{Identity: template, Replica: 1}, "is for \"" + two + "\", want \"" + one},
		"shared":               {named(one, two), certs.Options{Identity: template, Replica: 1}, "is for \"" + two + "\" too"},
		"usage":                {server, certs.Options{Identity: template, Replica: 1}, "clientAuth"},
		"usage, required":      {server, certs.Options{ClientAuth: certs.Require}, "clientAuth"},
	} {
		notes := loadPair(t, sign(t, ca, ecdsaKey(t), row.edit), ca).With(row.options).Notes(time.Now())
		if row.want == "" && len(notes) == 0 {
			continue
		}
		if row.want == "" || len(notes) != 1 || !strings.Contains(notes[0], row.want) {
			t.Errorf("%s: got notes %q, want one with %q", name, notes, row.want)
		}
	}
}

func TestNotesOnLists(t *testing.T) {
	ca := newCA(t, "ca")
	middle := sign(t, ca, ecdsaKey(t), func(c *x509.Certificate) { c.IsCA = true; c.Subject.CommonName = "middle" })
	own := sign(t, ca, ecdsaKey(t), forHosts("127.0.0.1"))
	chained := sign(t, middle, ecdsaKey(t), forHosts("127.0.0.1"))
	dated := func(from, to time.Duration) func(*x509.RevocationList) {
		return func(l *x509.RevocationList) { l.ThisUpdate, l.NextUpdate = time.Now().Add(from), time.Now().Add(to) }
	}
	for name, row := range map[string]struct {
		list   []byte
		own    []*pair
		trusts []*pair
		want   []string
	}{
		"in date":              {revoking(t, ca, nil), []*pair{own}, []*pair{ca}, nil},
		"out of date":          {revoking(t, ca, dated(-3*time.Hour, -2*time.Hour)), []*pair{own}, []*pair{ca}, []string{"list 1 of crl_file", "CN=ca", "out of date since 2h", "nextUpdate 20", "local time 20"}},
		"from the future":      {revoking(t, ca, dated(2*time.Hour, 3*time.Hour)), []*pair{own}, []*pair{ca}, []string{"from the future", "thisUpdate 20", "local time 20"}},
		"own leaf":             {revoking(t, ca, nil, own), []*pair{own}, []*pair{ca}, []string{"own chain", "revoked"}},
		"own intermediate":     {revoking(t, ca, nil, middle), []*pair{chained, middle}, []*pair{ca}, []string{"own chain", "middle"}},
		"a CA by another":      {revoking(t, ca, nil, middle), []*pair{own}, []*pair{ca, middle}, []string{"CA certificate", "middle", "not trusted"}},
		"a CA by its own list": {revoking(t, ca, nil, ca), []*pair{own}, []*pair{ca}, nil},
	} {
		notes := loadCRL(t, crlPEM(row.list), row.own, row.trusts...).Notes(time.Now())
		if len(notes) != min(1, len(row.want)) {
			t.Errorf("%s: got notes %q, want %q", name, notes, row.want)
			continue
		}
		for _, part := range row.want {
			if !strings.Contains(notes[0], part) {
				t.Errorf("%s: got %q, want %q in it", name, notes[0], part)
			}
		}
	}
}
