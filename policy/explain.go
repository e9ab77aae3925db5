package policy

import (
	"fmt"

	"github.com/replgate/replgate/wire"
)

// Explain puts a verdict's rule into words for a log line: what was found in the
// frame and what was expected. It allocates and is for the first of many.
func (j *Judge) Explain(r Rule, h *wire.Header, cause error) (found, want string) {
	c := h.Command()
	switch r {
	case CommandUnexpected:
		return c.String(), "a command that replicas send after the handshake"
	case ClientRequest:
		return fmt.Sprintf("Request for %v", wire.Operation(wire.RequestOperation.Get(h))), "no client frames: a replica executes them without credentials"
	case Seal:
		return fmt.Sprintf("seal %s", hex(wire.Checksum.Get(h))), fmt.Sprintf("%s: the frame was changed on its way or forged", hex(wire.FrameSeal(h)))
	case Identity:
		return fmt.Sprintf("identity %s", hex(wire.Checksum.Get(h))), fmt.Sprintf("%s: the prepare was changed on its way or forged", hex(wire.Identity(h)))
	case IdentityAbsent, IdentityAbsentRepair:
		return "identity zero", "a sealed prepare"
	case HeaderOnlySize:
		return fmt.Sprintf("size %d", wire.Size.Get(h)), "256: the command has no body"
	case Cluster:
		return fmt.Sprintf("cluster %x", h.ClusterID()), fmt.Sprintf("%x", j.leg.Cluster)
	case ReplicaRange:
		return fmt.Sprintf("replica %d", wire.Replica.Get(h)), fmt.Sprintf("an id below %d", j.leg.Replicas)
	case Sender:
		return fmt.Sprintf("replica %d", wire.Replica.Get(h)), fmt.Sprintf("%d, which is at the other end", j.leg.Sender)
	case Plane:
		op, _ := h.Operation()
		group, _ := h.Group()
		return fmt.Sprintf("%v in group %#x", op, group), "the operation's own plane"
	case Release:
		return fmt.Sprintf("release %d", wire.Release.Get(h)), "0 on control frames"
	case ReservedFrame, ReservedTail:
		return "reserved bytes set", "zero"
	case MetadataChain:
		return fmt.Sprintf("op %d with parent %s", wire.PrepareOp.Get(h), hex(wire.PrepareParent.Get(h))),
			fmt.Sprintf("the chain of view %d: the replica's shard would panic", wire.View.Get(h))
	case TokenJump:
		return fmt.Sprintf("Commit token %d", wire.CommitToken.Get(h)), "one near the last: the real primary would be ignored from now on"
	}
	if cause != nil {
		return cause.Error(), "a frame that Iggy accepts"
	}
	return c.String(), "a frame that Iggy accepts"
}

func hex(v wire.U128) string { return fmt.Sprintf("%016x%016x", v.Hi, v.Lo) }
