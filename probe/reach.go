package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// reach resolves the name and finds an address that takes connections.
func (v *visit) reach() bool {
	addrs, port, ok := v.resolve()
	if !ok {
		return false
	}
	var first error
	for _, addr := range addrs {
		v.addr = netip.AddrPortFrom(addr, port)
		c, err := v.connect(v.Timeout)
		if err == nil {
			v.opened = c
			v.ok(CodeTCP, "connected to "+v.addr.String())
			return true
		}
		if first == nil {
			first = err
		}
	}
	if v.ctx.Err() == nil {
		v.unreached(first, len(addrs))
	}
	return false
}

// resolve takes the address apart and looks its name up.
func (v *visit) resolve() ([]netip.Addr, uint16, bool) {
	host, text, err := net.SplitHostPort(v.Options.Address)
	port, badPort := strconv.ParseUint(text, 10, 16)
	if err != nil || badPort != nil || port == 0 || host == "" {
		v.fault(CodeDNS, "dns_failed", "HOST:PORT", quote(v.Options.Address), "write for example 10.0.1.7:9190")
		v.What = WhatNoName
		return nil, 0, false
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, uint16(port), true
	}
	ctx, cancel := context.WithTimeout(v.ctx, v.Timeout)
	defer cancel()
	addrs, err := v.Lookup(ctx, host)
	if err != nil || len(addrs) == 0 {
		found := "none"
		if err != nil {
			found = err.Error()
		}
		v.fault(CodeDNS, "dns_failed", "an address of "+quote(host), found, "look at the name and the resolver")
		v.What = WhatNoName
		return nil, 0, false
	}
	v.ok(CodeDNS, fmt.Sprintf("%s is %s", host, list(addrs)))
	return addrs, uint16(port), true
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// list shows at most four addresses.
func list(addrs []netip.Addr) string {
	var all []string
	for i, a := range addrs {
		if i == 4 {
			all = append(all, fmt.Sprintf("%d more", len(addrs)-i))
			break
		}
		all = append(all, a.Unmap().String())
	}
	return strings.Join(all, ", ")
}

// unreached explains why no connection was made.
func (v *visit) unreached(err error, of int) {
	ending, do := "dial_refused", "look whether the gate or replica runs there, and at the address"
	found := "connection refused"
	v.What = WhatRefused
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
	case isTimeout(err):
		v.What, ending = WhatFiltered, "dial_timeout"
		found = fmt.Sprintf("no answer within %v", v.Timeout)
		do = "look at firewalls and network policies between, and at the address"
	default:
		v.What, found = WhatUnreachable, err.Error()
		do = "look at the routes between, and at the address"
	}
	if of > 1 {
		found += fmt.Sprintf(", nor at any other of %d addresses", of)
	}
	v.fault(CodeTCP, ending, "a connection to "+v.Options.Address, found, do)
}

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// connect gives a fresh connection to what was reached, to be used within a time.
func (v *visit) connect(within time.Duration) (*conn, error) {
	if c := v.opened; c != nil { // nothing has been said on it
		v.opened = nil
		v.allow(c, within)
		return c, nil
	}
	ctx, cancel := context.WithTimeout(v.ctx, within)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", v.addr.String())
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(v.ctx, func() { c.Close() })
	fresh := &conn{Conn: c, stop: stop}
	v.allow(fresh, within)
	return fresh, nil
}

// allow gives what is done next on a connection its time.
func (v *visit) allow(c net.Conn, within time.Duration) { c.SetDeadline(time.Now().Add(within)) }

// conn remembers the first bytes that came, by which TLS and HTTP are known
// whatever crypto/tls makes of them.
type conn struct {
	net.Conn
	stop  func() bool
	first []byte
}

// firstMax is how much is remembered.
const firstMax = 64

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if room := firstMax - len(c.first); room > 0 {
		c.first = append(c.first, b[:min(n, room)]...)
	}
	return n, err
}

func (c *conn) Close() error {
	c.stop()
	return c.Conn.Close()
}
