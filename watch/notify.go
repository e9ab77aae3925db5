package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
)

// notifier wakes a Run when an entry of a chain changes. A goroutine of its own takes
// the events: the kernel's queue does not fill while the Run reads, and the library
// never waits for a Run that waits for the library. (It reports the error of a watch
// on a moved folder with its lock held, and Add wants that lock.)
type notifier struct {
	wake   chan struct{}       // capacity 1
	chains map[string][]string // of each path, as last walked
	dirs   []string            // watched, without links in their paths

	system *fsnotify.Watcher // nil: the system has none to give
	ended  chan struct{}     // closed when the goroutine of system has ended
	broken atomic.Bool       // system has reported an error: make another

	// names are the entries, without their folders, whose events count. Two folders
	// may be one by a bind mount, and the system reports it by either's name.
	names atomic.Pointer[map[string]bool]
}

func newNotifier() *notifier { return &notifier{wake: make(chan struct{}, 1)} }

// arm watches the folders of n.chains and no others. All are set again each time: one
// that was removed and made anew has the same name and no watch. whole is false
// when a folder is gone, which makes another chain; err says which cannot be watched.
func (n *notifier) arm() (whole bool, err error) {
	if n.broken.Swap(false) {
		n.close()
	}
	if err := n.open(); err != nil {
		return true, err
	}
	dirs, names := map[string]bool{}, map[string]bool{}
	for _, chain := range n.chains {
		for _, entry := range chain {
			dir := filepath.Dir(entry)
			dirs[dir] = true
			names[filepath.Base(entry)], names[filepath.Base(dir)] = true, true
		}
	}
	n.names.Store(&names)
	// First remove, then add: of two names of one folder the system knows one only.
	for _, dir := range n.dirs {
		if !dirs[dir] {
			_ = n.system.Remove(dir) // the folder, and so its watch, may be gone
		}
	}
	n.dirs = slices.Sorted(maps.Keys(dirs))
	whole = true
	for _, dir := range n.dirs {
		switch e := n.system.Add(dir); {
		case errors.Is(e, fs.ErrNotExist):
			whole = false
		case e != nil:
			err = errors.Join(err, fmt.Errorf("watch: %s: got %w, want a watch", dir, e))
		}
	}
	return whole, err
}

// open asks the system for an instance, unless there is one.
func (n *notifier) open() error {
	if n.system != nil {
		return nil
	}
	system, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch: got no watches: %w", err)
	}
	n.system, n.ended = system, make(chan struct{})
	go n.forward(system, n.ended)
	return nil
}

// forward wakes the Run for each event that counts, until the instance is closed.
func (n *notifier) forward(system *fsnotify.Watcher, ended chan<- struct{}) {
	defer close(ended)
	events, faults := system.Events, system.Errors
	for events != nil || faults != nil {
		select {
		case event, ok := <-events:
			if !ok {
				events = nil
			} else if names := n.names.Load(); names != nil && (*names)[filepath.Base(event.Name)] {
				signal(n.wake)
			}
		case err, ok := <-faults:
			if !ok {
				faults = nil
				continue
			}
			// Events that did not fit into the queue: look, the watches are good.
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				n.broken.Store(true)
			}
			signal(n.wake)
		}
	}
}

// close gives the instance back and waits for its goroutines.
func (n *notifier) close() {
	if n.system == nil {
		return
	}
	_ = n.system.Close()
	<-n.ended
	n.system, n.dirs = nil, nil
}
