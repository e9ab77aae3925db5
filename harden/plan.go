package harden

import "net/netip"

// Plan is the whole way of one cluster, and back.
type Plan struct {
	Cluster string   `json:"cluster"`
	Nodes   []Place  `json:"nodes"` // by id
	Notes   []string `json:"notes"` // what else is true of this cluster
	Phases  []Phase  `json:"phases"`
}

// The phases, in order. Strict and permissive undo each other, as do harden and
// back.
const (
	PhaseHarden     = "harden"     // every node behind a permissive gate
	PhaseStrict     = "strict"     // every gate strict
	PhasePermissive = "permissive" // every gate permissive again
	PhaseBack       = "back"       // every node as it was
)

// Phase is a part of a plan after which one can stay.
type Phase struct {
	Name  string      `json:"name"`
	Title string      `json:"title"`
	Steps []Step      `json:"steps"`
	Goal  []Condition `json:"goal"` // holds when its last step is done
}

// Place is what a plan gives one node.
type Place struct {
	ID      int            `json:"id"`
	Name    string         `json:"name"`
	Address netip.AddrPort `json:"address"` // in the roster as it is; the gate's when all is done
	Behind  netip.AddrPort `json:"behind"`  // where its Iggy listens behind the gate
	// Egress is where its gate takes it on the way to each higher id.
	Egress     map[int]netip.AddrPort `json:"egress,omitempty"`
	Gate       string                 `json:"gate_config"`
	Iggy       string                 `json:"iggy_config"`
	Socket     string                 `json:"socket"` // of the gate, for status, reload and reset
	Metrics    string                 `json:"metrics"`
	SecretFile string                 `json:"secret_file"`
	// PreviousFile is where a rotation will put a previous secret.
	PreviousFile string `json:"previous_secret_file"`
	CertFile     string `json:"cert_file"`
	KeyFile      string `json:"key_file"`
	CAFile       string `json:"ca_file"`
	StateDir     string `json:"state_dir"`
	// Back is the number of the step at which the way back of this node begins,
	// also when the nodes after it in the phase harden are still as they were. If
	// one of its own steps failed, the Before of that first one need not hold, and
	// what is done already is left out.
	Back int `json:"back"`

	iggyUnit, gateUnit string
}

// Kind is what a step mainly does.
type Kind string

// The closed set of kinds. Whatever its kind, a step is carried out like this: look
// whether Before holds, else change nothing; write Files; make Edits; run Commands,
// each must exit 0; stop or start the Service; wait until After holds, at most
// Within.
const (
	Write  Kind = "write"  // files
	Stop   Kind = "stop"   // a service
	Start  Kind = "start"  // a service, perhaps with an edited file
	Reload Kind = "reload" // an edited file, into a running gate
	Reset  Kind = "reset"  // what gates remember of a peer
	Wait   Kind = "wait"   // nothing but After
)

// Every is the Node of a step that concerns all of them.
const Every = -1

// Step is one of a plan. Numbers count from 1 through all phases.
type Step struct {
	Number   int         `json:"step"`
	Node     int         `json:"node"` // where; -1: on every one
	Kind     Kind        `json:"kind"`
	Title    string      `json:"title"`
	Why      string      `json:"why,omitempty"`
	Before   []Condition `json:"before"`
	Files    []File      `json:"files,omitempty"`
	Edits    []FileEdit  `json:"edits,omitempty"`
	Commands []Command   `json:"commands,omitempty"`
	Service  *Service    `json:"service,omitempty"`
	After    []Condition `json:"after,omitempty"`
	Within   string      `json:"within,omitempty"` // a duration of Go, with After
}

// File is one to be there with a content. What a plan cannot hold is a Need.
type File struct {
	Path     string `json:"path"`
	Mode     string `json:"mode"` // octal
	Contents string `json:"contents,omitempty"`
	Need     Need   `json:"need,omitempty"`
	// Names are the IP addresses that a certificate must be for.
	Names []string `json:"names,omitempty"`
}

// Need is a file that somebody else makes.
type Need string

// The closed set of needs. A certificate and a key belong together; both are of
// one authority on all nodes.
const (
	NeedSecret      Need = "secret"      // the same bytes on every node
	NeedCertificate Need = "certificate" // of this node alone
	NeedKey         Need = "key"
	NeedCA          Need = "ca" // the same on every node
)

// FileEdit changes a file that is there. Each Old stands in it exactly once, or
// the file is not the one that the plan knows, and nothing is changed.
type FileEdit struct {
	Path    string `json:"path"`
	Changes []Edit `json:"changes"`
}

// Edit is one change of whole lines.
type Edit struct {
	Line int    `json:"line"` // where Old begins in the file that was read
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Command runs on a node.
type Command struct {
	Node int      `json:"node"`
	Argv []string `json:"argv"`
}

// The services of a node.
const (
	Iggy = "iggy" // the local replica
	Gate = "gate"
)

// Service is one that a step stops or starts. Whoever runs it otherwise than the
// command says starts it with the file Config.
type Service struct {
	Name   string   `json:"name"`
	Config string   `json:"config"`
	Argv   []string `json:"argv"`
}

// Condition is one thing that must hold on a node: a service's State, or else that
// the command Argv exits 0, with Values in the JSON that it prints.
type Condition struct {
	Node    int      `json:"node"`
	Says    string   `json:"says"` // for people
	Service string   `json:"service,omitempty"`
	State   State    `json:"state,omitempty"`
	Argv    []string `json:"argv,omitempty"`
	Values  []Value  `json:"values,omitempty"`
}

// State is that of a service.
type State string

// The closed set of states.
const (
	Stopped State = "stopped" // no process, its addresses are free
	// Whole is an Iggy with a link to every other replica that has caught up: none
	// of its groups is in a view change or recovers.
	Whole State = "whole"
)

// Value is one in a JSON text. A path is names with dots between them; behind the
// name of an array, [name=value] picks the one element that has it.
type Value struct {
	Path   string `json:"path"`
	Equals any    `json:"equals,omitempty"` // an empty string: or there is no such name
	For    string `json:"for,omitempty"`    // instead: a time that is at least so long ago
}
