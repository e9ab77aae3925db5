// Package standin is a stand-in replica: it speaks the replica plane honestly,
// in both roles and all three securities, and checks all that it receives. It
// beats (Commit, a token per group), replicates (Prepare along the chain,
// PrepareOk, commit points), forwards sign-ins (26..29), changes views (10..12)
// and repairs (17..20). It is test equipment and no Iggy: everything lives in
// memory, state transfer (21..25) is not spoken, and what its operations mean is
// nobody's business.
//
// Core is the protocol without I/O, clock or goroutine: time and the seed are
// arguments, so equal inputs give equal frames. Node is the shell around it:
// listener, dialers, queues, timers, and a driver that makes operations.
//
// The first fault ends a stand-in. Beyond what Iggy checks it holds every frame
// against what the same peer said before on the same connection (views and
// commit points never go back, tokens rise, repairs were asked for), and it uses
// a prepare's request_checksum, which the plane never looks at, to carry the
// hash of the body and the view the prepare was built in. So a change of any
// byte on the way is a fault: Iggy's own seals leave consumer-offset bodies,
// the view of a prepare and its command byte open (§4.4, §5.6).
//
//	check.go   what is held against a frame by itself and by its connection
//	group.go   one consensus group in normal operation
//	change.go  view changes
//	repair.go  probes, repair, catching up
//	forward.go sign-ins and sign-outs of backups
//	build.go   frames
//	node.go    the shell; peer.go a connection, load.go what clients do
//
// Limits. A lost memory counts as a lost replica until it is whole again: a
// second loss of three meanwhile stalls the cluster for good, by design. An
// empty replica believes the first primary that answers it, also one that does
// not know it was deposed. Duplicated or reordered frames are faults. A fault in
// a handshake refuses the connection (Counts.Refused) and ends nobody.
package standin
