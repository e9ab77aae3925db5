package probe

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Verdict is what a finding amounts to.
type Verdict string

// The verdicts. Unknown is what cannot be known from outside, or was not asked.
const (
	OK      Verdict = "ok"
	Fault   Verdict = "fault"
	Unknown Verdict = "unknown"
)

// The codes of findings: what was looked at. The list is closed.
const (
	CodeDNS        = "dns"
	CodeTCP        = "tcp"
	CodeTLS        = "tls"         // whether TLS is spoken
	CodeTLSVersion = "tls_version" // TLS 1.3
	CodeTLSALPN    = "tls_alpn"
	CodeTLSChain   = "tls_chain" // a CA that we trust
	CodeTLSName    = "tls_name"
	CodeTLSDates   = "tls_dates"
	CodeAcceptor   = "acceptor" // whether a replica listens there
	CodeSecurity   = "security"
	CodeCluster    = "cluster"
	CodeReplica    = "replica"   // which one
	CodeDirection  = "direction" // whether the dialer may dial it
	CodeSecret     = "secret"    // which one it proves
	CodeKind       = "kind"      // gate or native
)

// What can answer. The list is closed.
const (
	WhatNoName      = "no such name"
	WhatRefused     = "refused"
	WhatFiltered    = "filtered"
	WhatUnreachable = "unreachable"
	WhatTLSAcceptor = "replica acceptor, tls"
	WhatPSKAcceptor = "replica acceptor, psk"
	// WhatCloses is a plaintext acceptor, as far as anybody can tell.
	WhatCloses     = "replica acceptor, plaintext, or another port that closes on a Hello"
	WhatClientPort = "iggy client port"
	WhatHTTP       = "http"
	WhatTLS        = "tls server, no replica"
	WhatUnknown    = "unknown"
)

// Kind is whose acceptor it is.
type Kind string

// The kinds.
const (
	KindGate    Kind = "gate"
	KindNative  Kind = "native"
	KindUnknown Kind = "unknown"
)

// Finding is one thing that was looked at.
type Finding struct {
	Code    string  `json:"code"`
	Verdict Verdict `json:"verdict"`
	// Ending is the word of the vocabulary of endings that a gate dialing this
	// address would give, empty where there is none.
	Ending   string `json:"ending,omitempty"`
	Expected string `json:"expected,omitempty"`
	Found    string `json:"found"`
	Do       string `json:"do,omitempty"`
}

// String is the finding as a sentence.
func (f Finding) String() string {
	switch {
	case f.Verdict == OK || f.Expected == "":
		return f.Found + tail(f.Do)
	}
	return "expected " + f.Expected + ", found " + f.Found + tail(f.Do)
}

func tail(do string) string {
	if do == "" {
		return ""
	}
	return ": " + do
}

// Report is everything that was found at one address.
type Report struct {
	Address  string    `json:"address"`
	What     string    `json:"what"`
	Kind     Kind      `json:"kind"`
	Findings []Finding `json:"findings"`
}

// Count returns how many findings have a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, f := range r.Findings {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// Reached reports whether a connection was made at all.
func (r *Report) Reached() bool {
	switch r.What {
	case WhatNoName, WhatRefused, WhatFiltered, WhatUnreachable:
		return false
	}
	return true
}

// Summary is the report in one line.
func (r *Report) Summary() string {
	return fmt.Sprintf("%s: %s, %s: %d ok, %d not knowable, %s",
		r.Address, r.What, kindText(r.Kind), r.Count(OK), r.Count(Unknown), Faults(r.Count(Fault)))
}

// Faults is a number of faults in words.
func Faults(n int) string {
	switch n {
	case 0:
		return "no fault"
	case 1:
		return "1 fault"
	}
	return fmt.Sprintf("%d faults", n)
}

func kindText(k Kind) string {
	if k == KindUnknown {
		return "gate or native unknown"
	}
	return string(k)
}

func (r *Report) ok(code, found string) {
	r.Findings = append(r.Findings, Finding{Code: code, Verdict: OK, Found: found})
}

// unknown reports what is not knowable, and why.
func (r *Report) unknown(code, expected, found, do string) {
	r.Findings = append(r.Findings, Finding{Code: code, Verdict: Unknown, Expected: expected, Found: found, Do: do})
}

func (r *Report) fault(code, ending, expected, found, do string) {
	r.Findings = append(r.Findings, Finding{Code: code, Verdict: Fault, Ending: ending, Expected: expected, Found: found, Do: do})
}

// maxText is how much of a stranger's words a finding shows.
const maxText = 100

// quote makes a stranger's words safe to print.
func quote(text string) string {
	if len(text) > maxText {
		cut := maxText
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return strconv.Quote(text)
}
