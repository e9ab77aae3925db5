package standin

import (
	"time"

	"github.com/replgate/replgate/wire"
)

// The outcomes of 27 and 29 that a stand-in gives (§1.13).
const (
	outcomeOk            = 0
	outcomeNotPrimary    = 1
	registerPipelineFull = 3
	logoutPipelineFull   = 2
)

// origin is the replica that waits for a forwarded operation.
type origin struct {
	to     uint8
	result wire.Command
	nonce  wire.U128
	client wire.U128
}

// SignResult is the answer to a forwarded SignIn or SignOut.
type SignResult struct {
	Client  wire.U128
	Out     bool   // of a SignOut
	Session uint64 // of a SignIn; the commit point of a SignOut
	Outcome uint8  // 0 is Ok
}

// SignIn registers a client: at the metadata primary as an operation of its own,
// anywhere else forwarded to it (26). TakeResults has the forwarded answers; like
// Iggy's, a question that gets lost is not asked again.
func (c *Core) SignIn(client wire.U128, user uint32, now time.Time) error {
	g := c.groups[0]
	if g.leads() {
		_, err := g.submit(Op{Group: g.key, Operation: wire.OpRegister, Client: client, User: user}, entry{since: now}, now)
		return err
	}
	return g.forward(wire.ForwardRegister, client, func(h *wire.Header) { wire.ForwardUser.Set(h, user) })
}

// SignOut ends the session of a client that signed in.
func (c *Core) SignOut(client wire.U128, session, request uint64, now time.Time) error {
	g := c.groups[0]
	if g.leads() {
		_, err := g.submit(Op{Group: g.key, Operation: wire.OpLogout, Client: client, Request: request}, entry{since: now}, now)
		return err
	}
	return g.forward(wire.ForwardLogout, client, func(h *wire.Header) {
		wire.ForwardSession.Set(h, session)
		wire.ForwardRequest.Set(h, request)
	})
}

func (g *group) forward(command wire.Command, client wire.U128, set func(*wire.Header)) error {
	if g.status != normal {
		return ErrNotPrimary
	}
	nonce := g.c.nonce()
	g.c.forwards[nonce.Lo] = client
	g.c.send(g.c.primary(g.view), g.c.control(command, g.view, nil, func(h *wire.Header) {
		wire.ForwardClient.Set(h, client)
		wire.ForwardNonce.Set(h, nonce)
		set(h)
	}))
	return nil
}

// onForward takes the operation of a backup's client.
func (g *group) onForward(from uint8, h *wire.Header, now time.Time) {
	o := &origin{to: from, result: wire.ForwardRegisterResult, nonce: wire.ForwardNonce.Get(h), client: wire.ForwardClient.Get(h)}
	op := Op{Group: g.key, Operation: wire.OpRegister, Client: o.client, User: wire.ForwardUser.Get(h)}
	full := uint8(registerPipelineFull)
	if h.Command() == wire.ForwardLogout {
		o.result, full = wire.ForwardLogoutResult, logoutPipelineFull
		op = Op{Group: g.key, Operation: wire.OpLogout, Client: o.client, Request: wire.ForwardRequest.Get(h)}
	}
	switch _, err := g.submit(op, entry{origin: o}, now); err {
	case nil:
	case ErrBusy:
		o.answer(g, full, 0)
	default:
		o.answer(g, outcomeNotPrimary, 0)
	}
}

// done tells the origin that its operation is committed as op.
func (o *origin) done(g *group, op uint64) { o.answer(g, outcomeOk, op) }

func (o *origin) answer(g *group, outcome uint8, op uint64) {
	g.c.send(o.to, g.c.control(o.result, g.view, nil, func(h *wire.Header) {
		wire.ResultNonce.Set(h, o.nonce)
		wire.ResultClient.Set(h, o.client)
		wire.ResultOutcome.Set(h, outcome)
		if o.result == wire.ForwardRegisterResult {
			wire.RegisterEpoch.Set(h, op)
		} else {
			wire.LogoutCommit.Set(h, op)
		}
	}))
}

// onResult takes the answer to a forwarded operation. A nonce that is ours and
// unknown was given out in a former life.
func (c *Core) onResult(h *wire.Header) error {
	nonce, client := wire.ResultNonce.Get(h), wire.ResultClient.Get(h)
	if nonce.Hi != uint64(c.cfg.ID) {
		return errUnasked
	}
	asked, ok := c.forwards[nonce.Lo]
	if !ok {
		return nil
	}
	if asked != client {
		return errUnasked
	}
	c.forwards[nonce.Lo] = wire.U128{}
	out := h.Command() == wire.ForwardLogoutResult
	session := wire.RegisterEpoch.Get(h)
	if out {
		session = wire.LogoutCommit.Get(h)
	}
	c.results = append(c.results, SignResult{Client: client, Out: out, Session: session, Outcome: wire.ResultOutcome.Get(h)})
	return nil
}

// TakeResults returns the answers to forwarded sign-ins and sign-outs since the
// last call.
func (c *Core) TakeResults() []SignResult {
	results := c.results
	c.results = nil
	return results
}
