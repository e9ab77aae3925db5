package policy_test

import (
	"math/rand/v2"
	"testing"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// inPieces judges a frame as a gate judges one above store_limit: its header, then
// its body as it comes.
func inPieces(j *policy.Judge, frame []byte, random *rand.Rand) policy.Verdict {
	h, body := (*wire.Header)(frame), frame[wire.HeaderSize:]
	v := j.Header(h)
	if v.Action != policy.Forward {
		return v
	}
	j.Verifier().Start(h)
	for rest := body; len(rest) > 0; {
		n := min(len(rest), 1+random.IntN(1+len(rest)/3))
		j.Verifier().Write(rest[:n])
		rest = rest[n:]
	}
	if v = j.BodyResult(h, j.Verifier().Sum(), body, v); v.Action == policy.Forward {
		j.Forwarded(h, policy.Verdict{})
	}
	return v
}

// A body taken in pieces has the verdict of the body taken whole: every fault of a
// body, and every honest one.
func TestPiecesAndWholeAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 5))
	frames := [][]byte{sendMessages(5, "hello"), sendMessages(5, string(make([]byte, 70_000)))}
	for _, c := range replicaPlane() {
		frames = append(frames, honest(c))
	}
	for _, f := range bodyFaults() {
		frames = append(frames, f.frame)
	}
	for _, frame := range frames {
		whole := look(newJudge(t), frame)
		for range 5 {
			if pieces := inPieces(newJudge(t), frame, random); pieces != whole {
				t.Errorf("%v: got %v by %v (%v) in pieces, %v by %v (%v) whole", (*wire.Header)(frame).Command(),
					pieces.Action, pieces.Rule, pieces.Cause, whole.Action, whole.Rule, whole.Cause)
			}
		}
	}
}

// One judge serves frame after frame: a bad body leaves nothing behind.
func TestJudgeIsUsedAgain(t *testing.T) {
	random, outward := rand.New(rand.NewPCG(1, 1)), leg()
	outward.Inward = false // these prepares are of many logs
	j := policy.NewJudge(table(t), outward, new(policy.Chain))
	faulty := bodyFaults()
	for range 300 {
		f := faulty[random.IntN(len(faulty))]
		wantRefused(t, f.what, look(j, f.frame), policy.Drop, f.rule)
		if f.next == nil {
			continue
		}
		wantForward(t, f.what, look(j, f.next))
		wantForward(t, f.what+" in pieces", inPieces(j, f.next, random))
	}
}
