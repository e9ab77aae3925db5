package replica

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/replgate/replgate/wire"
)

// Play says all of say in pieces of random length while it reads exactly as many
// bytes as hear has and holds them against it. Both go on at once.
func (c *Conn) Play(say, hear []byte, random *rand.Rand) error {
	var both sync.WaitGroup
	var said, heard error
	pieces := cuts(len(say), random)
	both.Go(func() { said = c.say(say, pieces) })
	both.Go(func() { heard = c.hear(hear) })
	both.Wait()
	if heard != nil {
		return heard
	}
	return said
}

// cuts draws lengths that add up to n: mostly small, some large, anywhere.
func cuts(n int, random *rand.Rand) []int {
	var pieces []int
	for n > 0 {
		piece := 1 + random.IntN(1<<(3+random.IntN(15)))
		piece = min(piece, n)
		pieces = append(pieces, piece)
		n -= piece
	}
	return pieces
}

func (c *Conn) say(b []byte, pieces []int) error {
	for _, n := range pieces {
		if _, err := c.Write(b[:n]); err != nil {
			return fmt.Errorf("replica: saying: %w", err)
		}
		b = b[n:]
	}
	return nil
}

func (c *Conn) hear(want []byte) error {
	got := make([]byte, 64<<10)
	for at := 0; at < len(want); {
		n, err := c.Read(got[:min(len(got), len(want)-at)])
		if !bytes.Equal(got[:n], want[at:at+n]) {
			return fmt.Errorf("replica: got other bytes than were said, within %d bytes from offset %d", n, at)
		}
		at += n
		if err != nil && at < len(want) {
			return fmt.Errorf("replica: got %d bytes of %d: %w", at, len(want), err)
		}
	}
	return nil
}

// ReadFrame reads one whole frame of at most max bytes.
func (c *Conn) ReadFrame(max uint32) ([]byte, error) {
	h, err := readHeader(c)
	if err != nil {
		return nil, err
	}
	size := wire.Size.Get(h)
	if size < wire.HeaderSize || size > max {
		return nil, &wire.SizeError{Size: size, Max: max}
	}
	frame := append([]byte(nil), h[:]...)
	frame = append(frame, make([]byte, size-wire.HeaderSize)...)
	_, err = io.ReadFull(c, frame[wire.HeaderSize:])
	return frame, err
}
