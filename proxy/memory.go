package proxy

import (
	"fmt"
	"sync"
)

// Memory keeps the strongest security that each peer has ever proved: its MAC
// verified, over TLS or without. A peer is never again accepted or dialed weaker,
// until an operator says so. Implementations are safe for concurrent use; Proved
// must not wait for a disk.
type Memory interface {
	// Proved is what a peer has proved; plaintext or empty: nothing.
	Proved(id uint8) Security
	// Prove and Reset change it. An error means that the change may not outlive
	// the process.
	Prove(id uint8, s Security) error
	Reset(id uint8) error
}

// memory is what a server remembers of its peers' proofs: a Memory, and before it
// what has been proved in this process. The Memory may be a file on a disk that
// hangs, and no handshake waits for that.
type memory struct {
	kept Memory // nil: nothing is kept

	mu    sync.Mutex
	since map[uint8]Security // changes of this process; plaintext: forgotten

	// keeping orders what reaches the Memory: the newest state comes last.
	keeping sync.Mutex
}

func newMemory(m Memory) *memory { return &memory{kept: m, since: map[uint8]Security{}} }

// proved is the strongest security that a peer has proved, plaintext when none.
func (m *memory) proved(id uint8) Security {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.locked(id)
}

func (m *memory) locked(id uint8) Security {
	s, changed := m.since[id]
	if !changed && m.kept != nil {
		s = m.kept.Proved(id)
	}
	return strongest(s, Plaintext)
}

// prove notes a proof, and says whether it is more than was known.
func (m *memory) prove(id uint8, s Security) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !weaker(m.locked(id), s) {
		return false
	}
	m.since[id] = s
	return true
}

// forget notes that a peer has proved nothing.
func (m *memory) forget(id uint8) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.since[id] = Plaintext
}

// keep takes what is known of a peer now into the Memory.
func (m *memory) keep(id uint8) error {
	m.keeping.Lock()
	defer m.keeping.Unlock()
	switch s := m.proved(id); {
	case m.kept == nil:
		return nil
	case s == Plaintext:
		return m.kept.Reset(id)
	default:
		return m.kept.Prove(id, s)
	}
}

// remember notes what the other end of a far leg has proved. It is called when
// its MAC has been verified, never for a TLS handshake alone: that proves a
// certificate and no membership.
func (v *visit) remember(l *leg) {
	s, id := v.server, l.replica
	if l.side != far || !s.memory.prove(id, l.security) {
		return
	}
	v.log.Info("peer proved itself", "security", string(l.security))
	s.work.Go(func() {
		if err := s.memory.keep(id); err != nil {
			v.log.Warn("proof not kept", "got", err.Error(), "want", "a memory that outlives this process")
		}
	})
}

// ResetPeer forgets what a peer has proved and what was found where it is, so that
// in permissive mode it may be weaker again. Its link stays. An error says that
// there is no such peer, or that the Memory may have it again after a restart.
func (s *Server) ResetPeer(id uint8) error {
	if s.settings.Load().peer(id) == nil {
		return fmt.Errorf("proxy: got peer %d, want the id of another replica of the roster", id)
	}
	s.memory.forget(id)
	s.findings.forget(id)
	s.settings.Load().Log.Info("peer reset", "peer", id)
	return s.memory.keep(id)
}
