package proxy

import "time"

// Ping returns when the road has moved: each accept loop has come round, and the
// table of links was free. It accepts nothing, dials nobody and is as cheap as one
// time-out per listener. It blocks for as long as one of them is stuck, so the
// caller bounds its own patience. One caller at a time.
//
// It says nothing about pumps: one that waits for a slow replica is no fault of
// this gate, and has timers of its own.
func (s *Server) Ping() {
	s.current() // takes the lock that every link takes to enter and to leave
	for _, d := range s.doors {
		select { // what an earlier question left
		case <-d.turned:
		default:
		}
		if d.ln.SetDeadline(time.Unix(1, 0)) != nil {
			continue // closed: the gate drains, and the loop has ended in order
		}
		select {
		case <-d.turned:
		case <-s.admitting.Done():
		}
	}
}

// turn answers Ping, from the accept loop.
func (d door) turn() {
	d.ln.SetDeadline(time.Time{}) // fails only on a closed listener, and Accept says that next
	select {
	case d.turned <- struct{}{}:
	default:
	}
}
