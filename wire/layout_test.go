package wire

import (
	"bytes"
	"encoding/hex"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// field is one line of the protocol's layout tables: a name and an offset as they
// stand there, and the accessor of the package that must be at this offset.
type field struct {
	name string
	at   int
	off  any // U8, U32, U64, Wide128, or view
}

// view is a run of bytes that is reached as a slice: nonce, MAC, status.
type view struct {
	len int
	of  func(h *Header) []byte
}

func (f field) len() int {
	switch off := f.off.(type) {
	case U8:
		return 1
	case U32:
		return 4
	case U64:
		return 8
	case view:
		return off.len
	}
	return 16
}

// get reads the field through the package's accessor, as it stands on the wire.
func (f field) get(h *Header) []byte {
	switch off := f.off.(type) {
	case U8:
		return []byte{off.Get(h)}
	case U32:
		return le.AppendUint32(nil, off.Get(h))
	case U64:
		return le.AppendUint64(nil, off.Get(h))
	case Wide128:
		v := off.Get(h)
		return le.AppendUint64(le.AppendUint64(nil, v.Lo), v.Hi)
	}
	return bytes.Clone(f.off.(view).of(h))
}

// set writes what get returned through the package's setter.
func (f field) set(h *Header, v []byte) {
	switch off := f.off.(type) {
	case U8:
		off.Set(h, v[0])
	case U32:
		off.Set(h, le.Uint32(v))
	case U64:
		off.Set(h, le.Uint64(v))
	case Wide128:
		off.Set(h, U128{Lo: le.Uint64(v), Hi: le.Uint64(v[8:])})
	case view:
		copy(off.of(h), v)
	}
}

// common is the table of §0.
var common = []field{
	{"checksum", 0, Checksum}, {"checksum_body", 16, ChecksumBody}, {"cluster", 32, Cluster}, {"size", 48, Size},
	{"view", 52, View}, {"release", 56, Release}, {"command", 60, CommandAt}, {"replica", 61, Replica},
}

var prepareArea = []field{
	{"client", 128, PrepareClient}, {"parent", 144, PrepareParent}, {"request_checksum", 160, PrepareRequestChecksum},
	{"op", 176, PrepareOp}, {"commit", 184, PrepareCommit}, {"timestamp", 192, PrepareTimestamp},
	{"request", 200, PrepareRequest}, {"operation", 208, PrepareOperation}, {"group", 216, PrepareGroup},
	{"user_id", 224, PrepareUser},
}

var handshakeArea = []field{
	{"nonce", 128, view{32, (*Header).Nonce}}, {"mac", 160, view{32, (*Header).MAC}},
	{"status", 192, view{1, func(h *Header) []byte { return h[HelloStatus : HelloStatus+1] }}},
}

var repairArea = []field{{"nonce", 128, RepairNonce}, {"op", 144, RepairOp}, {"group", 152, RepairGroup}}

// areas are the tables of §1.1 to §1.13 and of the client protocol's framing.
var areas = map[Command][]field{
	5: {{"client", 128, RequestClient}, {"request_checksum", 144, RequestChecksum}, {"timestamp", 160, RequestTimestamp},
		{"request", 168, RequestNumber}, {"operation", 176, RequestOperation}, {"session", 184, RequestSession},
		{"user_id", 192, RequestUser}, {"code", 196, RequestCode}, {"group", 248, RequestGroup}},
	6: prepareArea, 19: prepareArea,
	7: {{"parent", 128, PrepareOkParent}, {"prepare_checksum", 144, PrepareOkChecksum}, {"op", 160, PrepareOkOp},
		{"commit", 168, PrepareOkCommit}, {"timestamp", 176, PrepareOkTimestamp}, {"request", 184, PrepareOkRequest},
		{"operation", 192, PrepareOkOperation}, {"group", 200, PrepareOkGroup}},
	8: {{"request_checksum", 128, ReplyRequestChecksum}, {"context", 144, ReplyContext}, {"client", 160, ReplyClient},
		{"op", 176, ReplyOp}, {"commit", 184, ReplyCommit}, {"timestamp", 192, ReplyTimestamp},
		{"request", 200, ReplyRequest}, {"operation", 208, ReplyOperation}, {"status", 216, ReplyStatus}},
	9: {{"commit_checksum", 128, CommitChecksum}, {"timestamp_monotonic", 144, CommitToken}, {"commit", 152, CommitCommit},
		{"checkpoint_op", 160, CommitCheckpoint}, {"group", 168, CommitGroup}},
	10: {{"group", 128, StartViewChangeGroup}},
	11: {{"op", 128, ViewOp}, {"commit", 136, ViewCommit}, {"group", 144, ViewGroup}, {"log_view", 152, DoViewChangeLogView},
		{"nack_bitset", 224, DoViewChangeNacks}, {"present_bitset", 240, DoViewChangePresent}},
	12: {{"op", 128, ViewOp}, {"commit", 136, ViewCommit}, {"group", 144, ViewGroup}, {"incarnation", 240, StartViewIncarnation}},
	13: {{"client", 128, EvictionClient}, {"server_protocol_version", 144, EvictionVersionMax},
		{"server_protocol_version_min", 148, EvictionVersionMin}, {"reason", 255, EvictionReasonAt}},
	14: handshakeArea, 15: handshakeArea, 16: handshakeArea,
	17: {{"group", 128, RequestStartViewGroup}, {"incarnation", 240, RequestStartViewIncarnation}},
	18: {{"nonce", 128, RequestPreparesNonce}, {"from_op", 144, RequestPreparesFrom}, {"to_op", 152, RequestPreparesTo},
		{"group", 160, RequestPreparesGroup}},
	20: repairArea, 21: repairArea,
	22: {{"nonce", 128, StateTransferNonce}, {"group", 144, StateTransferGroup}},
	23: {{"nonce", 128, TargetNonce}, {"commit_op", 144, TargetCommitOp}, {"group", 152, TargetGroup},
		{"available", 160, TargetAvailable}, {"unavailable_transient", 161, TargetTransient}, {"commit_max", 168, TargetCommitMax}},
	24: {{"nonce", 128, ChunkNonce}, {"offset", 144, ChunkOffset}, {"group", 152, ChunkGroup}, {"len", 160, RequestChunkLen},
		{"artifact", 164, RequestChunkArtifact}},
	25: {{"nonce", 128, ChunkNonce}, {"offset", 144, ChunkOffset}, {"group", 152, ChunkGroup}, {"artifact", 160, StateChunkArtifact}},
	26: {{"client", 128, ForwardClient}, {"nonce", 144, ForwardNonce}, {"user_id", 160, ForwardUser}},
	27: {{"nonce", 128, ResultNonce}, {"client", 144, ResultClient}, {"epoch", 160, RegisterEpoch},
		{"watermark", 168, RegisterWatermark}, {"outcome", 255, ResultOutcome}},
	28: {{"client", 128, ForwardClient}, {"nonce", 144, ForwardNonce}, {"session", 160, ForwardSession}, {"request", 168, ForwardRequest}},
	29: {{"nonce", 128, ResultNonce}, {"client", 144, ResultClient}, {"commit", 160, LogoutCommit}, {"outcome", 255, ResultOutcome}},
}

// allFields is the table of §0 and the command's.
func allFields(c Command) []field { return slices.Concat(common, areas[c]) }

// Layout says what the tables of §1 say, name by name.
func TestLayout(t *testing.T) {
	for c := range Command(255) {
		var want []Field
		for _, f := range areas[c] {
			want = append(want, Field{f.name, f.at, f.len()})
		}
		if got := Layout(c); !slices.Equal(got, want) {
			t.Errorf("§1 %v: got %v\nwant %v", c, got, want)
		}
	}
}

// Each accessor of §0 and §1 reads the bytes of its own offset, and each setter
// writes them and no other.
func TestAccessors(t *testing.T) {
	for c := range Command(Commands) {
		var h Header
		for i := range h {
			h[i] = byte(i*7 + 3) // no byte twice
		}
		h[60] = byte(c)
		for _, f := range allFields(c) {
			want := h[f.at : f.at+f.len()]
			if got := f.get(&h); !bytes.Equal(got, want) {
				t.Errorf("§1 %v.%s: got %x, want the bytes at %d, %x", c, f.name, got, f.at, want)
			}
			var set, only Header
			f.set(&set, want)
			copy(only[f.at:], want)
			if set != only {
				t.Errorf("§1 %v.%s: the setter wrote outside %d..%d", c, f.name, f.at, f.at+f.len())
			}
		}
	}
}

// Operation and Group know where a command keeps them, and which has none (§1.14).
func TestOperationAndGroup(t *testing.T) {
	operations := map[Command]int{5: 176, 6: 208, 19: 208, 7: 192, 8: 208}
	groups := map[Command]int{6: 216, 19: 216, 7: 200, 9: 168, 10: 128, 17: 128, 11: 144, 12: 144, 22: 144, 18: 160,
		20: 152, 21: 152, 23: 152, 24: 152, 25: 152}
	for c := range Command(255) {
		var h Header
		for i := range h {
			h[i] = byte(i*7 + 3)
		}
		h[60] = byte(c)
		at, want := operations[c]
		if got, ok := h.Operation(); ok != want || ok && byte(got) != h[at] {
			t.Errorf("§1.14 %v: got operation %d, %v, want the byte at %d, %v", c, got, ok, at, want)
		}
		at, want = groups[c]
		if got, ok := h.Group(); ok != want || ok && got != le.Uint64(h[at:]) {
			t.Errorf("§1 %v: got group %x, %v, want the bytes at %d, %v", c, got, ok, at, want)
		}
	}
}

// One frame of each command, its values as another program read them.
func TestDecodedValues(t *testing.T) {
	text, err := os.ReadFile("testdata/decoded.tsv")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Command]int{}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		at, err := strconv.Atoi(f[1])
		if err != nil {
			t.Fatal(err)
		}
		frames, err := readFile(os.DirFS(subset), f[0])
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(frames, func(r recorded) bool { return r.at == at })
		h := frames[i].head()
		fields := allFields(h.Command())
		i = slices.IndexFunc(fields, func(x field) bool { return x.name == f[2] })
		if i < 0 {
			t.Fatalf("%s+%d: no field %s", f[0], at, f[2])
		}
		if got := printed(fields[i], h); got != f[3] {
			t.Errorf("%s+%d: %v.%s: got %s, want %s", f[0], at, h.Command(), f[2], got, f[3])
		}
		seen[h.Command()]++
	}
	for c, fields := range areas {
		if want := len(common) + len(fields); c != Request && c != Reply && c != Eviction && seen[c] != want {
			t.Errorf("%v: got %d values, want %d", c, seen[c], want)
		}
	}
}

// printed is how decoded.tsv writes a value: numbers in hexadecimal, and what is
// no number (cluster, nonce and MAC of a handshake) in the order of the wire.
func printed(f field, h *Header) string {
	b := f.get(h)
	if _, bytesOnly := f.off.(view); !bytesOnly && f.name != "cluster" {
		slices.Reverse(b)
	}
	if s := strings.TrimLeft(hex.EncodeToString(b), "0"); s != "" {
		return s
	}
	return "0"
}
