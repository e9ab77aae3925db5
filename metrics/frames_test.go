package metrics

import (
	"sync"
	"testing"
)

func TestFramesAreCounted(t *testing.T) {
	r := New(testLabels())
	in := r.Frames("0", "in")
	in.Add(Forwarded, 2, 3, 768)
	in.Add(Dropped, 2, 1, 256)
	in.Add(Lost, 200, 1, 300)
	in.Add(Result(77), 1, 1, 256)
	in.Rejected("seal", "drop")
	in.Rejected("sender", "would_close")
	in.Rejected("mood", "sigh")
	r.Frames("0", "in").Add(Forwarded, 2, 1, 256)
	_, s := scrape(t, r)
	at := func(name string, want float64, command, result string) {
		t.Helper()
		expect(t, s, want, name, "peer", "0", "direction", "in", "command", command, "result", result)
	}
	at("replgate_frames_total", 4, "Commit", "forwarded")
	at("replgate_frame_bytes_total", 1024, "Commit", "forwarded")
	at("replgate_frames_total", 1, "Commit", "dropped")
	at("replgate_frame_bytes_total", 300, "other", "lost")
	at("replgate_frames_total", 1, "Ping", "other")
	for _, x := range [][2]string{{"seal", "drop"}, {"sender", "would_close"}, {"other", "other"}} {
		expect(t, s, 1, "replgate_frames_rejected_total", "peer", "0", "direction", "in", "rule", x[0], "verdict", x[1])
	}
	absent(t, s, "replgate_frames_total", "peer", "0", "direction", "in", "command", "Ping", "result", "forwarded")
	absent(t, s, "replgate_frames_total", "peer", "0", "direction", "out", "command", "Commit", "result", "forwarded")
}

// Two names for one command byte, a hole in the list, a list longer than a byte: all legal, no series twice.
func TestOddCommandLists(t *testing.T) {
	l := testLabels()
	l.Commands = []string{"A", "", "A"}
	r := New(l)
	for c := range 256 {
		r.Frames("0", "in").Add(Forwarded, uint8(c), 1, 256)
	}
	_, s := scrape(t, r)
	expect(t, s, 2, "replgate_frames_total", "peer", "0", "direction", "in", "command", "A", "result", "forwarded")
	expect(t, s, 254, "replgate_frames_total", "peer", "0", "direction", "in", "command", "other", "result", "forwarded")

	l.Commands = nil
	for c := range 300 {
		l.Commands = append(l.Commands, "c"+string(rune('0'+c/100))+string(rune('0'+c/10%10))+string(rune('0'+c%10)))
	}
	r = New(l)
	r.Frames("0", "in").Add(Forwarded, 255, 1, 256)
	_, s = scrape(t, r)
	expect(t, s, 1, "replgate_frames_total", "peer", "0", "direction", "in", "command", "c255", "result", "forwarded")
	for _, f := range r.List() {
		if want := 4 * 3 * 257 * 4; f.Name == "replgate_frames_total" && f.Bound != want {
			t.Errorf("bound of frames_total with 300 commands: got %d, want %d", f.Bound, want)
		}
	}
}

func TestFramePathAllocatesNothing(t *testing.T) {
	r := New(testLabels())
	f := r.Frames("2", "out")
	if n := testing.AllocsPerRun(1000, func() {
		f.Add(Forwarded, 2, 1, 256)
		f.Add(Dropped, 250, 1, 256)
		f.Rejected("seal", "observe")
		f.Rejected("nonsense", "nonsense")
		r.WriteBlocked(1)
	}); n != 0 {
		t.Errorf("got %v allocations a frame, want 0", n)
	}
}

// T44: frames and bytes of one combination belong to the same moment. Every frame here has 300 bytes, so every scrape
// must show 300 times as many bytes as frames.
func TestFramesAndBytesAgreeAtEveryScrape(t *testing.T) {
	r := New(testLabels())
	const pumps, perPump = 4, 20000
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range pumps {
		wg.Go(func() {
			f := r.Frames("0", "in")
			for i := range perPump {
				f.Add(Result(i%3), uint8(i%5), 1, 300)
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	for running := true; running && !t.Failed(); {
		select {
		case <-done:
			running = false
		default:
		}
		total := checkFrameBytes(t, r)
		if !running && total != pumps*perPump {
			t.Errorf("at the end: got %v frames, want %d", total, pumps*perPump)
		}
	}
	wg.Wait()
}

func checkFrameBytes(t *testing.T, r *Registry) (total float64) {
	t.Helper()
	_, samples := scrape(t, r)
	for _, s := range samples {
		if s.name != "replgate_frames_total" {
			continue
		}
		total += s.value
		l := s.labels
		bytes, ok := find(samples, "replgate_frame_bytes_total", "peer", l["peer"], "direction", l["direction"],
			"command", l["command"], "result", l["result"])
		if !ok || bytes != 300*s.value {
			t.Errorf("%v: got %v frames and %v bytes, want 300 bytes a frame", l, s.value, bytes)
		}
	}
	return total
}

func BenchmarkFrameAdd(b *testing.B) {
	f := New(testLabels()).Frames("0", "in")
	b.ReportAllocs()
	for b.Loop() {
		f.Add(Forwarded, 2, 1, 256)
	}
}
