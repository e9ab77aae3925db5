package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// Security is what is spoken on a leg.
type Security string

// The three securities (§7.1).
const (
	Plaintext Security = "plaintext" // Hello only
	PSK       Security = "psk"       // MAC handshake
	TLS       Security = "tls"       // TLS 1.3 and MAC handshake
)

// Settings are everything a Server needs. They are not changed once a Server has
// them: Server.Apply takes others. Fields without a default must be set.
type Settings struct {
	// Cluster is the cluster's id.
	Cluster wire.ClusterID
	// Local is the id of the local replica, Replicas the roster's length.
	Local    uint8
	Replicas int

	// Listen is the address for peers with lower ids; empty where there are none.
	Listen string
	// Upstream is the local replica's address, UpstreamSecurity what it is
	// spoken to in, UpstreamName the name its certificate must have.
	Upstream         string
	UpstreamSecurity Security
	UpstreamName     string
	// EgressSecurity is what the local replica speaks to us.
	EgressSecurity Security
	// Peers are all other replicas.
	Peers []Peer
	// Mode says whether peers may speak less than their Security, strict by
	// default. Memory keeps what they have proved; nil: until the process ends.
	// Apply goes on with the one that New was given.
	Mode   Mode
	Memory Memory

	// Keys is the keyring, nil where no leg needs one.
	Keys *mac.Keyring
	// Credentials serve TLS legs, nil where there are none.
	Credentials Credentials

	// Rules are the actions of the frame rules. Observe forwards everything that
	// still has framing and only counts.
	Rules   *policy.Table
	Observe bool
	// MaxFrame is Iggy's max_message_size, StoreLimit the largest frame that is
	// judged whole before its first byte leaves, in bytes.
	MaxFrame   uint32
	StoreLimit int

	// HandshakeTimeout bounds TLS and MAC together, 10 s by default. ProveTimeout
	// bounds the time a near leg waits for its far leg, 2 s by default.
	HandshakeTimeout time.Duration
	ProveTimeout     time.Duration
	// StrictReadyAfter is how long there must have been no plaintext link before
	// StrictReady says yes, 10 min by default.
	StrictReadyAfter time.Duration
	// HeartbeatTimeout is Iggy's, 5 s by default: dead peers are noticed within
	// it, and a link is displaced at most once in it.
	HeartbeatTimeout time.Duration
	// WriteStall ends a link whose reader takes nothing for so long, 10 s by
	// default.
	WriteStall time.Duration
	// FrameRate is the least rate of a sender inside a frame, in bytes per
	// second, 64 KiB by default.
	FrameRate int64
	// Handshakes and PerSource bound the connections that are not yet proven, 64
	// and 8 by default; Connections bounds all of them, 0 does not.
	Handshakes, PerSource, Connections int
	// DrainMinDelay is how long the gate goes on as before when it is told to
	// shut down.
	DrainMinDelay time.Duration
	// ReauthWindow is the time in which links are made anew that later settings
	// no longer support, one peer at a time, 60 s by default.
	ReauthWindow time.Duration
	// VisitEvery is how often gates show each other their secrets while there
	// are two, 10 s by default.
	VisitEvery time.Duration

	// Log gets a line per link event; nil logs nothing.
	Log *slog.Logger
	// Metrics gets the counts; nil counts nothing.
	Metrics Metrics

	applied time.Time // when Apply took them, zero for New's
}

// Peer is another replica.
type Peer struct {
	ID uint8
	// Security is what its far leg speaks, on ingress and egress alike; in
	// permissive mode the most that it is asked to.
	Security Security
	// Listen is where the local replica dials it, Address where it really is,
	// Name what its certificate must be for: for higher ids.
	Listen  string
	Address string
	Name    string
}

// Credentials give TLS configurations, and judge who stands at the other end.
type Credentials interface {
	// Server and Client are asked once per connection. The function beside the
	// configuration turns that connection's handshake error into an ending.
	Server() (*tls.Config, func(error) TLSFault)
	Client(name string) (*tls.Config, func(error) TLSFault)
	// Identify says what the other end's certificate tells about the replica that
	// it claims to be, nil for a fault when it may be that one. It is asked after
	// the handshake, and again for each live leg when settings are applied: a
	// certificate may have been revoked since, or its CA removed.
	Identify(state tls.ConnectionState, replica uint8) (Identity, *TLSFault)
}

// TLSFault is a failed TLS handshake in the vocabulary of endings.
type TLSFault struct {
	Ending Ending
	// Detail is one sentence for the log.
	Detail string
}

// bufferMin is the least memory a pump may use for batching: larger batches mean
// fewer system calls, and 1 MiB is where that stops to pay.
const bufferMin = 1 << 20

