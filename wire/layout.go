package wire

// The offsets, named in one place. Common fields first (§0), then the area at
// 128..256 command by command (§1). layoutOf is the table that says which of
// them a command has; what it leaves out must be zero.
const (
	Checksum     Wide128 = 0
	ChecksumBody Wide128 = 16
	Cluster      Wide128 = 32
	Size         U32     = 48
	View         U32     = 52
	Release      U32     = 56
	CommandAt    U8      = 60
	Replica      U8      = 61

	reservedFrame = 62
	areaStart     = 128

	// 5 Request as the replica plane decodes it (§1.1).
	RequestClient    Wide128 = 128
	RequestChecksum  Wide128 = 144
	RequestTimestamp U64     = 160
	RequestNumber    U64     = 168
	RequestOperation U8      = 176
	RequestSession   U64     = 184
	RequestUser      U32     = 192
	RequestCode      U32     = 196 // the command code of NonReplicated
	RequestGroup     U64     = 248

	// 6 Prepare, 19 RepairPrepare (§1.2).
	PrepareClient          Wide128 = 128
	PrepareParent          Wide128 = 144
	PrepareRequestChecksum Wide128 = 160
	PrepareOp              U64     = 176
	PrepareCommit          U64     = 184
	PrepareTimestamp       U64     = 192
	PrepareRequest         U64     = 200
	PrepareOperation       U8      = 208
	PrepareGroup           U64     = 216
	PrepareUser            U32     = 224
	prepareReserved                = 228 // must be zero; 209..216 is only covered by the identity

	// 7 PrepareOk (§1.3).
	PrepareOkParent    Wide128 = 128
	PrepareOkChecksum  Wide128 = 144 // identity of the prepare it acknowledges
	PrepareOkOp        U64     = 160
	PrepareOkCommit    U64     = 168
	PrepareOkTimestamp U64     = 176
	PrepareOkRequest   U64     = 184
	PrepareOkOperation U8      = 192
	PrepareOkGroup     U64     = 200

	// 8 Reply (framing).
	ReplyRequestChecksum Wide128 = 128
	ReplyContext         Wide128 = 144
	ReplyClient          Wide128 = 160
	ReplyOp              U64     = 176
	ReplyCommit          U64     = 184
	ReplyTimestamp       U64     = 192
	ReplyRequest         U64     = 200
	ReplyOperation       U8      = 208
	ReplyStatus          U32     = 216

	// 9 Commit (§1.4).
	CommitChecksum   Wide128 = 128 // never set
	CommitToken      U64     = 144 // timestamp_monotonic, a counter per group
	CommitCommit     U64     = 152
	CommitCheckpoint U64     = 160 // never set
	CommitGroup      U64     = 168

	// 10 StartViewChange (§1.5).
	StartViewChangeGroup U64 = 128

	// 11 DoViewChange (§1.6) and 12 StartView (§1.7) begin alike.
	ViewOp               U64     = 128
	ViewCommit           U64     = 136
	ViewGroup            U64     = 144
	DoViewChangeLogView  U32     = 152
	DoViewChangeNacks    Wide128 = 224
	DoViewChangePresent  Wide128 = 240
	StartViewIncarnation Wide128 = 240

	// 13 Eviction (framing).
	EvictionClient     Wide128 = 128
	EvictionVersionMax U32     = 144
	EvictionVersionMin U32     = 148
	EvictionReasonAt   U8      = 255

	// 14, 15, 16 handshake (§1.8). Nonce and MAC are 32 bytes each.
	HelloNonce  = 128
	HelloMAC    = 160
	HelloStatus = 192
	NonceSize   = 32
	MACSize     = 32

	// 17 RequestStartView (§1.9).
	RequestStartViewGroup       U64     = 128
	RequestStartViewIncarnation Wide128 = 240

	// 18 RequestPrepares (§1.10).
	RequestPreparesNonce Wide128 = 128
	RequestPreparesFrom  U64     = 144
	RequestPreparesTo    U64     = 152
	RequestPreparesGroup U64     = 160

	// 20 RepairDone, 21 RangeEvicted (§1.11).
	RepairNonce Wide128 = 128
	RepairOp    U64     = 144
	RepairGroup U64     = 152

	// 22 RequestStateTransfer (§1.12).
	StateTransferNonce Wide128 = 128
	StateTransferGroup U64     = 144

	// 23 StateTransferTarget (§1.12).
	TargetNonce     Wide128 = 128
	TargetCommitOp  U64     = 144
	TargetGroup     U64     = 152
	TargetAvailable U8      = 160
	TargetTransient U8      = 161
	TargetCommitMax U64     = 168

	// 24 RequestStateChunk, 25 StateChunk (§1.12) begin alike.
	ChunkNonce           Wide128 = 128
	ChunkOffset          U64     = 144
	ChunkGroup           U64     = 152
	RequestChunkLen      U32     = 160
	RequestChunkArtifact U32     = 164
	StateChunkArtifact   U32     = 160

	// 26..29 session forwarding (§1.13). Client and nonce change places between
	// a request and its result.
	ForwardClient     Wide128 = 128
	ForwardNonce      Wide128 = 144
	ForwardUser       U32     = 160 // 26
	ForwardSession    U64     = 160 // 28
	ForwardRequest    U64     = 168 // 28
	ResultNonce       Wide128 = 128
	ResultClient      Wide128 = 144
	RegisterEpoch     U64     = 160 // 27
	RegisterWatermark U64     = 168 // 27
	LogoutCommit      U64     = 160 // 29
	ResultOutcome     U8      = 255
)

// Field is one named run of a header's bytes.
type Field struct {
	Name string
	At   int // offset of the first byte
	Len  int // bytes
}

