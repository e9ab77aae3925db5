//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// entry is how a target is entered.
type entry struct {
	address string
	tls     *tls.Config  // nil: plaintext
	keys    *mac.Keyring // nil: no MAC; a gate's TLS entrance wants one
	last    uint8        // the id of the replica behind the target
}

// open dials the target as replica id and says Hello. The Hello of a byte proxy
// reaches the sink as it is; a gate answers it and sends its own.
func (e entry) open(id uint8) (*source, error) {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	voice := replica.Voice{Cluster: cluster, Pair: mac.Pair{Dialer: id, Acceptor: e.last}, Keys: e.keys, TLS: e.tls}
	c, err := voice.Dial(ctx, e.address)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(2 * hang))
	return &source{conn: c, pair: voice.Pair, rw: c}, nil
}

// source is the sending end of one burst or of one ping-pong.
type source struct {
	conn *replica.Conn
	pair mac.Pair
	rw   io.ReadWriter // the connection itself under TLS, plain system calls elsewhere
	raw  *blocking
}

func newSource(e entry) (*source, error) {
	s, err := e.open(0)
	if err != nil {
		return nil, err
	}
	if e.tls != nil {
		return s, nil
	}
	runtime.LockOSThread()
	if s.raw, err = toBlocking(s.conn.TCP); err != nil {
		return nil, err
	}
	s.rw = s.raw
	return s, nil
}

func (s *source) close() {
	if s.raw != nil {
		s.raw.release() // the connection is closed next, whatever this says
		runtime.UnlockOSThread()
	}
	s.conn.Close()
}

// say writes frames.
func (s *source) say(frames ...wire.Header) error {
	for _, h := range frames {
		if _, err := s.rw.Write(h[:]); err != nil {
			return err
		}
	}
	return nil
}

// hear reads the sink's answer.
func (s *source) hear() (counts, error) {
	var h wire.Header
	if _, err := io.ReadFull(s.rw, h[:]); err != nil {
		return counts{}, err
	}
	if group, _ := h.Group(); group != groupAnswer || !wire.SealOK(&h) {
		return counts{}, fmt.Errorf("got %v, want the sink's answer", h.Command())
	}
	return counts{wire.CommitCommit.Get(&h), uint64(wire.View.Get(&h))}, nil
}

// burst sends trains in writes of chunk bytes and waits until the sink has said
// that every frame came. A bad frame goes before and after; passed is how many of
// the two reached the sink.
func (s *source) burst(train []byte, frames, trains, chunk int) (took time.Duration, passed uint64, err error) {
	began := time.Now()
	if err := s.say(asking(groupBegin, s.pair), bad()); err != nil {
		return 0, 0, err
	}
	for range trains {
		for rest := train; len(rest) > 0; {
			n := min(chunk, len(rest))
			if _, err := s.rw.Write(rest[:n]); err != nil {
				return 0, 0, err
			}
			rest = rest[n:]
		}
	}
	if err := s.say(bad(), asking(groupEnd, s.pair)); err != nil {
		return 0, 0, err
	}
	n, err := s.hear()
	took = time.Since(began)
	if want := uint64(frames) * uint64(trains); err == nil && n.good != want {
		err = fmt.Errorf("got %d frames at the sink, want %d", n.good, want)
	}
	return took, n.wrong, err
}

// ping is one small frame there and one back.
func (s *source) ping() error {
	if err := s.say(asking(groupPing, s.pair)); err != nil {
		return err
	}
	_, err := s.hear()
	return err
}
