package probe

import (
	"crypto/tls"
	"fmt"
	"strconv"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// judge turns what came back into findings.
func (v *visit) judge() {
	c := v.acceptor()
	expectedOnly := v.Expected == TLS && c == nil && v.bare.answer.what != gotEnd // else the security says it
	if c == &v.secured || c == nil && v.secured.spoken || expectedOnly {
		v.judgeTLS()
	}
	if c == nil {
		v.judgeOther()
		return
	}
	v.judgeAcceptor(c)
}

// acceptor is the channel on which one has shown itself: the expected one where a
// gate takes both.
func (v *visit) acceptor() *channel {
	order := []*channel{&v.secured, &v.bare}
	if v.Expected == PSK || v.Expected == Plaintext {
		order = []*channel{&v.bare, &v.secured}
	}
	for _, c := range order {
		if c.answer.what == gotReject {
			return c
		}
	}
	return nil
}

// judgeTLS reports version, protocol and certificates.
func (v *visit) judgeTLS() {
	s := &v.secured
	if s.refused != nil {
		v.noTLS()
		return
	}
	v.ok(CodeTLS, fmt.Sprintf("%s, %s", tls.CipherSuiteName(s.state.CipherSuite), s.state.CurveID))
	v.ok(CodeTLSVersion, tls.VersionName(s.state.Version))
	if s.state.NegotiatedProtocol == alpn {
		v.ok(CodeTLSALPN, quote(alpn))
	} else {
		v.fault(CodeTLSALPN, "", quote(alpn), "none", "look what ends TLS there: replicas and gates all agree on it")
	}
	v.certificate(s.state)
}

// withoutTLS is the ending of a gate that dials with TLS what does not speak it.
func (v *visit) withoutTLS() string {
	if v.Expected != TLS || v.secured.refused == nil {
		return ""
	}
	word, _ := v.Explain(v.secured.refused)
	return word
}

// noTLS explains a handshake that failed.
func (v *visit) noTLS() {
	s := &v.secured
	word, detail := v.Explain(s.refused)
	switch {
	case !s.spoken && s.answer.what == gotHTTP:
		v.fault(CodeTLS, word, "TLS", "HTTP", "look at the port")
	case !s.spoken && isTimeout(s.refused):
		v.fault(CodeTLS, word, "TLS", "silence on a ClientHello", "look whether a TLS port listens there")
	case !s.spoken:
		v.fault(CodeTLS, word, "TLS", "an end or other bytes on a ClientHello", "look whether cluster.tls is enabled there")
	case word == "tls_version":
		v.fault(CodeTLSVersion, word, "TLS 1.3", "a TLS server that does not speak it", "allow TLS 1.3 there")
	case word == "tls_alpn":
		v.fault(CodeTLSALPN, word, quote(alpn), "a TLS server of other protocols", "look at the port: it is no replica's")
	default:
		v.fault(CodeTLS, word, "", detail, "")
	}
}

// judgeOther reports what is no acceptor that requires the MAC.
func (v *visit) judgeOther() {
	const acceptor = "a replica acceptor"
	a := v.bare.answer
	if v.secured.spoken || a.what == gotNone {
		a = v.secured.answer
	}
	switch {
	case a.what == gotHTTP || v.secured.answer.what == gotHTTP:
		v.What = WhatHTTP
		v.fault(CodeAcceptor, "", acceptor, "an HTTP server", "look at the port")
	case a.what == gotClient:
		v.What = WhatClientPort
		v.fault(CodeAcceptor, "", acceptor, "an Iggy server's port for clients", "use its tcp_replica port")
	case v.secured.spoken && v.secured.tried && v.secured.state.NegotiatedProtocol == alpn:
		v.fault(CodeAcceptor, "", "a reject of a Hello that nobody may send", words(a)+", inside TLS of a replica",
			"look at its log: over TLS a replica requires the MAC")
	case v.secured.spoken:
		v.What = WhatTLS
		v.fault(CodeAcceptor, "", acceptor, "a TLS server that is none", "look at the port")
	case a.what == gotEnd:
		v.judgePlaintext()
	case a.what == gotSilence && v.Expected == "":
		v.unknown(CodeAcceptor, acceptor, words(a), "look what listens there: it is no gate, and no replica that works")
	default:
		v.fault(CodeAcceptor, "", acceptor, words(a), "look what listens there")
	}
}

// words says what answered.
func words(a answer) string {
	switch a.what {
	case gotSilence:
		return "silence"
	case gotEnd:
		return "an end without a byte"
	case gotReject:
		return "a reject with status " + a.status().String()
	case gotChallenge:
		return "a Challenge"
	case gotOther:
		return a.text
	}
	return "nothing"
}

// judgePlaintext reports a port that closes on a Hello without a byte. A plaintext
// acceptor does so, whatever is wrong with the Hello (§7.1), and tells nothing.
func (v *visit) judgePlaintext() {
	v.What = WhatCloses
	const closes = "a port that closes on a Hello without a byte, as a plaintext replica does"
	if v.Expected == PSK || v.Expected == TLS {
		v.fault(CodeSecurity, v.withoutTLS(), v.Expected, closes, "look whether cluster.auth is enabled there, and at the port")
	} else {
		v.unknown(CodeAcceptor, "a replica acceptor", closes, "look at the port: other servers close on it too")
	}
	for _, code := range []string{CodeCluster, CodeReplica, CodeDirection, CodeSecret} {
		v.unknown(code, "", "not knowable", "a plaintext acceptor does not tell it")
	}
}

// judgeAcceptor reports an acceptor that requires the MAC.
func (v *visit) judgeAcceptor(c *channel) {
	status := c.answer.status()
	claimed, cluster := wire.Replica.Get(&c.answer.frame), c.answer.frame.ClusterID()
	v.What = WhatPSKAcceptor
	found := PSK
	if c.tls {
		v.What, found = WhatTLSAcceptor, TLS
	}
	v.ok(CodeAcceptor, "a replica acceptor that requires the MAC")
	if v.Expected == "" || v.Expected == found {
		v.ok(CodeSecurity, found)
	} else {
		v.fault(CodeSecurity, v.withoutTLS(), v.Expected, found, "make both sides speak the same")
	}
	known := v.cluster(status, cluster)
	var p proof
	if known {
		p = v.challenge(c, cluster, claimed)
	}
	v.replica(claimed, p)
	v.direction(known, claimed, p)
	v.secret(known, claimed, p)
	v.kind(c)
}

// cluster reports whose it is, and whether a Hello for that cluster makes sense:
// the cluster is judged before the direction (§7.1).
func (v *visit) cluster(status wire.Status, id wire.ClusterID) (known bool) {
	expected := fmt.Sprintf("%s, id %x", quote(v.ClusterName), v.Cluster)
	says := fmt.Sprintf("id %x, by its own word", id)
	switch {
	case status == wire.StatusDirectionalRule:
		v.ok(CodeCluster, expected)
		return true
	case status == wire.StatusClusterMismatch && v.Cluster == wire.ClusterID{}:
		v.unknown(CodeCluster, "", says, "no cluster name was given")
		return true
	case status == wire.StatusClusterMismatch:
		v.fault(CodeCluster, "rejected", expected, says, "compare cluster.name on both sides")
	default:
		v.unknown(CodeCluster, expected, "a reject with status "+status.String(), "look at its version")
	}
	return false
}

// replica reports which one it is. Its id stands in the MAC.
func (v *visit) replica(claimed uint8, p proof) {
	word := ", by its own word"
	if p.slot != mac.SlotNone {
		word = ", proven by its MAC"
	}
	found := "replica " + decimal(claimed) + word
	if v.Target != nil && *v.Target != claimed {
		v.fault(CodeReplica, "mac_mismatch", "replica "+decimal(*v.Target), found, "look at the address, and at replica_id there")
		return
	}
	v.ok(CodeReplica, found)
}

// notAsked says why there is no Challenge.
func notAsked(known bool) string {
	if !known {
		return "it takes no Hello of this cluster"
	}
	return "nobody may dial replica 0"
}

// direction reports whether the dialer may dial it.
func (v *visit) direction(known bool, claimed uint8, p proof) {
	dialing := fmt.Sprintf("replica %d may dial replica %d", p.dialer, claimed)
	switch p.answer.what {
	case gotNone:
		v.unknown(CodeDirection, "", "not knowable", notAsked(known))
	case gotChallenge:
		v.ok(CodeDirection, dialing)
	case gotReject:
		v.fault(CodeDirection, "rejected", "that "+dialing, words(p.answer), "compare the rosters on both sides")
	case gotEnd:
		v.fault(CodeDirection, "peer_eof", "that "+dialing, words(p.answer), "look at its log: it may require another security of this replica")
	default:
		v.fault(CodeDirection, "handshake_timeout", "that "+dialing, words(p.answer), "look at its log")
	}
}

// secret reports which of our secrets the acceptor proved.
func (v *visit) secret(known bool, claimed uint8, p proof) {
	switch {
	case p.answer.what == gotNone:
		v.unknown(CodeSecret, "", "not knowable", notAsked(known))
	case p.answer.what != gotChallenge:
		v.unknown(CodeSecret, "", "not knowable", "it gave no Challenge")
	case v.Keys == nil:
		v.unknown(CodeSecret, "", "a proof that was not verified", "no secret was given")
	case p.slot == mac.SlotNone:
		v.fault(CodeSecret, "mac_mismatch", "a MAC of the current or the previous secret", "one of neither",
			"compare the secrets on both sides; over TLS, look whether something else ends TLS between")
	case p.slot == mac.SlotPrevious:
		v.Findings = append(v.Findings, Finding{Code: CodeSecret, Verdict: OK, Found: "the previous one",
			Do: "the rotation has not reached it yet"})
	default:
		v.ok(CodeSecret, "the current one")
	}
}

// kind tells a gate from a native replica by the group of the TLS handshake.
func (v *visit) kind(c *channel) {
	if !c.tls {
		v.unknown(CodeKind, "", "not knowable", "only TLS tells a gate from a native replica")
		return
	}
	switch c.state.CurveID {
	case tls.X25519MLKEM768:
		v.Kind = KindGate
	case tls.X25519:
		v.Kind = KindNative
	default:
		v.unknown(CodeKind, "", "not knowable", "neither a gate nor rustls takes "+c.state.CurveID.String())
		return
	}
	v.ok(CodeKind, fmt.Sprintf("%s, by the group %s", v.Kind, c.state.CurveID))
}

func decimal(id uint8) string { return strconv.Itoa(int(id)) }
