// Package state keeps what a gate must not forget over a restart: which security
// each peer has proved. It is one small file, proofs.json, in a directory of the
// gate's own. Its loss costs no link; it only means that nobody has proved
// anything yet.
//
// The room decides nothing: it keeps words that it is given. It knows no peer, no
// handshake and no other room. One process uses a directory at a time.
package state
