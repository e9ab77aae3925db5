package certs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
)

func TestFingerprints(t *testing.T) {
	ca, second := newCA(t, "ca"), newCA(t, "second ca")
	own, next := sign(t, ca, ecdsaKey(t), nil), sign(t, ca, ecdsaKey(t), nil)
	list := revoking(t, ca, nil)
	prints := loadCRL(t, crlPEM(list), []*pair{own}, ca).Fingerprints()
	for _, row := range []struct {
		got string
		der []byte
	}{{prints.Leaf, own.cert.Raw}, {prints.CA, ca.cert.Raw}, {prints.CRL, list}} {
		sum := sha256.Sum256(row.der)
		if want := hex.EncodeToString(sum[:8]); row.got != want {
			t.Errorf("got %q, want %q", row.got, want)
		}
	}
	if again := loadCRL(t, "text around\n"+strings.ReplaceAll(crlPEM(list), "\n", "\r\n"), []*pair{own}, ca).Fingerprints(); again != prints {
		t.Errorf("got %v of the same content, want %v", again, prints)
	}
	for name, row := range map[string]struct {
		set           *certs.Set
		leaf, ca, crl bool // what stays
	}{
		"renewed leaf":  {loadCRL(t, crlPEM(list), []*pair{next}, ca), false, true, true},
		"another CA":    {loadCRL(t, crlPEM(list), []*pair{own}, ca, second), true, false, true},
		"another order": {loadCRL(t, crlPEM(list), []*pair{own}, second, ca), true, false, true},
		"another list":  {loadCRL(t, crlPEM(list, revoking(t, ca, nil, next)), []*pair{own}, ca), true, true, false},
	} {
		got := row.set.Fingerprints()
		if (got.Leaf == prints.Leaf) != row.leaf || (got.CA == prints.CA) != row.ca || (got.CRL == prints.CRL) != row.crl {
			t.Errorf("%s: got %v after %v, want only what changed to differ", name, got, prints)
		}
	}
	if got := minted(t, "h").Fingerprints(); got.Leaf == "" || got.CA != "" || got.CRL != "" {
		t.Errorf("self-signed: got %v, want a leaf alone", got)
	}
	if got := new(certs.Set).Fingerprints(); got != (certs.Fingerprints{}) {
		t.Errorf("zero set: got %v, want nothing", got)
	}
}

func TestValidities(t *testing.T) { // T45
	ca, second := newCA(t, "ca"), newCA(t, "second ca")
	own := sign(t, ca, ecdsaKey(t), lasting(-time.Minute, time.Minute))
	want := []certs.Validity{
		{Role: certs.RoleLeaf, Slot: 0, NotBefore: own.cert.NotBefore, NotAfter: own.cert.NotAfter},
		{Role: certs.RoleCA, Slot: 0, NotBefore: ca.cert.NotBefore, NotAfter: ca.cert.NotAfter},
		{Role: certs.RoleCA, Slot: 1, NotBefore: second.cert.NotBefore, NotAfter: second.cert.NotAfter},
	}
	if got := loadPair(t, own, ca, second).Validities(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := minted(t, "h").Validities(); len(got) != 1 || got[0].Role != certs.RoleLeaf {
		t.Errorf("self-signed: got %v, want a leaf alone", got)
	}
	if got := new(certs.Set).Validities(); len(got) != 0 {
		t.Errorf("zero set: got %v, want nothing", got)
	}
}

func TestExpiring(t *testing.T) { // T45
	from := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	hour := from.Add(time.Hour)
	for minutes, want := range map[int]bool{-1: false, 0: false, 30: false, 48: false, 49: true, 60: true, 61: false} {
		if got := certs.Expiring(from, hour, from.Add(time.Duration(minutes)*time.Minute)); got != want {
			t.Errorf("minute %d of an hour: got %v, want %v", minutes, got, want)
		}
	}
	end := time.Date(4096, 1, 1, 0, 0, 0, 0, time.UTC) // Appendix B
	if certs.Expiring(time.Date(1975, 1, 1, 0, 0, 0, 0, time.UTC), end, from) {
		t.Error("got an alarm for the year 4096, want none")
	}
}
