package configs

// Unset is the value of a replica_id that nobody wrote. Zero is a real id.
const Unset = -1

// Security is what one leg speaks.
type Security string

// The three securities of a leg. The empty string means "not written": after
// Load every leg has one of these.
const (
	Plaintext Security = "plaintext" // Hello only
	PSK       Security = "psk"       // MAC handshake
	TLS       Security = "tls"       // TLS 1.3 and MAC handshake
)

// Config is the whole configuration, in the order of the file.
type Config struct {
	// ClusterFrom is the path of a real Iggy configuration; empty: none.
	ClusterFrom string         `toml:"cluster_from"`
	Cluster     Cluster        `toml:"cluster"`
	MessageBus  MessageBus     `toml:"message_bus"`
	Gate        Gate           `toml:"gate"`
	Ingress     Ingress        `toml:"ingress"`
	Egress      Egress         `toml:"egress"`
	Peers       []Peer         `toml:"peers"` // after Load: every other replica, by id
	Security    SecurityPolicy `toml:"security"`
	Frames      Frames         `toml:"frames"`
	Timeouts    Timeouts       `toml:"timeouts"`
	Limits      Limits         `toml:"limits"`
	Admin       Admin          `toml:"admin"`
	Metrics     Metrics        `toml:"metrics"`
	Log         Log            `toml:"log"`
	Chaos       Chaos          `toml:"chaos"`
	Reload      Reload         `toml:"reload"`
}

// Cluster holds Iggy's own keys with Iggy's meaning.
type Cluster struct {
	Name             string      `toml:"name"`              // hashed into the cluster id of every frame
	HeartbeatTimeout Duration    `toml:"heartbeat_timeout"` // ≥ 2s; every deadline of a link derives from it
	Auth             Auth        `toml:"auth"`
	TLS              TLSMaterial `toml:"tls"`
	Nodes            []Node      `toml:"nodes"`
}

// Auth holds the shared secret. Enabled only sets the default security of the
// far legs; a secret that is present can be used on any leg.
type Auth struct {
	Enabled bool `toml:"enabled"`
	// SharedSecret and PreviousSharedSecret are resolved by Load: they hold
	// the bytes also when the file names a *_file.
	SharedSecret             Secret `toml:"shared_secret"`
	SharedSecretFile         string `toml:"shared_secret_file"`
	PreviousSharedSecret     Secret `toml:"previous_shared_secret"`
	PreviousSharedSecretFile string `toml:"previous_shared_secret_file"`
}

// TLSMaterial names the certificate files. Enabled only sets the default
// security of the far legs.
type TLSMaterial struct {
	Enabled    bool   `toml:"enabled"`
	SelfSigned bool   `toml:"self_signed"` // mint at start and accept any peer certificate
	CertFile   string `toml:"cert_file"`
	KeyFile    string `toml:"key_file"`
	CAFile     string `toml:"ca_file"`
	// CRLFile holds revocations, as PEM; empty: nothing is revoked.
	CRLFile string `toml:"crl_file"`
	// ClientAuth is off | request | require: what is asked of a gate that dials
	// us. With SelfSigned it is off after Load: a self-made name proves nothing.
	ClientAuth string `toml:"client_auth"`
	// PeerIdentity is the name that a peer's certificate must carry, with
	// {trust_domain}, {cluster} and {replica} in it: a URI when it begins with
	// spiffe://, else a DNS name. Empty and a TrustDomain: after Load the usual
	// URI; empty and none: certificates prove membership only.
	PeerIdentity string `toml:"peer_identity"`
	TrustDomain  string `toml:"trust_domain"`
}

// Node is one entry of the roster.
type Node struct {
	Name      string `toml:"name"`
	IP        string `toml:"ip"` // a literal address, as Iggy wants it
	ReplicaID int    `toml:"replica_id"`
	Ports     Ports  `toml:"ports"`
}

// Ports of a node; the client ports of Iggy's schema are ignored.
type Ports struct {
	TCPReplica int `toml:"tcp_replica"`
}

// MessageBus holds the one limit that both sides of a link must share.
type MessageBus struct {
	MaxMessageSize Size `toml:"max_message_size"` // a smaller one than Iggy's ends links for ever
}

// Gate says which replica stands behind this gate.
type Gate struct {
	ReplicaID int    `toml:"replica_id"`
	StateDir  string `toml:"state_dir"` // small memory that may be lost; empty: none is kept
}

// Ingress is the way from peers with lower ids to the local replica.
type Ingress struct {
	Listen           string   `toml:"listen"`
	Security         Security `toml:"security"`
	Upstream         string   `toml:"upstream"`
	UpstreamSecurity Security `toml:"upstream_security"`
}

// Egress is the way from the local replica to peers with higher ids; the
// addresses stand in Peers.
type Egress struct {
	Security Security `toml:"security"` // what the local replica speaks to us
}

// Peer is one other replica. Listen, Address and ServerName are empty for a
// lower id, which dials us.
type Peer struct {
	ReplicaID  int      `toml:"replica_id"`
	Listen     string   `toml:"listen"`  // where the local replica dials it
	Address    string   `toml:"address"` // its gate, or its native listener
	Security   Security `toml:"security"`
	ServerName string   `toml:"server_name"` // the name its certificate must carry
}

