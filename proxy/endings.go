package proxy

import "log/slog"

// Ending is why a connection ended: one word, the same in the log line, in the
// metric and in `replgate reasons`. The list is closed.
type Ending string

// The endings this version can give.
const (
	PeerEOF           Ending = "peer_eof"
	LocalEOF          Ending = "local_eof"
	PeerReset         Ending = "peer_reset"
	LocalReset        Ending = "local_reset"
	PeerEOFMidFrame   Ending = "peer_eof_mid_frame"
	LocalEOFMidFrame  Ending = "local_eof_mid_frame"
	Drain             Ending = "drain"
	DrainDeadline     Ending = "drain_deadline"
	PeerUnreachable   Ending = "peer_unreachable"
	Superseded        Ending = "superseded"
	DuplicateIdentity Ending = "duplicate_identity"
	WriteStalled      Ending = "write_stalled"
	FrameStalled      Ending = "frame_stalled"
	ConnLimit         Ending = "conn_limit"
	UnauthLimit       Ending = "unauth_limit"
	DialRefused       Ending = "dial_refused"
	DialTimeout       Ending = "dial_timeout"
	DNSFailed         Ending = "dns_failed"
	LocalDown         Ending = "local_down"
	TLSVersion        Ending = "tls_version"
	TLSALPN           Ending = "tls_alpn"
	TLSUnknownCA      Ending = "tls_unknown_ca"
	TLSExpired        Ending = "tls_expired"
	TLSNotYetValid    Ending = "tls_not_yet_valid"
	TLSNameMismatch   Ending = "tls_name_mismatch"
	TLSTimeout        Ending = "tls_timeout"
	TLSAlert          Ending = "tls_alert"
	TLSNoClientCert   Ending = "tls_no_client_cert"
	IdentityMismatch  Ending = "identity_mismatch"
	PeerCertRevoked   Ending = "peer_cert_revoked"
	Reauth            Ending = "reauth"
	TLSPlaintext      Ending = "tls_plaintext"
	PlaintextRefused  Ending = "plaintext_refused"
	NotAFrame         Ending = "not_a_frame"
	Probe             Ending = "probe"
	HelloTimeout      Ending = "hello_timeout"
	HandshakeTimeout  Ending = "handshake_timeout"
	HelloCommand      Ending = "hello_command"
	HelloMalformed    Ending = "hello_malformed"
	ClusterMismatch   Ending = "cluster_mismatch"
	DirectionalRule   Ending = "directional_rule"
	UnknownReplica    Ending = "unknown_replica"
	AuthRequired      Ending = "auth_required"
	MACMismatch       Ending = "mac_mismatch"
	Rejected          Ending = "rejected"
	ClientFrame       Ending = "client_frame"
	FrameSize         Ending = "frame_size"
	FrameCommand      Ending = "frame_command"
	SealHeader        Ending = "seal_header"
)

// EndingInfo is an ending's line in the vocabulary.
type EndingInfo struct {
	Name  Ending
	Level slog.Level
	What  string // what happened
	Do    string // what to look at
}

