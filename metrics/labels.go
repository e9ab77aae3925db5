package metrics

import (
	"strconv"
	"strings"
	"time"
)

// Values that are not in the lists given to New.
const (
	// PeerUnknown is the peer of a connection that has not proven who it is.
	PeerUnknown = "unknown"
	// Other stands for every value outside a closed set.
	Other = "other"
	// ResultOK is the result of a handshake that succeeded; the other results are endings.
	ResultOK = "ok"
)

// Labels are the closed sets that the series are made of. Each list is copied. Names that are empty or occur twice are
// taken once; the zero value is legal and counts everything under "unknown" and "other".
type Labels struct {
	// Peers are the ids of the other replicas in the roster. "unknown" is added.
	Peers []string
	// Commands are the names of the commands; the index is the command byte. At most 256 are used.
	Commands []string
	// Rules are the names of the frame rules.
	Rules []string
	// Endings are the reasons for which a connection may end.
	Endings []string
	// Version and GoVersion are shown by replgate_build_info.
	Version   string
	GoVersion string
	// BufferedBytes is asked at every scrape how many bytes of frames the gate holds. It may be nil and must be safe
	// for concurrent use.
	BufferedBytes func() int64
	// StrictReady and WatchDegraded are asked at every scrape, as BufferedBytes is; nil is no.
	StrictReady, WatchDegraded func() bool
	// PeerCertificates is asked at every scrape when the certificate of each peer ends. A peer without one is not in it.
	PeerCertificates func() map[string]time.Time
}

// certificateSlots is how many certificates of one file have a series of their own.
const certificateSlots = 16

// set is a closed set of label values. The last one is always Other.
type set struct {
	names []string
	index map[string]int
}

func newSet(names ...string) set {
	s := set{index: make(map[string]int, len(names)+1)}
	for _, n := range names {
		// Prometheus refuses a whole scrape for one value that is not UTF-8.
		if n = strings.ToValidUTF8(n, "?"); n != Other {
			s.add(n)
		}
	}
	s.add(Other)
	return s
}

func (s *set) add(name string) {
	if _, dup := s.index[name]; dup || name == "" {
		return
	}
	s.index[name] = len(s.names)
	s.names = append(s.names, name)
}

// at is the index of a value; that of Other when the value is not in the set.
func (s set) at(name string) int {
	if i, ok := s.index[name]; ok {
		return i
	}
	return s.other()
}

func (s set) other() int { return len(s.names) - 1 }

func (s set) size() int { return len(s.names) }

// fold returns the value itself, or Other.
func (s set) fold(name string) string { return s.names[s.at(name)] }

// sets are all closed sets of a registry.
type sets struct {
	peers, commands, rules, endings              set
	directions, ways, securities                 set
	results, verdicts                            set
	roles, handshakeResults, slots, certificates set
	certificateSlots, credentials                set
	reloadKinds, reloadResults                   set
}

func newSets(l Labels) sets {
	peers := append(l.Peers[:len(l.Peers):len(l.Peers)], PeerUnknown)
	outcomes := append([]string{ResultOK}, l.Endings...)
	var numbers []string
	for i := range certificateSlots {
		numbers = append(numbers, strconv.Itoa(i))
	}
	return sets{
		peers:            newSet(peers...),
		commands:         newSet(l.Commands...),
		rules:            newSet(l.Rules...),
		endings:          newSet(l.Endings...),
		directions:       newSet("ingress", "egress"),
		ways:             newSet("in", "out"),
		securities:       newSet("plaintext", "psk", "tls"),
		results:          newSet("forwarded", "dropped", "lost"),
		verdicts:         newSet("drop", "close", "observe", "would_drop", "would_close"),
		roles:            newSet("acceptor", "dialer"),
		handshakeResults: newSet(outcomes...),
		slots:            newSet("current", "previous"),
		certificates:     newSet("leaf", "ca"),
		certificateSlots: newSet(numbers...),
		credentials:      newSet("secret", "previous_secret", "certificate", "ca", "crl"),
		reloadKinds:      newSet("config", "secret", "certificate"),
		reloadResults: newSet(ResultOK, "missing", "unreadable", "empty", "short", "invalid", "no_pem", "truncated",
			"malformed", "mismatch", "unsupported", "restart"),
	}
}