// The widths of the typed offsets, for tables.
func (f U8) named(n string) Field      { return Field{n, int(f), 1} }
func (f U32) named(n string) Field     { return Field{n, int(f), 4} }
func (f U64) named(n string) Field     { return Field{n, int(f), 8} }
func (f Wide128) named(n string) Field { return Field{n, int(f), 16} }

// Layout returns the fields of c's area at 128..256 in order of offset. Bytes
// that no field covers are reserved: builders write zero there (§1, §3.5).
// The slice is made anew at each call.
func Layout(c Command) []Field {
	switch c {
	case Request:
		return []Field{RequestClient.named("client"), RequestChecksum.named("request_checksum"),
			RequestTimestamp.named("timestamp"), RequestNumber.named("request"), RequestOperation.named("operation"),
			RequestSession.named("session"), RequestUser.named("user_id"), RequestCode.named("code"), RequestGroup.named("group")}
	case Prepare, RepairPrepare:
		return []Field{PrepareClient.named("client"), PrepareParent.named("parent"),
			PrepareRequestChecksum.named("request_checksum"), PrepareOp.named("op"), PrepareCommit.named("commit"),
			PrepareTimestamp.named("timestamp"), PrepareRequest.named("request"), PrepareOperation.named("operation"),
			PrepareGroup.named("group"), PrepareUser.named("user_id")}
	case PrepareOk:
		return []Field{PrepareOkParent.named("parent"), PrepareOkChecksum.named("prepare_checksum"),
			PrepareOkOp.named("op"), PrepareOkCommit.named("commit"), PrepareOkTimestamp.named("timestamp"),
			PrepareOkRequest.named("request"), PrepareOkOperation.named("operation"), PrepareOkGroup.named("group")}
	case Reply:
		return []Field{ReplyRequestChecksum.named("request_checksum"), ReplyContext.named("context"),
			ReplyClient.named("client"), ReplyOp.named("op"), ReplyCommit.named("commit"),
			ReplyTimestamp.named("timestamp"), ReplyRequest.named("request"), ReplyOperation.named("operation"),
			ReplyStatus.named("status")}
	case Commit:
		return []Field{CommitChecksum.named("commit_checksum"), CommitToken.named("timestamp_monotonic"),
			CommitCommit.named("commit"), CommitCheckpoint.named("checkpoint_op"), CommitGroup.named("group")}
	case StartViewChange:
		return []Field{StartViewChangeGroup.named("group")}
	case DoViewChange:
		return []Field{ViewOp.named("op"), ViewCommit.named("commit"), ViewGroup.named("group"),
			DoViewChangeLogView.named("log_view"), DoViewChangeNacks.named("nack_bitset"), DoViewChangePresent.named("present_bitset")}
	case StartView:
		return []Field{ViewOp.named("op"), ViewCommit.named("commit"), ViewGroup.named("group"), StartViewIncarnation.named("incarnation")}
	case Eviction:
		return []Field{EvictionClient.named("client"), EvictionVersionMax.named("server_protocol_version"),
			EvictionVersionMin.named("server_protocol_version_min"), EvictionReasonAt.named("reason")}
	case ReplicaHello, ReplicaChallenge, ReplicaFinish:
		return []Field{{"nonce", HelloNonce, NonceSize}, {"mac", HelloMAC, MACSize}, {"status", HelloStatus, 1}}
	}
	return layoutRepair(c)
}

// layoutRepair is Layout for the commands from 17 on: repair, state transfer and
// session forwarding.
func layoutRepair(c Command) []Field {
	switch c {
	case RequestStartView:
		return []Field{RequestStartViewGroup.named("group"), RequestStartViewIncarnation.named("incarnation")}
	case RequestPrepares:
		return []Field{RequestPreparesNonce.named("nonce"), RequestPreparesFrom.named("from_op"),
			RequestPreparesTo.named("to_op"), RequestPreparesGroup.named("group")}
	case RepairDone, RangeEvicted:
		return []Field{RepairNonce.named("nonce"), RepairOp.named("op"), RepairGroup.named("group")}
	case RequestStateTransfer:
		return []Field{StateTransferNonce.named("nonce"), StateTransferGroup.named("group")}
	case StateTransferTarget:
		return []Field{TargetNonce.named("nonce"), TargetCommitOp.named("commit_op"), TargetGroup.named("group"),
			TargetAvailable.named("available"), TargetTransient.named("unavailable_transient"), TargetCommitMax.named("commit_max")}
	case RequestStateChunk:
		return []Field{ChunkNonce.named("nonce"), ChunkOffset.named("offset"), ChunkGroup.named("group"),
			RequestChunkLen.named("len"), RequestChunkArtifact.named("artifact")}
	case StateChunk:
		return []Field{ChunkNonce.named("nonce"), ChunkOffset.named("offset"), ChunkGroup.named("group"), StateChunkArtifact.named("artifact")}
	case ForwardRegister:
		return []Field{ForwardClient.named("client"), ForwardNonce.named("nonce"), ForwardUser.named("user_id")}
	case ForwardRegisterResult:
		return []Field{ResultNonce.named("nonce"), ResultClient.named("client"), RegisterEpoch.named("epoch"),
			RegisterWatermark.named("watermark"), ResultOutcome.named("outcome")}
	case ForwardLogout:
		return []Field{ForwardClient.named("client"), ForwardNonce.named("nonce"), ForwardSession.named("session"), ForwardRequest.named("request")}
	case ForwardLogoutResult:
		return []Field{ResultNonce.named("nonce"), ResultClient.named("client"), LogoutCommit.named("commit"), ResultOutcome.named("outcome")}
	}
	return nil
}
