package tlspeer

import (
	"encoding/hex"
	"io"
	"net"
	"strings"
)

// The labels of the key log that carry the first application secrets.
const (
	clientSecret = "CLIENT_TRAFFIC_SECRET_0"
	serverSecret = "SERVER_TRAFFIC_SECRET_0"
)

// keyLog catches the secrets of one handshake and passes each line on. It is
// written inside the handshake only.
type keyLog struct {
	secrets map[string][]byte
	next    io.Writer
}

// newKeyLog makes one in front of next, which may be nil.
func newKeyLog(next io.Writer) *keyLog {
	return &keyLog{secrets: make(map[string][]byte), next: next}
}

// Write takes one line: label, client random, secret.
func (k *keyLog) Write(line []byte) (int, error) {
	if fields := strings.Fields(string(line)); len(fields) == 3 {
		if secret, err := hex.DecodeString(fields[2]); err == nil {
			k.secrets[fields[0]] = secret
		}
	}
	if k.next != nil {
		return k.next.Write(line)
	}
	return len(line), nil
}

// get returns a secret, nil if it was not logged.
func (k *keyLog) get(label string) []byte { return k.secrets[label] }

// oneRecord never reads beyond the record it is in. crypto/tls asks for more
// than it needs, and whatever it had in its buffer would be lost at the
// take-over: data that the other side sends right behind its Finished.
type oneRecord struct {
	net.Conn
	head [recordHead]byte
	have int // bytes of head read
	left int // bytes of the body to come
}

// Read returns bytes of the current record only.
func (o *oneRecord) Read(p []byte) (int, error) {
	if o.have < recordHead {
		n, err := o.Conn.Read(p[:min(len(p), recordHead-o.have)])
		o.have += copy(o.head[o.have:], p[:n])
		if o.have == recordHead {
			o.left = int(o.head[3])<<8 | int(o.head[4])
			o.next()
		}
		return n, err
	}
	n, err := o.Conn.Read(p[:min(len(p), o.left)])
	o.left -= n
	o.next()
	return n, err
}

// next begins a new record when the current one is read.
func (o *oneRecord) next() {
	if o.left == 0 {
		o.have = 0
	}
}

// between reports that no record has been begun.
func (o *oneRecord) between() bool { return o.have == 0 }
