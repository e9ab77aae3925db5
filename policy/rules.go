package policy

import "fmt"

// Rule names one thing that is refused. The list is closed and in the order in
// which rules are judged; the first that drops or closes gives its name.
type Rule uint8

// The rules. None means that nothing was found.
const (
	None Rule = iota
	FrameSize
	FrameCommand
	CommandUnexpected
	ClientRequest
	Seal
	Identity
	IdentityAbsent
	IdentityAbsentRepair
	Layout
	HeaderOnlySize
	Cluster
	ReplicaRange
	Sender
	Plane
	Release
	ReservedFrame
	ReservedTail
	MetadataChain
	TokenJump
	Body
	Batch
	Manifest
	SuffixSV
	HelloStrict

	ruleCount
)

// Action is what happens to a frame.
type Action uint8

const (
	// Forward lets it pass.
	Forward Action = iota
	// Observe lets it pass and counts it.
	Observe
	// Drop withholds this frame; the link stays.
	Drop
	// Close ends the link.
	Close
)

// String returns the configuration's word.
func (a Action) String() string {
	return [...]string{"forward", "observe", "drop", "close"}[a]
}

// RuleInfo is a rule's line in the table: its name, its default, what it may be
// set to, and how it compares to a real Iggy.
type RuleInfo struct {
	Rule     Rule
	Name     string
	Default  Action
	Allowed  []Action // empty: there is no switch
	Stricter bool     // refuses what Iggy accepts, or saves Iggy from a panic
	Refuses  string   // what, in words
}

// Rules returns the table in the order of judgement. The slice is the caller's.
func Rules() []RuleInfo {
	all := []Action{Drop, Close, Observe}
	return []RuleInfo{
		{FrameSize, "frame_size", Close, nil, false, "size outside 256..max"},
		{FrameCommand, "frame_command", Close, nil, false, "a command above 29"},
		{CommandUnexpected, "command_unexpected", Drop, all, false, "commands that replicas do not send, handshake frames after the handshake"},
		{ClientRequest, "client_request", Drop, all, true, "a client's Request; Iggy executes it"},
		{Seal, "seal", Drop, all, false, "a frame seal that does not match"},
		{Identity, "identity", Drop, all, false, "a prepare identity that does not match"},
		{IdentityAbsent, "identity_absent", Drop, all, true, "a Prepare without identity; Iggy skips the check"},
		{IdentityAbsentRepair, "identity_absent_repair", Observe, all, true, "a RepairPrepare without identity; Iggy skips the check"},
		{Layout, "layout", Drop, all, false, "what Iggy's own validation refuses, unknown operations"},
		{HeaderOnlySize, "header_only_size", Drop, all, true, "a body on a command that has none; Iggy mostly accepts"},
		{Cluster, "cluster", Drop, all, true, "another cluster's id; Iggy accepts"},
		{ReplicaRange, "replica_range", Drop, all, true, "a replica outside the roster; Iggy accepts or panics"},
		{Sender, "sender", Drop, all, true, "a replica that is not the one at the other end; Iggy accepts"},
		{Plane, "plane", Drop, all, true, "an operation in a group of the other plane; Iggy panics or misroutes"},
		{Release, "release", Drop, all, true, "a release on a control frame; Iggy mostly accepts"},
		{ReservedFrame, "reserved_frame", Drop, all, true, "reserved_frame set on a control frame; Iggy mostly accepts"},
		{ReservedTail, "reserved_tail", Observe, all, true, "reserved bytes of the command set where Iggy does not look"},
		{MetadataChain, "metadata_chain", Drop, all, true, "a metadata prepare that breaks the chain; Iggy panics"},
		{TokenJump, "token_jump", Observe, all, true, "a Commit token far above the last; Iggy then ignores the real primary"},
		{Body, "body", Drop, all, false, "a body that checksum_body does not match, a DoViewChange's suffix"},
		{Batch, "batch", Drop, all, false, "a SendMessages batch that does not hold together"},
		{Manifest, "manifest", Drop, all, false, "a state-transfer manifest that does not decode"},
		{SuffixSV, "suffix_sv", Drop, all, true, "a StartView's suffix that does not decode; Iggy adopts its numbers"},
		{HelloStrict, "hello_strict", Close, []Action{Close, Observe}, true, "a handshake frame with a body or dirty zeros; Iggy accepts"},
	}
}

// ruleNames is indexed by rule.
var ruleNames = func() (names [ruleCount]string) {
	for _, r := range Rules() {
		names[r.Rule] = r.Name
	}
	return names
}()

// String returns the rule's name as it stands in configuration, logs and metrics.
func (r Rule) String() string { return ruleNames[r] }

// Table holds the action of every rule. It is immutable once made.
type Table [ruleCount]Action

// NewTable returns the defaults with the given rules set otherwise: name to
// "drop", "close" or "observe".
func NewTable(set map[string]string) (*Table, error) {
	t := new(Table)
	byName := map[string]RuleInfo{}
	for _, r := range Rules() {
		t[r.Rule] = r.Default
		byName[r.Name] = r
	}
	for name, word := range set {
		r, ok := byName[name]
		if !ok {
			return nil, fmt.Errorf("policy: got rule %q, want a name of the table", name)
		}
		found := false
		for _, a := range r.Allowed {
			if a.String() == word {
				t[r.Rule], found = a, true
			}
		}
		if !found {
			return nil, fmt.Errorf("policy: got %s = %q, want one of %v", name, word, r.Allowed)
		}
	}
	return t, nil
}

// RuleSet is a set of rules.
type RuleSet uint32

// Has reports whether r is in the set.
func (s RuleSet) Has(r Rule) bool { return s&(1<<r) != 0 }

func (s *RuleSet) add(r Rule) { *s |= 1 << r }
