//go:build linux

package main

import "time"

// cell is one kind of measurement.
type cell interface {
	name() string
	measure(*target, *sample) error
}

// group is cells that share their targets.
type group struct {
	cells  []cell
	needs  []need
	makers []string
	fresh  bool // each sample on processes of its own
}

// The makers of each shape.
var (
	hops  = []string{"direct", "splice", ours, "haproxy", "nginx", "toxiproxy"}
	peers = []string{ours, "haproxy", "nginx", "ghostunnel"}
)

// The cells that goals speak of.
var (
	frames1K      = throughput{size: 1 << 10, batched: true, body: unsealed}
	frames256K    = throughput{size: 256 << 10, batched: true, body: unsealed}
	single256     = throughput{size: 256, body: unsealed}
	single1K      = throughput{size: 1 << 10, body: unsealed}
	bodiesSealed  = throughput{size: 16 << 10, batched: true, body: sealed}
	bodiesWithout = throughput{size: 16 << 10, batched: true, body: unsealed}
)

// plan is everything that is measured; quick is a smaller one.
func plan(quick bool) (groups []group, rounds int) {
	lasts, pings, rounds, connections := 300*time.Millisecond, 8000, 7, time.Second
	if quick {
		lasts, pings, rounds, connections = 150*time.Millisecond, 3000, 3, 500*time.Millisecond
	}
	bursts := func(all ...throughput) (cells []cell) {
		for _, c := range all {
			c.burst = lasts
			cells = append(cells, c)
		}
		return cells
	}
	speed := bursts(frames1K, frames256K, single256, single1K)
	if quick {
		speed = bursts(frames1K, frames256K, single256)
	}
	return []group{
		{cells: speed, needs: []need{{shape: hop}}, makers: hops},
		{cells: speed, needs: []need{{shape: pair}, {shape: single}}, makers: peers},
		{cells: bursts(bodiesSealed, bodiesWithout), needs: []need{{shape: hop}}, makers: []string{ours}},
		{cells: []cell{handshakes{workers: 200, lasts: connections}}, needs: []need{{shape: single, many: true}}, makers: peers},
		{cells: []cell{idle{links: manyReplicas - 2}}, needs: []need{{shape: single, many: true}, {shape: hop, many: true}},
			makers: peers, fresh: true},
		{cells: []cell{latency{pings: pings}}, needs: []need{{shape: hop, pinned: true}, {shape: pair, pinned: true}},
			makers: append([]string{"direct"}, peers...)},
	}, rounds
}
