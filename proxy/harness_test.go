package proxy_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

const (
	maxFrame   = 64 << 20
	storeLimit = 64 << 10
	// patience is how long a test waits for what must happen. It bounds a failing
	// test; a passing one does not spend it.
	patience = 10 * time.Second
)

var (
	cluster  = wire.ClusterIDOf("iggy-cluster")
	foreign  = wire.ClusterIDOf("test-cluster")
	secret   = keyring("capture secret one, 32+ bytes long!")
	stranger = keyring("capture secret two, 32+ bytes long!")
)

func keyring(secret string) *mac.Keyring {
	k, err := mac.NewKeyring([]byte(secret), nil)
	if err != nil {
		panic(err)
	}
	return k
}

// spec is what one gate has otherwise than the others: replica 1 of three, all in
// plaintext, default rules.
type spec struct {
	first   bool // replica 0 instead: it only dials
	near    proxy.Security
	far     proxy.Security
	rules   map[string]string
	observe bool
	change  func(*proxy.Settings)
}

// gate is a running gate with its surroundings: where the local replica listens,
// where the peers do, what was counted and what was logged.
type gate struct {
	*watch
	t        testing.TB
	server   *proxy.Server
	local    uint8
	near     proxy.Security
	far      proxy.Security
	upstream *net.TCPListener // the local replica's
	peers    *net.TCPListener // that of all higher ids
	certs    *certs.Set
	files    replica.PKI
	given    proxy.Settings // that it was started with
	keys     *mac.Keyring   // of the stand-ins around it
	down     bool           // the test itself has shut it down
}

// settings are those that the gate was started with, for the test to change.
func (g *gate) settings() proxy.Settings {
	s := g.given
	s.Peers = slices.Clone(s.Peers)
	return s
}

