package policy_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/wire"
)

// storeLimit is product.md's: larger frames are judged while they pass.
const storeLimit = 256 << 10

// event is one thing on a recorded connection, in order of time.
type event struct {
	at       time.Duration // since midnight
	conn     int
	from, to uint8
	frame    []byte // nil: the connection ended
}

// cut cuts bytes into whole frames; a recorder that was stopped can leave part of
// one at the end.
func cut(t testing.TB, b []byte) (frames [][]byte) {
	t.Helper()
	for len(b) >= wire.HeaderSize {
		size := wire.Size.Get((*wire.Header)(b))
		if size < wire.HeaderSize {
			t.Fatalf("got a frame of size %d in a recording", size)
		}
		if int(size) > len(b) {
			break
		}
		frames = append(frames, b[:size:size])
		b = b[size:]
	}
	return frames
}

// scenarios are the folders that hold recorded connections.
func scenarios(t testing.TB) (names []string) {
	t.Helper()
	all, err := fs.Glob(os.DirFS(captures()), "*/index.jsonl")
	if err != nil || len(all) < 9 {
		t.Fatalf("got %d scenarios in %s (%v)", len(all), captures(), err)
	}
	for _, name := range all {
		names = append(names, path.Dir(name))
	}
	return names
}

// replicasOf is the length of a scenario's roster.
func replicasOf(scenario string) int {
	if scenario == "five" {
		return 5
	}
	return 3
}

// events reads a scenario: every frame behind the handshakes and every end, in
// order of time where the times of arrival are there, else frame by frame from
// the connection's opening.
func events(t testing.TB, scenario string) (all []event) {
	t.Helper()
	opened := map[int]time.Duration{}
	lines := bufio.NewScanner(bytes.NewReader(read(t, scenario+"/index.jsonl")))
	for lines.Scan() {
		var line struct {
			At               string
			Conn             int
			Dialer, Acceptor uint8
			What             string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		clock, err := time.Parse("15:04:05.000000", line.At)
		if err != nil {
			t.Fatal(err)
		}
		at := clock.Sub(clock.Truncate(24 * time.Hour))
		switch line.What {
		case "open", "near":
			opened[line.Conn] = at
		case "end":
			all = append(all, event{at: at, conn: line.Conn, from: line.Dialer, to: line.Acceptor})
		}
	}
	names, err := fs.Glob(os.DirFS(captures()), scenario+"/*.bin")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		all = append(all, said(t, name, opened)...)
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all
}

// said reads one direction of one connection, NNN-D-A.d2a.bin or .a2d.bin.
func said(t testing.TB, name string, opened map[int]time.Duration) (all []event) {
	t.Helper()
	var conn int
	var dialer, acceptor uint8
	if _, err := fmt.Sscanf(path.Base(name), "%d-%d-%d", &conn, &dialer, &acceptor); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(name, ".a2d.") {
		dialer, acceptor = acceptor, dialer
	}
	arrived := times(t, strings.TrimSuffix(name, ".bin")+".times")
	offset := 0
	for i, frame := range cut(t, read(t, name)) {
		offset += len(frame)
		at := opened[conn] + time.Duration(i)*time.Microsecond
		for len(arrived) > 1 && arrived[1].offset < offset {
			arrived = arrived[1:] // the read that brought the frame's last byte
		}
		if len(arrived) > 0 {
			at = opened[conn] + arrived[0].since
		}
		switch (*wire.Header)(frame).Command() {
		case wire.ReplicaHello, wire.ReplicaChallenge, wire.ReplicaFinish:
		default:
			all = append(all, event{at, conn, dialer, acceptor, frame})
		}
	}
	return all
}

// arrival is one line of a .times file: a read, where its bytes begin and when.
type arrival struct {
	offset int
	since  time.Duration
}

func times(t testing.TB, name string) (all []arrival) {
	t.Helper()
	text, err := os.ReadFile(path.Join(captures(), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the subset has none
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		offset, since, _ := strings.Cut(strings.TrimSpace(line), " ")
		o, errOffset := strconv.Atoi(offset)
		micros, errSince := strconv.Atoi(since)
		if err := errors.Join(errOffset, errSince); err != nil {
			t.Fatal(err)
		}
		all = append(all, arrival{o, time.Duration(micros) * time.Microsecond})
	}
	return all
}

// recordedGate is one replica's gate in a recording: one chain, and a judge for
// each connection and direction.
type recordedGate struct {
	table    *policy.Table
	chain    *policy.Chain
	local    uint8
	replicas int
	judges   map[[2]int]*policy.Judge // connection, sender
	open     map[int]bool
	random   *rand.Rand
	// forgets says that the chain is emptied when the last leg ends.
	forgets bool
}

func newRecordedGate(t testing.TB, local uint8, chain *policy.Chain) *recordedGate {
	return &recordedGate{table: table(t), chain: chain, local: local, judges: map[[2]int]*policy.Judge{},
		open: map[int]bool{}, random: rand.New(rand.NewPCG(uint64(local), 1)), forgets: true}
}

// play judges what passes this gate and calls refused for each verdict that is
// not a plain forward. It returns how many frames it judged.
func (g *recordedGate) play(all []event, replicas int, refused func(e event, v policy.Verdict)) (judged int) {
	g.replicas = replicas
	for _, e := range all {
		switch {
		case e.from != g.local && e.to != g.local:
		case e.frame == nil:
			delete(g.open, e.conn)
			if len(g.open) == 0 && g.forgets {
				g.chain.Reset()
			}
		default:
			judged++
			g.open[e.conn] = true
			if v := g.look(e); v.Action != policy.Forward || v.Rule != policy.None || v.Observed != 0 {
				refused(e, v)
			}
		}
	}
	return judged
}

func (g *recordedGate) look(e event) policy.Verdict {
	at := [2]int{e.conn, int(e.from)}
	j := g.judges[at]
	if j == nil {
		j = policy.NewJudge(g.table, policy.Leg{Cluster: cluster, Replicas: g.replicas, Sender: e.from,
			Inward: e.to == g.local, MaxFrame: maxFrame}, g.chain)
		g.judges[at] = j
	}
	if len(e.frame) > storeLimit {
		return inPieces(j, e.frame, g.random)
	}
	return look(j, e.frame)
}
