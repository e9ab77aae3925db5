package admin

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func serve(t *testing.T, path string, f Functions) *Server {
	t.Helper()
	s, err := Serve(path, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStatusAndReady(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	ready := false
	serve(t, path, Functions{Status: func() any { return map[string]int{"links": 3} }, Ready: func() bool { return ready }})
	c := NewClient(path)
	var got map[string]int
	if err := c.Status(context.Background(), &got); err != nil || got["links"] != 3 {
		t.Errorf("got %v and %v, want links 3", got, err)
	}
	for _, want := range []bool{false, true} {
		ready = want
		if got, err := c.Ready(context.Background()); err != nil || got != want {
			t.Errorf("got ready %v and %v, want %v", got, err, want)
		}
	}
}

func TestSocketIsPrivateAndGoesWithTheServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	s := serve(t, path, Functions{})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v and %v, want mode 0600", info, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("got %v after Close, want no socket", err)
	}
	if _, err := NewClient(path).Ready(context.Background()); err == nil {
		t.Error("got an answer from a closed door, want an error")
	}
}

func TestDeadSocketIsTakenAwayAndALivingOneIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := Serve(path, Functions{}); err == nil {
		s.Close()
		t.Error("got a door where another process listens, want an error")
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
	serve(t, path, Functions{Ready: func() bool { return true }})
	if ok, err := NewClient(path).Ready(context.Background()); !ok || err != nil {
		t.Errorf("got %v and %v from the new door, want ready", ok, err)
	}
}

func TestPath(t *testing.T) {
	for _, c := range []struct{ listen, path string }{{"unix:/x/y", "/x/y"}, {"unix:", ""}, {"/x/y", ""}, {"tcp:1", ""}} {
		got, err := Path(c.listen)
		if got != c.path || (err == nil) != (c.path != "") {
			t.Errorf("got %q and %v of %q, want %q", got, err, c.listen, c.path)
		}
	}
}