func start(t testing.TB, s spec) *gate {
	t.Helper()
	g := &gate{watch: newWatch(), t: t, local: 1, near: s.near, far: s.far, keys: secret}
	if s.first {
		g.local = 0
	}
	if g.near == "" {
		g.near = proxy.Plaintext
	}
	if g.far == "" {
		g.far = proxy.Plaintext
	}
	g.upstream, g.peers = listen(t), listen(t)
	table, err := policy.NewTable(s.rules)
	if err != nil {
		t.Fatal(err)
	}
	set := proxy.Settings{
		Cluster: cluster, Local: g.local, Replicas: 3, EgressSecurity: g.near, UpstreamSecurity: g.near,
		Upstream: g.upstream.Addr().String(), UpstreamName: "127.0.0.1", Rules: table, Observe: s.observe,
		MaxFrame: maxFrame, StoreLimit: storeLimit, Keys: secret,
		Log:     slog.New(slog.NewJSONHandler(g.watch, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Metrics: g.watch,
	}
	if g.local > 0 {
		set.Listen = "127.0.0.1:0"
	}
	for id := range uint8(3) {
		if id != g.local {
			set.Peers = append(set.Peers, proxy.Peer{ID: id, Security: g.far, Listen: "127.0.0.1:0",
				Address: g.peers.Addr().String(), Name: "127.0.0.1"})
		}
	}
	if g.near == proxy.TLS || g.far == proxy.TLS {
		g.files, g.certs = minted(t, "127.0.0.1")
		set.Credentials = credentials{g.certs}
	}
	if s.change != nil {
		s.change(&set)
	}
	g.given = set
	if g.server, err = proxy.New(set); err != nil {
		t.Fatal(err)
	}
	if err := g.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.stop)
	return g
}

// stop shuts the gate down and holds the books against each other.
func (g *gate) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if !g.down {
		if err := g.server.Shutdown(ctx); err != nil {
			g.t.Errorf("shutdown: got %v, want nil", err)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.opened) != len(g.closed) || g.inflight != 0 {
		g.t.Errorf("got links opened %q, closed %q, %d in handshake after the shutdown, want every link closed and none", g.opened, g.closed, g.inflight)
	}
}

func listen(t testing.TB) *net.TCPListener {
	t.Helper()
	return listenAt(t, "127.0.0.1:0")
}

func listenAt(t testing.TB, address string) *net.TCPListener {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.(*net.TCPListener)
}

// minted makes a CA and a leaf that is valid now.
func minted(t testing.TB, hosts ...string) (replica.PKI, *certs.Set) {
	t.Helper()
	return mintedFor(t, time.Now().Add(-time.Hour), time.Now().Add(time.Hour), hosts...)
}

func mintedFor(t testing.TB, from, to time.Time, hosts ...string) (replica.PKI, *certs.Set) {
	t.Helper()
	files, err := replica.Mint(t.TempDir(), hosts, from, to)
	if err != nil {
		t.Fatal(err)
	}
	set, err := certs.Load(certs.Files{Cert: files.Cert, Key: files.Key, CA: files.CA}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return files, set
}

// credentials lend a set to a gate as the program does.
type credentials struct{ set *certs.Set }

func (c credentials) Server() (*tls.Config, func(error) proxy.TLSFault) {
	hello := new(certs.Hello)
	return hello.Watch(c.set.Server()), func(err error) proxy.TLSFault {
		f := certs.ClassifyServer(err, hello, time.Now())
		return proxy.TLSFault{Ending: proxy.Ending(f.Word), Detail: f.Detail}
	}
}

func (c credentials) Client(name string) (*tls.Config, func(error) proxy.TLSFault) {
	return c.set.Client(name), func(err error) proxy.TLSFault {
		f := certs.ClassifyClient(err, time.Now())
		return proxy.TLSFault{Ending: proxy.Ending(f.Word), Detail: f.Detail}
	}
}

func (c credentials) Identify(tls.ConnectionState, uint8) (proxy.Identity, *proxy.TLSFault) {
	return proxy.Identity{Level: proxy.ByMembership}, nil
}

// lower and higher are the peers on the two sides of the local replica.
func (g *gate) lower() uint8  { return g.local - 1 }
func (g *gate) higher() uint8 { return g.local + 1 }

// ingress is where lower ids dial, egress where the local replica dials the next
// higher one.
func (g *gate) ingress() string { return g.server.Addr(nil).String() }

func (g *gate) egress() string {
	id := g.higher()
	return g.server.Addr(&id).String()
}

// dialing and accepting are the voices of stand-ins around this gate.
func (g *gate) dialing(pair mac.Pair, s proxy.Security) replica.Voice {
	v := replica.Voice{Cluster: cluster, Pair: pair}
	if s != proxy.Plaintext {
		v.Keys = g.keys
	}
	if s == proxy.TLS {
		v.TLS = g.certs.Client("127.0.0.1")
	}
	return v
}

func (g *gate) accepting(pair mac.Pair, s proxy.Security) replica.Voice {
	v := g.dialing(pair, s)
	if s == proxy.TLS {
		v.TLS = g.certs.Server()
	}
	return v
}

// The pairs of the two links.
func (g *gate) inPair() mac.Pair  { return mac.Pair{Dialer: g.lower(), Acceptor: g.local} }
func (g *gate) outPair() mac.Pair { return mac.Pair{Dialer: g.local, Acceptor: g.higher()} }

// ends are the two stand-ins of one link.
type ends struct{ near, far *replica.Conn }

// openIngress and openEgress make a whole link.
func (g *gate) openIngress() ends {
	g.t.Helper()
	dial := func(ctx context.Context) (*replica.Conn, error) {
		return g.dialing(g.inPair(), g.far).Dial(ctx, g.ingress())
	}
	far, near := g.open(dial, g.upstream, g.accepting(g.inPair(), g.near))
	return ends{near: near, far: far}
}

func (g *gate) openEgress() ends {
	g.t.Helper()
	dial := func(ctx context.Context) (*replica.Conn, error) {
		return g.dialing(g.outPair(), g.near).Dial(ctx, g.egress())
	}
	near, far := g.open(dial, g.peers, g.accepting(g.outPair(), g.far))
	return ends{near: near, far: far}
}

func (g *gate) open(dial func(context.Context) (*replica.Conn, error), ln *net.TCPListener, v replica.Voice) (dialed, accepted *replica.Conn) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), patience)
	defer cancel()
	links := g.links()
	var acceptErr error
	var both sync.WaitGroup
	both.Go(func() { accepted, acceptErr = acceptOn(ctx, ln, v) })
	dialed, err := dial(ctx)
	both.Wait()
	if err != nil || acceptErr != nil {
		g.t.Fatalf("opening a link: dialer %v, acceptor %v; log:\n%s", err, acceptErr, g.text())
	}
	bound(g.t, dialed.TCP)
	bound(g.t, accepted.TCP)
	g.await("an opened link", func() bool { return len(g.opened) > links })
	return dialed, accepted
}

