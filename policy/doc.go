// Package policy says what is allowed: Admit once per link, from a dialer's
// Hello; a Judge once per frame, from its header and its body.
//
// It is pure: no I/O, no clock, no log. What it remembers is bounded and handed
// in: the gate's metadata chain and a pump's Commit tokens. It never changes a
// frame and never decides how a refusal looks on the wire: that is the road's.
//
// On the way of a byte it stands between the seals (package wire) and the write.
package policy
