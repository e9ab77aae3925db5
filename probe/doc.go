// Package probe asks an address what answers there: which security, which
// cluster, which replica, which secret, and what is wrong with it. `replgate
// probe` and `replgate check --online` stand on it.
//
// A probe must never become a replica, and never prove our secret:
//
//   - its first Hello comes from replica 255, whom no roster has, so that no
//     acceptor can take it for a dialer (§7.1);
//   - a Hello with a real dialer's id is sent only where an acceptor has shown,
//     by a reject frame, that it requires the MAC, and its Challenge is never
//     answered with a Finish;
//   - every first frame carries [wire.ProbeMark], by which a gate knows it.
//
// What an acceptor without the MAC does not tell is reported as not knowable. A
// gate is told from a native replica only by the group that TLS agreed on: rustls
// with ring knows no X25519MLKEM768, and a gate prefers it (§7.8).
//
// The files stand in the order of the steps:
//
//	probe      the order of the steps
//	reach      the name, the connection
//	secure     TLS, with a ClientHello that a plaintext replica closes on
//	chain      the certificates, judged by hand so that each fault is its own
//	hello      what answers a Hello
//	challenge  the acceptor's proof
//	judge      what all of it means
//	report     findings
//
// It never stands on the way of a byte, and it writes nothing but what is above.
package probe
