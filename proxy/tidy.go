package proxy

import (
	"runtime/debug"
	"sync"
	"time"
)

// tidy gives the process's memory back to the system when the gate has become
// quiet: after a storm of handshakes, or when links have given back what a burst
// had grown. Left alone, Go keeps it for minutes.
type tidy struct {
	mu      sync.Mutex
	timer   *time.Timer
	last    time.Time // when it was done
	stopped bool
}

// tidyAfter is how long it must be quiet, tidyEvery how often it is done at most:
// it costs a collection.
const (
	tidyAfter = 500 * time.Millisecond
	tidyEvery = 2 * time.Second
)

// later asks for it: not before it is quiet.
func (t *tidy) later() {
	t.mu.Lock()
	defer t.mu.Unlock()
	wait := max(tidyAfter, tidyEvery-time.Since(t.last))
	switch {
	case t.stopped:
	case t.timer == nil:
		t.timer = time.AfterFunc(wait, t.do)
	default:
		t.timer.Reset(wait)
	}
}

func (t *tidy) do() {
	t.mu.Lock()
	t.last = time.Now()
	t.mu.Unlock()
	debug.FreeOSMemory()
}

// stop ends it.
func (t *tidy) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	if t.timer != nil {
		t.timer.Stop()
	}
}
