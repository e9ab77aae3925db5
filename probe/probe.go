package probe

import (
	"context"
	"crypto/tls"
	"net/netip"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// The securities that an address can be expected to speak.
const (
	Plaintext = "plaintext"
	PSK       = "psk"
	TLS       = "tls"
)

// DefaultTimeout bounds each step.
const DefaultTimeout = 2 * time.Second

// tlsTimeout bounds the TLS attempt where TLS is not expected: a plaintext replica
// may take a ClientHello for the beginning of a long frame and wait for the rest.
const tlsTimeout = 1500 * time.Millisecond

// Options say what to probe and what is expected there. Only Address is needed;
// what is not given is reported, not judged.
type Options struct {
	// Address is HOST:PORT.
	Address string
	// Target is whose acceptor it should be, nil when that is not known. Nobody
	// may dial replica 0: there is then no proof of its secret.
	Target *uint8
	// Dialer is the id that the acceptor is asked for a Challenge with. One that
	// is not below the acceptor's is replaced by 0.
	Dialer uint8
	// Cluster is the expected cluster, zero when that is not known; ClusterName
	// is for the report.
	Cluster     wire.ClusterID
	ClusterName string
	// Expected is the security, empty for any.
	Expected string
	// Keys verify the acceptor's MAC; nil leaves it unjudged.
	Keys *mac.Keyring
	// TLS says whom we trust, by RootCAs or InsecureSkipVerify (self-signed); nil,
	// or neither of them, leaves the chain unjudged.
	TLS *tls.Config
	// ServerName is what the certificate must be for, and the SNI when it is a DNS
	// name; empty leaves it unjudged.
	ServerName string
	// Explain turns a failed TLS handshake into a word of the vocabulary of
	// endings and a sentence; nil uses the error itself.
	Explain func(error) (word, detail string)
	// Timeout bounds each step, DefaultTimeout when 0.
	Timeout time.Duration
	// Now is the clock that certificates are held against, time.Now when nil.
	Now func() time.Time
	// Lookup resolves a host, the system's resolver when nil.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// visit is one probe under way.
type visit struct {
	Options
	Report
	ctx    context.Context
	addr   netip.AddrPort // what was reached; every step goes to the same
	opened *conn          // a connection to it that nothing was said on yet
	// The two channels that a Hello was sent on.
	secured, bare channel
}

// channel is what was learnt over TLS, or without it.
type channel struct {
	tls     bool
	tried   bool // a Hello was sent
	spoken  bool // a TLS record came back
	answer  answer
	refused error // the failed TLS handshake
	state   tls.ConnectionState
}

// Run probes one address. It ends when ctx does, and after a few times Timeout.
func Run(ctx context.Context, o Options) Report {
	v := &visit{Options: o, ctx: ctx, Report: Report{Address: o.Address, What: WhatUnknown, Kind: KindUnknown}}
	v.defaults()
	if v.reach() {
		v.secure()
		v.plain()
		if ctx.Err() == nil {
			v.judge()
		}
	}
	if ctx.Err() != nil {
		v.unknown(CodeAcceptor, "", "the probe was ended before it was done", "")
	}
	return v.Report
}

func (v *visit) defaults() {
	if v.Timeout == 0 {
		v.Timeout = DefaultTimeout
	}
	if v.Now == nil {
		v.Now = time.Now
	}
	if v.Lookup == nil {
		v.Lookup = lookup
	}
	if v.Explain == nil {
		v.Explain = func(err error) (string, string) {
			return "tls_alert", "expected a TLS 1.3 handshake, found it broken (" + quote(err.Error()) + "): look at the log of the other side"
		}
	}
}

// plain sends a Hello without TLS, where TLS has not settled what is there or
// where another security is expected.
func (v *visit) plain() {
	expectsPlain := v.Expected == PSK || v.Expected == Plaintext
	if v.secured.answer.what == gotHTTP || v.secured.spoken && !expectsPlain {
		return
	}
	c, err := v.connect(v.Timeout)
	if err != nil {
		return
	}
	defer c.Close()
	v.bare.tried = true
	v.bare.answer = v.ask(c, v.stranger())
	if v.bare.answer.what == gotSilence {
		v.bare.answer = v.ping()
	}
}
