package proxy

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"sync"
)

// records stands between crypto/tls and a leg's stream, so that many records cost
// one system call. crypto/tls writes each record by itself and reads a header and
// a body at a time.
//
// Going out, what is written between begin and flush is gathered. One mutex orders
// every byte that the TLS stack puts on the socket: an answer to a KeyUpdate,
// which comes from the reading side, takes its place among the records.
//
// Coming in, as much is read as there is, and crypto/tls is handed no more than
// the record it is at. So it never holds a surplus, and ready can tell whether a
// further whole record is here and a read of it will not wait.
type records struct {
	*stream

	in         []byte
	start, end int
	header     [recordHeader]byte
	headerLen  int // bytes of the current record's header that have been handed out
	left       int // bytes of the current record's body that have not
	waitless   bool
	budget     int // bytes that may still be handed out in a handshake; 0: as many as come

	mu        sync.Mutex
	out       []byte // nil while nothing is gathered
	gathering bool
}

// The bounds of what is read and gathered at once. 256 KiB is sixteen records.
const (
	recordsInMin  = 4 << 10
	recordsInMax  = 256 << 10
	recordsOutMax = 256 << 10
	recordMax     = 16 << 10 // plaintext bytes of one record
)

// errFlight is a handshake that goes on for longer than any replica's.
var errFlight = errors.New("proxy: got a TLS handshake that does not end, want a Finished")

// Read implements net.Conn for crypto/tls.
func (r *records) Read(b []byte) (int, error) {
	if r.start == r.end {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	if r.left == 0 && r.headerLen == recordHeader {
		r.headerLen = 0 // the record before has been handed out
	}
	limit := r.left
	if r.headerLen < recordHeader {
		limit = recordHeader - r.headerLen
	}
	n := copy(b[:min(len(b), limit)], r.in[r.start:r.end])
	if r.budget > 0 {
		if r.budget -= n; r.budget <= 0 {
			return 0, errFlight
		}
	}
	if r.headerLen < recordHeader {
		r.headerLen += copy(r.header[r.headerLen:], r.in[r.start:r.start+n])
		if r.headerLen == recordHeader {
			r.left = int(binary.BigEndian.Uint16(r.header[3:]))
		}
	} else {
		r.left -= n
	}
	r.start += n
	return n, nil
}

// readOn reads a record that is here and waits for no other: one without
// application data, a KeyUpdate for example, would make crypto/tls go on to the
// next. It returns 0 when there was no data.
func (r *records) readOn(c net.Conn, b []byte) int {
	r.waitless = true
	n, _ := c.Read(b) // an error that stays comes again at the next read
	r.waitless = false
	return n
}

// fill reads what there is. The memory follows the traffic.
func (r *records) fill() error {
	switch {
	case r.waitless:
		return os.ErrDeadlineExceeded // which crypto/tls takes for a passing one
	case r.in == nil:
		r.in = make([]byte, recordsInMin)
	case r.end == len(r.in) && len(r.in) < recordsInMax:
		r.in = make([]byte, 4*len(r.in))
	}
	n, err := r.stream.Read(r.in)
	r.start, r.end = 0, n
	if n > 0 {
		return nil // an error comes again at the next read
	}
	return err
}

// ready reports whether a whole record is here that crypto/tls has seen nothing of.
func (r *records) ready() bool {
	if r.left != 0 || r.headerLen != recordHeader && r.headerLen != 0 || r.end-r.start < recordHeader {
		return false
	}
	return r.end-r.start-recordHeader >= int(binary.BigEndian.Uint16(r.in[r.start+3:]))
}

// heard reports whether the other end has begun a record, of any of the four types
// that there are.
func (r *records) heard() bool {
	const first, last = 0x14, 0x17
	return r.header[0] >= first && r.header[0] <= last && r.header[1] == recordMajor
}

// Write implements net.Conn for crypto/tls.
func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gathering {
		return r.stream.Write(b)
	}
	r.out = append(r.out, b...)
	if len(r.out) >= recordsOutMax {
		return len(b), r.put()
	}
	return len(b), nil
}

// begin gathers what is written from here on.
func (r *records) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gathering = true
}

// flush writes what has been gathered.
func (r *records) flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gathering = false
	return r.put()
}

func (r *records) put() error {
	if len(r.out) == 0 {
		return nil
	}
	_, err := r.stream.Write(r.out)
	r.out = r.out[:0]
	return err
}
