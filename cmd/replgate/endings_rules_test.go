//go:build linux

package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// The roster of the rules' gate, replica 2 of four: replica 0 is honest, replica
// 1 is not.
const (
	rulesSelf   = 2
	rulesFaulty = 1
	rulesNodes  = 4
)

// endingOfRule is the ending of a link that a rule has closed.
func endingOfRule(r policy.RuleInfo) string {
	if r.Rule == policy.HelloStrict {
		return "hello_malformed" // the vocabulary has a word of its own for it
	}
	return r.Name
}

// TestEveryRuleCanClose gives every rule the verdict close and breaks it on a link
// of its own: the link ends with the rule's name, in the metrics and in the log;
// the frame does not arrive; and an honest link through the same gate, under the
// same rules, goes on without a gap.
func TestEveryRuleCanClose(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: rulesSelf, replicas: rulesNodes, far: "psk", extra: closingRules()})
	watch := watchMetrics(t, s.net.Metrics(s.id), rulesNodes)
	honest := beatOn(t, s.arrive(0, "psk"), 0, rulesSelf)
	frames := faultyFrames(rulesFaulty, rulesNodes)
	for _, r := range policy.Rules() {
		t.Run(r.Name, func(t *testing.T) {
			ending := endingOfRule(r)
			before := s.closedBy(ending)
			if r.Rule == policy.HelloStrict {
				h := hello(rulesFaulty, true)
				h[250] = 1
				if _, err := s.send("", h); err != nil {
					t.Fatal(err)
				}
			} else if err := s.breakRule(frames[r.Name]); err != nil {
				t.Fatal(err)
			}
			eventually(t, "ending "+ending, func() bool { return s.closedBy(ending) > before })
			if r.Rule != policy.HelloStrict { // that one is a connection refused, and no frame
				s.wantRejected(t, r.Name, "close")
			}
		})
	}
	t.Run("seal_header", func(t *testing.T) {
		if err := s.breakRule(frames["seal_header"]); err != nil {
			t.Fatal(err)
		}
		eventually(t, "ending seal_header", func() bool {
			return s.closedBy("seal_header") > 0 && loggedEndings(s.gate)["seal_header"] > 0
		})
	})
	honest.end()
	reasons, logged := watch.end(), loggedEndings(s.gate)
	for _, r := range policy.Rules() {
		if name := endingOfRule(r); reasons[name] == 0 || logged[name] == 0 {
			t.Errorf("%s: got %v in the metrics and %d lines in the log, want the ending in both", name, reasons[name], logged[name])
		}
	}
	if reasons["seal_header"] == 0 || logged["seal_header"] == 0 {
		t.Error("got no ending seal_header in the metrics and the log, want it in both")
	}
	if code := s.exit(playLimit); code != exitOK {
		t.Errorf("got exit code %d, want %d", code, exitOK)
	}
}

// closingRules is the configuration in which every rule with a switch closes.
func closingRules() string {
	var b strings.Builder
	b.WriteString("[frames.rules]\n")
	for _, r := range policy.Rules() {
		if len(r.Allowed) > 0 {
			fmt.Fprintf(&b, "%s = \"close\"\n", r.Name)
		}
	}
	return b.String()
}

// breakRule says frames on a new link, the last of them faulty. Those before it
// arrive, the faulty one does not, and then the link ends.
func (s *stage) breakRule(frames [][]byte) error {
	eventually(s.t, "the last link to be gone", func() bool { return s.linksOf(rulesFaulty) == 0 })
	b, err := s.tryArrive(caller{pair: mac.Pair{Dialer: rulesFaulty, Acceptor: rulesSelf}, security: "psk"})
	if err != nil {
		return err
	}
	defer b.close()
	honest := int64(0)
	for i, f := range frames {
		if _, err := b.far.Write(f); err != nil {
			return err
		}
		if i < len(frames)-1 {
			honest += int64(len(f))
		}
	}
	if _, err := io.CopyN(io.Discard, b.near, honest); err != nil {
		return fmt.Errorf("the honest frames before the faulty one: %w", err)
	}
	how, n, took := endOf(b.near, playLimit)
	if how == byTime || n != 0 || took > finPassed {
		return fmt.Errorf("got %s after %d bytes of the faulty frame and %v, want the end and none of it", how, n, took)
	}
	return nil
}

// wantRejected looks for the rule's own count.
func (s *stage) wantRejected(t *testing.T, rule, verdict string) {
	t.Helper()
	n := s.metrics().Sum("replgate_frames_rejected_total", `rule="`+rule+`"`, `verdict="`+verdict+`"`)
	if n == 0 {
		t.Errorf("got no frame rejected by %s with verdict %s, want one", rule, verdict)
	}
}

// TestDroppedFramesEndNothing breaks every rule under the default verdicts: what
// is dropped is counted and does not arrive, the link and the frames around it
// live.
func TestDroppedFramesEndNothing(t *testing.T) {
	t.Parallel()
	s := raise(t, stageOptions{id: rulesSelf, replicas: rulesNodes, far: "psk"})
	b := s.arrive(rulesFaulty, "psk")
	token, op := uint64(0), uint64(0)
	var saidFrames, saidBytes uint64
	say := func(f []byte) {
		t.Helper()
		saidFrames, saidBytes = saidFrames+1, saidBytes+uint64(len(f))
		if _, err := b.far.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	frames := faultyFrames(rulesFaulty, rulesNodes)
	for _, r := range policy.Rules() {
		if r.Default != policy.Drop || r.Rule == policy.MetadataChain {
			continue // what closes has a test of its own; the chain's first frame is honest
		}
		say(frames[r.Name][0])
		token, op = token+1, op+1
		say(commit(rulesFaulty, token))
		got, err := b.near.ReadFrame(1 << 20)
		if err != nil {
			t.Fatalf("%s: got %v, want the frame behind the dropped one", r.Name, err)
		}
		if h := (*wire.Header)(got); h.Command() != wire.Commit || wire.CommitToken.Get(h) != token {
			t.Fatalf("%s: got a %v of token %d, want Commit %d", r.Name, h.Command(), wire.CommitToken.Get(h), token)
		}
		s.wantRejected(t, r.Name, "drop")
	}
	samples := s.metrics()
	frameCount, byteCount := uint64(samples.Sum("replgate_frames_total")), uint64(samples.Sum("replgate_frame_bytes_total"))
	if frameCount != saidFrames || byteCount != saidBytes {
		t.Errorf("got %d frames of %d bytes in the account, want the %d of %d that were said", frameCount, byteCount, saidFrames, saidBytes)
	}
	if dropped := uint64(samples.Sum("replgate_frames_total", `result="dropped"`)); dropped != op {
		t.Errorf("got %d frames dropped, want %d", dropped, op)
	}
	b.close()
	if code := s.exit(playLimit); code != exitOK {
		t.Errorf("got exit code %d, want %d", code, exitOK)
	}
}
