package policy_test

import (
	"errors"
	"os"
	"path"
	"slices"
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// captures is the folder of the recordings: the project's subset, or the full set
// that REPLGATE_CAPTURES names.
func captures() string {
	if dir := os.Getenv("REPLGATE_CAPTURES"); dir != "" {
		return dir
	}
	return "../internal/replica/testdata/recordings"
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(path.Join(captures(), name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// poison reads one of the recorded frames that a real Iggy executes, accepts or
// dies of, through a gate's reader.
func poison(t *testing.T, name string) []byte {
	t.Helper()
	f, err := framed(read(t, "frames/"+name+".bin"))
	if err != nil {
		t.Fatal(err)
	}
	return f.Bytes
}

// §2.3, §2.5, §2.6: each recorded frame has the verdict of product.md's table.
// They were sent from replica 0 to replica 1, the requests from 1 to 0.
func TestPoisonFrames(t *testing.T) {
	for _, c := range []struct {
		file   string
		sender uint8
		rule   string
	}{
		{"dvc-replica-200", 0, "replica_range"},
		{"commit-foreign-cluster", 0, "cluster"},
		{"request-register", 1, "client_request"},
		{"request-create-stream", 1, "client_request"},
		{"commit-bad-seal", 0, "seal"},
		{"hello-late", 0, "command_unexpected"},
		{"reply", 0, "command_unexpected"},
	} {
		l := leg()
		l.Sender = c.sender
		v := look(policy.NewJudge(table(t), l, new(policy.Chain)), poison(t, c.file))
		wantRefused(t, c.file, v, policy.Drop, c.rule)
		if v.Unframed() {
			t.Errorf("%s: got the end of framing, want the frame dropped alone", c.file)
		}
	}
}

// The same frames but for their one fault are honest: what is refused is the fault.
func TestPoisonFramesCured(t *testing.T) {
	wantForward(t, "dvc", look(newJudge(t), with(poison(t, "dvc-replica-200"), setByte(61, 0))))
	wantForward(t, "commit", look(newJudge(t), with(poison(t, "commit-bad-seal"))))
	wantForward(t, "foreign", look(newJudge(t), with(poison(t, "commit-foreign-cluster"), func(h *wire.Header) { h.SetClusterID(cluster) })))
}

// firstPrepare is the metadata prepare with which tour-plaintext's log begins.
func firstPrepare(t *testing.T) []byte {
	t.Helper()
	for _, f := range cut(t, read(t, "tour-plaintext/003-0-1.d2a.bin")) {
		h := (*wire.Header)(f)
		if h.Command() == wire.Prepare && wire.PrepareGroup.Get(h) == wire.MetadataGroup {
			return f
		}
	}
	t.Fatal("got no metadata prepare")
	return nil
}

// §2.6 c: refused behind the prepare that it does not fit; with an empty memory it
// is forwarded, as the first frame of a view is.
func TestPoisonForeignParent(t *testing.T) {
	first, foreign := firstPrepare(t), poison(t, "prepare-foreign-parent")
	if op := wire.PrepareOp.Get((*wire.Header)(foreign)); op != 2 || wire.PrepareOp.Get((*wire.Header)(first)) != 1 {
		t.Fatalf("got op %d behind %d, want 2 behind 1", op, wire.PrepareOp.Get((*wire.Header)(first)))
	}
	if wire.View.Get((*wire.Header)(first)) != wire.View.Get((*wire.Header)(foreign)) {
		t.Fatal("got two views: the frame proves nothing")
	}
	j := newJudge(t)
	wantForward(t, "the first prepare", look(j, first))
	wantRefused(t, "foreign parent", look(j, foreign), policy.Drop, "metadata_chain")
	wantForward(t, "with an empty memory", look(newJudge(t), foreign))
}

// A token of the future is observed, as honest counters may jump; it is refused
// where the rule says so, and then it does not count as the last one.
func TestPoisonTokenFromTheFuture(t *testing.T) {
	future := poison(t, "commit-token-from-the-future")
	honest := with(future, func(h *wire.Header) { wire.CommitToken.Set(h, 7) })
	next := with(future, func(h *wire.Header) { wire.CommitToken.Set(h, 8) })
	j := newJudge(t)
	wantForward(t, "an honest token", look(j, honest))
	if v := look(j, future); v.Action != policy.Forward || !slices.Equal(observed(v.Observed), []string{"token_jump"}) {
		t.Errorf("got %v by %v, observed %v, want it observed", v.Action, v.Rule, observed(v.Observed))
	}
	wantForward(t, "the honest one behind it", look(j, next))
	j = newJudge(t, "token_jump", "drop")
	wantForward(t, "an honest token", look(j, honest))
	for range 2 {
		wantRefused(t, "the future", look(j, future), policy.Drop, "token_jump")
	}
	wantForward(t, "the honest one behind it", look(j, next))
}

// §2.1: the reader ends what the rules never see.
func TestPoisonThatIsNoFrame(t *testing.T) {
	_, err := framed(read(t, "frames/command-31.bin"))
	if command, ok := errors.AsType[*wire.CommandError](err); !ok || command.Command != 31 {
		t.Errorf("command-31: got %v, want a CommandError of 31", err)
	}
	_, err = framed(read(t, "frames/size-255.bin"))
	if size, ok := errors.AsType[*wire.SizeError](err); !ok || size.Size != 255 || size.Max != maxFrame {
		t.Errorf("size-255: got %v, want a SizeError of 255", err)
	}
}

// Every file of frames/ is in a test above.
func TestPoisonFramesAreAllKnown(t *testing.T) {
	entries, err := os.ReadDir(path.Join(captures(), "frames"))
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"command-31.bin", "commit-bad-seal.bin", "commit-foreign-cluster.bin", "commit-token-from-the-future.bin",
		"dvc-replica-200.bin", "hello-late.bin", "prepare-foreign-parent.bin", "reply.bin", "request-create-stream.bin", "request-register.bin", "size-255.bin"}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, known) {
		t.Errorf("got files %v, want %v", got, known)
	}
}
