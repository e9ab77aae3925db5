package wire

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every decoder has a fuzz test with an oracle: what it accepts comes back equal,
// and the clauses of reference_test.go agree. Seeds come from the recordings.

// seeds calls add for a few recorded frames of each command that keep agrees to.
func seeds(f *testing.F, keep func(h *Header) bool, add func(r recorded)) {
	f.Helper()
	n := map[byte]int{}
	for _, r := range recordings(f) {
		if c := r.bytes[60]; n[c] < 3 && len(r.bytes) < 8<<10 && keep(r.head()) {
			n[c]++
			add(r)
		}
	}
	if len(n) == 0 {
		f.Fatal("no seed among the recordings")
	}
}

// FuzzHeader: what the accessors return, the setters write back; only reserved
// bytes are lost (§0, §1).
func FuzzHeader(f *testing.F) {
	seeds(f, func(*Header) bool { return true }, func(r recorded) { f.Add(r.bytes[:HeaderSize]) })
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < HeaderSize {
			return
		}
		h := *(*Header)(b)
		got, want := rebuild(&h), Header{}
		for _, x := range allFields(h.Command()) {
			copy(want[x.at:x.at+x.len()], h[x.at:])
		}
		if *got != want {
			t.Errorf("%v: got\n%x\nwant\n%x", h.Command(), got[:], want[:])
		}
		if h.Command().Valid() {
			clean := refZero(h[62:128]) && h == want
			if ReservedFrameZero(&h) && ReservedTailZero(&h) != clean {
				t.Errorf("%v: reserved tail zero %v, want %v", h.Command(), ReservedTailZero(&h), clean)
			}
		}
		checkClauses(t, h)
	})
}

// checkClauses holds seal, identity and validation of any header against the
// clauses (§1, §4.3, §4.4).
func checkClauses(t *testing.T, h Header) {
	t.Helper()
	if got, want := SealOK(&h), bytes.Equal(h[:16], refPrint(h[16:])); got != want {
		t.Errorf("§4.3: got seal %v, want %v", got, want)
	}
	var id Header
	Checksum.Set(&id, Identity(&h))
	if !bytes.Equal(id[:16], refIdentity(h[:])) {
		t.Errorf("§4.4: got identity %x, want %x", id[:16], refIdentity(h[:]))
	}
	Seal(&h)
	if c := h.Command(); c.Sealed() && !SealOK(&h) || c.IsPrepare() && Checksum.Get(&h) != Identity(&h) {
		t.Errorf("§4.3, §4.4 %v: Seal wrote %x", c, h[:16])
	}
	if err := Validate(&h); (err == nil) != refValidate(h[:]) {
		t.Errorf("§1 %v: got %v, by the clauses %v", h.Command(), err, refValidate(h[:]))
	}
}

// FuzzSuffix: the package and the clauses agree, and what is accepted comes back
// from its fields (§4.6). The second try seals the entries, so that the rules
// behind the identity have their turn.
func FuzzSuffix(f *testing.F) {
	seeds(f, func(h *Header) bool { return h.Command() == DoViewChange || h.Command() == StartView },
		func(r recorded) { f.Add(ViewOp.Get(r.head()), r.body()) })
	for name := range suffixShapes() {
		g := shape(f, name)[0]
		f.Add(ViewOp.Get((*Header)(g)), g[HeaderSize:])
	}
	f.Fuzz(func(t *testing.T, op uint64, body []byte) {
		checkSuffixOracle(t, op, body)
		body = bytes.Clone(body)
		for i := len(body)/HeaderSize - 1; i >= 0; i-- {
			e := Suffix(body).Entry(i)
			if PrepareOperation.Get(e) != 0 {
				Checksum.Set(e, Identity(e))
			}
		}
		checkSuffixOracle(t, op, body)
	})
}

func checkSuffixOracle(t *testing.T, op uint64, body []byte) {
	t.Helper()
	err := CheckSuffix(op, body)
	if want := refSuffix(op, body); (err == nil) != want {
		t.Fatalf("§4.6: got %v, by the clauses %v", err, want)
	}
	if err != nil {
		return
	}
	// 209..216 is padding that no rule and no field covers.
	want := bytes.Clone(body)
	for i := range Suffix(want).Len() {
		clear(Suffix(want).Entry(i)[209:216])
	}
	if got := rebuildSuffix(body); !bytes.Equal(got, want) {
		t.Errorf("§4.6: got\n%x\nwant\n%x", got, want)
	}
}

// FuzzBatch: the verdict is that of the clauses, whole and in pieces, and what is
// accepted is sealed again to the same bytes (§5). The second try has matching
// checksums.
func FuzzBatch(f *testing.F) {
	seeds(f, func(h *Header) bool { return BodyKindOf(h) == BodyBatch },
		func(r recorded) { f.Add(r.body(), PrepareTimestamp.Get(r.head())) })
	for _, fault := range batchFaults() {
		f.Add(broken(fault), uint64(batchTime))
	}
	f.Fuzz(func(t *testing.T, body []byte, timestamp uint64) {
		if len(body) > 64<<10 {
			return
		}
		checkBatchOracle(t, body, timestamp)
		if len(body) >= BatchHeaderSize {
			body = bytes.Clone(body)
			le.PutUint64(body[BatchLength:], uint64(len(body)))
			resum(body)
			checkBatchOracle(t, body, le.Uint64(body[BatchBaseTimestamp:]))
		}
	})
}

