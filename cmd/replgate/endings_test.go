//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// The roster of the endings' gate, replica 3 of eight.
const (
	honestPeer  = 0 // psk; its link carries frames from the first provocation to the last
	cleanPeer   = 1 // tls; its frames are held against the gate's account of them
	messyPeer   = 2 // plaintext; its links end inside frames
	higherPeer  = 4 // the first that the local replica dials
	nobodyPeer  = 5 // its name does not resolve
	deafPeer    = 6 // its listener takes no connection
	islandPeer  = 7 // in a network of its own
	endingsSelf = 3
)

// endings is a gate that is given every ending there is.
type endings struct {
	*stage
	higher        *net.TCPListener
	island        *island // nil where there can be none
	honest        bond
	second        bond          // the clean peer's, that superseded another
	frames, bytes atomic.Uint64 // said by stand-ins on links of the clean peers
}

const endingsExtra = `
[[peers]]
replica_id = 0
security = "psk"
[[peers]]
replica_id = 2
security = "plaintext"
[frames]
store_limit = "64KiB"
[timeouts]
handshake = "1500ms"
prove = "1s"
write_stall = "1s"
drain = "1s"
[limits]
connections = 50
[log]
level = "debug"
`

// TestEveryEnding provokes every ending of the vocabulary on one running gate,
// from outside, while an honest link goes through it. Each is seen in the metrics
// and in the log; at every scrape the links add up, at the end the frames.
func TestEveryEnding(t *testing.T) {
	t.Parallel()
	e := raiseEndings(t)
	watch := watchMetrics(t, e.net.Metrics(e.id), 8)
	e.honest = e.arrive(honestPeer, "psk")
	honest := beatOn(t, e.honest, honestPeer, endingsSelf)
	t.Run("endings", func(t *testing.T) {
		for _, p := range e.provocations() {
			t.Run(string(p.ending), func(t *testing.T) {
				if p.slow {
					t.Parallel()
				}
				before := e.closedBy(string(p.ending))
				if err := p.provoke(); err != nil {
					t.Fatal(err)
				}
				eventually(t, "ending "+string(p.ending), func() bool { return e.closedBy(string(p.ending)) > before })
			})
		}
	})
	said := honest.end()
	e.checkFrames(said)
	if code := e.leave(t); code != exitDeadline {
		t.Errorf("got exit code %d, want %d: a link was cut inside a frame", code, exitDeadline)
	}
	e.checkVocabulary(watch.end())
}

func raiseEndings(t *testing.T) *endings {
	e := &endings{island: shore(t)}
	own, deaf := lab.NewNet(), deafListener(t)
	e.stage = raise(t, stageOptions{id: endingsSelf, replicas: 8, far: "tls", extra: endingsExtra, net: &own,
		peer: func(id int) string {
			switch {
			case id == nobodyPeer:
				return "no-such-replica.invalid:9190"
			case id == deafPeer:
				return deaf
			case id == islandPeer && e.island != nil:
				return e.island.address(9190)
			}
			return own.Ingress(id)
		}})
	e.higher = e.listenAs(higherPeer)
	return e
}

// checkVocabulary holds what was seen against the list, in both places.
func (e *endings) checkVocabulary(reasons map[string]float64) {
	logged := loggedEndings(e.gate)
	for _, info := range proxy.Endings() {
		name := string(info.Name)
		if info.Name == proxy.PeerUnreachable && e.island == nil {
			continue // packets vanish in a network namespace only, see shore
		}
		if reasons[name] == 0 && info.Name != proxy.DrainDeadline {
			e.t.Errorf("%s: got no connection that ended so in any scrape, want one", name)
		}
		if logged[name] == 0 {
			e.t.Errorf("%s: got no line with this ending in the log, want one", name)
		}
	}
	known := vocabulary()
	for name := range reasons {
		if !known[name] {
			e.t.Errorf("%s: got this reason in the metrics, want one of the vocabulary", name)
		}
	}
	for name := range logged {
		// The program ends with the links that it cuts: nobody scrapes it after that.
		if reasons[name] == 0 && name != string(proxy.DrainDeadline) {
			e.t.Errorf("%s: got this ending in the log and not in the metrics, want it in both", name)
		}
	}
}

