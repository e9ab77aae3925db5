package tlspeer

import "errors"

// Write sends application data in records of at most 16 KiB, an owed key update
// before it. Every record is one write to the raw connection.
func (c *Conn) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		part := p[written:min(len(p), written+maxPlain)]
		if err := c.writeData(part); err != nil {
			return written, err
		}
		written += len(part)
	}
	return written, nil
}

// writeData sends one record of data. The lock is held for one record only, so
// that an answer never waits for all of a large write.
func (c *Conn) writeData(part []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.payOwed(); err != nil {
		return err
	}
	return c.send(typeApplication, part)
}

// KeyUpdate tells the other side that our next record has the next key, and asks
// it to do the same when request is set (RFC 8446 §4.6.3). The answer is counted
// by Updates when Read comes upon it. crypto/tls ends a connection on more than
// sixteen updates in a row without data between them.
func (c *Conn) KeyUpdate(request bool) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.sendUpdate(request)
}

// CloseNotify says that nothing more will be sent. Reading goes on; the raw
// connection stays open.
func (c *Conn) CloseNotify() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.send(typeAlert, []byte{1, 0}); err != nil {
		return err
	}
	c.writeErr = errors.New("tlspeer: got a write after close_notify, want none")
	return nil
}

// answer pays what is owed, unless a writer has done so. Its error is kept for
// the next writer.
func (c *Conn) answer() {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.payOwed()
}

// payOwed sends the update that the other side asked for; writing is held. One
// answer serves all requests that came before it.
func (c *Conn) payOwed() error {
	if !c.owed.Swap(false) {
		return nil
	}
	return c.sendUpdate(false)
}

// sendUpdate sends a KeyUpdate under the old key and switches; writing is held.
func (c *Conn) sendUpdate(request bool) error {
	message := []byte{messageKeyUpdate, 0, 0, 1, 0}
	if request {
		message[4] = 1
	}
	if err := c.send(typeHandshake, message); err != nil {
		return err
	}
	if err := c.out.update(); err != nil {
		c.writeErr = err
	}
	return c.writeErr
}

// send writes one record; writing is held.
func (c *Conn) send(typ byte, plain []byte) error {
	if c.writeErr != nil {
		return c.writeErr
	}
	c.record = c.out.seal(c.record[:0], typ, plain)
	_, c.writeErr = c.Conn.Write(c.record)
	return c.writeErr
}
