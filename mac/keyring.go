package mac

import (
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"lukechampine.com/blake3"
)

// SecretMin is the least number of bytes a shared secret may have (§8.2).
const SecretMin = 32

// The contexts that keys are derived under (BLAKE3, derive_key): Iggy's, and one
// for what gates say to each other. What is made with one key tells nothing about
// what is made with the other.
const (
	keyContext  = "apache-iggy replica-auth v1 psk->mac-key"
	gateContext = "replgate gate-to-gate v1 psk->mac-key"
)

// Slot names the secret of a keyring that something was proved with.
type Slot string

// The slots. SlotNone means that neither secret verifies.
const (
	SlotNone     Slot = ""
	SlotCurrent  Slot = "current"
	SlotPrevious Slot = "previous"
)

// Fingerprint names a secret without giving it away: eight bytes of a keyed hash,
// in hex, the same on every gate. It stays the secret's when slots change their
// meaning in a rotation. Empty is no secret.
type Fingerprint string

// Keyring holds the keys of the current and, during a rotation, the previous
// shared secret. It signs with the current one and verifies with either. It is
// immutable, safe for concurrent use, and prints as "keyring".
type Keyring struct {
	current, previous secret
	hasPrevious       bool
}

// secret is what can be done with one shared secret.
type secret struct {
	sign        signer // under Iggy's key
	gate        signer // under the key of what gates say to each other
	fingerprint Fingerprint
}

// signer makes the MAC of some bytes under one key. The key is in a closure:
// fmt asks no method of an unexported field, and under a verb that does not fit
// it prints bytes even through a pointer; a function's it cannot find.
type signer func(message []byte) [32]byte

func newSigner(k [32]byte) signer {
	return func(message []byte) (out [32]byte) {
		h := blake3.New(len(out), k[:])
		h.Write(message)
		h.Sum(out[:0])
		return out
	}
}

func newSecret(shared []byte) secret {
	s := secret{sign: newSigner(deriveKey(keyContext, shared)), gate: newSigner(deriveKey(gateContext, shared))}
	name := s.gate([]byte(labelFingerprint))
	s.fingerprint = Fingerprint(hex.EncodeToString(name[:8]))
	return s
}

// NewKeyring derives a keyring from the secrets' bytes; previous is nil outside a
// rotation. The secrets are not kept.
func NewKeyring(current, previous []byte) (*Keyring, error) {
	if len(current) < SecretMin {
		return nil, fmt.Errorf("mac: got a shared secret of %d bytes, want at least %d", len(current), SecretMin)
	}
	k := &Keyring{current: newSecret(current)}
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
	k.previous, k.hasPrevious = newSecret(previous), true
	return k, nil
}

func deriveKey(context string, shared []byte) (k [32]byte) {
	blake3.DeriveKey(k[:], context, shared)
	return k
}

// slot returns what can be done with the secret in a slot, the current one for
// none.
func (k *Keyring) slot(slot Slot) *secret {
	if slot == SlotPrevious && k.hasPrevious {
		return &k.previous
	}
	return &k.current
}

// verify says which secret got was made with. Both MACs are always computed and
// compared in constant time.
func (k *Keyring) verify(t *transcript, got []byte) Slot {
	current, previous := k.current.sign(t[:]), k.previous.sign(t[:])
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

// Fingerprint names the secret in a slot; empty where there is none.
func (k *Keyring) Fingerprint(slot Slot) Fingerprint {
	switch {
	case slot == SlotCurrent:
		return k.current.fingerprint
	case slot == SlotPrevious && k.hasPrevious:
		return k.previous.fingerprint
	}
	return ""
}

// Slot says which slot holds the secret of a fingerprint, SlotNone for another.
func (k *Keyring) Slot(f Fingerprint) Slot {
	switch {
	case f == "":
		return SlotNone
	case f == k.current.fingerprint:
		return SlotCurrent
	case f == k.Fingerprint(SlotPrevious):
		return SlotPrevious
	}
	return SlotNone
}

// String, GoString, Format and LogValue keep the keys out of every print and log,
// of a copy too.
func (Keyring) String() string               { return "keyring" }
func (k Keyring) GoString() string           { return k.String() }
func (k Keyring) LogValue() slog.Value       { return slog.StringValue(k.String()) }
func (k Keyring) Format(s fmt.State, _ rune) { fmt.Fprint(s, k.String()) }
