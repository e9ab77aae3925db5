package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Client speaks to a door.
type Client struct{ http http.Client }

// clientTime bounds one question, reloadTime one for a reload: that reads every
// file twice.
const (
	clientTime = 5 * time.Second
	reloadTime = 30 * time.Second
)

// NewClient returns a client of the socket at path. It connects when asked.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// RefusedError is an answer of a gate that lives and does not do what it is asked.
type RefusedError struct{ Why string }

// Error is what the gate said.
func (e *RefusedError) Error() string { return "admin: got a refusal, want an answer: " + e.Why }

// Status reads the snapshot into v.
func (c *Client) Status(ctx context.Context, v any) error {
	return c.ask(ctx, http.MethodGet, "/status", clientTime, v)
}

// Ready returns nil when the gate is ready, and a *RefusedError that says why not
// when it is not. No gate at all is another error.
func (c *Client) Ready(ctx context.Context) error {
	return c.ask(ctx, http.MethodGet, "/ready", clientTime, nil)
}

// Reload lets the gate read its configuration and its credentials again, and reads
// what came of it into v.
func (c *Client) Reload(ctx context.Context, v any) error {
	return c.ask(ctx, http.MethodPost, "/reload", reloadTime, v)
}

// Rotation reads how far a rotation has come into v.
func (c *Client) Rotation(ctx context.Context, v any) error {
	return c.ask(ctx, http.MethodGet, "/rotation", clientTime, v)
}

// ResetPeer lets the gate forget what a peer has proved.
func (c *Client) ResetPeer(ctx context.Context, id int) error {
	return c.ask(ctx, http.MethodPost, fmt.Sprintf("/peers/%d/reset", id), clientTime, nil)
}

// mostRefusal bounds what is read of a refusal's reason.
const mostRefusal = 4 << 10

// ask puts one question and reads the answer into v; nil has none.
func (c *Client) ask(ctx context.Context, method, path string, within time.Duration, v any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://gate"+path, nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, err := io.ReadAll(io.LimitReader(resp.Body, mostRefusal))
		return errors.Join(&RefusedError{strings.TrimSpace(string(why))}, err)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(v)
}
