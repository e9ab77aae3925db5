package mac_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"lukechampine.com/blake3"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// §8.2: at least 32 bytes, previous another than current; nil is no previous.
func TestNewKeyring(t *testing.T) {
	long := func(n int, b byte) []byte { return bytes.Repeat([]byte{b}, n) }
	for _, c := range []struct {
		name              string
		current, previous []byte
		fault             string // empty: none
	}{
		{"32 bytes", long(32, 'a'), nil, ""},
		{"31 bytes", long(31, 'a'), nil, "mac: got a shared secret of 31 bytes, want at least 32"},
		{"nothing", nil, nil, "mac: got a shared secret of 0 bytes, want at least 32"},
		{"long", long(4096, 'a'), nil, ""},
		{"not UTF-8", long(32, 0xFF), nil, ""},
		{"both 32", long(32, 'a'), long(32, 'b'), ""},
		{"previous 31", long(32, 'a'), long(31, 'b'), "mac: got a previous secret of 31 bytes, want at least 32"},
		{"previous empty", long(32, 'a'), []byte{}, "mac: got a previous secret of 0 bytes, want at least 32"},
		{"equal", long(32, 'a'), long(32, 'a'), "mac: got a previous secret equal to the current one, want another or none"},
		{"prefix of the other", long(32, 'a'), long(33, 'a'), ""},
		{"short current, good previous", long(31, 'a'), long(32, 'b'), "mac: got a shared secret of 31 bytes, want at least 32"},
	} {
		k, err := mac.NewKeyring(c.current, c.previous)
		switch {
		case c.fault == "" && (err != nil || k == nil):
			t.Errorf("%s: got %v, want a keyring", c.name, err)
		case c.fault != "" && (err == nil || k != nil || err.Error() != c.fault):
			t.Errorf("%s: got %v, %v, want %q", c.name, k, err, c.fault)
		case c.fault == "" && k.HasPrevious() != (c.previous != nil):
			t.Errorf("%s: got HasPrevious %v", c.name, k.HasPrevious())
		}
	}
}

// The secrets' bytes may be used again once the keyring is made.
func TestKeyringKeepsNoSecret(t *testing.T) {
	current, previous := []byte(secretOne), []byte(secretTwo)
	k, err := mac.NewKeyring(current, previous)
	if err != nil {
		t.Fatal(err)
	}
	clear(current)
	clear(previous)
	d, a := sides(t)
	d.opts.Keys = k
	if r := shake(t, d, a, filled(1), filled(2)); r.dialer != mac.SlotCurrent || r.acceptor != mac.SlotCurrent {
		t.Errorf("got %+v", r)
	}
}

// Both MACs are always computed, also where there is no previous secret; that
// idle one must never be named, neither for an honest MAC nor for another.
func TestWithoutPreviousNeverSaysPrevious(t *testing.T) {
	opts := options(t)
	for at := range wire.MACSize {
		for bit := range 8 {
			d, challenge := waiting(t, opts)
			challenge.MAC()[at] ^= 1 << bit
			if _, slot, err := d.Challenge(&challenge); slot != mac.SlotNone || err == nil {
				t.Fatalf("byte %d bit %d: got %q, %v", at, bit, slot, err)
			}
		}
	}
	d, challenge := waiting(t, opts)
	if _, slot, err := d.Challenge(&challenge); slot != mac.SlotCurrent {
		t.Errorf("got %q, %v, want current", slot, err)
	}
}

// canaries are the renderings of secret bytes that must not occur anywhere: text,
// hex, base64, and what fmt makes of them under each verb.
func canaries(verbs []string) (all []string) {
	for _, secret := range []string{secretOne, secretTwo} {
		key, gates := make([]byte, 32), make([]byte, 32)
		blake3.DeriveKey(key, "apache-iggy replica-auth v1 psk->mac-key", []byte(secret))
		blake3.DeriveKey(gates, "replgate gate-to-gate v1 psk->mac-key", []byte(secret))
		for _, b := range [][]byte{[]byte(secret), key, gates} {
			all = append(all, string(b[:6]), hex.EncodeToString(b[:4]), strings.ToUpper(hex.EncodeToString(b[:4])),
				base64.StdEncoding.EncodeToString(b[:6]), strings.Trim(fmt.Sprint(b[:4]), "[]"),
				strings.Trim(strings.ReplaceAll(fmt.Sprint(b[:4]), " ", ","), "[]"))
			for _, verb := range verbs {
				four := [4]byte(b[:4]) // an array, as the key is one
				text := fmt.Sprintf(verb, four)
				text = text[strings.LastIndexAny(text, "{[")+1:]
				all = append(all, strings.Trim(text, "]})\""))
			}
		}
	}
	return all
}

