package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/replgate/replgate/wire"
)

// sealed makes a frame of c whose size and seals are right.
func sealed(c wire.Command, fill func(*wire.Header), body []byte) []byte {
	h := new(wire.Header)
	h.SetCommand(c)
	wire.Size.Set(h, uint32(wire.HeaderSize+len(body)))
	if fill != nil {
		fill(h)
	}
	wire.Seal(h)
	return append(h[:], body...)
}

func decoded(t *testing.T, frames ...[]byte) string {
	t.Helper()
	var out strings.Builder
	if err := decode(&out, bytes.NewReader(bytes.Join(frames, nil))); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Commands that no recording has must be named too.
func TestDecodeNamesEveryCommand(t *testing.T) {
	for i := range wire.Commands {
		c := wire.Command(i)
		got := decoded(t, sealed(c, func(h *wire.Header) { wire.View.Set(h, 7); wire.Replica.Set(h, 2) }, nil))
		want := fmt.Sprintf("%8d %-21s cluster=00000000 size=256 view=7 replica=2", 0, c)
		if first, _, _ := strings.Cut(got, "\n"); !strings.HasPrefix(first, want) || strings.HasPrefix(c.String(), "command ") {
			t.Errorf("command %d: got %q, want %q in front", i, first, want)
		}
		for _, f := range wire.Layout(c) {
			if !strings.Contains(got, " "+f.Name+"=") {
				t.Errorf("%v: got %q, want its field %s", c, got, f.Name)
			}
		}
	}
	if got := decoded(t, sealed(wire.CommandMax+1, nil, nil)); !strings.Contains(got, "FAULT") {
		t.Errorf("got %q, want a fault: there is no such command", got)
	}
}

// What the recordings do not have: a blank entry, a release, bodies with faults,
// a reply that refuses.
func TestDecodeBodies(t *testing.T) {
	var blank wire.Header
	wire.SetBlank(&blank, 5)
	vote := func(body []byte) []byte {
		return sealed(wire.DoViewChange, func(h *wire.Header) {
			wire.ViewOp.Set(h, 5)
			wire.View.Set(h, 1)
			wire.ChecksumBody.Set(h, wire.BodySeal(body))
		}, body)
	}
	reply := func(body []byte) []byte {
		const createStream = 128
		return sealed(wire.Reply, func(h *wire.Header) { wire.ReplyOperation.Set(h, createStream) }, body)
	}
	target := func(body []byte) []byte {
		return sealed(wire.StateTransferTarget, func(h *wire.Header) { wire.TargetAvailable.Set(h, 1) }, body)
	}
	manifest := wire.AppendManifest(nil, []wire.Artifact{{Kind: 2, Frontier: 9, Len: 1234, Checksum: 0xabc}})
	torn := bytes.Clone(manifest)
	torn[len(torn)-1] ^= 1
	for _, c := range []struct {
		name  string
		frame []byte
		want  []string
	}{
		{"blank", vote(blank[:]), []string{"\n           op=5 blank\n"}},
		{"half an entry", vote(blank[:100]), []string{" FAULT wire: "}},
		{"wrong op", vote(append(bytes.Clone(blank[:]), blank[:]...)), []string{" FAULT wire: got suffix entries that are not consecutive"}},
		{"release", sealed(wire.Commit, func(h *wire.Header) { wire.Release.Set(h, 3) }, nil), []string{" replica=0 release=3 "}},
		{"artifact", target(manifest), []string{"\n           artifact kind=2 frontier=9 len=1234 checksum=0000000000000abc\n"}},
		{"torn manifest", target(torn), []string{" FAULT wire: "}},
		{"result", reply(wire.AppendResults(nil, []wire.Result{{Index: 1, Code: 40}}, []byte("xyz"))),
			[]string{"\n           result index=1 code=40\n", "\n           payload 3 bytes\n"}},
		{"short reply", reply([]byte{1, 0}), []string{"\n           FAULT wire: got a reply body of 2 bytes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := decoded(t, c.frame)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}
			if fault := strings.Contains(strings.Join(c.want, ""), "FAULT"); fault != strings.Contains(got, "FAULT") {
				t.Errorf("got %q, want a fault: %v", got, fault)
			}
		})
	}
}

// A reader that fails is not a file that ends: the cause is kept.
func TestDecodeReader(t *testing.T) {
	commit := sealed(wire.Commit, nil, nil)
	chunk := sealed(wire.StateChunk, nil, make([]byte, 9000))
	for _, at := range []int{0, 100, 256, 300, 9000} {
		all := append(bytes.Clone(commit), chunk...)
		cause := errors.New("the disk is gone")
		in := iotest.OneByteReader(bytes.NewReader(all[:at]))
		var out strings.Builder
		err := decode(&out, &failing{in, cause})
		if !errors.Is(err, cause) {
			t.Errorf("after %d bytes: got %v, want %v", at, err, cause)
		}
		if got := strings.Count(out.String(), "\n"); got != min(at/256, 1) {
			t.Errorf("after %d bytes: got %d frames, want those before", at, got)
		}
	}
	// A header that claims a gigabyte costs no gigabyte.
	huge := sealed(wire.StateChunk, func(h *wire.Header) { wire.Size.Set(h, decodeMax) }, []byte("nine left"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := decode(io.Discard, bytes.NewReader(huge)); err == nil {
		t.Error("got no error, want one: the body is not there")
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
		t.Errorf("got %d bytes allocated for a body of nine, want less than 16 MiB", allocated)
	}
}

// failing ends with an error of its own.
type failing struct {
	in  io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.in.Read(p)
	if err != nil {
		return n, f.err
	}
	return n, nil
}

// A group is printed as people know it: stream, topic and partition.
func TestDecodeGroup(t *testing.T) {
	for g, want := range map[uint64]string{
		wire.MetadataGroup:          "metadata",
		0:                           "0/0/0",
		3<<32 | 2<<20 | 1:           "3/2/1",
		1<<44 | 0xfff<<20 | 0xfffff: "4096/4095/1048575",
	} {
		if got := group(g); got != want {
			t.Errorf("%x: got %s, want %s", g, got, want)
		}
	}
}
