package mac

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"

	"lukechampine.com/blake3"
)

// SecretMin is the least number of bytes a shared secret may have (§8.2).
const SecretMin = 32

const keyContext = "apache-iggy replica-auth v1 psk->mac-key"

// Slot names the secret of a keyring that something was proved with.
type Slot string

// The slots. SlotNone means that neither secret verifies.
const (
	SlotNone     Slot = ""
	SlotCurrent  Slot = "current"
	SlotPrevious Slot = "previous"
)

// Keyring holds the keys of the current and, during a rotation, the previous
// shared secret. It signs with the current one and verifies with either. It is
// immutable, safe for concurrent use, and prints as "keyring".
type Keyring struct {
	current, previous signer
	hasPrevious       bool
}

// signer makes the MAC of a transcript under one key. The key is in a closure:
// fmt asks no method of an unexported field, and under a verb that does not fit
// it prints bytes even through a pointer; a function's it cannot find.
type signer func(t *transcript) [32]byte

func newSigner(secret []byte) signer {
	k := deriveKey(secret)
	return func(t *transcript) (out [32]byte) {
		h := blake3.New(len(out), k[:])
		h.Write(t[:])
		h.Sum(out[:0])
		return out
	}
}

// NewKeyring derives a keyring from the secrets' bytes; previous is nil outside a
// rotation. The secrets are not kept.
func NewKeyring(current, previous []byte) (*Keyring, error) {
	if len(current) < SecretMin {
		return nil, fmt.Errorf("mac: got a shared secret of %d bytes, want at least %d", len(current), SecretMin)
	}
	k := &Keyring{current: newSigner(current)}
	if previous == nil {
		// Verification always computes both MACs; an unused slot costs the same
		// as a used one and can never match (see verify).
		k.previous = k.current
		return k, nil
	}
	if len(previous) < SecretMin {
		return nil, fmt.Errorf("mac: got a previous secret of %d bytes, want at least %d", len(previous), SecretMin)
	}
	if subtle.ConstantTimeCompare(current, previous) == 1 {
		return nil, errors.New("mac: got a previous secret equal to the current one, want another or none")
	}
	k.previous, k.hasPrevious = newSigner(previous), true
	return k, nil
}

func deriveKey(secret []byte) (k [32]byte) {
	blake3.DeriveKey(k[:], keyContext, secret)
	return k
}

// sign returns the MAC of t under the current secret.
func (k *Keyring) sign(t *transcript) [32]byte { return k.current(t) }

// verify says which secret got was made with. Both MACs are always computed and
// compared in constant time.
func (k *Keyring) verify(t *transcript, got []byte) Slot {
	current, previous := k.current(t), k.previous(t)
	isCurrent := subtle.ConstantTimeCompare(current[:], got)
	isPrevious := subtle.ConstantTimeCompare(previous[:], got)
	switch {
	case isCurrent == 1:
		return SlotCurrent
	case isPrevious == 1 && k.hasPrevious:
		return SlotPrevious
	}
	return SlotNone
}

// HasPrevious reports whether a previous secret is held: a rotation is under way.
func (k *Keyring) HasPrevious() bool { return k.hasPrevious }

// String, GoString, Format and LogValue keep the keys out of every print and log,
// of a copy too.
func (Keyring) String() string               { return "keyring" }
func (k Keyring) GoString() string           { return k.String() }
func (k Keyring) LogValue() slog.Value       { return slog.StringValue(k.String()) }
func (k Keyring) Format(s fmt.State, _ rune) { fmt.Fprint(s, k.String()) }
