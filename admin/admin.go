// Package admin is the gate's private door: one HTTP mux on a unix socket, for
// status, reload, rotation and profiles, and the client that the command line
// speaks to it with. It is handed functions and knows no other room; it decides
// nothing.
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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Functions are what the door shows and what can be asked for through it. Each is
// safe for concurrent use. What they return is written by encoding/json.
type Functions struct {
	// Status returns a snapshot, or why there is none yet.
	Status func() (any, error)
	// Ready returns nil while the gate takes part, else why not: a credential is
	// missing, it drains.
	Ready func() error
	// Reload reads the configuration and every credential again, and returns what
	// came of it: also a configuration that is refused is an answer. An error is
	// that nothing could be tried.
	Reload func(ctx context.Context) (any, error)
	// Rotation tells how far a rotation of the shared secret has come.
	Rotation func() (any, error)
	// ResetPeer forgets what a peer has proved.
	ResetPeer func(id int) error
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
	m.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { answer(w)(f.Status()) })
	m.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := f.Ready(); err != nil {
			refuse(w, err)
		}
	})
	m.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) { answer(w)(f.Reload(r.Context())) })
	m.HandleFunc("GET /rotation", func(w http.ResponseWriter, _ *http.Request) { answer(w)(f.Rotation()) })
	m.HandleFunc("POST /peers/{id}/reset", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err == nil {
			err = f.ResetPeer(id)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	m.HandleFunc("/debug/pprof/", pprof.Index)
	m.HandleFunc("/debug/pprof/profile", pprof.Profile)
	m.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return m
}

// answer writes what a function returned. A reader that went away is no fault of
// ours.
func answer(w http.ResponseWriter) func(any, error) {
	return func(v any, err error) {
		if err != nil {
			refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	}
}

// refuse says why there is no answer now.
func refuse(w http.ResponseWriter, err error) {
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}
