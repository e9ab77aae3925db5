package proxy_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/proxy"
)

// sidesOf are the two sides a link can end from, on both kinds of link.
func sidesOf(t *testing.T, do func(t *testing.T, w way, s proxy.Security)) {
	for _, s := range securities {
		for _, w := range ways {
			t.Run(fmt.Sprintf("%s/%s", s, w.name), func(t *testing.T) { do(t, w, s) })
		}
	}
}

// endTime is how long an end may take from one leg to the other, resetTime a
// reset.
const (
	endTime   = 500 * time.Millisecond
	resetTime = 100 * time.Millisecond
)

// A FIN between frames: what was received whole arrives, then the other side
// sees the end, as a FIN.
func TestLifetimeFIN(t *testing.T) {
	sidesOf(t, func(t *testing.T, w way, s proxy.Security) {
		took := fastest(t, func(t *testing.T) time.Duration {
			g := start(t, spec{near: s, far: s})
			from, to := g.openWay(w)
			all := stream(g.sender(w), 300_000, 1)
			go func() {
				from.Write(all) // what does not arrive fails below
				from.TCP.CloseWrite()
			}()
			receive(t, to, all)
			began := time.Now()
			if got, err := rest(to); len(got) != 0 || err != nil {
				t.Errorf("got %d bytes and %v, want none and a FIN", len(got), err)
			}
			took := time.Since(began)
			if got, err := rest(from); len(got) != 0 || err != nil {
				t.Errorf("the side that ended: got %d bytes and %v, want none and a FIN", len(got), err)
			}
			hangUp(from, to)
			g.wantClosed(w.side() + "_eof")
			return took
		})
		if took > endTime {
			t.Errorf("got an end after %v, want one within %v", took, endTime)
		}
	})
}

// A FIN inside a frame that is stored: the frames before it arrive, of it nothing.
func TestLifetimeFINInsideFrame(t *testing.T) {
	sidesOf(t, func(t *testing.T, w way, s proxy.Security) {
		for _, part := range []int{1, 255, 256, 5000} {
			g := start(t, spec{near: s, far: s})
			from, to := g.openWay(w)
			send(t, from, commit(g.sender(w), 1), messages(2, noise(6000, 1))[:part])
			from.TCP.CloseWrite()
			receive(t, to, commit(g.sender(w), 1))
			began := time.Now()
			if got, err := rest(to); len(got) != 0 || err != nil && !isReset(err) {
				t.Errorf("got %d bytes and %v, want none and an end", len(got), err)
			}
			if took := time.Since(began); took > 2*endTime {
				t.Errorf("got an end after %v, want one within %v", took, endTime)
			}
			hangUp(from, to)
			g.wantClosed(w.side() + "_eof_mid_frame")
		}
	})
}

// A FIN inside a frame of which the receiver already has a part: it must not take
// the end for the frame's, so it is reset.
func TestLifetimeFINInsideLongFrame(t *testing.T) {
	sidesOf(t, func(t *testing.T, w way, s proxy.Security) {
		g := start(t, spec{near: s, far: s})
		from, to := g.openWay(w)
		frame := offset(2, noise(1<<20, 1))
		part := frame[:300_000]
		send(t, from, part)
		receive(t, to, part)
		from.TCP.CloseWrite()
		began := time.Now()
		if got, err := rest(to); len(got) != 0 || !isReset(err) {
			t.Errorf("got %d bytes and %v, want none and a reset", len(got), err)
		}
		if took := time.Since(began); took > 2*endTime {
			t.Errorf("got an end after %v, want one within %v", took, endTime)
		}
		g.wantClosed(w.side() + "_eof_mid_frame")
	})
}

// A reset is passed on as a reset, within 100 ms.
func TestLifetimeReset(t *testing.T) {
	sidesOf(t, func(t *testing.T, w way, s proxy.Security) {
		took := fastest(t, func(t *testing.T) time.Duration {
			g := start(t, spec{near: s, far: s})
			from, to := g.openWay(w)
			send(t, from, commit(g.sender(w), 1))
			receive(t, to, commit(g.sender(w), 1))
			began := time.Now()
			reset(from.TCP)
			_, err := rest(to)
			took := time.Since(began)
			if !isReset(err) {
				t.Errorf("got an end by %v, want a reset", err)
			}
			g.wantClosed(w.side() + "_reset")
			return took
		})
		if took > resetTime {
			t.Errorf("got a reset after %v, want one within %v", took, resetTime)
		}
	})
}

// A side that closes while the other never stops talking: what it said before
// arrives all the same, and the talker learns of the end in time.
func TestLifetimeFINUnderTraffic(t *testing.T) {
	sidesOf(t, func(t *testing.T, w way, s proxy.Security) {
		g := start(t, spec{near: s, far: s})
		from, to := g.openWay(w)
		back := way{egress: w.egress, outward: !w.outward}
		talker := flood(to, g.sender(back))
		// It reads what comes, until it closes: a process that is told to stop.
		all := stream(g.sender(w), 300_000, 1)
		heard := make(chan int, 1)
		go func() {
			got, _ := rest(from)
			heard <- len(got)
		}()
		send(t, from, all)
		g.await("traffic", func() bool { return g.frames[back.label()+" forwarded"] > 0 })
		from.TCP.CloseWrite()
		receive(t, to, all)
		began := time.Now()
		if got, err := rest(to); len(got) != 0 || err != nil {
			t.Errorf("got %d bytes and %v, want none and a FIN", len(got), err)
		}
		if took := time.Since(began); took > 2*endTime {
			t.Errorf("got an end after %v, want one within %v", took, endTime)
		}
		if n := <-heard; n == 0 || n%len(commit(0, 1)) != 0 {
			t.Errorf("the side that ended got %d bytes, want whole frames", n)
		}
		hangUp(from, to)
		talker.wait(t)
		g.wantClosed(w.side() + "_eof")
	})
}