// limits are the bounds of one pump's reader.
func (s *Settings) limits() wire.Limits {
	store := min(s.StoreLimit, int(s.MaxFrame))
	return wire.Limits{MaxFrame: s.MaxFrame, Store: store, Buffer: max(bufferMin, store)}
}

// LinkMemory returns the most memory one link can hold, in bytes, and the formula
// in words. Traffic grows buffers up to it; an idle link holds a fraction.
func (s *Settings) LinkMemory() (int, string) {
	const (
		tlsLeg   = recordsInMax + 2*recordsOutMax + 2*(16<<10+512) + 4<<10 // many records each way, one each in crypto/tls, its own state
		verifier = 8 << 10
		tokens   = 64 << 10 // 1024 groups
	)
	buffer := s.limits().Buffer
	total := 2 * (buffer + verifier + tokens + tlsLeg)
	total += total / 3
	return total, fmt.Sprintf("2 directions × (buffer %d + body verifier %d + tokens %d + TLS leg %d) bytes, and a third for what is not collected yet", buffer, verifier, tokens, tlsLeg)
}

// HandshakeMemory returns the most memory that connections hold before they are
// proven, in bytes, and the formula in words.
func (s *Settings) HandshakeMemory() (int, string) {
	const plain, withTLS = 4 << 10, 52 << 10 // a first flight, and crypto/tls behind it
	each := plain
	for _, p := range s.Peers {
		if p.Security == TLS || s.EgressSecurity == TLS {
			each = withTLS
		}
	}
	return 2 * each * s.Handshakes, fmt.Sprintf("2 entrances × %d handshakes × %d bytes", s.Handshakes, each)
}

// peer returns the peer with the given id; it exists for every admitted id.
func (s *Settings) peer(id uint8) *Peer {
	for i := range s.Peers {
		if s.Peers[i].ID == id {
			return &s.Peers[i]
		}
	}
	return nil
}

// prepare fills defaults and checks that the parts fit together.
func (s *Settings) prepare() error {
	if s.HandshakeTimeout == 0 {
		s.HandshakeTimeout = 10 * time.Second
	}
	if s.ProveTimeout == 0 {
		s.ProveTimeout = 2 * time.Second
	}
	if s.Mode == "" {
		s.Mode = Strict
	}
	if s.StrictReadyAfter == 0 {
		s.StrictReadyAfter = 10 * time.Minute
	}
	if s.HeartbeatTimeout == 0 {
		s.HeartbeatTimeout = 5 * time.Second
	}
	if s.WriteStall == 0 {
		s.WriteStall = 10 * time.Second
	}
	if s.FrameRate == 0 {
		s.FrameRate = 64 << 10
	}
	if s.Handshakes == 0 {
		s.Handshakes = 64
	}
	if s.PerSource == 0 {
		s.PerSource = 8
	}
	if s.ReauthWindow == 0 {
		s.ReauthWindow = time.Minute
	}
	if s.VisitEvery == 0 {
		s.VisitEvery = 10 * time.Second
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Metrics == nil {
		s.Metrics = noMetrics{}
	}
	if s.Rules == nil {
		table, err := policy.NewTable(nil)
		if err != nil {
			return err
		}
		s.Rules = table
	}
	return s.check()
}

func (s *Settings) check() error {
	used := map[Security]bool{s.EgressSecurity: true, s.UpstreamSecurity: s.Listen != ""}
	for _, p := range s.Peers {
		used[p.Security] = true
		if p.ID > s.Local && (p.Listen == "" || p.Address == "") {
			return fmt.Errorf("proxy: got no listen or no address for peer %d, want both: the local replica dials it", p.ID)
		}
	}
	switch {
	case s.Mode != Strict && s.Mode != Permissive:
		return fmt.Errorf("proxy: got mode %q, want strict or permissive", s.Mode)
	case s.Replicas < 2 || int(s.Local) >= s.Replicas:
		return fmt.Errorf("proxy: got replica %d of %d, want an id of a roster of at least two", s.Local, s.Replicas)
	case len(s.Peers) != s.Replicas-1:
		return fmt.Errorf("proxy: got %d peers, want %d", len(s.Peers), s.Replicas-1)
	case s.Local > 0 && (s.Listen == "" || s.Upstream == ""):
		return errors.New("proxy: got no listen address or no upstream, want both: lower ids dial this replica")
	case (used[PSK] || used[TLS]) && s.Keys == nil:
		return errors.New("proxy: got no secret, want one: a leg speaks psk or tls")
	case used[TLS] && s.Credentials == nil:
		return errors.New("proxy: got no certificate, want one: a leg speaks tls")
	case s.MaxFrame <= wire.HeaderSize || s.StoreLimit <= wire.HeaderSize*(wire.SuffixMax+1):
		return fmt.Errorf("proxy: got max frame %d and store limit %d, want room for a whole suffix", s.MaxFrame, s.StoreLimit)
	}
	return nil
}
