package mac_test

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"sort"
	"strings"
	"testing"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// The secrets of the recordings.
const (
	secretOne = "capture secret one, 32+ bytes long!"
	secretTwo = "capture secret two, 32+ bytes long!"
)

var cluster = wire.ClusterIDOf("iggy-cluster")

type nonce = [wire.NonceSize]byte

// keyring makes a keyring of a current secret and at most one previous.
func keyring(t testing.TB, secrets ...string) *mac.Keyring {
	t.Helper()
	var previous []byte
	if len(secrets) > 1 {
		previous = []byte(secrets[1])
	}
	k, err := mac.NewKeyring([]byte(secrets[0]), previous)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// options are those of one side that holds secret one on a plaintext channel.
func options(t testing.TB) mac.Options {
	return mac.Options{Cluster: cluster, Keys: keyring(t, secretOne)}
}

func filled(b byte) (n nonce) {
	for i := range n {
		n[i] = b
	}
	return n
}

// exporter is a TLS session's, told apart by its byte.
func exporter(b byte) mac.Binding { return mac.TLS(filled(b)) }

// side is what one end of a handshake knows: the pair as it sees it, and its
// options.
type side struct {
	pair mac.Pair
	opts mac.Options
}

// sides are two ends that agree, replicas 0 and 1.
func sides(t testing.TB) (dialer, acceptor side) {
	return side{mac.Pair{Dialer: 0, Acceptor: 1}, options(t)}, side{mac.Pair{Dialer: 0, Acceptor: 1}, options(t)}
}

// result is how far a handshake came and what each end made of it.
type result struct {
	hello, challenge, finish wire.Header
	dialer, acceptor         mac.Slot
	dialerErr, acceptorErr   error
}

// shake runs a whole handshake. Where the dialer refuses, the acceptor is given
// nothing.
func shake(t testing.TB, dialer, acceptor side, nonceD, nonceA nonce) (r result) {
	t.Helper()
	d, a := mac.NewDialer(dialer.pair, dialer.opts), mac.NewAcceptor(acceptor.pair.Acceptor, acceptor.opts)
	r.hello = d.Hello(nonceD)
	if err := errors.Join(a.Hello(&r.hello), a.Accept()); err != nil {
		t.Fatal(err)
	}
	r.challenge = a.Challenge(nonceA)
	if r.finish, r.dialer, r.dialerErr = d.Challenge(&r.challenge); r.dialerErr == nil {
		r.acceptor, r.acceptorErr = a.Finish(&r.finish)
	}
	return r
}

// challenged returns an acceptor that waits for its Finish, and the honest one.
func challenged(t testing.TB, opts mac.Options) (*mac.Acceptor, wire.Header) {
	t.Helper()
	d, a := mac.NewDialer(mac.Pair{Dialer: 0, Acceptor: 1}, opts), mac.NewAcceptor(1, opts)
	hello := d.Hello(filled(0x11))
	if err := a.Hello(&hello); err != nil {
		t.Fatal(err)
	}
	challenge := a.Challenge(filled(0x22))
	finish, _, err := d.Challenge(&challenge)
	if err != nil {
		t.Fatal(err)
	}
	return a, finish
}

// waiting returns a dialer that has said its Hello, and the honest Challenge.
func waiting(t testing.TB, opts mac.Options) (*mac.Dialer, wire.Header) {
	t.Helper()
	d, a := mac.NewDialer(mac.Pair{Dialer: 0, Acceptor: 1}, opts), mac.NewAcceptor(1, opts)
	hello := d.Hello(filled(0x11))
	if err := a.Hello(&hello); err != nil {
		t.Fatal(err)
	}
	return d, a.Challenge(filled(0x22))
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// recorded is one recorded connection's handshake.
type recorded struct {
	name                     string
	pair                     mac.Pair
	hello, challenge, finish wire.Header
}

// recordings reads the handshakes of a scenario from the project's subset, or
// from the folder that REPLGATE_CAPTURES names.
func recordings(t *testing.T, scenario string) (all []recorded) {
	t.Helper()
	dir := os.Getenv("REPLGATE_CAPTURES")
	if dir == "" {
		dir = "../internal/replica/testdata/recordings"
	}
	names, err := fs.Glob(os.DirFS(dir), scenario+"/*.d2a.bin")
	if err != nil || len(names) == 0 {
		t.Fatalf("got no recordings of %s in %s (%v)", scenario, dir, err)
	}
	sort.Strings(names)
	for _, name := range names {
		base := path.Base(name) // NNN-D-A.d2a.bin
		r := recorded{name: strings.TrimSuffix(base, ".d2a.bin"), pair: mac.Pair{Dialer: base[4] - '0', Acceptor: base[6] - '0'}}
		said := read(t, path.Join(dir, name))
		answered := read(t, path.Join(dir, strings.Replace(name, ".d2a.", ".a2d.", 1)))
		r.hello, r.finish = wire.Header(said[:256]), wire.Header(said[256:512])
		r.challenge = wire.Header(answered[:256])
		all = append(all, r)
	}
	return all
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
