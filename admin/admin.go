// Package admin is the gate's private door: one HTTP mux on a unix socket, for
// status and profiles, and the client that the command line speaks to it with. It
// is handed functions and knows no other room; it decides nothing.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"strings"
	"syscall"
	"time"
)

// Functions are what the door shows. Each is safe for concurrent use.
type Functions struct {
	// Status returns a snapshot that encoding/json can write.
	Status func() any
	// Ready reports whether the gate takes part: listeners bound, not draining.
	Ready func() bool
}

// scheme is in front of a socket's path in configuration.
const scheme = "unix:"

// Path returns the path in a listen value, "unix:/run/replgate/admin.sock".
func Path(listen string) (string, error) {
	path, ok := strings.CutPrefix(listen, scheme)
	if !ok || path == "" {
		return "", fmt.Errorf("admin: got listen %q, want unix:PATH", listen)
	}
	return path, nil
}

// Server is a running door.
type Server struct {
	http *http.Server
	done chan struct{}
}

// Serve opens the door at path, for this user alone. A socket that a dead process
// left behind is taken away; one that answers is somebody else's.
func Serve(path string, f Functions) (*Server, error) {
	ln, err := listen(path)
	if err != nil {
		return nil, err
	}
	s := &Server{done: make(chan struct{}), http: &http.Server{Handler: mux(f), ReadHeaderTimeout: 5 * time.Second}}
	go s.serve(ln)
	return s, nil
}

func (s *Server) serve(ln net.Listener) {
	defer close(s.done)
	s.http.Serve(ln) // returns when Close is called, and there is no other reason
}

// Close shuts the door and takes the socket away.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}

func listen(path string) (net.Listener, error) {
	ln, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && !answers(path) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("admin: got a dead socket at %s, want to take it away: %w", path, err)
		}
		ln, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, fmt.Errorf("admin: got no socket at %s, want one: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, fmt.Errorf("admin: got no private socket at %s, want mode 0600: %w", path, err)
	}
	return ln, nil
}

func answers(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

func mux(f Functions) *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(f.Status()) // a reader that went away is no fault of ours
	})
	m.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if !f.Ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
		}
	})
	m.HandleFunc("/debug/pprof/", pprof.Index)
	m.HandleFunc("/debug/pprof/profile", pprof.Profile)
	m.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return m
}

// Client speaks to a door.
type Client struct{ http http.Client }

// clientTime bounds one question.
const clientTime = 5 * time.Second

// NewClient returns a client of the socket at path. It connects when asked.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: clientTime}}
}

// Status reads the snapshot into v.
func (c *Client) Status(ctx context.Context, v any) error {
	resp, err := c.get(ctx, "/status")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("admin: got %s, want 200", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// Ready reports whether the gate is ready. No gate at all is an error.
func (c *Client) Ready(ctx context.Context) (bool, error) {
	resp, err := c.get(ctx, "/ready")
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK, nil
}

func (c *Client) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://gate"+path, nil)
	if err != nil {
		return nil, err
	}
	return c.http.Do(req)
}
