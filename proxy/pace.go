package proxy

import "time"

// paceGrace is how long a sender may take over the first bytes of a frame.
const paceGrace = 5 * time.Second

// pace tells a sender that is slow from one that is stuck: inside a frame it must
// make a least rate after a grace. Only the time spent waiting for it counts, not
// the time it is kept waiting by the reader.
type pace struct {
	rate   int64 // bytes per second; 0 never ends anything
	waited time.Duration
	got    int64
}

// left returns how much longer the sender may be waited for; not positive means
// that it is stuck.
func (p *pace) left() time.Duration {
	earned := time.Duration(p.got/p.rate)*time.Second + time.Duration(p.got%p.rate)*time.Second/time.Duration(p.rate)
	return paceGrace + earned - p.waited
}

// took counts one wait and what it brought.
func (p *pace) took(wait time.Duration, n int) {
	p.waited += wait
	p.got += int64(n)
}

// boundary starts anew: the stream stands between two frames.
func (p *pace) boundary() { p.waited, p.got = 0, 0 }
