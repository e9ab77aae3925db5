package tlspeer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
)

// The handshake messages that may follow the handshake.
const (
	messageTicket    = 4
	messageKeyUpdate = 24
)

// Read hands out application data. It follows the other side's key updates and
// lets a requested one be answered; session tickets are skipped. After a
// close_notify it returns io.EOF, after an end without one io.ErrUnexpectedEOF,
// after another alert an error that wraps its tls.AlertError.
func (c *Conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for len(c.pending) == 0 {
		if c.readErr != nil {
			return 0, c.readErr
		}
		if len(p) == 0 {
			return 0, nil
		}
		err := c.next()
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			return 0, err // nothing was taken out of the buffer
		}
		c.readErr = err
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

// next reads and judges one record.
func (c *Conn) next() error {
	head, err := c.buffered.Peek(recordHead)
	if err != nil {
		return unexpected(err)
	}
	size := int(head[3])<<8 | int(head[4])
	if head[0] != typeApplication || head[1] != 3 || head[2] != 3 || size > maxCipher {
		return fmt.Errorf("tlspeer: got a record that begins with % x, want a protected one of at most %d bytes", head, maxCipher)
	}
	record, err := c.buffered.Peek(recordHead + size)
	if err != nil {
		return unexpected(err)
	}
	typ, plain, err := c.in.open(c.plain[:0], record)
	if err != nil {
		return err
	}
	c.plain = plain
	if _, err := c.buffered.Discard(len(record)); err != nil {
		return err
	}
	if typ != typeHandshake && len(c.messages) > 0 {
		return fmt.Errorf("tlspeer: got content type %d inside a handshake message, want its rest", typ)
	}
	switch typ {
	case typeApplication:
		c.pending = plain
		return nil
	case typeHandshake:
		return c.handshake(plain)
	case typeAlert:
		return alert(plain)
	}
	return fmt.Errorf("tlspeer: got content type %d, want application data, a handshake message or an alert", typ)
}

// unexpected makes an end without close_notify visible: the test that uses this
// package wants to know a cut from an end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// alert turns an alert into the error it means.
func alert(body []byte) error {
	if len(body) != 2 {
		return fmt.Errorf("tlspeer: got an alert of %d bytes, want 2", len(body))
	}
	if body[1] == 0 {
		return io.EOF
	}
	return fmt.Errorf("tlspeer: got an alert: %w", tls.AlertError(body[1]))
}

// handshake collects messages, which may be cut anywhere between records, and
// obeys the whole ones.
func (c *Conn) handshake(part []byte) error {
	c.messages = append(c.messages, part...)
	for len(c.messages) >= 4 {
		size := int(c.messages[1])<<16 | int(c.messages[2])<<8 | int(c.messages[3])
		if size > maxPlain {
			return fmt.Errorf("tlspeer: got a handshake message of %d bytes, want at most %d", size, maxPlain)
		}
		if len(c.messages) < 4+size {
			return nil
		}
		typ, body := c.messages[0], c.messages[4:4+size]
		c.messages = c.messages[4+size:]
		switch typ {
		case messageTicket:
		case messageKeyUpdate:
			if err := c.follow(body); err != nil {
				return err
			}
		default:
			return fmt.Errorf("tlspeer: got handshake message %d, want a key update or a ticket", typ)
		}
	}
	return nil
}

// follow switches the receiving key (RFC 8446 §4.6.3).
func (c *Conn) follow(body []byte) error {
	if len(body) != 1 || body[0] > 1 {
		return fmt.Errorf("tlspeer: got a key update % x, want 00 or 01", body)
	}
	if len(c.messages) > 0 {
		return errors.New("tlspeer: got bytes behind a key update under the old key, want none")
	}
	if err := c.in.update(); err != nil {
		return err
	}
	c.updates.Add(1)
	if body[0] == 1 && c.owed.CompareAndSwap(false, true) {
		// Not from here: the reader must go on reading, or two ends that both
		// wait for room to write would wait for ever.
		c.answers.Go(c.answer)
	}
	return nil
}