// SecurityPolicy is [security].
type SecurityPolicy struct {
	Mode string `toml:"mode"` // strict | permissive
	// StrictReadyAfter is how long no plaintext link may have been accepted
	// before a permissive gate calls itself ready for strict.
	StrictReadyAfter Duration `toml:"strict_ready_after"`
	// ReauthWindow is the time in which links that new credentials no longer
	// support are made anew, one peer after another.
	ReauthWindow Duration `toml:"reauth_window"`
}

// Reload says how a running gate notices that a credential's file has changed.
type Reload struct {
	Interval Duration `toml:"interval"` // between two readings, whatever the watches say
	Watch    bool     `toml:"watch"`    // folders are watched too
}

// Frames says how frames are judged.
type Frames struct {
	Validation string `toml:"validation"`  // enforce | observe
	StoreLimit Size   `toml:"store_limit"` // frames up to this are stored whole
	// Rules maps a rule to its verdict; after Load every rule that has a
	// switch is in it.
	Rules map[string]string `toml:"rules"`
}

// Timeouts of handshakes, writes and shutdown.
type Timeouts struct {
	Handshake     Duration `toml:"handshake"` // TLS and MAC together
	Prove         Duration `toml:"prove"`     // until the far leg of an egress link is proven
	WriteStall    Duration `toml:"write_stall"`
	Drain         Duration `toml:"drain"`
	DrainMinDelay Duration `toml:"drain_min_delay"`
}

// Limits on what is unproven or many.
type Limits struct {
	Handshakes          int  `toml:"handshakes"`
	HandshakesPerSource int  `toml:"handshakes_per_source"`
	FrameMinRate        Size `toml:"frame_min_rate"` // per second, of a sender inside a frame after 5 s
	Connections         int  `toml:"connections"`    // 0: no limit
}

// Admin is the socket for status, reload, chaos and pprof.
type Admin struct {
	Listen string `toml:"listen"` // unix:PATH, empty: off
}

// Metrics serves /metrics, /healthz and /readyz.
type Metrics struct {
	Listen string `toml:"listen"` // host:port, empty: off
}

// Log says how much is logged, and in which form.
type Log struct {
	Level  string `toml:"level"`  // debug | info | warn | error
	Format string `toml:"format"` // json | text
}

// Chaos is off unless somebody asks for it in the file.
type Chaos struct {
	Enabled bool `toml:"enabled"`
}

// RuleSpec describes one frame rule to this package, which knows none itself.
type RuleSpec struct {
	Name     string
	Default  string   // the verdict when nothing is written
	Allowed  []string // the verdicts that may be written; empty: the rule has no switch
	Stricter bool     // stricter than Iggy itself
	Note     string   // one line for people, printed behind the rule
}

// Default returns the configuration of an empty file. Where it holds an empty
// string, the value is derived from the roster by Load.
func Default() Config {
	return Config{
		Cluster:    Cluster{Name: "iggy-cluster", HeartbeatTimeout: 5 * second, TLS: TLSMaterial{ClientAuth: clientAuthRequest}},
		MessageBus: MessageBus{MaxMessageSize: 64 << 20},
		Gate:       Gate{ReplicaID: Unset},
		Ingress:    Ingress{UpstreamSecurity: Plaintext},
		Egress:     Egress{Security: Plaintext},
		Security:   SecurityPolicy{Mode: "strict", StrictReadyAfter: 600 * second, ReauthWindow: 60 * second},
		Frames:     Frames{Validation: "enforce", StoreLimit: 256 << 10, Rules: map[string]string{}},
		Timeouts: Timeouts{
			Handshake: 10 * second, Prove: 2 * second, WriteStall: 10 * second, Drain: 25 * second,
		},
		Limits:  Limits{Handshakes: 64, HandshakesPerSource: 8, FrameMinRate: 64 << 10},
		Admin:   Admin{Listen: "unix:/run/replgate/admin.sock"},
		Metrics: Metrics{Listen: "127.0.0.1:9464"},
		Log:     Log{Level: "info", Format: "json"},
		Reload:  Reload{Interval: 10 * second, Watch: true},
	}
}

// Node returns the roster's entry for an id.
func (c *Config) Node(id int) (Node, bool) {
	for _, n := range c.Cluster.Nodes {
		if n.ReplicaID == id {
			return n, true
		}
	}
	return Node{}, false
}

// UsesTLS reports whether any leg of this gate speaks TLS, that is, whether
// certificates are needed. The Config must come from Load or Validate.
func (c *Config) UsesTLS() bool { return c.uses(TLS) }

// UsesSecret reports whether any leg needs the shared secret. The Config must
// come from Load or Validate.
func (c *Config) UsesSecret() bool { return c.uses(PSK) || c.uses(TLS) }

// uses looks only at legs that exist: the gate of replica 0 has no ingress,
// that of the last replica no egress.
func (c *Config) uses(s Security) bool {
	for _, p := range c.Peers {
		near := c.Egress.Security
		if p.ReplicaID < c.Gate.ReplicaID {
			near = c.Ingress.UpstreamSecurity
		}
		if p.Security == s || near == s {
			return true
		}
	}
	return false
}
