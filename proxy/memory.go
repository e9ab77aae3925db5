package proxy

import (
	"fmt"
	"slices"
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

// processMemory forgets everything with the process. The zero value is ready.
type processMemory struct{ peers sync.Map }

func (m *processMemory) Proved(id uint8) Security {
	s, _ := m.peers.LoadOrStore(id, Plaintext)
	return s.(Security)
}

func (m *processMemory) Prove(id uint8, s Security) error {
	m.peers.Store(id, s)
	return nil
}

func (m *processMemory) Reset(id uint8) error {
	m.peers.Delete(id)
	return nil
}

// strength orders securities; what is none of them is as weak as plaintext.
func (s Security) strength() int {
	return max(0, slices.Index([]Security{Plaintext, PSK, TLS}, s))
}

func stronger(a, b Security) Security {
	if a.strength() > b.strength() {
		return a
	}
	return b
}

func weaker(a, b Security) Security {
	if a.strength() < b.strength() {
		return a
	}
	return b
}

// proofs is what a server remembers of its peers' proofs: a Memory, and before it
// what has been proved in this process. The Memory may be a file on a disk that
// hangs, and no handshake waits for that.
type proofs struct {
	memory Memory

	mu    sync.Mutex
	since map[uint8]Security // changes of this process; plaintext: forgotten

	// keeping orders what reaches the Memory: the newest state comes last.
	keeping sync.Mutex
}

func newProofs(m Memory) *proofs {
	if m == nil {
		m = new(processMemory)
	}
	return &proofs{memory: m, since: map[uint8]Security{}}
}

// proved is the strongest security that a peer has proved, plaintext when none.
func (p *proofs) proved(id uint8) Security {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.locked(id)
}

func (p *proofs) locked(id uint8) Security {
	if s, ok := p.since[id]; ok {
		return s
	}
	return stronger(p.memory.Proved(id), Plaintext)
}

// prove notes a proof, and says whether it is more than was known.
func (p *proofs) prove(id uint8, s Security) (news bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.locked(id).strength() >= s.strength() {
		return false
	}
	p.since[id] = s
	return true
}

// forget notes that a peer has proved nothing.
func (p *proofs) forget(id uint8) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since[id] = Plaintext
}

// keep takes what is known of a peer now into the Memory.
func (p *proofs) keep(id uint8) error {
	p.keeping.Lock()
	defer p.keeping.Unlock()
	if s := p.proved(id); s != Plaintext {
		return p.memory.Prove(id, s)
	}
	return p.memory.Reset(id)
}

// remember notes what the other end of a far leg has proved. It is called when
// its MAC has been verified, never for a TLS handshake alone: that proves a
// certificate and no membership.
func (v *visit) remember(l *leg) {
	s, id := v.server, l.replica
	if l.side != far || !s.proofs.prove(id, l.security) {
		return
	}
	v.log.Info("peer proved itself", "security", string(l.security))
	s.work.Go(func() {
		if err := s.proofs.keep(id); err != nil {
			v.log.Warn("proof not kept", "got", err.Error(), "want", "a memory that outlives this process")
		}
	})
}

// ResetPeer forgets what a peer has proved and what was found where it is, so that
// in permissive mode it may be weaker again. Its link stays. An error says that
// there is no such peer, or that the Memory may have it again after a restart.
func (s *Server) ResetPeer(id uint8) error {
	if s.settings.peer(id) == nil {
		return fmt.Errorf("proxy: got peer %d, want the id of another replica of the roster", id)
	}
	s.proofs.forget(id)
	s.findings.forget(id)
	s.settings.Log.Info("peer reset", "peer", id)
	return s.proofs.keep(id)
}
