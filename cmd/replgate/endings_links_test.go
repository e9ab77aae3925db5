//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// cleanLink is a new link of the clean peer, whose end is waited for before the
// next one: a second link of the same peer is another thing.
func (e *endings) cleanLink() (bond, error) {
	eventually(e.t, "the clean peer's last link to be gone", func() bool { return e.linksOf(cleanPeer) == 0 })
	return e.tryArrive(caller{pair: mac.Pair{Dialer: cleanPeer, Acceptor: endingsSelf}, security: "tls"})
}

// exchange lets a frame go each way, so that what comes after it comes between
// frames.
func (e *endings) exchange(b bond) error {
	if err := e.say(b.far, commit(cleanPeer, 1)); err != nil {
		return err
	}
	if _, err := b.near.ReadFrame(1 << 20); err != nil {
		return err
	}
	if err := e.say(b.near, commit(endingsSelf, 1)); err != nil {
		return err
	}
	_, err := b.far.ReadFrame(1 << 20)
	return err
}

// Bounds of the promises on ends, with the slack of a machine that does other
// things too.
const (
	endSlack   = time.Second // a shared machine's; package proxy's tests take the best of three and hold the times themselves
	finPassed  = 500*time.Millisecond + endSlack
	restPassed = 100*time.Millisecond + endSlack
)

// ends is a provocation by what one end of a link does; the other end sees want
// within a time.
func (e *endings) ends(ending proxy.Ending, want string, within time.Duration, do func(b bond) (other *replica.Conn, err error)) provocation {
	return provocation{ending: ending, provoke: func() error {
		b, err := e.cleanLink()
		if err != nil {
			return err
		}
		if err := e.exchange(b); err != nil {
			return err
		}
		other, err := do(b)
		if err != nil {
			return err
		}
		how, n, took := endOf(other, playLimit)
		b.close()
		if how != want || n != 0 || took > within {
			return fmt.Errorf("got %s after %d bytes and %v at the other leg, want %s, 0 and at most %v", how, n, took, want, within)
		}
		return nil
	}}
}

func reset(c *replica.Conn) error {
	if err := c.TCP.SetLinger(0); err != nil {
		return err
	}
	return c.TCP.Close()
}

// linkEnds are what the two sides of a link can do, and what a newcomer does to a
// link.
func (e *endings) linkEnds() []provocation {
	half := func(c *replica.Conn, id uint8) error {
		// Part of a frame whose header is in counts as one that was lost.
		e.frames.Add(1)
		e.bytes.Add(700)
		_, err := c.Write(offset(id, 9, make([]byte, 1000))[:700])
		return errors.Join(err, c.TCP.CloseWrite())
	}
	far := func(b bond) *replica.Conn { return b.far }
	near := func(b bond) *replica.Conn { return b.near }
	fin := func(this, other func(bond) *replica.Conn) func(bond) (*replica.Conn, error) {
		return func(b bond) (*replica.Conn, error) { return other(b), this(b).TCP.CloseWrite() }
	}
	rst := func(this, other func(bond) *replica.Conn) func(bond) (*replica.Conn, error) {
		return func(b bond) (*replica.Conn, error) { return other(b), reset(this(b)) }
	}
	return []provocation{
		e.ends(proxy.PeerEOF, byFIN, finPassed, fin(far, near)),
		e.ends(proxy.LocalEOF, byFIN, finPassed, fin(near, far)),
		e.ends(proxy.PeerReset, byReset, restPassed, rst(far, near)),
		e.ends(proxy.LocalReset, byReset, restPassed, rst(near, far)),
		e.ends(proxy.PeerEOFMidFrame, byFIN, finPassed, func(b bond) (*replica.Conn, error) { return b.near, half(b.far, cleanPeer) }),
		e.ends(proxy.LocalEOFMidFrame, byFIN, finPassed, func(b bond) (*replica.Conn, error) { return b.far, half(b.near, endingsSelf) }),
		{ending: proxy.Superseded, provoke: e.supersede},
		{ending: proxy.DuplicateIdentity, provoke: e.duplicate},
	}
}

