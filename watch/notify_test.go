package watch

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/fsnotify/fsnotify"
)

// woken reports whether there is word for the Run, and takes it.
func woken(n *notifier) bool {
	select {
	case <-n.wake:
		return true
	default:
		return false
	}
}

// Events of names on the chains wake, others do not; so do errors, and only a queue
// that ran over leaves the instance as good as before.
func TestForward(t *testing.T) {
	for _, c := range []struct {
		name         string
		event        string
		err          error
		wake, broken bool
	}{
		{name: "a link of a chain", event: "/v/..data", wake: true},
		{name: "the same folder by another name", event: "/w/..data", wake: true},
		{name: "a folder of a chain", event: "/v", wake: true},
		{name: "another file", event: "/v/..data_tmp"},
		{name: "the queue ran over", err: fsnotify.ErrEventOverflow, wake: true},
		{name: "another error", err: errors.New("read inotify: bad file descriptor"), wake: true, broken: true},
	} {
		n := newNotifier()
		n.names.Store(&map[string]bool{"..data": true, "v": true})
		system := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
		ended := make(chan struct{})
		go n.forward(system, ended)
		if c.err != nil {
			system.Errors <- c.err
		} else {
			system.Events <- fsnotify.Event{Name: c.event, Op: fsnotify.Create}
		}
		close(system.Errors)
		close(system.Events)
		<-ended
		if got := woken(n); got != c.wake || n.broken.Load() != c.broken {
			t.Errorf("%s: got awake %v and broken %v, want %v and %v", c.name, got, n.broken.Load(), c.wake, c.broken)
		}
	}
}

// An instance that has reported an error is replaced, with all watches.
func TestBrokenInstanceIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	write(t, path, "a")
	n := newNotifier()
	defer n.close()
	n.chains = chains([]string{path})
	if whole, err := n.arm(); !whole || err != nil {
		t.Fatalf("got %v, %v, want watches", whole, err)
	}
	before := n.system
	n.broken.Store(true)
	if whole, err := n.arm(); !whole || err != nil {
		t.Fatalf("got %v, %v, want watches again", whole, err)
	}
	if n.system == before || len(before.WatchList()) != 0 {
		t.Error("got the instance of before, want it closed and another one")
	}
	write(t, path, "b")
	<-n.wake
}

// A folder that is gone when its watch is set makes arm say so: the chain has to be
// followed anew. Folders that no chain goes through any more are left.
func TestArm(t *testing.T) {
	dir := t.TempDir()
	n := newNotifier()
	defer n.close()
	n.chains = map[string][]string{"p": {dir + "/link", dir + "/gone/file"}}
	if whole, err := n.arm(); whole || err != nil {
		t.Errorf("got %v, %v, want word of the folder that is gone", whole, err)
	}
	n.chains = map[string][]string{"p": {"/file"}}
	if whole, err := n.arm(); !whole || err != nil {
		t.Errorf("got %v, %v, want watches", whole, err)
	}
	if got := n.system.WatchList(); len(got) != 1 || got[0] != "/" {
		t.Errorf("got watches on %q, want the root only", got)
	}
}