// vocabulary is every reason there may be: the endings and the rules.
func vocabulary() map[string]bool {
	known := map[string]bool{}
	for _, info := range proxy.Endings() {
		known[string(info.Name)] = true
	}
	for _, r := range policy.Rules() {
		known[r.Name] = true
	}
	return known
}

// checkFrames holds the gate's account of the frames of the clean peers against
// what the stand-ins said.
func (e *endings) checkFrames(honest uint64) {
	e.t.Helper()
	samples := e.metrics()
	for peer, want := range map[int][2]uint64{
		honestPeer: {honest, honest * wire.HeaderSize},
		cleanPeer:  {e.frames.Load(), e.bytes.Load()},
	} {
		label := fmt.Sprintf(`peer="%d"`, peer)
		frames, bytes := samples.Sum("replgate_frames_total", label), samples.Sum("replgate_frame_bytes_total", label)
		if uint64(frames) != want[0] || uint64(bytes) != want[1] {
			e.t.Errorf("replica %d: got %v frames of %v bytes forwarded, dropped or lost, want the %v of %v that were said",
				peer, frames, bytes, want[0], want[1])
		}
	}
	if lost := samples.Sum("replgate_frames_total", `peer="0"`) - samples.Sum("replgate_frames_total", `peer="0"`, `result="forwarded"`); lost != 0 {
		e.t.Errorf("the honest link: got %v frames dropped or lost, want none", lost)
	}
}

// say writes whole frames of a clean peer and counts them.
func (e *endings) say(c *replica.Conn, frames ...[]byte) error {
	for _, f := range frames {
		e.frames.Add(1)
		e.bytes.Add(uint64(len(f)))
		if _, err := c.Write(f); err != nil {
			return err
		}
	}
	return nil
}

// provocation is how one ending is brought about.
type provocation struct {
	ending  proxy.Ending
	slow    bool // it takes a timeout, and gets on with the others meanwhile
	provoke func() error
}

// provocations are all of them but the two of a shutdown.
func (e *endings) provocations() []provocation {
	return slices.Concat(e.openings(), e.handshakes(), e.tlsFaults(), e.rotation(), e.dials(), e.linkEnds(), e.frameFaults(), e.limits(), e.waits())
}

// leave shuts the gate down with one link stuck inside a frame, one that is not,
// and a dialer that was refused and does not go away: for as long as the gate
// waits for it the metrics can still be read.
func (e *endings) leave(t *testing.T) int {
	stuck := e.arrive(messyPeer, "plaintext")
	frame := offset(messyPeer, 1, make([]byte, 100<<10))
	if _, err := stuck.far.Write(frame[:90<<10]); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stuck.near, make([]byte, 80<<10)); err != nil {
		t.Fatal(err)
	}
	whole := e.leaveFor(higherPeer, e.higher, "tls")
	eventually(t, "three links", func() bool { return e.metrics().Sum("replgate_links") == 3 })
	refused, err := e.send("", hello(200, true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(refused, make([]byte, wire.HeaderSize)); err != nil {
		t.Fatalf("got %v from a refused dialer's read, want a reject frame", err)
	}
	e.gate.Signal(syscall.SIGTERM)
	for _, c := range []*replica.Conn{whole.near, whole.far, e.honest.near, e.honest.far} {
		if how, n, _ := endOf(c, playLimit); how != byFIN || n != 0 {
			t.Errorf("got %s after %d bytes at an end of a drained link, want a FIN and nothing before it", how, n)
		}
		c.TCP.Close()
	}
	<-e.gate.Done()
	return e.exit(playLimit)
}
