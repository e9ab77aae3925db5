package proxy

import (
	"fmt"
	"time"
)

// A RestartError is a change that Apply does not make.
type RestartError struct {
	// Field is what has changed, in the words of the configuration.
	Field string
}

func (e *RestartError) Error() string {
	return fmt.Sprintf("proxy: got another %s, want the one that the gate was started with: it needs a restart", e.Field)
}

// Apply gives the gate other settings, all of them at one moment. Whoever comes
// from then on is admitted under them; a link keeps those that it was admitted
// under. Links that the new settings no longer support are made anew within
// ReauthWindow, after Apply has returned. Faulty settings, and a change that needs a restart (a
// *RestartError), change nothing.
func (s *Server) Apply(settings Settings) error {
	if err := settings.prepare(); err != nil {
		return err
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	if err := s.settings.Load().stays(&settings); err != nil {
		return err
	}
	settings.applied = time.Now()
	s.mu.Lock()
	changed := s.meet(&settings)
	s.settings.Store(&settings)
	s.mu.Unlock()
	if changed {
		wake(s.secretsChanged)
	}
	wake(s.judged)
	return nil
}

// stays holds the settings that sockets, memory and consensus rest on against
// those of a running gate.
func (s *Settings) stays(next *Settings) error {
	for _, f := range []struct {
		name string
		same bool
	}{
		{"cluster.name", s.Cluster == next.Cluster},
		{"gate.replica_id", s.Local == next.Local},
		{"length of the roster", s.Replicas == next.Replicas},
		{"ingress.listen", s.Listen == next.Listen},
		{"message_bus.max_message_size", s.MaxFrame == next.MaxFrame},
		{"frames.store_limit", s.StoreLimit == next.StoreLimit},
		{"limits.handshakes", s.Handshakes == next.Handshakes},
		{"limits.handshakes_per_source", s.PerSource == next.PerSource},
		{"limits.connections", s.Connections == next.Connections},
	} {
		if !f.same {
			return &RestartError{Field: f.name}
		}
	}
	for _, p := range s.Peers {
		other := next.peer(p.ID)
		if other == nil {
			return &RestartError{Field: "set of peers"}
		}
		if other.Listen != p.Listen {
			return &RestartError{Field: "peers.listen of replica " + decimal(p.ID)}
		}
	}
	return nil
}
