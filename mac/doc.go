// Package mac says who may speak: the BLAKE3 handshake of Iggy's replica plane
// (§7), for both roles, over plaintext or bound to a TLS session.
//
// Acceptor and Dialer are state machines without I/O: bytes go in, bytes come
// out, and control returns after every message, so that the road can ask policy
// between Hello and Challenge. The package never opens a socket, never decides
// who belongs to the cluster, and never prints a secret.
//
//	dialer                         acceptor
//	Hello(nonce_d)        ->
//	                      <-       Challenge(nonce_a, mac_a)
//	Finish(mac_d)         ->
//	frames                <->      frames
//
// Two gates also show each other, by a handshake that leads to no link, which
// secrets they hold: see [Showing].
//
// With authentication off a Hello without a nonce is the whole handshake. What
// is proved is membership of the cluster, not which replica speaks.
package mac
