// Package configs is the schema of replgate's configuration: the types, their
// defaults, strict loading from TOML, environment and a real Iggy
// configuration, the cross-checks, and printing.
//
// It reports all faults of a configuration at once, each with file, line and
// key, and hands out a Config in which every default is already filled in, so
// that nobody behind it resolves anything a second time.
//
// It never opens a socket, never reads a certificate, never logs, and never
// knows what a rule, a peer or a certificate means: names of rules are handed
// in as data, meaning belongs to the constructors that take the values.
//
// It stands first on the way of control: file, signal or request → Load →
// build → settings. It imports no other package of this module, and it is the
// only one that knows TOML.
//
// Layers, the later wins: Default, the Iggy configuration named by
// cluster_from, the file, the environment.
package configs
