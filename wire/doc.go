// Package wire is the bytes of Iggy's replica plane and nothing else: the
// 256-byte header viewed in place, the registry of commands and operations, the
// XXH3 seals, the bodies that carry a seal of their own, and an incremental
// reader that cuts a stream into frames.
//
// It never touches a socket, a clock, a goroutine or a log, and it never decides
// whether a frame may pass: that is package policy, which asks this one.
//
// On the way of a byte it stands between the leg that read it and the policy
// that judges it. A frame is
//
//	[ 256-byte header ][ body, size-256 bytes ]
//
//	  0  checksum        16   frame seal, or prepare identity (6, 19)
//	 16  checksum_body   16   metadata prepares, DoViewChange, StartView
//	 32  cluster         16   first half of BLAKE3(cluster name)
//	 48  size             4   header and body together
//	 52  view             4
//	 56  release          4
//	 60  command          1   0..29
//	 61  replica          1
//	 62  reserved_frame  66
//	128  per command    128   see Layout
//
// All integers are little-endian. Clause numbers (§4.3) are those of
// docs/PROTOCOL.md.
package wire
