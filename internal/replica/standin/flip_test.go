package standin

import (
	"fmt"
	"testing"
	"time"

	"github.com/replgate/replgate/wire"
)

// everything is a scenario in which every command that stand-ins speak is said:
// boot, load, an empty restart, an election, and the old primary back.
func everything(s *sim) {
	s.run(time.Second, s.work)
	s.kill(2)
	s.run(time.Second, s.work)
	s.start(2)
	s.run(time.Second, s.work)
	s.kill(0)
	s.run(8*time.Second, s.work)
	s.start(0)
	s.run(3*time.Second, s.work)
}

type flip struct {
	arrival, at int
	xor         byte
	command     wire.Command
}

func (f flip) String() string {
	return fmt.Sprintf("arrival %d (%v), byte %d ^ %#02x", f.arrival, f.command, f.at, f.xor)
}

// No byte of any frame can change without a stand-in noticing. Most changes are
// seen in the frame itself: every byte of a sample of frames of every command is
// tried there. What is only seen in what follows runs the whole scenario again.
func TestEveryFlippedByteIsAFault(t *testing.T) {
	t.Parallel()
	const perCommand = 12
	s := newSim(t, 3, 2, 5)
	var seen [wire.Commands]int
	var later []flip
	s.arrive = func(n int, e event) []byte {
		command := (*wire.Header)(e.frame).Command()
		// the first ones, and then ever fewer
		if seen[command]++; seen[command] > perCommand/2 && seen[command]&(seen[command]-1) != 0 {
			return e.frame
		}
		for at := range e.frame {
			for _, xor := range flips(e.frame, at) {
				e.frame[at] ^= xor
				said := s.cores[e.to].links[e.from].copy()
				if _, err := s.cores[e.to].check(e.from, e.frame); err == nil {
					later = append(later, flip{n, at, xor, command})
				}
				s.cores[e.to].links[e.from] = said
				e.frame[at] ^= xor
			}
		}
		return e.frame
	}
	everything(s)
	s.arrive = nil
	s.settledAfter(2 * time.Second)
	for c, n := range seen {
		command := wire.Command(c)
		spoken := command.ReplicaPlane() && (command < wire.RangeEvicted || command > wire.StateChunk)
		if spoken && n == 0 {
			t.Errorf("got no %v: its bytes were not tried", command)
		}
	}
	if len(later) == 0 {
		t.Error("got no flip that a frame alone does not show, want at least commands and views of prepares")
	}
	for i, f := range later {
		if testing.Short() && i%8 != 0 {
			continue
		}
		s := newSim(t, 3, 2, 5)
		s.arrive = func(n int, e event) []byte {
			if n == f.arrival {
				e.frame[f.at] ^= f.xor
			}
			return e.frame
		}
		everything(s)
		if s.fault == nil {
			t.Errorf("%v: got no fault", f)
		}
	}
}

// flips are the changes tried on a byte: more of them where no seal looks, so
// that they hit views which the sender may lead and every command.
func flips(frame []byte, at int) []byte {
	xors := []byte{0x01, 0xff}
	if !(*wire.Header)(frame).Command().IsPrepare() {
		return xors
	}
	switch {
	case at == int(wire.CommandAt):
		for xor := 2; xor < 255; xor++ {
			xors = append(xors, byte(xor))
		}
	case at >= int(wire.View) && at < int(wire.View)+4:
		xors = append(xors, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x10, 0x80)
	}
	return xors
}

func (l *link) copy() *link {
	c := *l
	c.view = append([]uint32(nil), l.view...)
	c.commit = append([]uint64(nil), l.commit...)
	c.token = append([]uint64(nil), l.token...)
	return &c
}

func (s *sim) settledAfter(d time.Duration) {
	s.t.Helper()
	s.run(d, nil)
	s.settled()
}
