//go:build linux

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"
)

// bench is one run: the samples, and what was read back.
type bench struct {
	*field
	out     io.Writer
	samples []sample
	missing []string
	buffers map[string][]int // by target
}

// run measures every group.
func (b *bench) run(groups []group, rounds int) error {
	for _, g := range groups {
		if err := b.group(g, rounds); err != nil {
			return err
		}
	}
	return nil
}

// group starts the targets, and lets each round visit every one of them once per
// cell, in an order drawn anew.
func (b *bench) group(g group, rounds int) error {
	pinned := slices.ContainsFunc(g.needs, func(n need) bool { return n.pinned })
	sink, err := b.startSink(pinned)
	if err != nil {
		return err
	}
	defer sink.stop()
	var targets []*target
	defer func() {
		for _, t := range targets {
			t.stop()
		}
	}()
	for _, n := range g.needs {
		ways, missing, err := b.ways(n, g.applicable(n))
		targets = append(targets, ways...)
		b.note(missing)
		if err != nil {
			return err
		}
	}
	if err := b.readBack(targets); err != nil {
		return err
	}
	for round := range rounds {
		for _, c := range g.cells {
			for _, i := range rand.Perm(len(targets)) {
				if err := b.visit(g, c, targets[i], round); err != nil {
					return err
				}
			}
		}
		fmt.Fprintf(b.out, "%s  round %d of %d: %s\n", time.Now().Format(time.TimeOnly), round+1, rounds, g.title())
	}
	return nil
}

// applicable leaves out who cannot do what is needed.
func (g group) applicable(n need) []string {
	return slices.DeleteFunc(slices.Clone(g.makers), func(maker string) bool {
		return maker == "direct" && n.shape != hop || maker == "ghostunnel" && n.shape == hop
	})
}

func (g group) title() string {
	var names []string
	for _, c := range g.cells {
		names = append(names, c.name())
	}
	return strings.Join(names, "; ")
}

func (b *bench) note(missing []string) {
	for _, m := range missing {
		if !slices.Contains(b.missing, m) {
			b.missing = append(b.missing, m)
		}
	}
}

func (b *bench) startSink(pinned bool) (*process, error) {
	p, err := start(b.dir, "sink", pinned, b.self, "sink")
	if err != nil {
		return nil, err
	}
	return p, listens(sinkAddress)
}

func (b *bench) readBack(targets []*target) error {
	for _, t := range targets {
		sizes, err := t.buffers(b.field)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name(), err)
		}
		b.buffers[t.name()] = append(b.buffers[t.name()], sizes...)
	}
	return nil
}

// retries is how often a sample is taken again that others disturbed.
const (
	retries    = 1
	foreignMax = 0.2 // of one core
)

// visit takes one sample.
func (b *bench) visit(g group, c cell, t *target, round int) error {
	runtime.GC()
	var s sample
	for try := 0; ; try++ {
		if g.fresh {
			if err := b.again(t); err != nil {
				return err
			}
		}
		quiet()
		s = sample{Cell: c.name(), Target: t.name(), Round: round}
		began, all, own := time.Now(), busy(), mine()
		err := onThread(t.pinned, func() error { return c.measure(t, &s) })
		s.Foreign = ((busy() - all) - (mine() - own)).Seconds() / time.Since(began).Seconds()
		if err != nil {
			s.Err = err.Error()
		}
		if try == retries || err == nil && s.Foreign <= foreignMax {
			break
		}
	}
	if s.Err != "" {
		fmt.Fprintf(b.out, "round %d: %s, %s: %s\n", round+1, s.Target, s.Cell, s.Err)
	}
	b.samples = append(b.samples, s)
	return nil
}

// mine is what the bench has used so far.
func mine() time.Duration {
	return cpu([]int{ownPID()}) // with all that it has started
}

// again starts a target's processes anew.
func (b *bench) again(t *target) error {
	t.stop()
	fresh, err := b.way(t.maker, t.need)
	if err == nil {
		*t = *fresh
	}
	return err
}