func (g *gate) links() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.opened)
}

// bound gives a connection a deadline, so that no test waits for ever, and closes
// it in the end.
func bound(t testing.TB, c net.Conn) {
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
}

// hangUp closes stand-ins that have seen what they came for: a gate that ends a
// link waits for that, up to two seconds.
func hangUp(all ...*replica.Conn) {
	for _, c := range all {
		c.TCP.Close()
	}
}

func acceptOn(ctx context.Context, ln *net.TCPListener, v replica.Voice) (*replica.Conn, error) {
	deadline, _ := ctx.Deadline()
	ln.SetDeadline(deadline)
	tcp, err := ln.AcceptTCP()
	if err != nil {
		return nil, err
	}
	tcp.SetDeadline(deadline)
	return v.Accept(ctx, tcp)
}

// accept takes the next raw connection of a listener.
func accept(t testing.TB, ln *net.TCPListener) *net.TCPConn {
	t.Helper()
	ln.SetDeadline(time.Now().Add(patience))
	c, err := ln.AcceptTCP()
	if err != nil {
		t.Fatalf("got no connection: %v", err)
	}
	bound(t, c)
	return c
}

// nobody holds that a listener gets no connection within a time.
func nobody(t testing.TB, ln *net.TCPListener, wait time.Duration, why string) {
	t.Helper()
	ln.SetDeadline(time.Now().Add(wait))
	if c, err := ln.AcceptTCP(); err == nil {
		c.Close()
		t.Errorf("got a connection, want none: %s", why)
	}
}

// raw connects without a word.
func raw(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	bound(t, c)
	return c.(*net.TCPConn)
}

func send(t testing.TB, c io.Writer, parts ...[]byte) {
	t.Helper()
	if _, err := c.Write(slices.Concat(parts...)); err != nil {
		t.Fatalf("sending: %v", err)
	}
}

// receive holds the next bytes of a connection against want.
func receive(t testing.TB, c io.Reader, want ...[]byte) {
	t.Helper()
	all := slices.Concat(want...)
	got := make([]byte, len(all))
	n, err := io.ReadFull(c, got)
	if err != nil || !bytes.Equal(got, all) {
		t.Fatalf("got %d bytes of %d (%v), equal as far as they go: %v, want all", n, len(all), err, bytes.Equal(got[:n], all[:n]))
	}
}

// rest reads to the end and returns what came and how it ended: io.EOF is nil.
func rest(c io.Reader) ([]byte, error) { return io.ReadAll(c) }

// silent holds that a connection brings nothing for a while and does not end.
func silent(t testing.TB, c net.Conn, wait time.Duration, why string) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(wait))
	var b [1]byte
	if n, err := c.Read(b[:]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %d bytes and %v, want silence: %s", n, err, why)
	}
	c.SetReadDeadline(time.Now().Add(patience))
}

