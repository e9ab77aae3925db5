package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/replgate/replgate/internal/replica"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// claims are the sizes of which a header may boast.
var claims = []uint32{0, 255, 256, 257, maxFrame, maxFrame + 1, 1 << 31, 1<<32 - 1}

// claimBound is the most that one boast may cost: buffers grow by doubling up to
// 1 MiB, and connections and test have their own needs. The smallest claim that
// matters is 64 MiB.
const claimBound = 8 << 20

// allocated is how many bytes were allocated while do ran, by anybody.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// wantSmall runs do and holds that nothing was allocated in proportion to a claim.
func wantSmall(t *testing.T, do func()) {
	t.Helper()
	if n := allocated(do); n > claimBound {
		t.Errorf("got %d bytes allocated, want at most %d", n, claimBound)
	}
}

// A bound that nothing can exceed proves nothing.
func TestBadSizesAreMeasured(t *testing.T) {
	var keep []byte
	if n := allocated(func() { keep = make([]byte, maxFrame) }); n < maxFrame || len(keep) != maxFrame {
		t.Errorf("got %d bytes allocated, want at least %d", n, maxFrame)
	}
}

// As a dialer's first frame, on both entrances: only 256 is a Hello. A claim
// within the limits is a Hello with a body, refused by hello_strict; all others
// end as frame_size. Nobody gets an answer to any of them.
func TestBadSizesHello(t *testing.T) {
	for _, size := range claims {
		for _, direction := range []string{"ingress", "egress"} {
			t.Run(fmt.Sprintf("%s/%d", direction, size), func(t *testing.T) {
				g := start(t, spec{near: proxy.PSK, far: proxy.PSK})
				addr, id := g.ingress(), g.lower()
				if direction == "egress" {
					addr, id = g.egress(), g.local
				}
				n := nonce(7)
				hello := wire.NewHello(cluster, id, n[:])
				wire.Size.Set(&hello, size)
				c := raw(t, addr)
				wantSmall(t, func() {
					send(t, c, hello[:])
					switch {
					case size == wire.HeaderSize:
						g.wantChallenge(c, direction)
					case size > wire.HeaderSize && size <= maxFrame:
						ended(t, c)
						g.wantRefused(direction, "hello_malformed")
					default:
						ended(t, c)
						g.wantRefused(direction, "frame_size")
					}
				})
			})
		}
	}
}

// wantChallenge holds that an honest Hello is answered: on egress once the far leg
// is proven.
func (g *gate) wantChallenge(c io.Reader, direction string) {
	g.t.Helper()
	id := g.local
	if direction == "egress" {
		id = g.higher()
		if _, err := g.accepting(g.outPair(), g.far).Accept(g.t.Context(), accept(g.t, g.peers)); err != nil {
			g.t.Fatal(err)
		}
	}
	var h wire.Header
	if _, err := io.ReadFull(c, h[:]); err != nil {
		g.t.Fatalf("got %v, want a Challenge", err)
	}
	if h.Command() != wire.ReplicaChallenge || h[wire.HelloStatus] != 0 || wire.Replica.Get(&h) != id {
		g.t.Errorf("got %v of replica %d with status %d, want a Challenge of %d", h.Command(), wire.Replica.Get(&h), h[wire.HelloStatus], id)
	}
}

// As the acceptor's answer: a gate that dials refuses the sizes as a gate that
// accepts does, and the near replica is never told yes.
func TestBadSizesChallenge(t *testing.T) {
	for _, size := range claims {
		if size == wire.HeaderSize {
			continue
		}
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			g := start(t, spec{near: proxy.PSK, far: proxy.PSK})
			near := raw(t, g.egress())
			hello := wire.NewHello(cluster, g.local, bytes.Repeat([]byte{7}, wire.NonceSize))
			wantSmall(t, func() {
				send(t, near, hello[:])
				far := accept(t, g.peers)
				h := readHeader(t, far)
				a := mac.NewAcceptor(g.higher(), mac.Options{Cluster: cluster, Keys: secret, Strict: true})
				if err := a.Hello(h); err != nil {
					t.Fatal(err)
				}
				challenge := a.Challenge(nonce(9))
				wire.Size.Set(&challenge, size)
				send(t, far, challenge[:])
				ended(t, far)
				ended(t, near)
			})
			if size > wire.HeaderSize && size <= maxFrame {
				g.wantRefused("egress", "hello_malformed")
			} else {
				g.wantRefused("egress", "frame_size")
			}
		})
	}
}

func readHeader(t testing.TB, c io.Reader) *wire.Header {
	t.Helper()
	h := new(wire.Header)
	if n, err := io.ReadFull(c, h[:]); err != nil {
		t.Fatalf("got %d bytes of a header: %v", n, err)
	}
	return h
}

// sizedFrames are frames of the three kinds that a size means something else for.
var sizedFrames = []struct {
	name string
	make func(sender uint8) []byte
	drop string // the rule that refuses a body, empty where one is allowed
}{
	{"header-only", func(sender uint8) []byte {
		h := header(wire.PrepareOk, sender)
		wire.PrepareOkOp.Set(&h, 5)
		wire.PrepareOkOperation.Set(&h, 128)
		wire.PrepareOkGroup.Set(&h, wire.MetadataGroup)
		return seal(h, nil, false)
	}, "header_only_size"},
	{"header-only, held by Iggy too", func(sender uint8) []byte { return commit(sender, 5) }, "layout"},
	{"prepare", func(uint8) []byte { return offset(5, nil) }, ""},
	{"chunk", func(sender uint8) []byte { return chunk(sender, nil) }, ""},
}

// Behind the handshake, on a way in and on a way out. A claim outside the limits
// ends the link before anything of the frame leaves; one inside costs as much
// memory as its bytes that have arrived, at most.
func TestBadSizesFrame(t *testing.T) {
	for _, f := range sizedFrames {
		for _, size := range claims {
			for _, w := range []way{ways[0], ways[2]} {
				t.Run(fmt.Sprintf("%s/%d/%s", f.name, size, w.name), func(t *testing.T) {
					g := start(t, spec{})
					from, to := g.openWay(w)
					frame := resized(f.make(g.sender(w)), size)
					before, behind := commit(g.sender(w), 1), commit(g.sender(w), 2)
					wantSmall(t, func() {
						send(t, from, before, frame)
						receive(t, to, before)
						switch {
						case size < wire.HeaderSize || size > maxFrame:
							ended(t, to)
							hangUp(from, to)
							g.wantClosed("frame_size")
						case size == maxFrame:
							g.partOfLongest(from, to, w, f.drop != "", frame)
						default:
							tail := noise(int(size)-wire.HeaderSize, 1)
							send(t, from, tail, behind)
							if f.drop != "" && size > wire.HeaderSize {
								receive(t, to, behind)
								g.wantRejected(w.label() + " " + f.drop + " drop")
							} else {
								receive(t, to, frame, tail, behind)
								g.wantRejected()
							}
						}
					})
				})
			}
		}
	}
}

// partOfLongest sends the first MiB of a body of 64 MiB and then closes. What is
// dropped by its header goes nowhere; the other two carry no seal on their bodies
// and pass as they come.
func (g *gate) partOfLongest(from, to *replica.Conn, w way, dropped bool, head []byte) {
	t := g.t
	t.Helper()
	part := noise(1<<20, 3)
	send(t, from, part)
	if !dropped {
		receive(t, to, head, part)
	}
	from.TCP.CloseWrite()
	ended(t, to)
	hangUp(from, to)
	g.wantClosed(w.side() + "_eof_mid_frame")
}
