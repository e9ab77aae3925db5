package wire

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

// subset is the part of the recordings that lies in every clone.
const subset = "../internal/replica/testdata/recordings"

// maxFrame is Iggy's default message_bus.max_message_size (§8.4).
const maxFrame = 64 << 20

// A recorded frame is what a replica of a real cluster put on a link.
type recorded struct {
	file     string // "tour-psk/003-1-2.d2a.bin"
	at       int    // offset in the file
	bytes    []byte
	sender   uint8
	replicas int
}

func (r recorded) head() *Header { return (*Header)(r.bytes) }
func (r recorded) body() []byte  { return r.bytes[256:] }
func (r recorded) String() string {
	return fmt.Sprintf("%s+%d (command %d)", r.file, r.at, r.bytes[60])
}

// recordings returns every recorded frame: of all material when REPLGATE_CAPTURES
// names its folder, else of the subset.
func recordings(tb testing.TB) []recorded {
	tb.Helper()
	frames, err := readRecordings()
	if err != nil {
		tb.Fatal(err)
	}
	return frames
}

var readRecordings = sync.OnceValues(func() (all []recorded, err error) {
	dir := os.Getenv("REPLGATE_CAPTURES")
	if dir == "" {
		dir = subset
	}
	root := os.DirFS(dir)
	names, err := fs.Glob(root, "*/[0-9]*-[0-9]*-[0-9]*.bin")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		frames, err := readFile(root, name)
		if err != nil {
			return nil, err
		}
		all = append(all, frames...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no recordings in %s", dir)
	}
	return all, nil
})

// readFile cuts one file into frames, by the size field and nothing else. The
// recorder was stopped at some moment, so part of a frame may be left.
func readFile(root fs.FS, name string) (frames []recorded, err error) {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	var number, dialer, acceptor int
	if _, err := fmt.Sscanf(path.Base(name), "%d-%d-%d", &number, &dialer, &acceptor); err != nil {
		return nil, err
	}
	r := recorded{file: name, sender: uint8(dialer), replicas: 3}
	if strings.HasSuffix(name, ".a2d.bin") {
		r.sender = uint8(acceptor)
	}
	if path.Dir(name) == "five" {
		r.replicas = 5
	}
	for len(b)-r.at >= 256 {
		size := int(le.Uint32(b[r.at+48:]))
		if size < 256 {
			return nil, fmt.Errorf("%s+%d: size %d", name, r.at, size)
		}
		if r.at+size > len(b) {
			break
		}
		r.bytes = b[r.at : r.at+size : r.at+size]
		frames = append(frames, r)
		r.at += size
	}
	return frames, nil
}

// What lies in every clone is all there: a test that finds no frame of a command
// tests nothing.
func TestRecordingsAreWhole(t *testing.T) {
	if os.Getenv("REPLGATE_CAPTURES") != "" {
		// The counts are those of the subset; every run without the variable holds them.
		t.Skip("another folder is read")
	}
	got := map[Command]int{}
	for _, r := range recordings(t) {
		got[Command(r.bytes[60])]++
	}
	want := map[Command]int{6: 753, 7: 766, 9: 491, 10: 188, 11: 189, 12: 23, 14: 25, 15: 11, 16: 11, 17: 78, 18: 11,
		19: 56, 20: 11, 21: 6, 22: 8, 23: 8, 24: 6, 25: 6, 26: 31, 27: 31, 28: 33, 29: 32}
	for c := range Command(Commands) {
		if got[c] != want[c] {
			t.Errorf("command %d: got %d frames, want %d", c, got[c], want[c])
		}
	}
}

// Every recorded frame verifies: seals (§4.3), identities (§4.4), the layout of
// its command (§1), body seals (§4.5), suffixes (§4.6), batches (§5), manifests
// (§6.1), and zeros where builders write zero (§1.8, §3.5).
func TestRecordingsVerify(t *testing.T) {
	cluster := ClusterIDOf("iggy-cluster")
	var body BodyVerifier
	for _, r := range recordings(t) {
		h := r.head()
		c := h.Command()
		check := func(what string, ok bool) {
			if !ok {
				t.Errorf("%v: %s", r, what)
			}
		}
		check("§1.0 command", c.Valid() && (c.ReplicaPlane() || c >= ReplicaHello && c <= ReplicaFinish))
		check("§1.0 honest size", c.HonestSize(Size.Get(h), maxFrame))
		check("§3.1 cluster", h.ClusterID() == cluster)
		check("§3.2 sender", c.IsPrepare() || Replica.Get(h) == r.sender)
		check("§3.2 replica", int(Replica.Get(h)) < r.replicas)
		check("§3.4 release", Release.Get(h) == 0)
		check("§3.5 reserved_frame", ReservedFrameZero(h))
		check("§1 reserved tail", ReservedTailZero(h))
		check("§4.3 seal", !c.Sealed() || SealOK(h))
		check("§4.4 identity", !c.IsPrepare() || Checksum.Get(h) == Identity(h))
		check("§1.8 handshake", c.ReplicaPlane() || HandshakeClean(h))
		if err := Validate(h); err != nil {
			t.Errorf("%v: §1 Validate: %v", r, err)
		}
		if err := body.Verify(h, r.body()); err != nil {
			t.Errorf("%v: §4.5, §5, §6.1 body: %v", r, err)
		}
		if c == DoViewChange || c == StartView {
			if err := CheckSuffix(ViewOp.Get(h), r.body()); err != nil {
				t.Errorf("%v: §4.6 suffix: %v", r, err)
			}
		}
	}
}

// The kind of seal that a recorded body carries, said by raw bytes (§4.5, §5, §6).
func TestRecordingsBodyKinds(t *testing.T) {
	seen := map[BodyKind]int{}
	for _, r := range recordings(t) {
		want := BodyUnsealed
		switch b := r.bytes; {
		case (b[60] == 6 || b[60] == 19) && b[208] == 160:
			want = BodyBatch
		case (b[60] == 6 || b[60] == 19) && b[208] < 160, (b[60] == 11 || b[60] == 12) && len(b) > 256:
			want = BodySealed
		case b[60] == 23 && b[160] == 1:
			want = BodyManifest
		}
		seen[want]++
		if got := BodyKindOf(r.head()); got != want {
			t.Errorf("%v: got body kind %d, want %d", r, got, want)
		}
		if want == BodySealed && !bytes.Equal(r.bytes[16:32], refPrint(r.body())) {
			t.Errorf("%v: §4.5 checksum_body is not the body's hash", r)
		}
	}
	for k := BodyUnsealed; k <= BodyManifest; k++ {
		if seen[k] == 0 {
			t.Errorf("no recorded body of kind %d", k)
		}
	}
}

// single is the header of one of the single frames.
func single(tb testing.TB, name string) *Header {
	tb.Helper()
	b, err := os.ReadFile(path.Join(subset, "frames", name+".bin"))
	if err != nil {
		tb.Fatal(err)
	}
	return (*Header)(b)
}