// supersede lets a newcomer of the same peer prove itself: the old near leg gets a
// FIN, and only then is the new one dialed.
func (e *endings) supersede() error {
	old, err := e.cleanLink()
	if err != nil {
		return err
	}
	if err := e.exchange(old); err != nil {
		return err
	}
	far, err := e.ring(caller{pair: mac.Pair{Dialer: cleanPeer, Acceptor: endingsSelf}, security: "tls"}, e.ingressAddr())
	if err != nil {
		return err
	}
	e.t.Cleanup(func() { far.TCP.Close() })
	if how, n, _ := endOf(old.near, playLimit); how != byFIN || n != 0 {
		return fmt.Errorf("got %s after %d bytes at the old near leg, want a FIN", how, n)
	}
	select {
	case <-e.local.of(cleanPeer):
		return errors.New("got a new near leg while the old one is open, want it after")
	case <-time.After(200 * time.Millisecond):
	}
	old.near.TCP.Close()
	near, err := e.local.next(cleanPeer)
	if err != nil {
		return err
	}
	e.second = bond{far, near}
	return e.exchange(e.second)
}

// duplicate comes from another address a moment after the last displacement; the
// link that holds the place carries on.
func (e *endings) duplicate() error {
	if e.linksOf(cleanPeer) != 1 {
		return errors.New("got no link of the clean peer, want the one that superseded another")
	}
	c := caller{pair: mac.Pair{Dialer: cleanPeer, Acceptor: endingsSelf}, security: "tls", source: "127.1.2.3"}
	far, err := e.ring(c, e.ingressAddr())
	if err != nil {
		return err
	}
	e.t.Cleanup(func() { far.TCP.Close() })
	if how, n, took := endOf(far, playLimit); how == byTime || n != 0 || took > time.Second {
		return fmt.Errorf("got %s after %d bytes and %v at the second holder, want its end at once", how, n, took)
	}
	line, err := e.gate.Await(e.t.Context(), "ending", string(proxy.DuplicateIdentity))
	if err != nil {
		return err
	}
	got, _ := line["got"].(string)
	for _, address := range []string{far.TCP.LocalAddr().String(), "127.0.0.1:"} {
		if !strings.Contains(got, address) {
			return fmt.Errorf("got the line %q, want both addresses in it, %s too", got, address)
		}
	}
	if n := e.linksOf(cleanPeer); n != 1 {
		return fmt.Errorf("got %d links after a second holder, want the first one's", n)
	}
	defer e.second.close()
	return e.exchange(e.second)
}

// frameFaults are what one bad frame does to a link under the default rules. The
// receiver never has the whole of it.
func (e *endings) frameFaults() []provocation {
	faulty := faultyFrames(cleanPeer, 8)
	long := func(frame []byte) [][]byte { return [][]byte{spoilt(frame, len(frame)-1)} }
	const n = 100 << 10 // above store_limit: it goes on while it is judged
	cut := func(ending proxy.Ending, frames [][]byte) provocation {
		return provocation{ending: ending, provoke: func() error { return e.fault(frames, wire.Size.Get((*wire.Header)(frames[0]))) }}
	}
	return []provocation{
		cut(proxy.FrameSize, faulty["frame_size"]),
		cut(proxy.FrameCommand, faulty["frame_command"]),
		cut(proxy.SealHeader, faulty["seal_header"]),
		cut("batch", long(messages(cleanPeer, 1, n))),
		cut("body", long(metadata(cleanPeer, 1, wire.U128{}, make([]byte, n)))),
		cut("manifest", long(manifest(cleanPeer, 4000))),
	}
}

