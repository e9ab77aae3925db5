package replica

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sort"
	"strings"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/wire"
)

// Recording is one recorded connection: what its dialer said and what its
// acceptor said, handshake included.
type Recording struct {
	Name     string // "tour-psk/003-1-2"
	Scenario string // "tour-psk"
	Pair     mac.Pair
	Dialer   []byte // d2a
	Acceptor []byte // a2d
}

// The endings of a recording's two files.
const (
	dialerFile   = ".d2a.bin"
	acceptorFile = ".a2d.bin"
)

// Recordings reads every recorded connection below dir, in order of scenario and
// connection.
func Recordings(dir string) ([]Recording, error) {
	root := os.DirFS(dir)
	names, err := fs.Glob(root, "*/*"+dialerFile)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, errors.New("replica: got no recordings in " + dir)
	}
	sort.Strings(names)
	recordings := make([]Recording, 0, len(names))
	for _, name := range names {
		r, err := readRecording(root, strings.TrimSuffix(name, dialerFile))
		if err != nil {
			return nil, err
		}
		recordings = append(recordings, r)
	}
	return recordings, nil
}

func readRecording(root fs.FS, name string) (Recording, error) {
	r := Recording{Name: name, Scenario: path.Dir(name)}
	var number, dialer, acceptor int
	if _, err := fmt.Sscanf(path.Base(name), "%d-%d-%d", &number, &dialer, &acceptor); err != nil {
		return r, fmt.Errorf("replica: got recording %s, want NNN-D-A: %w", name, err)
	}
	r.Pair = mac.Pair{Dialer: uint8(dialer), Acceptor: uint8(acceptor)}
	var err error
	if r.Dialer, err = fs.ReadFile(root, name+dialerFile); err != nil {
		return r, err
	}
	r.Acceptor, err = fs.ReadFile(root, name+acceptorFile)
	return r, err
}

// Replicas is the roster's length in the recording's scenario.
func (r Recording) Replicas() int {
	if r.Scenario == "five" {
		return 5
	}
	return 3
}

// Frames cuts recorded bytes into frames. A recorder that was stopped can leave
// part of one at the end; it is returned as rest.
func Frames(b []byte) (frames [][]byte, rest []byte, err error) {
	for len(b) >= wire.HeaderSize {
		size := wire.Size.Get((*wire.Header)(b))
		if size < wire.HeaderSize {
			return frames, b, fmt.Errorf("replica: got a frame of size %d in a recording", size)
		}
		if uint64(size) > uint64(len(b)) {
			break
		}
		frames = append(frames, b[:size:size])
		b = b[size:]
	}
	return frames, b, nil
}

// Traffic is what a direction says after its handshake: whole frames, back to
// back.
func Traffic(b []byte) ([]byte, error) {
	frames, _, err := Frames(b)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, f := range frames {
		switch (*wire.Header)(f).Command() {
		case wire.ReplicaHello, wire.ReplicaChallenge, wire.ReplicaFinish:
		default:
			out = append(out, f...)
		}
	}
	return out, nil
}
