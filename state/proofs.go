package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// fileName is the file below the state directory; the new content is written
// beside it and takes its place, and one that does not hold is kept beside it.
const (
	fileName    = "proofs.json"
	newSuffix   = ".new"
	asideSuffix = ".broken"
)

// sizeMax bounds what is read of a file, in bytes: 256 peers need a tenth of it.
const sizeMax = 64 << 10

// version is that of the file's form.
const version = 1

// content is the file: the ids of peers in decimal, and the security of each.
type content[S ~string] struct {
	Version int         `json:"version"`
	Proved  map[uint8]S `json:"proved"`
}

// Proofs is the memory of proofs. S is the caller's type for a security. It is
// safe for concurrent use.
type Proofs[S ~string] struct {
	path string

	mu     sync.Mutex
	proved map[uint8]S

	// writing is held while the file is replaced, apart from mu: a disk that hangs
	// must not keep anybody from reading.
	writing sync.Mutex
}

// Found is what Open found at a start. The caller says it in the log.
type Found struct {
	// Missing: there was no file. It is the first start here, or the file is lost.
	Missing bool
	// Broken is why the file that was there does not hold, nil when it does. It
	// was moved to Aside for whoever wants to look.
	Broken error
	Aside  string
}

// Open reads the memory below dir, which is made where it is missing. known are
// the securities that may stand in it. After a missing or broken file the memory
// is empty, and an empty file is written at once: a directory that cannot be
// written is an error at the start, not at the first proof.
func Open[S ~string](dir string, known ...S) (*Proofs[S], Found, error) {
	p := &Proofs[S]{path: filepath.Join(dir, fileName), proved: map[uint8]S{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, Found{}, fmt.Errorf("state: got no directory, want one to write in: %w", err)
	}
	proved, err := read(p.path, known)
	var broken *brokenError
	switch {
	case err == nil:
		p.proved = proved
		return p, Found{}, nil
	case errors.Is(err, fs.ErrNotExist):
		return p.anew(Found{Missing: true})
	case !errors.As(err, &broken):
		return nil, Found{}, fmt.Errorf("state: got no content, want what was kept there: %w", err)
	}
	aside := p.path + asideSuffix
	if err := os.Rename(p.path, aside); err != nil {
		return nil, Found{}, fmt.Errorf("state: got a broken file that cannot be moved, want it aside: %w", err)
	}
	return p.anew(Found{Broken: broken, Aside: aside})
}

// anew begins with an empty memory.
func (p *Proofs[S]) anew(found Found) (*Proofs[S], Found, error) {
	if err := p.write(); err != nil {
		return nil, found, err
	}
	return p, found, nil
}

// brokenError is a file that was read and does not hold.
type brokenError struct{ reason string }

func (e *brokenError) Error() string {
	return "state: got " + e.reason + ", want what was kept there"
}

// read takes a file whole or not at all.
func read[S ~string](path string, known []S) (map[uint8]S, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, sizeMax+1))
	if err != nil {
		return nil, err
	}
	var c content[S]
	if len(text) > sizeMax {
		return nil, &brokenError{fmt.Sprintf("more than %d bytes", sizeMax)}
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, &brokenError{err.Error()}
	}
	if c.Version != version || c.Proved == nil {
		return nil, &brokenError{fmt.Sprintf("version %d, or no proofs", c.Version)}
	}
	for id, s := range c.Proved {
		if !slices.Contains(known, s) {
			return nil, &brokenError{fmt.Sprintf("security %.20q of peer %d", s, id)}
		}
	}
	return c.Proved, nil
}

// Proved returns what a peer has proved, the empty word when nothing.
func (p *Proofs[S]) Proved(id uint8) S {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proved[id]
}

// Prove remembers what a peer has proved, whatever stood there. When the file
// cannot be replaced the process remembers all the same, and the next change
// tries again.
func (p *Proofs[S]) Prove(id uint8, s S) error {
	p.mu.Lock()
	p.proved[id] = s
	p.mu.Unlock()
	return p.write()
}

// Reset forgets a peer.
func (p *Proofs[S]) Reset(id uint8) error {
	p.mu.Lock()
	delete(p.proved, id)
	p.mu.Unlock()
	return p.write()
}

// write replaces the file by what is remembered at that moment. Whoever reads the
// file finds the old content or the new one, also after a loss of power.
func (p *Proofs[S]) write() error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	c := content[S]{version, maps.Clone(p.proved)}
	p.mu.Unlock()
	text, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = replace(p.path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("state: got no new %s, want the old one replaced: %w", p.path, err)
	}
	return nil
}

// replace puts text in the place of a file, readable for its owner alone.
func replace(path string, text []byte) error {
	beside := path + newSuffix
	if err := writeSynced(beside, text); err != nil {
		return err
	}
	if err := os.Rename(beside, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync() // the name is in the directory
}

// writeSynced writes a file of mode 0600, whatever mode one that was left there by
// a crash has.
func writeSynced(path string, text []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
