package wire

import (
	"strconv"
	"testing"
)

// §1.0: the registry, all 256 bytes.
func TestCommands(t *testing.T) {
	names := []string{"Reserved", "Ping", "Pong", "PingClient", "PongClient", "Request", "Prepare", "PrepareOk", "Reply",
		"Commit", "StartViewChange", "DoViewChange", "StartView", "Eviction", "ReplicaHello", "ReplicaChallenge",
		"ReplicaFinish", "RequestStartView", "RequestPrepares", "RepairPrepare", "RepairDone", "RangeEvicted",
		"RequestStateTransfer", "StateTransferTarget", "RequestStateChunk", "StateChunk", "ForwardRegister",
		"ForwardRegisterResult", "ForwardLogout", "ForwardLogoutResult"}
	if Commands != 30 || CommandMax != 29 {
		t.Errorf("got %d commands to %d, want 30 to 29", Commands, CommandMax)
	}
	for i := range 256 {
		c, want := Command(i), "command "+strconv.Itoa(i)
		if i < len(names) {
			want = names[i]
		}
		if got := c.String(); got != want || c.Valid() != (i <= 29) {
			t.Errorf("%d: got %s, valid %v, want %s", i, got, c.Valid(), want)
		}
		prepare := i == 6 || i == 19
		if c.Sealed() != refSealed(byte(i)) || c.HeaderOnly() != refHeaderOnly(byte(i)) || c.IsPrepare() != prepare ||
			c.ReplicaPlane() != (prepare || refSealed(byte(i))) {
			t.Errorf("§1.0 %v: got sealed %v, header only %v, prepare %v, replica plane %v",
				c, c.Sealed(), c.HeaderOnly(), c.IsPrepare(), c.ReplicaPlane())
		}
	}
}

// §2.5: a length that is still believed after a seal did not match is one that the
// command can have.
func TestHonestSize(t *testing.T) {
	const max = 1 << 20
	for _, row := range []struct {
		name    string
		command []Command
		yes, no []uint32
	}{
		{"§1.0 header only", []Command{7, 9, 10, 14, 15, 16, 17, 18, 20, 21, 22, 24, 26, 27, 28, 29},
			[]uint32{256}, []uint32{0, 255, 257, 512, max, 1<<32 - 1}},
		{"§4.6 suffix", []Command{11, 12}, []uint32{256, 512, 256 + 127*256, 256 + 128*256},
			[]uint32{0, 128, 255, 257, 511, 513, 256 + 129*256, 1<<32 - 256}},
		{"§6.1 manifest", []Command{23}, []uint32{256, 273, 274, 256 + 17 + 25, max}, []uint32{255, 257, 272, max + 1}},
		{"§6.3 chunk", []Command{25}, []uint32{257, 256 + 262143, 256 + 262144}, []uint32{0, 255, 256, 256 + 262145, max}},
		{"§1.2 prepare", []Command{6, 19}, []uint32{256, 257, max}, []uint32{0, 255, max + 1, 1<<32 - 1}},
	} {
		for _, c := range row.command {
			for _, size := range row.yes {
				if !c.HonestSize(size, max) {
					t.Errorf("%s, %v: got no for %d", row.name, c, size)
				}
			}
			for _, size := range row.no {
				if c.HonestSize(size, max) {
					t.Errorf("%s, %v: got yes for %d", row.name, c, size)
				}
			}
		}
	}
	for _, size := range []uint32{256 + 17 + 25*65536, 256 + 17 + 25*65536 + 1} {
		if got, want := StateTransferTarget.HonestSize(size, maxFrame), size == 256+17+25*65536; got != want {
			t.Errorf("§6.1 a manifest frame of %d: got %v, want %v", size, got, want)
		}
	}
	if StateChunk.HonestSize(1000, 999) || Prepare.HonestSize(1000, 999) || DoViewChange.HonestSize(512, 511) {
		t.Error("§2.1: a size above the maximum is honest")
	}
	if StateChunkMax != 262400 {
		t.Errorf("§6.3: got a largest chunk frame of %d, want 262400", StateChunkMax)
	}
}

// §1.14: the class of all 256 bytes, and their names.
func TestOperations(t *testing.T) {
	names := map[Operation]string{0: "Reserved", 1: "Register", 2: "NonReplicated", 3: "Logout",
		64: "CreateTopicWithAssignments", 65: "CreatePartitionsWithAssignments", 66: "RemoveConsumerGroupMember",
		67: "CompleteConsumerGroupRevocation", 68: "TruncatePartition",
		128: "CreateStream", 129: "UpdateStream", 130: "DeleteStream", 131: "PurgeStream", 132: "CreateTopic",
		133: "UpdateTopic", 134: "DeleteTopic", 135: "PurgeTopic", 136: "CreatePartitions", 137: "DeletePartitions",
		138: "DeleteSegments", 139: "CreateConsumerGroup", 140: "DeleteConsumerGroup", 141: "CreateUser", 142: "UpdateUser",
		143: "DeleteUser", 144: "ChangePassword", 145: "UpdatePermissions", 146: "CreatePersonalAccessToken",
		147: "DeletePersonalAccessToken", 148: "JoinConsumerGroup", 149: "LeaveConsumerGroup",
		160: "SendMessages", 161: "StoreConsumerOffset", 162: "DeleteConsumerOffset"}
	for i := range 256 {
		o := Operation(i)
		want, ok := names[o]
		if !ok {
			want = "operation " + strconv.Itoa(i)
		}
		if got := o.String(); got != want || ok != refOperation(byte(i)) {
			t.Errorf("%d: got %s, want %s", i, got, want)
		}
		class, framed := ClassUnknown, false
		switch {
		case i == 0, i == 2, i == 138:
			class = ClassNever
		case i == 1, i == 3:
			class = ClassSession
		case i >= 64 && i <= 68, i >= 128 && i <= 149:
			class, framed = ClassMetadata, true
		case i >= 160 && i <= 162:
			class, framed = ClassPartition, i != 160
		}
		if o.Class() != class || o.ResultFramed() != framed {
			t.Errorf("§1.14 %v: got class %d, framed %v, want %d, %v", o, o.Class(), o.ResultFramed(), class, framed)
		}
	}
	if MetadataGroup != 0x8000000000000000 || PartitionGroupMax != 0xfffffffffffff {
		t.Errorf("§1.14: got groups %x and %x", MetadataGroup, PartitionGroupMax)
	}
}
