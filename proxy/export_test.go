package proxy

import "time"

// AgeFindings lets everything that was found of peers be older by d.
func (s *Server) AgeFindings(d time.Duration) {
	s.findings.mu.Lock()
	defer s.findings.mu.Unlock()
	for id, found := range s.findings.peers {
		found.tried = found.tried.Add(-d)
		s.findings.peers[id] = found
	}
}

// FindingTime is how long a finding is trusted.
const FindingTime = findingTime