// ended holds that a connection ends without another byte, by FIN or by reset.
func ended(t testing.TB, c io.Reader) {
	t.Helper()
	got, err := rest(c)
	if len(got) != 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %d bytes and %v, want none and an end", len(got), err)
	}
}

func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }

// reset ends a connection with a reset.
func reset(c *net.TCPConn) {
	c.SetLinger(0)
	c.Close()
}

// watch is the books and the log of one gate: a Metrics, and the writer behind its
// logger. Whoever waits for an entry is woken by every one.
type watch struct {
	mu       sync.Mutex
	news     chan struct{}
	opened   []string       // "0 ingress tls"
	closed   []string       // "0 ingress tls peer_eof"
	refused  []string       // "ingress hello_timeout"
	rejected map[string]int // "in seal drop"
	frames   map[string]int // "in forwarded": frames
	volume   map[string]int // "in forwarded": bytes
	inflight int
	proofs   []string // "0 current"
	log      bytes.Buffer
}

func newWatch() *watch {
	return &watch{news: make(chan struct{}), rejected: map[string]int{}, frames: map[string]int{}, volume: map[string]int{}}
}

// note makes an entry and wakes who waits.
func (w *watch) note(entry func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	entry()
	close(w.news)
	w.news = make(chan struct{})
}

func (w *watch) LinkOpened(peer, direction, security string) {
	w.note(func() { w.opened = append(w.opened, peer+" "+direction+" "+security) })
}

func (w *watch) LinkClosed(peer, direction, security, ending string) {
	w.note(func() { w.closed = append(w.closed, peer+" "+direction+" "+security+" "+ending) })
}

func (w *watch) Refused(direction, ending string) {
	w.note(func() { w.refused = append(w.refused, direction+" "+ending) })
}

func (w *watch) Unauthenticated(delta int)               { w.note(func() { w.inflight += delta }) }
func (w *watch) Handshake(_, _ string, _ time.Duration)  {}
func (w *watch) PlaintextLink(string)                    {}
func (w *watch) WriteBlocked(time.Duration)              {}
func (w *watch) Frames(_, way string) proxy.FrameCounter { return wayWatch{w, way} }
func (w *watch) SecretProof(peer, slot string) {
	w.note(func() { w.proofs = append(w.proofs, peer+" "+slot) })
}
func (w *watch) Write(line []byte) (int, error) {
	w.note(func() { w.log.Write(line) })
	return len(line), nil
}
func (w *watch) text() string { w.mu.Lock(); defer w.mu.Unlock(); return w.log.String() }
func (w *watch) count(results map[string]int, k string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return results[k]
}

// wayWatch is the counter of one direction.
type wayWatch struct {
	w   *watch
	way string
}

func (c wayWatch) Add(result proxy.Result, _ uint8, frames, bytes uint64) {
	key := c.way + " " + [...]string{"forwarded", "dropped", "lost"}[result]
	c.w.note(func() { c.w.frames[key] += int(frames); c.w.volume[key] += int(bytes) })
}

func (c wayWatch) Rejected(rule, verdict string) {
	c.w.note(func() { c.w.rejected[c.way+" "+rule+" "+verdict]++ })
}

// await waits until the books say so.
func (g *gate) await(what string, is func() bool) {
	g.t.Helper()
	timeout := time.After(patience)
	for {
		g.mu.Lock()
		ok, news := is(), g.news
		g.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-news:
		case <-timeout:
			g.t.Fatalf("got no %s: opened %q, closed %q, refused %q, rejected %v; log:\n%s", what, g.opened, g.closed, g.refused, g.rejected, g.text())
		}
	}
}

