// Package tlspeer is test equipment: an end of a TLS 1.3 connection that can
// update its keys. rustls asks for new keys after 2^24 records (§7.8), crypto/tls
// answers such a request and can never make one, so no test of stock ends
// reaches that path.
//
// crypto/tls does the handshake; then this package takes the connection over
// with the two traffic secrets and speaks the record layer itself (RFC 8446 §5.2,
// §7.2, §7.3). It never stands on the way of a byte of the product, never resumes
// a session and knows AES-GCM only.
package tlspeer

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// Conn is one end after the handshake. It is a net.Conn: one goroutine may read
// while others write. Deadlines and addresses are the raw connection's; a read
// that a deadline cut can be repeated, a write cannot.
type Conn struct {
	net.Conn
	state tls.ConnectionState

	reading  sync.Mutex // guards what follows
	buffered *bufio.Reader
	in       half
	plain    []byte // the memory behind pending
	pending  []byte // application data not yet handed out
	messages []byte // the beginning of a handshake message
	readErr  error  // final

	writing  sync.Mutex // orders every byte we send, answers too
	out      half
	record   []byte // the memory of one record
	writeErr error  // final: after part of a record nothing fits any more

	updates atomic.Int64 // receiving keys replaced
	owed    atomic.Bool  // the other side asked for our update
	answers sync.WaitGroup
}

// Dial runs the handshake as a client over raw and takes the connection over.
// cfg is not changed; TLS 1.3 is required whatever it says. On an error raw is
// left open.
func Dial(raw net.Conn, cfg *tls.Config) (*Conn, error) {
	return begin(raw, cfg, tls.Client, clientSecret, serverSecret)
}

// Accept does the same as a server. It issues no session tickets, since they
// would be records sent before the take-over.
func Accept(raw net.Conn, cfg *tls.Config) (*Conn, error) {
	return begin(raw, cfg, tls.Server, serverSecret, clientSecret)
}

// begin is the handshake in the role of wrap; mine and theirs name the secrets
// that the two ends send under.
func begin(raw net.Conn, cfg *tls.Config, wrap func(net.Conn, *tls.Config) *tls.Conn, mine, theirs string) (*Conn, error) {
	if cfg == nil {
		return nil, errors.New("tlspeer: got no configuration, want one")
	}
	cfg = cfg.Clone()
	cfg.MinVersion = tls.VersionTLS13
	cfg.SessionTicketsDisabled = true
	secrets := newKeyLog(cfg.KeyLogWriter)
	cfg.KeyLogWriter = secrets
	one := &oneRecord{Conn: raw}
	handshake := wrap(one, cfg)
	if err := handshake.Handshake(); err != nil {
		return nil, fmt.Errorf("tlspeer: handshake: %w", err)
	}
	if !one.between() {
		return nil, errors.New("tlspeer: got the end of the handshake inside a record, want it between two")
	}
	c := &Conn{Conn: raw, state: handshake.ConnectionState(), buffered: bufio.NewReaderSize(raw, maxRecord)}
	var err error
	if c.out, err = newHalf(c.state.CipherSuite, secrets.get(mine)); err != nil {
		return nil, err
	}
	if c.in, err = newHalf(c.state.CipherSuite, secrets.get(theirs)); err != nil {
		return nil, err
	}
	return c, nil
}

// State returns what the handshake agreed on.
func (c *Conn) State() tls.ConnectionState { return c.state }

// Exporter returns n bytes of keying material, without a context. Key updates do
// not change it (RFC 8446 §7.5).
func (c *Conn) Exporter(label string, n int) ([]byte, error) {
	return c.state.ExportKeyingMaterial(label, nil, n)
}

// Updates returns how often the other side has replaced the keys it sends under.
func (c *Conn) Updates() int { return int(c.updates.Load()) }

// Close closes the connection without a close_notify, ends a Read that waits,
// and waits for an answer that is still being written.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.reading.Lock()
	c.readErr, c.pending = net.ErrClosed, nil
	c.reading.Unlock()
	c.answers.Wait() // no reader can begin another one now
	return err
}