// talker says frames until it cannot.
type talker struct{ done chan error }

func flood(c *replica.Conn, sender uint8) talker {
	f := talker{make(chan error, 1)}
	frames := bytes.Repeat(commit(sender, 1), 40)
	go func() {
		for {
			if _, err := c.Write(frames); err != nil {
				f.done <- err
				return
			}
		}
	}()
	return f
}

// wait holds that the talker was told.
func (f talker) wait(t *testing.T) {
	t.Helper()
	select {
	case <-f.done:
	case <-time.After(patience):
		t.Error("got a talker that nobody stops, want an end")
	}
}

// A side that closes its half and reads nothing, while the other never stops
// talking: the blocked write is given up, and the talker learns of the end in
// time.
func TestLifetimeFINUnread(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			g := start(t, spec{})
			from, to := g.openWay(w)
			talker := flood(to, g.sender(way{egress: w.egress, outward: !w.outward}))
			g.awaitBlocked(way{egress: w.egress, outward: !w.outward})
			send(t, from, commit(g.sender(w), 1))
			from.TCP.CloseWrite()
			began := time.Now()
			receive(t, to, commit(g.sender(w), 1))
			if got, err := rest(to); len(got) != 0 || err != nil && !isReset(err) {
				t.Errorf("got %d bytes and %v, want none and an end", len(got), err)
			}
			if took := time.Since(began); took > 2*endTime {
				t.Errorf("got an end after %v, want one within %v", took, endTime)
			}
			to.TCP.Close()
			talker.wait(t)
			g.wantClosed(w.side() + "_eof")
		})
	}
}

// awaitBlocked waits until nothing more is forwarded on a way: its receiver's
// buffers are full.
func (g *gate) awaitBlocked(w way) {
	g.t.Helper()
	last := -1
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		n := g.count(g.volume, w.label()+" forwarded")
		if n == last && n > 0 {
			return
		}
		last = n
		<-time.After(300 * time.Millisecond) // real time: nothing tells that nothing happens
	}
	g.t.Fatal("got a receiver whose buffers are never full")
}

// narrow takes from the stand-ins what buffers they can do without, so that the
// gate's fill up soon.
func narrow(talking, deaf *replica.Conn) {
	talking.TCP.SetWriteBuffer(64 << 10)
	deaf.TCP.SetReadBuffer(64 << 10)
}

// One direction whose reader does not read holds up that direction and nothing
// else: the other one carries frames, and when the reader wakes up, all is there.
func TestLifetimeBlockedReader(t *testing.T) {
	for _, s := range securities {
		for _, w := range ways {
			t.Run(fmt.Sprintf("%s/%s", s, w.name), func(t *testing.T) {
				t.Parallel()
				g := start(t, spec{near: s, far: s})
				talking, deaf := g.openWay(w)
				back := way{egress: w.egress, outward: !w.outward}
				narrow(talking, deaf)
				say := bytes.Repeat(messages(2, noise(30_000, 1)), 1000) // more than buffers hold
				said := make(chan error, 1)
				go func() {
					_, err := talking.Write(say)
					said <- err
				}()
				g.awaitBlocked(w)
				for token := range uint64(100) {
					send(t, deaf, commit(g.sender(back), token), messages(token, noise(5000, token)))
					receive(t, talking, commit(g.sender(back), token), messages(token, noise(5000, token)))
				}
				select {
				case err := <-said:
					t.Fatalf("got everything said (%v) to a reader that does not read, want the test to block", err)
				default:
				}
				receive(t, deaf, say)
				if err := <-said; err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// What the side that ended said last is not lost behind a talker's traffic: it
// closes for good, as a process does that exits, with its input read.
func TestLifetimeExitUnderTraffic(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			g := start(t, spec{})
			from, to := g.openWay(w)
			back := way{egress: w.egress, outward: !w.outward}
			to.TCP.SetReadBuffer(16 << 10)
			all := stream(g.sender(w), 200_000, 1)
			send(t, from, all)
			g.await("everything forwarded", func() bool { return g.volume[w.label()+" forwarded"] == len(all) })
			talker := flood(to, g.sender(back))
			go rest(from)
			from.TCP.CloseWrite()
			<-time.After(20 * time.Millisecond) // real time: the FIN goes first, the close cuts nothing of it
			from.TCP.Close()
			got, err := rest(to)
			if !bytes.Equal(got, all) {
				t.Errorf("got %d bytes of %d (%v), want all", len(got), len(all), err)
			}
			to.TCP.Close()
			talker.wait(t)
		})
	}
}
