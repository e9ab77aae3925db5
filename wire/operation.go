package wire

import "strconv"

// Operation is the state-machine operation a prepare carries (§1.14).
type Operation uint8

// Class says which consensus plane an operation belongs to (§1.14).
type Class uint8

const (
	// ClassUnknown: the byte is no operation; Iggy drops the frame.
	ClassUnknown Class = iota
	// ClassSession: Register and Logout, replicated by the metadata group.
	ClassSession
	// ClassMetadata: replicated by the metadata group.
	ClassMetadata
	// ClassPartition: replicated by a partition group.
	ClassPartition
	// ClassNever: a byte Iggy knows and honest replicas never replicate (0, 2,
	// and 138, which a debug build panics on).
	ClassNever
)

// The operations that rules and decoders name.
const (
	OpReserved             Operation = 0
	OpRegister             Operation = 1
	OpNonReplicated        Operation = 2
	OpLogout               Operation = 3
	OpDeleteSegments       Operation = 138
	OpSendMessages         Operation = 160
	OpStoreConsumerOffset  Operation = 161
	OpDeleteConsumerOffset Operation = 162
)

// MetadataGroup is the group of the metadata plane, PartitionGroupMax the
// largest packed stream/topic/partition key: 20, 12 and 20 bits (§1.14).
const (
	MetadataGroup     uint64 = 1 << 63
	PartitionGroupMax uint64 = 1<<52 - 1
)

// String returns Iggy's name of the operation, or "operation 99".
func (o Operation) String() string {
	if name := operationNames[o]; name != "" {
		return name
	}
	return "operation " + strconv.Itoa(int(o))
}

// Class returns the plane o belongs to.
func (o Operation) Class() Class {
	switch {
	case operationNames[o] == "":
		return ClassUnknown
	case o == OpReserved || o == OpNonReplicated || o == OpDeleteSegments:
		return ClassNever
	case o == OpRegister || o == OpLogout:
		return ClassSession
	case o >= OpSendMessages:
		return ClassPartition
	}
	return ClassMetadata
}

// ResultFramed reports whether a reply to o starts with a result section
// (framing, "Result section"). A Register reply does when it is not empty.
func (o Operation) ResultFramed() bool {
	return o.Class() == ClassMetadata || o == OpStoreConsumerOffset || o == OpDeleteConsumerOffset
}

// operationNames holds every bit pattern Iggy accepts; an empty name is a byte
// that it refuses. It is only ever read.
var operationNames = [256]string{
	0: "Reserved", 1: "Register", 2: "NonReplicated", 3: "Logout",

	64: "CreateTopicWithAssignments", 65: "CreatePartitionsWithAssignments", 66: "RemoveConsumerGroupMember",
	67: "CompleteConsumerGroupRevocation", 68: "TruncatePartition",

	128: "CreateStream", 129: "UpdateStream", 130: "DeleteStream", 131: "PurgeStream",
	132: "CreateTopic", 133: "UpdateTopic", 134: "DeleteTopic", 135: "PurgeTopic",
	136: "CreatePartitions", 137: "DeletePartitions", 138: "DeleteSegments",
	139: "CreateConsumerGroup", 140: "DeleteConsumerGroup",
	141: "CreateUser", 142: "UpdateUser", 143: "DeleteUser", 144: "ChangePassword", 145: "UpdatePermissions",
	146: "CreatePersonalAccessToken", 147: "DeletePersonalAccessToken",
	148: "JoinConsumerGroup", 149: "LeaveConsumerGroup",

	160: "SendMessages", 161: "StoreConsumerOffset", 162: "DeleteConsumerOffset",
}
