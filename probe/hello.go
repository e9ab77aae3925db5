package probe

import (
	"crypto/rand"
	"errors"
	"net"
	"os"
	"strings"

	"github.com/replgate/replgate/wire"
)

// nobody is the id of a Hello that no acceptor can admit: a dialer's is below the
// roster's length, and that is 255 at most (§7.1). The target's own id would not
// do: if the address is a higher replica's, that one would take it for a dialer.
const nobody = 255

// got is what answered a Hello.
type got uint8

const (
	gotNone      got = iota // nothing was asked
	gotSilence              // nothing in time
	gotEnd                  // closed or reset without a byte
	gotReject               // an acceptor that requires the MAC, and why it refuses
	gotChallenge            // an acceptor that goes on
	gotClient               // an answer of Iggy's client protocol
	gotHTTP
	gotOther // some other bytes
)

// answer is what came back.
type answer struct {
	what  got
	frame wire.Header // of gotReject and gotChallenge
	text  string      // of gotOther: what it begins with, safe to print
}

func (a *answer) status() wire.Status { return wire.Status(a.frame[wire.HelloStatus]) }

// pairEnd follows the mark in a nonce: an HTTP server reads lines, and with an
// empty one it has a request to refuse instead of waiting for more.
const pairEnd = "\r\n\r\n"

// nonce is a marked one: 104 of its bits are random.
func nonce() (n [wire.NonceSize]byte) {
	rand.Read(n[copy(n[:], wire.ProbeMark+pairEnd):]) // never fails
	return n
}

// stranger is the Hello that nobody admits.
func (v *visit) stranger() wire.Header {
	n := nonce()
	return wire.NewHello(v.Cluster, nobody, n[:])
}

// ask sends a first frame and waits for the answer.
func (v *visit) ask(c net.Conn, first wire.Header) answer {
	if _, err := c.Write(first[:]); err != nil {
		return answer{what: gotEnd}
	}
	var b [wire.HeaderSize]byte
	n := 0
	for n < len(b) {
		m, err := c.Read(b[n:])
		n += m
		if a := recognise(b[:n]); a.what != gotNone {
			return a
		}
		switch {
		case err == nil:
		case n > 0:
			return other(b[:n])
		case errors.Is(err, os.ErrDeadlineExceeded):
			return answer{what: gotSilence}
		default:
			return answer{what: gotEnd} // an end, a reset, an alert
		}
	}
	return frame((*wire.Header)(b[:]))
}

// textMin is how many printable bytes make a protocol of words.
const textMin = 5

// recognise knows what is no frame by its first bytes. A frame of an acceptor
// begins with zeros (§1.8).
func recognise(b []byte) answer {
	text := strings.TrimRight(string(b), "\r\n\x00")
	switch {
	case len(b) < textMin:
		return answer{}
	case strings.HasPrefix(text, "HTTP/"):
		return answer{what: gotHTTP}
	case isRecord(b):
		return answer{what: gotOther, text: "a TLS record"}
	case isText(b[:textMin]):
		return answer{what: gotOther, text: quote(text)}
	}
	return answer{}
}

func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

func other(b []byte) answer { return answer{what: gotOther, text: quote(string(b))} }

// frame knows an answer of 256 bytes.
func frame(h *wire.Header) answer {
	switch h.Command() {
	case wire.ReplicaChallenge:
		if h[wire.HelloStatus] != byte(wire.StatusOk) {
			return answer{what: gotReject, frame: *h}
		}
		return answer{what: gotChallenge, frame: *h}
	case wire.Reply, wire.Eviction:
		return answer{what: gotClient}
	}
	return answer{what: gotOther, text: "a frame with command " + h.Command().String()}
}

// pingCode is the client command that Iggy answers before any sign-in.
const pingCode = 1

// ping asks what kept silent on a Hello whether it is a client port: that one
// ignores a Hello and waits. It is the first frame of a connection of its own: an
// acceptor that is only slow refuses it, since it is no Hello (§2.4).
func (v *visit) ping() answer {
	silent := answer{what: gotSilence}
	c, err := v.connect(v.Timeout)
	if err != nil {
		return silent
	}
	defer c.Close()
	var h wire.Header
	h.SetCommand(wire.Request)
	wire.Size.Set(&h, wire.HeaderSize)
	copy(h[wire.RequestClient:wire.RequestChecksum], wire.ProbeMark+"1") // any id but zero
	wire.RequestOperation.Set(&h, uint8(wire.OpNonReplicated))
	wire.RequestCode.Set(&h, pingCode)
	if a := v.ask(c, h); a.what != gotEnd {
		return a
	}
	return silent
}