// wantRejected holds the books of the frame rules against want: "in seal drop".
// Nothing else may stand in them.
func (g *gate) wantRejected(want ...string) {
	g.t.Helper()
	counts := map[string]int{}
	for _, w := range want {
		counts[w]++
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if fmt.Sprint(counts) != fmt.Sprint(g.rejected) {
		g.t.Errorf("got rules %v, want %v", g.rejected, counts)
	}
}

// wantClosed waits for the one link's end and holds it against the ending.
func (g *gate) wantClosed(ending string) {
	g.t.Helper()
	g.await("closed link", func() bool { return len(g.closed) > 0 })
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.closed) != 1 || !strings.HasSuffix(g.closed[0], " "+ending) {
		g.t.Errorf("got links closed %q, want one by %s; log:\n%s", g.closed, ending, g.log.String())
	}
}

// wantRefused waits for the one refusal and holds books and log against it: one
// ending, one line, with what was found, what was expected and what to do.
func (g *gate) wantRefused(direction, ending string) map[string]any {
	g.t.Helper()
	g.await("refusal", func() bool { return len(g.refused) > 0 && len(g.endings()) > 0 })
	g.mu.Lock()
	defer g.mu.Unlock()
	lines := g.endings()
	if len(g.refused) != 1 || g.refused[0] != direction+" "+ending || len(g.opened) != 0 {
		g.t.Errorf("got refusals %q and links %q, want one: %s %s; log:\n%s", g.refused, g.opened, direction, ending, g.log.String())
	}
	if len(lines) != 1 || lines[0]["ending"] != ending {
		g.t.Fatalf("got lines %v, want one with ending %s", lines, ending)
	}
	for _, key := range []string{"got", "want", "do", "direction", "remote"} {
		if text, _ := lines[0][key].(string); text == "" {
			g.t.Errorf("got a line without %s, want one: %v", key, lines[0])
		}
	}
	return lines[0]
}

// endings are the lines of the log that tell how something ended; mu is held.
func (w *watch) endings() (lines []map[string]any) {
	for line := range bytes.Lines(w.log.Bytes()) {
		var all map[string]any
		if json.Unmarshal(line, &all) == nil && all["ending"] != nil {
			lines = append(lines, all)
		}
	}
	return lines
}

// The frames that tests are made of. Every builder seals what it makes.

func header(c wire.Command, sender uint8) (h wire.Header) {
	h.SetCommand(c)
	h.SetClusterID(cluster)
	wire.Replica.Set(&h, sender)
	return h
}

// seal joins header and body: size, the body's seal where asked for, the header's.
func seal(h wire.Header, body []byte, sealBody bool) []byte {
	wire.Size.Set(&h, uint32(wire.HeaderSize+len(body)))
	if sealBody {
		wire.ChecksumBody.Set(&h, wire.Wide(wire.Hash(body)))
	}
	wire.Seal(&h)
	return append(h[:], body...)
}

// commit is the frame that every test has at hand: honest, 256 bytes, told apart
// by its token.
func commit(sender uint8, token uint64) []byte {
	h := header(wire.Commit, sender)
	wire.CommitToken.Set(&h, token)
	wire.CommitGroup.Set(&h, wire.MetadataGroup)
	return seal(h, nil, false)
}

func prepareOf(op uint64, operation wire.Operation, group uint64) wire.Header {
	h := header(wire.Prepare, 0)
	wire.PrepareClient.Set(&h, wire.U128{Lo: 0x99})
	wire.PrepareOp.Set(&h, op)
	wire.PrepareTimestamp.Set(&h, 1_700_000_000_000_000)
	wire.PrepareRequest.Set(&h, 1)
	wire.PrepareOperation.Set(&h, uint8(operation))
	wire.PrepareGroup.Set(&h, group)
	return h
}

// metadata is a prepare of the metadata plane with a sealed body.
func metadata(op uint64, body []byte) []byte {
	return seal(prepareOf(op, 128, wire.MetadataGroup), body, true)
}

// offset is a prepare of a partition whose body carries no seal.
func offset(op uint64, body []byte) []byte {
	return seal(prepareOf(op, wire.OpStoreConsumerOffset, 3), body, false)
}

