// Package proxy is the road: it accepts, secures, admits, dials, joins two legs
// into a link and pumps frames between them until one leg ends. It is the only
// room with sockets and goroutines on the data path. It knows no TOML, no
// Prometheus and no certificate files: those come as Settings.
//
// Beside the road: remake ends in order what applied settings no longer support,
// proofs knows which secrets each replica has proved, show lets gates show each
// other theirs, and rotation says whether a next step would cut anybody. Their two
// goroutines, remakeLoop and showLoop (with one for each peer in a round), end with
// the shutdown, which waits for them.
//
// The files stand in the order a byte travels:
//
//	server     owns listeners and links, starts and stops them
//	listen     binds, accepts
//	secure     TLS on a leg, and the exporter that binds the MAC to it
//	admit      the acceptor's half of a handshake: Hello, Challenge, Finish
//	dial       the dialer's half, and the proof that a plaintext leg lives
//	identity   whose certificate it is
//	permissive strict and permissive: what a peer may speak
//	search     what a peer speaks that may speak less than strict asks
//	memory     which security each peer has proved
//	join       ingress and egress: which leg is proven before which
//	link       two proven legs, two pumps
//	pump       read, judge, write
//	drain      how a link ends
//	apply      other settings for a running gate
//	ready      whether strict mode would cut anybody
//	refuse     the vocabulary of endings; every refusal ends there
//
// Goroutines: one per listener (acceptLoop), one per connection from accept to
// the link's end (serve), which runs one of the two pumps' goroutines each as
// pump.run, one per leg while it closes (leg.finish), and one per news of a
// peer's proof while it is kept (visit.remember). Whoever starts one waits for it.
package proxy