func checkBatchOracle(t *testing.T, body []byte, timestamp uint64) {
	t.Helper()
	g := send(body)
	PrepareTimestamp.Set((*Header)(g), timestamp)
	err := inAnyPieces(t, g)
	if want := refBatch(body, timestamp); (err == nil) != want {
		t.Fatalf("§5: got %v, by the clauses %v", err, want)
	}
	if err != nil {
		return
	}
	again := bytes.Clone(body)
	clear(again[BatchChecksum : BatchChecksum+8])
	SealBatch(again)
	if !bytes.Equal(again, body) || !bytes.Equal(rebuildBatch(body), body) {
		t.Errorf("§5: sealed again, got\n%x\nwant\n%x", again, body)
	}
}

// FuzzManifest: the package and the clauses agree, and what is accepted comes back
// from the encoder where entries have today's length (§6.1).
func FuzzManifest(f *testing.F) {
	seeds(f, func(h *Header) bool { return BodyKindOf(h) == BodyManifest }, func(r recorded) { f.Add(r.body()) })
	for _, g := range shape(f, "manifests") {
		f.Add(g[HeaderSize:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		checkManifestOracle(t, body)
		if len(body) >= 8 {
			body = bytes.Clone(body)
			le.PutUint64(body[len(body)-8:], Hash(body[:len(body)-8]))
			checkManifestOracle(t, body)
		}
	})
}

func checkManifestOracle(t *testing.T, body []byte) {
	t.Helper()
	got, err := DecodeManifest(body)
	want, ok := refManifest(body)
	if (err == nil) != ok || !slices.Equal(got, want) {
		t.Fatalf("§6.1: got %v, %v, by the clauses %v, %v", got, err, want, ok)
	}
	if found := inAnyPieces(t, target(body, 1, 0)); found != err {
		t.Errorf("§6.1: got %v from the verifier, %v from the decoder", found, err)
	}
	if ok && body[8] == manifestEntry && !bytes.Equal(AppendManifest(nil, got), body) {
		t.Errorf("§6.1: encoded again, got %x, want %x", AppendManifest(nil, got), body)
	}
}

// FuzzResults: a result section and its payload come back equal (framing).
func FuzzResults(f *testing.F) {
	for _, g := range shape(f, "replies") {
		f.Add(g[HeaderSize:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		results, payload, err := DecodeResults(body)
		fits := len(body) >= 4 && uint64(le.Uint32(body))*8 <= uint64(len(body)-4)
		if (err == nil) != fits {
			t.Fatalf("got %v, want success %v", err, fits)
		}
		if err == nil && !bytes.Equal(AppendResults(nil, results, payload), body) {
			t.Errorf("got %v, %x from %x", results, payload, body)
		}
	})
}

// FuzzReader: however a stream is cut, the frames and the end are the same (§2.1).
func FuzzReader(f *testing.F) {
	seeds(f, func(*Header) bool { return true }, func(r recorded) {
		f.Add(slices.Concat(r.bytes, r.bytes, r.bytes[:100]), uint64(len(r.bytes)), uint16(300))
	})
	f.Add(slices.Concat(claim(Commit, 256), claim(31, 256)), uint64(1), uint16(1))
	f.Add(slices.Concat(claim(Commit, 256), claim(Commit, 255)), uint64(1), uint16(256))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64, most uint16) {
		whole := feed{r: NewReader(limits), stream: stream, next: func() int { return len(stream) }}
		want, wantErr := whole.frames()
		rng := rand.New(rand.NewPCG(seed, 1))
		cut := feed{r: NewReader(limits), stream: stream, next: func() int { return rng.IntN(int(most) + 1) }}
		got, err := cut.frames()
		if !equalFrames(got, want) || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("got %d frames, %v, want %d, %v", len(got), err, len(want), wantErr)
		}
		if cut.held > limits.Buffer || whole.held > limits.Buffer {
			t.Errorf("got %d and %d bytes of memory, want at most %d", cut.held, whole.held, limits.Buffer)
		}
		all := bytes.Join(want, nil)
		if !bytes.HasPrefix(stream, all) || err == nil && !ends(stream[len(all):]) {
			t.Errorf("the frames are not the stream: %d bytes of %d", len(all), len(stream))
		}
	})
}

// ends reports whether what is left of a stream is no whole frame.
func ends(rest []byte) bool {
	return len(rest) < HeaderSize || uint64(le.Uint32(rest[48:])) > uint64(len(rest))
}

// FuzzHandshake: what the constructors make is clean, comes back from its fields,
// and is dirty with any bit set that they leave zero (§1.8).
func FuzzHandshake(f *testing.F) {
	seeds(f, func(h *Header) bool { return !h.Command().ReplicaPlane() }, func(r recorded) {
		h := r.head()
		f.Add(h[32:48], Replica.Get(h), h.Nonce(), h.MAC(), h[192], uint16(77))
	})
	f.Fuzz(func(t *testing.T, cluster []byte, replica uint8, nonce, mac []byte, status uint8, bit uint16) {
		var id ClusterID
		copy(id[:], cluster)
		for _, h := range []Header{NewHello(id, replica, nonce), NewChallenge(id, replica, nonce, mac),
			NewReject(id, replica, Status(status)), NewFinish(id, replica, mac)} {
			if !HandshakeClean(&h) || *rebuild(&h) != h || h.ClusterID() != id || Replica.Get(&h) != replica || len(h.Nonce()) != 32 {
				t.Fatalf("§1.8 %v: not clean, or not what it was built from: %x", h.Command(), h[:])
			}
			dirty := h
			at := int(bit/8) % HeaderSize
			dirty[at] ^= 1 << (bit % 8)
			// 60 turns one form into another, the rest of these a form may set
			if free := at >= 32 && at < 48 || at == 60 || at == 61 || at >= 128 && at < 193; HandshakeClean(&dirty) && !free {
				t.Errorf("§1.8 %v: clean with byte %d changed", h.Command(), at)
			}
		}
	})
}
