// Package watch follows a set of files that somebody else replaces: secrets,
// certificates, a configuration. A [Watcher] reads all of them as one set, again
// and again, and hands on a [Snapshot] when their content has changed.
//
// How others lost a rotation decides how this works. A watch on a file says nothing
// when a link on the way to it is exchanged, as a kubelet does; a watch on the first
// link's folder goes silent when the links lead through another folder. So every
// folder that holds a link of the chain is watched, anew after each change, and the
// watches only make it faster: the content is read at every interval as well,
// whether a watch has said something or not. Only a folder without a link in it that
// is exchanged above the files' own folder waits for the interval. Two readings must
// agree before anything is taken for true.
//
// The package does not know what the files hold, never changes one, and imports no
// other room; what it reads goes to the constructors of other rooms as a function
// from a path to bytes.
package watch

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultInterval is the time between two readings where nothing else is said.
const DefaultInterval = 10 * time.Second

// maxSettle bounds the pause between two readings that must agree: longer than a
// program takes to write a file in place, short beside the interval.
const maxSettle = 20 * time.Millisecond

// readTries is how often [Watcher.Read] begins anew before it says that the files
// do not hold still, and how many failures a Run stays silent about.
const readTries = 5

// Options of a [Watcher].
type Options struct {
	// Paths are the files of the set. Empty names and repetitions are left out.
	// A relative path is looked up as the system does it.
	Paths []string

	// Interval is the time between two readings, [DefaultInterval] when zero or
	// less. It is how late a change is seen where watches fail; each costs one
	// reading of all files.
	Interval time.Duration

	// NoWatch does without watches: the interval alone finds changes, and the
	// watcher counts as degraded.
	NoWatch bool

	// Log is told when watches fail and come back, nothing else; nil for silence.
	Log *slog.Logger
}

// Watcher follows one set of files. Its methods may be called from any goroutine.
type Watcher struct {
	interval time.Duration
	settle   time.Duration // between two readings that must agree
	noWatch  bool
	log      *slog.Logger
	degraded atomic.Bool
	looks    atomic.Uint64
	ask      chan struct{} // capacity 1: a look is wanted now

	mu      sync.Mutex
	paths   []string
	waiting []chan struct{} // of the Pokes that no look has begun after
}

// New makes a watcher. It reads nothing yet and starts no goroutine.
func New(o Options) *Watcher {
	w := &Watcher{
		interval: o.Interval, noWatch: o.NoWatch, log: o.Log,
		ask: make(chan struct{}, 1), paths: tidy(o.Paths),
	}
	if w.interval <= 0 {
		w.interval = DefaultInterval
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	w.settle = min(w.interval/10, maxSettle)
	w.degraded.Store(o.NoWatch)
	return w
}

// tidy copies paths without empty names and repetitions, in order of name.
func tidy(paths []string) []string {
	paths = slices.Clone(paths)
	slices.Sort(paths)
	return slices.DeleteFunc(slices.Compact(paths), func(path string) bool { return path == "" })
}

// SetPaths replaces the files of the set, as a reloaded configuration does that
// names others. A Run looks at them at once, and hands on what it finds if that is
// not the set it knows.
func (w *Watcher) SetPaths(paths []string) {
	w.mu.Lock()
	w.paths = tidy(paths)
	w.mu.Unlock()
	signal(w.ask)
}

// Poke has a Run look now, whatever interval and watches say. The channel it
// returns is closed when a look that began after this call is over, and so is what
// was called because of it. It stays open where no Run is, or while the files do
// not hold still: whoever waits has a limit of his own, and is not the function
// that Run calls.
func (w *Watcher) Poke() <-chan struct{} {
	done := make(chan struct{})
	w.mu.Lock()
	w.waiting = append(w.waiting, done)
	w.mu.Unlock()
	signal(w.ask)
	return done
}

// Degraded reports that changes are found by reading at each interval only, or
// that this is so for a part of the files: watches are switched off, or the system
// has none to give. A Run tries again at each look.
func (w *Watcher) Degraded() bool { return w.degraded.Load() }

// Looks counts the times that a Run has looked at the files, each whole interval
// at least once. A number that stands still says that a file system hangs, or the
// function that Run calls.
func (w *Watcher) Looks() uint64 { return w.looks.Load() }

// Read reads the set now and leaves a Run as it is. A file that cannot be read is
// an entry with an error, and so is, as [ErrUnsettled], one that never was the
// same twice in a row. It takes one settling pause of at most 20 ms, five where
// files do not hold still.
func (w *Watcher) Read() Snapshot {
	for try := 1; ; try++ {
		paths := w.set()
		first := take(paths)
		pause(context.Background(), w.settle)
		second := take(paths)
		if first.agrees(second) {
			return second
		}
		if try == readTries {
			return first.unsettled(second)
		}
	}
}

// Run looks at the files until ctx ends: now, at each interval, when a watch says
// that something has changed, and when it is poked. known is what the caller has
// read already, the zero Snapshot for nothing. changed gets every set whose content
// differs from the one before, by this goroutine, so that one call is over before
// the next look. All that Run has started has ended when it returns.
func (w *Watcher) Run(ctx context.Context, known Snapshot, changed func(Snapshot)) {
	n := newNotifier()
	defer n.close()
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		known = w.look(ctx, n, known, changed)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.ask:
		case <-n.wake:
		}
	}
}

// look reads until two readings agree, calls changed if they are not what is known,
// and returns what is known then. Watches are set before the files are read:
// whatever changes later wakes the Run again, and a link that was exchanged while
// they were set shows in the chain of the reading.
func (w *Watcher) look(ctx context.Context, n *notifier, known Snapshot, changed func(Snapshot)) Snapshot {
	var waiting []chan struct{}
	for try := 1; ctx.Err() == nil; try++ {
		w.looks.Add(1)
		waiting = append(waiting, w.waiters()...)
		paths := w.set()
		watched := w.arm(n, paths)
		first := take(paths)
		same := first.Equal(known)
		settled := watched && first.along(n.chains)
		if settled && !same {
			pause(ctx, w.settle)
			settled = first.agrees(take(paths)) && ctx.Err() == nil
		}
		if settled {
			if !same {
				known = first
				changed(known)
			}
			for _, done := range waiting {
				close(done)
			}
			return known
		}
		if try == readTries {
			w.log.Warn("files do not hold still", "want", "two readings that agree", "do", "write beside a file, then rename")
		}
		pause(ctx, w.settle)
	}
	return known
}

// set returns the paths of now. Nobody writes to the slice: SetPaths makes another.
func (w *Watcher) set() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paths
}

// waiters takes over who waits for the end of a look that has not begun.
func (w *Watcher) waiters() []chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := w.waiting
	w.waiting = nil
	return waiting
}

// arm watches the chain of each path. It reports false when a folder went away
// meanwhile, so that the chains have to be followed anew.
func (w *Watcher) arm(n *notifier, paths []string) bool {
	n.chains = chains(paths)
	if w.noWatch {
		return true
	}
	whole, err := n.arm()
	switch was := w.degraded.Swap(err != nil); {
	case err != nil && !was:
		w.log.Warn("file watches failed", "got", err.Error(), "want", "a watch on each folder of a chain", "interval", w.interval.String())
	case err == nil && was:
		w.log.Info("file watches work again")
	}
	return whole
}

// signal leaves word in a channel of capacity 1, unless there is one already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits for d or for ctx to end.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