func checkNoCanary(t *testing.T, canaries []string, what, printed string) {
	t.Helper()
	for _, c := range canaries {
		if len(c) > 3 && strings.Contains(printed, c) {
			t.Errorf("%s: got %q in %q", what, c, printed)
		}
	}
}

// holders are values that have a keyring somewhere inside, in every way that fmt,
// slog and JSON walk.
func holders(t *testing.T) map[string]any {
	k := keyring(t, secretOne, secretTwo)
	opts := mac.Options{Cluster: cluster, Keys: k, Strict: true}
	a, _ := challenged(t, opts)
	d, _ := waiting(t, opts)
	type hidden struct {
		k *mac.Keyring
		v mac.Keyring
	}
	type shown struct {
		K *mac.Keyring
		V mac.Keyring
		I any
		E error
	}
	return map[string]any{
		"keyring": k, "copy": *k, "pointer to pointer": &k, "options": opts, "pointer to options": &opts,
		"acceptor": a, "acceptor's value": *a, "dialer": d, "dialer's value": *d,
		"slice": []*mac.Keyring{k}, "map": map[string]mac.Keyring{"k": *k}, "array": [1]mac.Keyring{*k},
		"hidden": hidden{k, *k}, "shown": shown{k, *k, *k, fmt.Errorf("with %v", *k)}, "error": fmt.Errorf("with %v and %+v", k, opts),
	}
}

// Rule 7 of the house: secrets redact themselves in every print and log path.
func TestKeyringNeverPrints(t *testing.T) {
	var verbs []string
	for _, flags := range []string{"", "+", "#", " ", "0", "-40"} {
		for _, verb := range "vsqxXdobBOctUTpeEfFgGw" {
			verbs = append(verbs, "%"+flags+string(verb))
		}
	}
	forbidden := canaries([]string{"%v", "%d", "%#v", "%x", "%# x", "%q", "%o", "%O", "%b", "%U", "%c", "%+q"})
	for name, holder := range holders(t) {
		for _, verb := range verbs {
			checkNoCanary(t, forbidden, name+" "+verb, fmt.Sprintf(verb, holder))
		}
		checkNoCanary(t, forbidden, name+" Sprint", fmt.Sprint(holder)+fmt.Sprintln("x", holder, "y"))
		if b, err := json.Marshal(holder); err == nil {
			checkNoCanary(t, forbidden, name+" JSON", string(b))
		}
		var out bytes.Buffer
		for _, h := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
			log := slog.New(h).With("with", holder)
			log.Info("message", "key", holder, slog.Group("group", "inner", holder))
		}
		checkNoCanary(t, forbidden, name+" slog", out.String())
	}
}

// The canaries themselves must be able to sing.
func TestCanariesAreFound(t *testing.T) {
	key := new([32]byte)
	blake3.DeriveKey(key[:], "apache-iggy replica-auth v1 psk->mac-key", []byte(secretOne))
	type leak struct {
		K [32]byte
		S string
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%d", "%s", "%q"} {
		for _, l := range []leak{{K: *key}, {S: secretOne}} {
			printed, found := fmt.Sprintf(verb, l), false
			for _, c := range canaries([]string{"%v", "%d", "%#v", "%x", "%q"}) {
				found = found || len(c) > 3 && strings.Contains(printed, c)
			}
			if !found {
				t.Errorf("%s: no canary found in %q", verb, printed)
			}
		}
	}
}

// What stands there in its place.
func TestKeyringPrintsItsName(t *testing.T) {
	k := keyring(t, secretOne)
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "pointer", k, "copy", *k)
	for _, got := range []string{k.String(), fmt.Sprint(k), fmt.Sprint(*k), fmt.Sprintf("%x", k), fmt.Sprintf("%#v", *k)} {
		if got != "keyring" {
			t.Errorf("got %q, want keyring", got)
		}
	}
	if !strings.Contains(out.String(), "pointer=keyring copy=keyring") {
		t.Errorf("got log line %q", out.String())
	}
}
