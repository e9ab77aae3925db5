package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
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

func TestAnswers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	var refusal error
	reset := -1
	links := func() (any, error) { return map[string]int{"links": 3}, refusal }
	serve(t, path, Functions{Status: links, Rotation: links,
		Reload:    func(context.Context) (any, error) { return links() },
		Ready:     func() error { return refusal },
		ResetPeer: func(id int) error { reset = id; return refusal },
	})
	c, ctx := NewClient(path), t.Context()
	for name, ask := range map[string]func(context.Context, any) error{"status": c.Status, "rotation": c.Rotation, "reload": c.Reload} {
		refusal = nil
		var got map[string]int
		if err := ask(ctx, &got); err != nil || got["links"] != 3 {
			t.Errorf("%s: got %v and %v, want links 3", name, got, err)
		}
		refusal = errors.New("not yet: a secret is missing")
		if err := ask(ctx, &got); !refusedFor(err, refusal) {
			t.Errorf("%s: got %v, want the gate's own reason", name, err)
		}
	}
	for name, ask := range map[string]func() error{"ready": func() error { return c.Ready(ctx) }, "reset": func() error { return c.ResetPeer(ctx, 2) }} {
		refusal = nil
		if err := ask(); err != nil {
			t.Errorf("%s: got %v, want yes", name, err)
		}
		refusal = errors.New("draining")
		if err := ask(); !refusedFor(err, refusal) {
			t.Errorf("%s: got %v, want the gate's own reason", name, err)
		}
	}
	if reset != 2 {
		t.Errorf("got peer %d reset, want 2", reset)
	}
}

func refusedFor(err, why error) bool {
	refused, ok := errors.AsType[*RefusedError](err)
	return ok && refused.Why == why.Error()
}

// What changes something is not done for a GET, which a browser or a scanner sends.
func TestGetChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	serve(t, path, Functions{}) // a call of any function would panic
	c := NewClient(path)
	for _, what := range []string{"/reload", "/peers/1/reset"} {
		if err := c.ask(t.Context(), http.MethodGet, what, clientTime, nil); !refusedFor(err, errors.New("Method Not Allowed")) {
			t.Errorf("got %v of GET %s, want it refused", err, what)
		}
	}
	if err := c.ask(t.Context(), http.MethodPost, "/peers/x/reset", clientTime, nil); err == nil {
		t.Error("got peer x reset, want an error")
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
	if err := NewClient(path).Ready(t.Context()); err == nil || refusedFor(err, errors.New("")) {
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
	serve(t, path, Functions{Ready: func() error { return nil }})
	if err := NewClient(path).Ready(t.Context()); err != nil {
		t.Errorf("got %v from the new door, want ready", err)
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
