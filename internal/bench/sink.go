//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"

	"github.com/replgate/replgate/wire"
)

// sinkAddress is where every way ends.
const sinkAddress = "127.0.0.1:7000"

// sink is the far end of every way: it takes plaintext connections, checks size
// and seal of every frame, and answers Commits that ask it to.
func sink() error {
	ln, err := net.Listen("tcp", sinkAddress)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go (&drain{tcp: c.(*net.TCPConn)}).run()
	}
}

// drain is one connection of the sink.
type drain struct {
	tcp  *net.TCPConn
	raw  *blocking // during a burst
	seen counts
}

func (d *drain) run() {
	defer d.tcp.Close()
	var hello wire.Header
	if _, err := io.ReadFull(d.tcp, hello[:]); err != nil || hello.Command() != wire.ReplicaHello {
		return
	}
	defer runtime.UnlockOSThread() // pairs with a burst that did not end
	r := wire.NewReader(wire.Limits{MaxFrame: 64 << 20, Store: 1 << 20, Buffer: 2 << 20})
	for {
		n, err := d.conn().Read(r.Free())
		if err != nil {
			return
		}
		r.Filled(n)
		if d.take(r) != nil {
			return
		}
	}
}

func (d *drain) conn() io.ReadWriter {
	if d.raw != nil {
		return d.raw
	}
	return d.tcp
}

// take judges every whole frame that is in.
func (d *drain) take(r *wire.Reader) error {
	for {
		f, err := r.Next()
		if err != nil || f.Head() == nil {
			return err
		}
		if f.Long() {
			return errors.New("got a frame larger than the bench sends")
		}
		if !right(f.Head()) {
			d.seen.wrong++
			continue
		}
		if group, _ := f.Head().Group(); f.Head().Command() == wire.Commit && group != groupLoad {
			if err := d.asked(f.Head()); err != nil {
				return err
			}
			continue
		}
		d.seen.good++
	}
}

// right holds a frame against the seal that its command carries.
func right(h *wire.Header) bool {
	if h.Command().IsPrepare() {
		return wire.Checksum.Get(h) == wire.Identity(h)
	}
	return wire.SealOK(h)
}

func (d *drain) asked(h *wire.Header) error {
	switch wire.CommitGroup.Get(h) {
	case groupBegin:
		d.seen = counts{}
		runtime.LockOSThread()
		raw, err := toBlocking(d.tcp)
		if err != nil {
			return err
		}
		d.raw = raw
		return nil
	case groupEnd:
		said := answer(h, d.seen)
		_, err := d.conn().Write(said[:])
		if d.raw != nil {
			err = errors.Join(err, d.raw.release())
			runtime.UnlockOSThread()
			d.raw = nil
		}
		return err
	}
	said := answer(h, counts{})
	_, err := d.conn().Write(said[:])
	return err
}