func (e *endings) fault(frames [][]byte, size uint32) error {
	b, err := e.cleanLink()
	if err != nil {
		return err
	}
	defer b.close()
	if err := e.exchange(b); err != nil {
		return err
	}
	if h := (*wire.Header)(frames[0]); !h.Command().Valid() || size < wire.HeaderSize {
		_, err = b.far.Write(frames[0]) // no frame at all, by the reading of the transport
	} else {
		err = e.say(b.far, frames...)
	}
	if err != nil {
		return err
	}
	how, n, took := endOf(b.near, playLimit)
	b.close()
	if how == byTime || n >= max(int64(size), wire.HeaderSize) || took > finPassed {
		return fmt.Errorf("got %s after %d bytes and %v at the near leg, want an end before the frame's %d bytes", how, n, took, size)
	}
	return nil
}

// limits fill the places there are.
func (e *endings) limits() []provocation {
	fill := func(ending proxy.Ending, n int, source func(i int) string) error {
		var all []net.Conn
		before := e.closedBy(string(ending))
		for i := range n {
			c, err := e.send(source(i), nil)
			if err != nil {
				return err
			}
			all = append(all, c)
		}
		eventually(e.t, string(ending), func() bool { return e.closedBy(string(ending)) > before })
		for _, c := range all {
			c.Close()
		}
		return nil
	}
	return []provocation{
		{ending: proxy.UnauthLimit, provoke: func() error { return fill(proxy.UnauthLimit, 9, func(int) string { return "127.7.7.7" }) }},
		{ending: proxy.ConnLimit, provoke: func() error {
			return fill(proxy.ConnLimit, 60, func(i int) string { return fmt.Sprintf("127.8.0.%d", 1+i) })
		}},
	}
}

// waits are what only time can show; they go on at once.
func (e *endings) waits() []provocation {
	silent := func(ending proxy.Ending, b []byte) provocation {
		p := e.saying(ending, b)
		p.slow = true
		return p
	}
	all := []provocation{
		silent(proxy.HelloTimeout, nil),
		silent(proxy.HandshakeTimeout, hello(honestPeer, true)),
		silent(proxy.TLSTimeout, []byte{22, 3, 1, 2}),
		{ending: proxy.WriteStalled, slow: true, provoke: func() error {
			b, err := e.tryArrive(caller{pair: mac.Pair{Dialer: messyPeer, Acceptor: endingsSelf}, security: "plaintext"})
			if err != nil {
				return err
			}
			b.far.Write(offset(messyPeer, 1, make([]byte, 32<<20))) // ends with the link: nobody reads
			return nil
		}},
		{ending: proxy.FrameStalled, slow: true, provoke: func() error {
			b := e.leaveFor(higherPeer, e.higher, "tls")
			if _, err := b.far.Write(commit(higherPeer, 1)[:100]); err != nil {
				return err
			}
			if how, n, took := endOf(b.near, playLimit); how == byTime || n != 0 || took < 4*time.Second {
				return fmt.Errorf("got %s after %d bytes and %v, want an end after the 5 s that a frame may take", how, n, took)
			}
			b.close()
			return nil
		}},
	}
	if e.island == nil {
		return all
	}
	return append(all, provocation{ending: proxy.PeerUnreachable, slow: true, provoke: func() error {
		ln := e.island.listen(e.island.address(9190))
		b := e.leaveFor(islandPeer, ln, "tls")
		e.island.cutOff()
		how, n, took := endOf(b.near, playLimit)
		if how != byReset || n != 0 || took > deadWindow+endSlack {
			return fmt.Errorf("got %s after %d bytes and %v at the near leg, want RST within %v", how, n, took, deadWindow)
		}
		return nil
	}})
}

// deadWindow is the heartbeat timeout: a dead peer is noticed inside it.
const deadWindow = 5 * time.Second

// drainBytes reads a connection to its end and throws everything away.
func drainBytes(c io.Reader) { io.Copy(io.Discard, c) }