// Endings returns the vocabulary. Beside it the name of every frame rule is an
// ending, where the rule closes a link. The slice is the caller's.
func Endings() []EndingInfo {
	const i, w, d = slog.LevelInfo, slog.LevelWarn, slog.LevelDebug
	return []EndingInfo{
		{PeerEOF, i, "the peer closed between frames", "the peer's log: it stopped, or it has a live connection of this replica already"},
		{LocalEOF, i, "the local replica closed between frames", "the local replica's log: it stopped, or it has a live connection of this peer already"},
		{PeerReset, i, "the peer reset the connection", "the peer's log, and the network between"},
		{LocalReset, i, "the local replica reset the connection", "the local replica's log"},
		{PeerEOFMidFrame, w, "the peer closed inside a frame", "the peer's log: it was killed or ran into a limit"},
		{LocalEOFMidFrame, w, "the local replica closed inside a frame", "the local replica's log: it was killed or ran into a limit"},
		{Drain, i, "this gate shut down in order", "nothing"},
		{DrainDeadline, w, "this gate shut down and the link did not reach a frame's end in time", "timeouts.drain, and the slow side's log"},
		{PeerUnreachable, w, "the network stopped answering for the other side", "the network between, and whether the other host lives"},
		{WriteStalled, w, "a reader took nothing for timeouts.write_stall, or closed its window for longer than the network may be silent", "the side that does not read: it hangs or is overloaded"},
		{FrameStalled, w, "a sender got stuck inside a frame", "the sender, and the network between; limits.frame_min_rate"},
		{Superseded, i, "a newer proven session took its place, or came too soon after another", "nothing, unless it repeats: then two sides redial"},
		{DuplicateIdentity, w, "two live holders of one replica id", "both addresses in the log line: one of them has a wrong replica_id"},
		{ConnLimit, w, "limits.connections is full", "who connects, and the limit"},
		{UnauthLimit, w, "limits.handshakes or handshakes_per_source is full of silent connections", "who connects and says nothing"},
		{DialRefused, w, "the peer's address refused the connection or cannot be reached", "whether the peer's gate or replica runs, and peers.address"},
		{DialTimeout, w, "the peer's address did not answer within timeouts.prove", "the network and firewalls between, and peers.address"},
		{DNSFailed, w, "the peer's name did not resolve", "peers.address and the resolver"},
		{LocalDown, w, "the local replica could not be reached", "whether it runs, and ingress.upstream"},
		{TLSVersion, w, "the other side does not speak TLS 1.3", "who dials: Iggy and replgate speak nothing else here"},
		{TLSALPN, w, "the other side speaks another application protocol", "who dials: it is no replica"},
		{TLSUnknownCA, w, "the other side's certificate is signed by nobody we trust", "cluster.tls.ca_file on both sides"},
		{TLSExpired, w, "the other side's certificate has expired", "its certificate, and both clocks"},
		{TLSNotYetValid, w, "the other side's certificate is not valid yet", "both clocks"},
		{TLSNameMismatch, w, "the other side's certificate is for another name", "peers.server_name, and the certificate's SANs"},
		{TLSTimeout, w, "the TLS handshake was not finished in time", "the network between, and whether the other side speaks TLS"},
		{TLSAlert, w, "the other side ended the TLS handshake or broke it", "the alert in the log line, and the other side's log"},
		{TLSNoClientCert, w, "the dialer showed no certificate where one is required", "cluster.tls on the dialer; cluster.tls.client_auth here: a native replica never shows one"},
		{IdentityMismatch, w, "the other side's certificate is another replica's", "its certificate's SANs, cluster.tls.peer_identity, and replica_id on both sides"},
		{PeerCertRevoked, w, "the other side's certificate is revoked", "cluster.tls.crl_file here, and a new certificate for the other side"},
		{Reauth, i, "the secret or certificate that proved the link is trusted no longer: it is made anew", "nothing, unless it does not come back: then the other side has no newer one"},
		{TLSPlaintext, w, "plaintext arrived where TLS is required", "whether the dialer has cluster.tls enabled; in permissive mode: it has proved TLS before, and `replgate peers reset` lets it be weaker again"},
		{PlaintextRefused, w, "a TLS ClientHello arrived where plaintext is spoken", "whether this side should speak tls"},
		{NotAFrame, d, "bytes that are neither TLS nor a replica frame", "who dials: HTTP, SSH or a scanner"},
		{Probe, d, "connected and closed without a byte, or `replgate probe`", "nothing: a health check, a port scan or `replgate probe`"},
		{HelloTimeout, w, "no whole Hello in time", "the dialer, and the network between"},
		{HandshakeTimeout, w, "no Challenge or Finish in time", "whether both sides have authentication on"},
		{HelloCommand, w, "another frame came where a handshake frame was due", "whether both sides have authentication on"},
		{HelloMalformed, w, "a handshake frame with a body or dirty zeros", "the dialer; rule hello_strict"},
		{ClusterMismatch, w, "the dialer is of another cluster", "cluster.name on both sides"},
		{DirectionalRule, w, "a higher id dialed a lower one", "the dialer's roster: only lower ids dial"},
		{UnknownReplica, w, "the dialer's id is not one that may come here", "the roster on both sides"},
		{AuthRequired, w, "the dialer has authentication off", "cluster.auth on the dialer; in permissive mode: it has proved its secret before, and `replgate peers reset` lets it be weaker again"},
		{MACMismatch, w, "the other side has another secret", "cluster.auth secrets on both sides; in a rotation, its phase"},
		{Rejected, w, "the acceptor refused us; its status is in the log line", "the acceptor's log"},
		{ClientFrame, i, "an Iggy client came to the replica port", "the client's address configuration"},
		{FrameSize, w, "a frame claimed a size outside 256..max", "message_bus.max_message_size on both sides"},
		{FrameCommand, w, "a frame had a command above 29", "the sender's version"},
		{SealHeader, w, "a frame's seal did not match and its size cannot be trusted", "the network between, and the sender"},
	}
}

// level is the ending's log level. Rules that end a link are warnings.
func (e Ending) level() slog.Level {
	for _, info := range Endings() {
		if info.Name == e {
			return info.Level
		}
	}
	return slog.LevelWarn
}

// do is what to look at.
func (e Ending) do() string {
	for _, info := range Endings() {
		if info.Name == e {
			return info.Do
		}
	}
	return "the sender; `replgate config print --defaults` tells what the rule refuses"
}
