package metrics

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// A gate that never saw its peer shows zeros, and no ending that did not happen.
func TestLinksStartAtZero(t *testing.T) {
	_, s := scrape(t, New(testLabels()))
	for _, peer := range []string{"0", "2"} {
		for _, direction := range []string{"ingress", "egress"} {
			expect(t, s, 0, "replgate_links_opened_total", "peer", peer, "direction", direction)
			expect(t, s, 0, "replgate_links", "peer", peer, "direction", direction, "security", "tls")
		}
	}
	expect(t, s, 0, "replgate_links_opened_total", "peer", "unknown", "direction", "ingress")
	absent(t, s, "replgate_links", "peer", "unknown", "direction", "ingress", "security", "tls")
	absent(t, s, "replgate_links_opened_total", "peer", "other", "direction", "ingress")
	absent(t, s, "replgate_links", "peer", "0", "direction", "ingress", "security", "other")
	for _, x := range s {
		if x.name == "replgate_links_closed_total" {
			t.Errorf("got %v before anything closed, want no such series", x)
		}
	}
}

func TestLinkLife(t *testing.T) {
	r := New(testLabels())
	r.LinkOpened("0", "ingress", "psk")
	r.LinkOpened("0", "ingress", "tls")
	r.LinkClosed("0", "ingress", "psk", "peer_eof")
	r.Refused("ingress", "mac_mismatch")
	r.LinkOpened("2", "egress", "quantum")
	r.LinkClosed("2", "egress", "quantum", "moonlight")
	_, s := scrape(t, r)
	expect(t, s, 2, "replgate_links_opened_total", "peer", "0", "direction", "ingress")
	expect(t, s, 1, "replgate_links_closed_total", "peer", "0", "direction", "ingress", "reason", "peer_eof")
	expect(t, s, 0, "replgate_links", "peer", "0", "direction", "ingress", "security", "psk")
	expect(t, s, 1, "replgate_links", "peer", "0", "direction", "ingress", "security", "tls")
	expect(t, s, 1, "replgate_links_opened_total", "peer", "unknown", "direction", "ingress")
	expect(t, s, 1, "replgate_links_closed_total", "peer", "unknown", "direction", "ingress", "reason", "mac_mismatch")
	// Back at zero, and still shown: a series that disappears breaks what is built upon it.
	expect(t, s, 0, "replgate_links", "peer", "2", "direction", "egress", "security", "other")
	expect(t, s, 1, "replgate_links_closed_total", "peer", "2", "direction", "egress", "reason", "other")
}

// T44: at every scrape, for each peer and direction, opened − Σ closed = active. Writers never pause for the scrapes.
func TestLinksBalanceAtEveryScrape(t *testing.T) {
	r := New(testLabels())
	const writers, steps = 4, 40_000
	var wg sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		wg.Go(func() { churn(r, rand.New(rand.NewPCG(uint64(w), 44)), steps) })
	}
	go func() { wg.Wait(); close(done) }()
	scrapes := 0
	for running := true; running; scrapes++ {
		select {
		case <-done:
			running = false // and one more, of the end
		default:
		}
		// A whole scrape is slow and would rarely meet a writer between two steps, so most rounds look at the copy
		// that a scrape is made of.
		if checkCopy(t, r.links); scrapes%64 == 0 || !running {
			_, s := scrape(t, r)
			checkBalance(t, s)
		}
		if t.Failed() {
			break
		}
	}
	wg.Wait()
	if scrapes < 2 {
		t.Errorf("got %d rounds, want some of them while links come and go", scrapes)
	}
}

func checkCopy(t *testing.T, l *links) {
	t.Helper()
	now := l.snapshot()
	endings, securities := l.sets.endings.size(), l.sets.securities.size()
	for p, opened := range now.opened {
		var closed uint64
		var active int64
		for _, n := range now.closed[p*endings : (p+1)*endings] {
			closed += n
		}
		for _, a := range now.active[p*securities : (p+1)*securities] {
			active += a.n
		}
		if int64(opened-closed) != active {
			t.Errorf("pair %d: opened %d - closed %d, want active %d", p, opened, closed, active)
		}
	}
}

// churn opens, closes and refuses at random and ends with nothing open.
func churn(r *Registry, rnd *rand.Rand, steps int) {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	var open [][3]string
	for range steps {
		switch rnd.IntN(3) {
		case 0:
			l := [3]string{pick("0", "2", "9"), pick("ingress", "egress"), pick("plaintext", "psk", "tls")}
			r.LinkOpened(l[0], l[1], l[2])
			open = append(open, l)
		case 1:
			r.Refused(pick("ingress", "egress"), pick("mac_mismatch", "nonsense"))
		case 2:
			if n := len(open); n > 0 {
				l := open[n-1]
				open = open[:n-1]
				r.LinkClosed(l[0], l[1], l[2], pick("peer_eof", "drain", "nonsense"))
			}
		}
	}
	for _, l := range open {
		r.LinkClosed(l[0], l[1], l[2], "drain")
	}
}

func checkBalance(t *testing.T, samples []sample) {
	t.Helper()
	type key struct{ peer, direction string }
	opened, closed, active := map[key]float64{}, map[key]float64{}, map[key]float64{}
	for _, s := range samples {
		k := key{s.labels["peer"], s.labels["direction"]}
		switch s.name {
		case "replgate_links_opened_total":
			opened[k] += s.value
		case "replgate_links_closed_total":
			closed[k] += s.value
		case "replgate_links":
			active[k] += s.value
			if s.value < 0 {
				t.Errorf("%v: got %v active links", s.labels, s.value)
			}
		}
	}
	for k := range closed {
		if _, ok := opened[k]; !ok {
			t.Errorf("%v: closed %v without opened", k, closed[k])
		}
	}
	for k := range opened {
		if opened[k]-closed[k] != active[k] {
			t.Errorf("%v: opened %v - closed %v, want active %v", k, opened[k], closed[k], active[k])
		}
	}
}
