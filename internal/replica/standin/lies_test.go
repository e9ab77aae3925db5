package standin

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/wire"
)

// Frames whose seals are right and which no honest replica sends: each is made
// of an honest one on its way.
func TestSealedLiesAreFaults(t *testing.T) {
	t.Parallel()
	for _, lie := range []struct {
		name    string
		command wire.Command
		skip    int // honest frames of the command before
		change  func(h *wire.Header, body []byte)
		want    Reason
	}{
		{"foreign cluster", wire.Commit, 0, func(h *wire.Header, _ []byte) { h.SetClusterID(wire.ClusterIDOf("other")) }, errCluster},
		{"foreign sender", wire.PrepareOk, 0, func(h *wire.Header, _ []byte) { wire.Replica.Set(h, 9) }, errReplica},
		{"unknown group", wire.Commit, 0, func(h *wire.Header, _ []byte) { wire.CommitGroup.Set(h, 77) }, errGroup},
		{"release", wire.Commit, 0, func(h *wire.Header, _ []byte) { wire.Release.Set(h, 1) }, errReserved},
		{"dirty tail", wire.PrepareOk, 0, func(h *wire.Header, _ []byte) { h[255] = 1 }, errReserved},
		{"state transfer", wire.Commit, 0, func(h *wire.Header, _ []byte) { h.SetCommand(wire.RequestStateTransfer) }, errCommand},
		{"client request", wire.Commit, 0, func(h *wire.Header, _ []byte) { h.SetCommand(wire.Request) }, errCommand},
		{"heartbeat of a backup", wire.Commit, 0, func(h *wire.Header, _ []byte) { wire.View.Set(h, 2) }, errNotPrimary},
		{"commit point going back", wire.Commit, 12, func(h *wire.Header, _ []byte) { wire.CommitCommit.Set(h, 0) }, errCommitBack},
		{"acknowledgement of nothing", wire.PrepareOk, 0, func(h *wire.Header, _ []byte) { wire.PrepareOkOp.Set(h, 99) }, errEcho},
		{"acknowledgement of another", wire.PrepareOk, 0, func(h *wire.Header, _ []byte) { wire.PrepareOkTimestamp.Set(h, 99) }, errEcho},
		{"acknowledgement elsewhere", wire.PrepareOk, 0, func(h *wire.Header, _ []byte) { wire.View.Set(h, 1) }, errNotForMe},
		{"parent", wire.Prepare, 9, func(h *wire.Header, _ []byte) { wire.PrepareParent.Set(h, wire.Wide(4)) }, errParent},
		{"timestamp", wire.Prepare, 3, func(h *wire.Header, _ []byte) { wire.PrepareTimestamp.Set(h, 1) }, errTimestamp},
		{"builder", wire.Prepare, 0, func(h *wire.Header, _ []byte) { wire.Replica.Set(h, 2) }, errBuilder},
		{"operation never replicated", wire.Prepare, 0, func(h *wire.Header, _ []byte) { wire.PrepareOperation.Set(h, 138) }, errPlane},
		{"op zero", wire.Prepare, 0, func(h *wire.Header, _ []byte) { wire.PrepareOp.Set(h, 0) }, errOtherOp},
		{"repair not asked for", wire.RepairPrepare, 0, func(h *wire.Header, _ []byte) { wire.PrepareOp.Set(h, 500) }, errUnasked},
		{"repair beyond the question", wire.RepairDone, 0, func(h *wire.Header, _ []byte) { wire.RepairOp.Set(h, 500) }, errRepairRange},
		{"vote with a foreign entry", wire.DoViewChange, 0, func(h *wire.Header, body []byte) {
			e := (*wire.Header)(body)
			e.SetClusterID(wire.ClusterIDOf("other"))
			wire.Seal(e)
		}, errEntry},
		{"result for another client", wire.ForwardRegisterResult, 0, func(h *wire.Header, _ []byte) { wire.ResultClient.Set(h, wire.Wide(3)) }, errUnasked},
		{"result for another replica", wire.ForwardLogoutResult, 0, func(h *wire.Header, _ []byte) { wire.ResultNonce.Set(h, wire.U128{Lo: 1, Hi: 9}) }, errUnasked},
	} {
		s := newSim(t, 3, 2, 5)
		count := 0
		s.arrive = func(_ int, e event) []byte {
			h := (*wire.Header)(e.frame)
			if group, _ := h.Group(); h.Command() != lie.command || lie.name == "timestamp" && group != wire.MetadataGroup {
				return e.frame
			}
			if count++; count == lie.skip+1 {
				lie.change(h, e.frame[wire.HeaderSize:])
				if lie.command == wire.DoViewChange {
					wire.ChecksumBody.Set(h, wire.BodySeal(e.frame[wire.HeaderSize:]))
				}
				wire.Seal(h)
			}
			return e.frame
		}
		everything(s)
		var fault *Fault
		if !errors.As(s.fault, &fault) || fault.Err != lie.want {
			t.Errorf("%s: got %v after %d frames, want %q", lie.name, s.fault, count, lie.want)
		} else if !strings.Contains(fault.Error(), string(lie.want)) {
			t.Errorf("%s: got text %q, want the reason in it", lie.name, fault)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{{Replicas: 1}, {Replicas: 33}, {ID: 3, Replicas: 3}, {Replicas: 3, Groups: -1}} {
		if _, err := NewNode(NodeConfig{Config: cfg}); err == nil {
			t.Errorf("%+v: got no error", cfg)
		}
	}
	core, err := New(Config{Replicas: 3, Groups: 1}, time.Unix(1_700_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []Op{{Group: 5}, {Group: 0, Operation: 128}, {Group: wire.MetadataGroup, Operation: wire.OpSendMessages}} {
		if _, err := core.Submit(o, time.Unix(1_700_000_000, 0)); !errors.Is(err, errPlane) {
			t.Errorf("%+v: got %v, want %v", o, err, errPlane)
		}
	}
}

// The plane's quorums for every size (§9).
func TestQuorums(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint8][2]int{2: {2, 2}, 3: {2, 2}, 4: {2, 3}, 5: {3, 3}, 7: {3, 5}} {
		if replication, view := quorums(n); [2]int{replication, view} != want {
			t.Errorf("%d replicas: got %d and %d, want %v", n, replication, view, want)
		}
	}
}
