package configs

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"unicode/utf8"
)

const (
	redacted       = "…redacted…"
	minSecretBytes = 32 // Iggy's floor
)

// Secret holds key material and redacts itself in every print and log path.
//
// The bytes stand behind two pointers: fmt does not call methods on unexported
// fields of somebody else's struct. There it follows one pointer at most (with
// a verb that does not fit, such as %s), and prints the second as an address.
type Secret struct{ p *sealed }

type sealed struct{ bytes *[]byte }

// NewSecret copies b; an empty b gives the unset Secret.
func NewSecret(b []byte) Secret {
	if len(b) == 0 {
		return Secret{}
	}
	own := bytes.Clone(b)
	return Secret{&sealed{&own}}
}

// IsSet reports whether there is a secret.
func (s Secret) IsSet() bool { return s.p != nil }

// Reveal returns a copy of the bytes, nil when unset. It is the only way to them.
func (s Secret) Reveal() []byte {
	if s.p == nil {
		return nil
	}
	return bytes.Clone(*s.p.bytes)
}

// Equal compares in constant time.
func (s Secret) Equal(o Secret) bool {
	return subtle.ConstantTimeCompare(s.Reveal(), o.Reveal()) == 1
}

func (s Secret) len() int { return len(s.Reveal()) }

// String tells only whether there is a secret.
func (s Secret) String() string {
	if s.p == nil {
		return ""
	}
	return redacted
}

// GoString redacts %#v.
func (s Secret) GoString() string { return "configs.Secret(" + s.String() + ")" }

// Format redacts every verb, also the ones that look inside a struct.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue redacts slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText redacts JSON, XML and TOML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// secretSlot is one of the two secrets on its way into the Config.
type secretSlot struct {
	key      string // without _file
	value    *Secret
	file     *string
	required bool // an empty or missing file is a fault
}

func secretSlots(a *Auth) []secretSlot {
	return []secretSlot{
		{"cluster.auth.shared_secret", &a.SharedSecret, &a.SharedSecretFile, true},
		{"cluster.auth.previous_shared_secret", &a.PreviousSharedSecret, &a.PreviousSharedSecretFile, false},
	}
}

// secrets reads the secret files into the Config.
func (l *loader) secrets() {
	for _, s := range secretSlots(&l.cfg.Cluster.Auth) {
		if *s.file != "" {
			l.secretFile(s)
		}
	}
}

func (l *loader) secretFile(s secretSlot) {
	key := s.key + "_file"
	b, err := l.read(*s.file)
	l.out.Files = append(l.out.Files, *s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !s.required:
		return // the key names the place where a rotation will put one
	case errors.Is(err, fs.ErrNotExist):
		l.rep.addFor(ReasonMissing, key, "expected a readable file, found %s; check the path and its permissions", cause(err))
		return
	case err != nil:
		l.rep.addFor(ReasonUnreadable, key, "expected a readable file, found %s; check the path and its permissions", cause(err))
		return
	}
	if cut, ok := cutNewline(b); ok {
		l.out.Notes = append(l.out.Notes, fmt.Sprintf("%s: the last newline of %s is not part of the secret", key, *s.file))
		b = cut
	}
	if len(b) == 0 {
		if s.required {
			l.rep.addFor(ReasonEmpty, key, "expected a secret of at least %d bytes, found an empty file; write one with `replgate secret generate`", minSecretBytes)
		}
		return
	}
	if !utf8.Valid(b) {
		l.out.Warnings = append(l.out.Warnings, key+": the secret is not UTF-8 text; no Iggy can be configured with it")
	}
	l.modeWarning(*s.file, key)
	*s.value = NewSecret(b)
}

// cutNewline removes exactly one line end. More of them are part of the secret:
// an editor adds one, anything else was meant.
func cutNewline(b []byte) ([]byte, bool) {
	if cut, ok := bytes.CutSuffix(b, []byte("\r\n")); ok {
		return cut, true
	}
	return bytes.CutSuffix(b, []byte("\n"))
}

// modeWarning tells that everybody on this machine can read a secret.
func (l *loader) modeWarning(path, key string) {
	mode, err := l.mode(path)
	if err == nil && mode&0o004 != 0 {
		l.out.Warnings = append(l.out.Warnings, fmt.Sprintf("%s: %s holds a secret and can be read by others (mode %04o); chmod o-r it", key, path, mode.Perm()))
	}
}

// secrets checks what the secrets must be once their bytes are known.
func (k *checker) secrets() {
	a := &k.c.Cluster.Auth
	for _, s := range secretSlots(a) {
		if n := s.value.len(); n > 0 && n < minSecretBytes {
			k.rep.addFor(ReasonShort, s.where(), "expected at least %d bytes, found %d; make one with `replgate secret generate`", minSecretBytes, n)
		}
	}
	slots := secretSlots(a)
	if slots[1].value.IsSet() && slots[1].value.Equal(*slots[0].value) {
		k.rep.addFor(ReasonInvalid, slots[1].where(), "expected a secret other than the current one, found the same; leave it empty outside a rotation")
	}
	if k.c.UsesSecret() && !a.SharedSecret.IsSet() && !k.rep.faulty("cluster.auth.shared_secret") {
		k.rep.add("cluster.auth.shared_secret_file", "expected a secret because a leg speaks psk or tls, found none; name a file, or set %s", envName("cluster.auth.shared_secret"))
	}
}

// where is the key that gave the value.
func (s secretSlot) where() string {
	if *s.file != "" {
		return s.key + "_file"
	}
	return s.key
}
