package main

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// notifier speaks to a service manager as sd_notify(3) describes it: ready,
// stopping, and a sign of life for its watchdog. Where no manager has asked for
// that it says nothing.
//
// A sign of life is sent only for an answered question. The question passes the
// parts of the gate that everything else waits for, one after another; see vitals.
// A late answer counts: slow is not stuck, and the manager's own time decides how
// late is too late. No answer, no sign: the manager then ends the process and
// starts a new one.
type notifier struct {
	send  func(state string)
	every time.Duration         // between two questions; 0: no watchdog
	part  atomic.Pointer[vital] // that is being asked
	stop  chan struct{}
	work  sync.WaitGroup
}

// newNotifier reads what the service manager has left in the environment.
func newNotifier(env func(string) string) *notifier {
	n := &notifier{send: func(string) {}, stop: make(chan struct{})}
	if path := env("NOTIFY_SOCKET"); path != "" {
		n.send = func(state string) { notify(path, state) }
		n.every = watchdogEvery(env)
	}
	return n
}

// watchdogEvery is a quarter of the manager's time: three answers may be late.
func watchdogEvery(env func(string) string) time.Duration {
	if pid := env("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0 // meant for the process that started us
	}
	usec, err := strconv.ParseInt(env("WATCHDOG_USEC"), 10, 64)
	if err != nil || usec <= 0 {
		return 0
	}
	return max(time.Duration(usec)*time.Microsecond/4, time.Millisecond)
}

// notifyPatience is the time that a gate asks for while it waits for credentials.
const notifyPatience = 30 * time.Second

// notifyTime bounds the wait for a manager that does not read.
const notifyTime = time.Second

// notify sends one datagram. A manager that cannot be reached has a time-out of
// its own for us, and a log line would not reach it either.
func notify(path, state string) {
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"}) // "@…" is an abstract name
	if err != nil {
		return
	}
	defer c.Close()
	c.SetWriteDeadline(time.Now().Add(notifyTime))
	c.Write([]byte(state))
}

// vital is a part of the gate, and a question that returns when it has moved.
type vital struct {
	name  string
	moved func()
}

// vitals are what has to move. It proves that each listener is accepted from, that
// links can enter and leave, that no reload is stuck, that a line of the log gets
// out and that a scrape would be answered. It does not prove that a peer answers or
// that a pump copies: those wait for others, and have timers of their own.
func vitals(p *process) []vital {
	scrape, question := p.registry.Handler(), &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/metrics"}, Header: http.Header{}}
	return []vital{
		{"the accept loops", p.server.Load().Ping},
		{"the reloads", p.moved},
		{"the log", p.out.moved},
		{"the metrics", func() { scrape.ServeHTTP(nowhere{}, question) }},
	}
}

// ready says that the gate serves, and keeps the watchdog informed from then on.
func (n *notifier) ready(parts []vital) {
	n.serving()
	if n.every > 0 {
		n.work.Go(func() { n.watch(parts) })
	}
}

// waiting says what a gate that is not ready waits for. It may wait longer than a
// start may take: patience asks for more time, again and again.
func (n *notifier) waiting(why string) { n.send("STATUS=not ready: " + why) }

func (n *notifier) patience() {
	n.send("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(notifyPatience.Microseconds(), 10))
}

// reloading and serving stand around a reload. serving also is the end of a start.
func (n *notifier) reloading() { n.send("RELOADING=1\nSTATUS=reloading") }
func (n *notifier) serving()   { n.send("READY=1\nSTATUS=serving") }

// stopping says that the gate drains. The watchdog goes on until close.
func (n *notifier) stopping() { n.send("STOPPING=1\nSTATUS=draining") }

// close ends the watch. A question that is stuck stays behind.
func (n *notifier) close() {
	close(n.stop)
	n.work.Wait()
}

// watch asks, one question at a time.
func (n *notifier) watch(parts []vital) {
	tick := time.NewTicker(n.every)
	defer tick.Stop()
	answered := make(chan struct{}, 1)
	asking, late := false, false
	for {
		select {
		case <-n.stop:
			return
		case <-answered:
			state := "WATCHDOG=1"
			if late {
				state += "\nSTATUS=moving again"
			}
			n.send(state)
			asking, late = false, false
		case <-tick.C:
			if asking { // not to the log, which may be what is stuck
				n.send("STATUS=no sign of life, waiting for " + n.part.Load().name)
				late = true
				continue
			}
			asking = true
			n.part.Store(&parts[0])
			go n.ask(parts, answered)
		}
	}
}

// ask puts the question to each part. Nobody can wait for it: a part may be stuck
// for ever. There is room for its one answer.
func (n *notifier) ask(parts []vital, answered chan<- struct{}) {
	for i := range parts {
		n.part.Store(&parts[i])
		parts[i].moved()
	}
	answered <- struct{}{}
}

// logPath is a writer that can tell whether it is stuck in a write.
type logPath struct {
	mu sync.Mutex
	to io.Writer
}

func (l *logPath) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(line)
}

// moved returns when no write is in progress.
func (l *logPath) moved() {
	l.mu.Lock()
	defer l.mu.Unlock()
}

// nowhere is a response that nobody reads.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}
