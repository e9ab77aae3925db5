// Package metrics counts what a gate does and shows it to Prometheus.
//
// It is the only package that knows Prometheus. Everything else hands it plain strings and numbers: which peer, which
// direction, which ending, how many bytes. It never decides anything, never logs, never fails towards its caller and
// never panics on a value it does not know.
//
// Two promises hold at every scrape. For each peer and direction, the connections opened are exactly those closed plus
// those active: all three are counted under one mutex and copied under it. For each peer, direction, command and
// result, frames and bytes belong to the same moment: a pump counts both in one step.
//
// Label sets are closed. They are the lists that New is given and the constants of this package; a value outside them
// is counted under "other", so that no number of strange peers, addresses or frames makes a new series. A series, once
// shown, stays until the process ends, because a counter that disappears breaks every rate built upon it. The series of
// certificates and secrets are the exception: they are gauges, and one that is replaced is gone at the next scrape.
//
// The package stands beside the way of a byte: proxy calls it when a link opens or ends and once a frame, cmd builds
// it, and the admin listener serves its Handler. On the frame path there is no look-up by label and no allocation.
package metrics