// messages is a SendMessages prepare with one message.
func messages(op uint64, payload []byte) []byte {
	h := prepareOf(op, wire.OpSendMessages, 3)
	body := make([]byte, wire.BatchHeaderSize+wire.MessageHeaderSize+len(payload))
	binary.LittleEndian.PutUint64(body[wire.BatchBaseTimestamp:], wire.PrepareTimestamp.Get(&h))
	binary.LittleEndian.PutUint64(body[wire.BatchLength:], uint64(len(body)))
	binary.LittleEndian.PutUint32(body[wire.BatchCount:], 1)
	body[wire.BatchHeaderSize+wire.MessageID] = 1
	binary.LittleEndian.PutUint32(body[wire.BatchHeaderSize+wire.MessagePayload:], uint32(len(payload)))
	copy(body[wire.BatchHeaderSize+wire.MessageHeaderSize:], payload)
	wire.SealBatch(body)
	return seal(h, body, false)
}

// manifest is a StateTransferTarget with count artifacts, 25 bytes each.
func manifest(sender uint8, count int) []byte {
	h := header(wire.StateTransferTarget, sender)
	wire.TargetNonce.Set(&h, wire.U128{Lo: 1})
	wire.TargetGroup.Set(&h, 3)
	wire.TargetAvailable.Set(&h, 1)
	artifacts := make([]wire.Artifact, count)
	for i := range artifacts {
		artifacts[i] = wire.Artifact{Kind: wire.SegmentLog, Frontier: uint64(i), Len: 5, Checksum: uint64(i) * 7}
	}
	return seal(h, wire.AppendManifest(nil, artifacts), false)
}

func chunk(sender uint8, body []byte) []byte {
	h := header(wire.StateChunk, sender)
	wire.ChunkNonce.Set(&h, wire.U128{Lo: 1})
	wire.ChunkGroup.Set(&h, 3)
	return seal(h, body, false)
}

// noise is n bytes that do not repeat soon.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n+8)
	x := seed*2 + 1
	for i := 0; i < n; i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		binary.LittleEndian.PutUint64(b[i:], x)
	}
	return b[:n:n]
}

// spoiled is a copy of a frame with one bit changed; its seal is left as it is.
func spoiled(frame []byte, at int) []byte {
	frame = slices.Clone(frame)
	frame[at] ^= 1
	return frame
}

// resized is a copy of a frame's header that claims another size, sealed anew.
func resized(frame []byte, size uint32) []byte {
	h := *(*wire.Header)(frame)
	wire.Size.Set(&h, size)
	wire.Seal(&h)
	return h[:]
}

func headOf(frame []byte) *wire.Header { return (*wire.Header)(frame) }

func nonce(fill byte) (n [wire.NonceSize]byte) {
	for i := range n {
		n[i] = fill
	}
	return n
}

// way is one of the four that a frame can take through a gate.
type way struct {
	name    string
	egress  bool
	outward bool
}

var ways = []way{
	{"ingress-in", false, false},
	{"ingress-out", false, true},
	{"egress-out", true, true},
	{"egress-in", true, false},
}

// label is the way as metrics name it.
func (w way) label() string {
	if w.outward {
		return "out"
	}
	return "in"
}

// side is the side that frames of this way come from, as endings name it.
func (w way) side() string {
	if w.outward {
		return "local"
	}
	return "peer"
}

// openWay makes a link and returns its ends as sender and receiver.
func (g *gate) openWay(w way) (from, to *replica.Conn) {
	g.t.Helper()
	e := g.openIngressOrEgress(w.egress)
	if w.outward {
		return e.near, e.far
	}
	return e.far, e.near
}

func (g *gate) openIngressOrEgress(egress bool) ends {
	g.t.Helper()
	if egress {
		return g.openEgress()
	}
	return g.openIngress()
}

// sender is the id of whoever sends on a way.
func (g *gate) sender(w way) uint8 {
	switch {
	case w.outward:
		return g.local
	case w.egress:
		return g.higher()
	}
	return g.lower()
}
