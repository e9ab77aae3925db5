package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
)

// playTime bounds one recorded connection.
const playTime = time.Minute

// Scenario plays the connections of one recorded cluster: its links at once, each
// link's connections in their order. It returns how many frames there were, and
// ends when no gate has a link left.
func (c *Cluster) Scenario(ctx context.Context, recordings []replica.Recording) (frames int, err error) {
	links := map[mac.Pair][]replica.Recording{}
	for _, r := range recordings {
		links[r.Pair] = append(links[r.Pair], r)
	}
	var mu sync.Mutex
	var failed []error
	var all sync.WaitGroup
	for pair, connections := range links {
		all.Go(func() {
			for _, r := range connections {
				n, err := c.Play(ctx, r)
				mu.Lock()
				frames += n
				if err != nil {
					failed = append(failed, fmt.Errorf("%s: %w", r.Name, err))
				}
				mu.Unlock()
			}
			ctx, cancel := context.WithTimeout(ctx, playTime)
			defer cancel()
			if err := c.await(ctx, pair, 0); err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return frames, errors.Join(failed...)
}

// Play carries one recorded connection: both directions at once, in pieces of any
// length, held byte for byte against what was said.
func (c *Cluster) Play(ctx context.Context, r replica.Recording) (int, error) {
	say, err := replica.Traffic(r.Dialer)
	if err != nil {
		return 0, err
	}
	back, err := replica.Traffic(r.Acceptor)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, playTime)
	defer cancel()
	dialer, acceptor, err := c.Connect(ctx, r.Pair)
	if err != nil {
		return 0, err
	}
	defer dialer.Close()
	defer acceptor.Close()
	dialer.SetDeadline(time.Now().Add(playTime))
	acceptor.SetDeadline(time.Now().Add(playTime))
	var both sync.WaitGroup
	var one, other error
	both.Go(func() { one = dialer.Play(say, back, rand.New(rand.NewPCG(1, uint64(len(say))))) })
	both.Go(func() { other = acceptor.Play(back, say, rand.New(rand.NewPCG(2, uint64(len(say))))) })
	both.Wait()
	if err := errors.Join(one, other); err != nil {
		return 0, err
	}
	if len(say)+len(back) == 0 {
		// A plaintext connection that ends before it is proven is no link.
		if err := c.await(ctx, r.Pair, c.gatesOnTheWay()); err != nil {
			return 0, err
		}
	}
	return count(say, back), farewell(dialer, acceptor)
}

// farewell ends a link from the dialer's side; the end arrives, and nothing else.
func farewell(dialer, acceptor *replica.Conn) error {
	dialer.Close()
	if n, err := acceptor.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return fmt.Errorf("lab: got %d bytes and %v behind the last frame, want the end", n, err)
	}
	return nil
}

func count(directions ...[]byte) (frames int) {
	for _, b := range directions {
		whole, _, err := replica.Frames(b)
		if err != nil {
			return 0 // Traffic has cut the same bytes already
		}
		frames += len(whole)
	}
	return frames
}
