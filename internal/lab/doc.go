// Package lab runs a cluster on this machine: gates in processes of their own
// between stand-in replicas. It lays out loopback addresses, writes each gate's
// configuration, starts and stops the program, follows its log and reads its
// metrics. The tests of the binary and the demo stand on it; it is never part of
// a gate.
package lab
