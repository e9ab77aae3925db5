package proxy

import (
	"sync"
	"time"
)

// repeatEvery is how often a refusal of one kind is logged while it goes on. A
// replica redials every 100 ms to 5 s.
const repeatEvery = 10 * time.Second

// kind is what makes two refusals the same: a closed set, whoever dials.
type kind struct {
	ending    Ending
	direction string
	peer      int // -1 when it is not known
}

// repeats thins out refusals of one kind. The zero value is ready.
type repeats struct {
	mu   sync.Mutex
	seen map[kind]*repeated
}

type repeated struct {
	last   time.Time
	hidden int
}

// tell says whether a refusal is to be logged now, and how many of its kind were
// not since the last one that was.
func (r *repeats) tell(k kind, now time.Time) (hidden int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[kind]*repeated{}
	}
	e := r.seen[k]
	if e == nil {
		r.seen[k] = &repeated{last: now}
		return 0, true
	}
	if now.Sub(e.last) < repeatEvery {
		e.hidden++
		return 0, false
	}
	hidden = e.hidden
	e.last, e.hidden = now, 0
	return hidden, true
}
