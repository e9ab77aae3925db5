package wire

import "strconv"

// Command is byte 60 of a header (§1.0).
type Command uint8

// The whole registry. A byte above CommandMax is no command: Iggy's transport
// ends the connection on it (§2.1).
const (
	Reserved Command = iota
	Ping
	Pong
	PingClient
	PongClient
	Request
	Prepare
	PrepareOk
	Reply
	Commit
	StartViewChange
	DoViewChange
	StartView
	Eviction
	ReplicaHello
	ReplicaChallenge
	ReplicaFinish
	RequestStartView
	RequestPrepares
	RepairPrepare
	RepairDone
	RangeEvicted
	RequestStateTransfer
	StateTransferTarget
	RequestStateChunk
	StateChunk
	ForwardRegister
	ForwardRegisterResult
	ForwardLogout
	ForwardLogoutResult

	CommandMax = ForwardLogoutResult
	// Commands is how many there are; arrays indexed by command have this length.
	Commands = int(CommandMax) + 1
)

// Body limits that a command's honest frames keep (§1.0, §4.6, §6).
const (
	SuffixMax     = 128                                    // entries in a DoViewChange or StartView
	ChunkMax      = 256 << 10                              // bytes in a StateChunk body
	ManifestMax   = manifestOverhead + manifestEntry*65536 // bytes in a StateTransferTarget body
	StateChunkMax = HeaderSize + ChunkMax
)

type commandInfo struct {
	name       string
	sealed     bool // carries a frame seal over 16..256 (§4.3)
	headerOnly bool // honest builders write size 256 (§1.0)
	group      U64  // offset of the group field, 0 for none
}

// info returns the registry's line for c. The zero value stands for bytes that
// are no command.
func (c Command) info() commandInfo {
	if c > CommandMax {
		return commandInfo{}
	}
	return registry[c]
}

// registry is the command table of §1.0; it is only ever read.
var registry = [Commands]commandInfo{
	Reserved:              {name: "Reserved"},
	Ping:                  {name: "Ping"},
	Pong:                  {name: "Pong"},
	PingClient:            {name: "PingClient"},
	PongClient:            {name: "PongClient"},
	Request:               {name: "Request"},
	Prepare:               {name: "Prepare", group: PrepareGroup},
	PrepareOk:             {name: "PrepareOk", sealed: true, headerOnly: true, group: PrepareOkGroup},
	Reply:                 {name: "Reply"},
	Commit:                {name: "Commit", sealed: true, headerOnly: true, group: CommitGroup},
	StartViewChange:       {name: "StartViewChange", sealed: true, headerOnly: true, group: StartViewChangeGroup},
	DoViewChange:          {name: "DoViewChange", sealed: true, group: ViewGroup},
	StartView:             {name: "StartView", sealed: true, group: ViewGroup},
	Eviction:              {name: "Eviction"},
	ReplicaHello:          {name: "ReplicaHello", headerOnly: true},
	ReplicaChallenge:      {name: "ReplicaChallenge", headerOnly: true},
	ReplicaFinish:         {name: "ReplicaFinish", headerOnly: true},
	RequestStartView:      {name: "RequestStartView", sealed: true, headerOnly: true, group: RequestStartViewGroup},
	RequestPrepares:       {name: "RequestPrepares", sealed: true, headerOnly: true, group: RequestPreparesGroup},
	RepairPrepare:         {name: "RepairPrepare", group: PrepareGroup},
	RepairDone:            {name: "RepairDone", sealed: true, headerOnly: true, group: RepairGroup},
	RangeEvicted:          {name: "RangeEvicted", sealed: true, headerOnly: true, group: RepairGroup},
	RequestStateTransfer:  {name: "RequestStateTransfer", sealed: true, headerOnly: true, group: StateTransferGroup},
	StateTransferTarget:   {name: "StateTransferTarget", sealed: true, group: TargetGroup},
	RequestStateChunk:     {name: "RequestStateChunk", sealed: true, headerOnly: true, group: ChunkGroup},
	StateChunk:            {name: "StateChunk", sealed: true, group: ChunkGroup},
	ForwardRegister:       {name: "ForwardRegister", sealed: true, headerOnly: true},
	ForwardRegisterResult: {name: "ForwardRegisterResult", sealed: true, headerOnly: true},
	ForwardLogout:         {name: "ForwardLogout", sealed: true, headerOnly: true},
	ForwardLogoutResult:   {name: "ForwardLogoutResult", sealed: true, headerOnly: true},
}

// String returns the registry's name, or "command 31".
func (c Command) String() string {
	if c > CommandMax {
		return "command " + strconv.Itoa(int(c))
	}
	return registry[c].name
}

// Valid reports whether c is in the registry.
func (c Command) Valid() bool { return c <= CommandMax }

// Sealed reports whether bytes 0..16 of c's frames are the seal of 16..256
// (§4.3). Prepares are not sealed: they carry an identity.
func (c Command) Sealed() bool { return c.info().sealed }

// IsPrepare reports whether c carries a prepare: 6 live, 19 repaired (§1.2).
func (c Command) IsPrepare() bool { return c == Prepare || c == RepairPrepare }

// HeaderOnly reports whether honest frames of c have no body (§1.0).
func (c Command) HeaderOnly() bool { return c.info().headerOnly }

// ReplicaPlane reports whether replicas send c to one another after the
// handshake (§2.3).
func (c Command) ReplicaPlane() bool { return c.Sealed() || c.IsPrepare() }

// HonestSize reports whether size is one that c's frames may have, given the
// configured maximum. It is asked after a seal or identity did not match, when
// the size is no more to be trusted than any other byte: a size that the command
// cannot have means that framing is lost (§2.5).
func (c Command) HonestSize(size, max uint32) bool {
	switch {
	case size < HeaderSize || size > max:
		return false
	case c.HeaderOnly():
		return size == HeaderSize
	case c == DoViewChange || c == StartView:
		return size%HeaderSize == 0 && size <= HeaderSize*(SuffixMax+1)
	case c == StateTransferTarget:
		return size == HeaderSize || size >= HeaderSize+manifestOverhead && size <= HeaderSize+ManifestMax
	case c == StateChunk:
		return size > HeaderSize && size <= StateChunkMax
	}
	return true
}
