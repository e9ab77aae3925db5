package main

import (
	"maps"
	"slices"

	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/metrics"
)

// inUse are the credentials that new handshakes use.
type inUse struct {
	now     map[string]string // fingerprints by kind
	changes map[string]uint64 // by kind, those of kinds that there are none of now too
}

// inUse names what a gate's handshakes use, by kind.
func (g *gate) inUse() map[string]string {
	all := map[string]string{}
	if g.settings.Keys != nil {
		all["secret"] = string(g.settings.Keys.Fingerprint(mac.SlotCurrent))
		all["previous_secret"] = string(g.settings.Keys.Fingerprint(mac.SlotPrevious))
	}
	if g.certs != nil {
		f := g.certs.Fingerprints()
		all["certificate"], all["ca"], all["crl"] = f.Leaf, f.CA, f.CRL
	}
	maps.DeleteFunc(all, func(_, fingerprint string) bool { return fingerprint == "" })
	return all
}

// show tells the metrics what applies now, and returns the kinds that are others
// than before.
func (p *process) show() (changed []string) {
	next := p.now.inUse()
	for _, kind := range []string{"secret", "previous_secret", "certificate", "ca", "crl"} {
		if next[kind] != p.inUse.now[kind] {
			p.inUse.changes[kind]++
			changed = append(changed, kind)
		}
	}
	p.inUse.now = next
	var credentials []metrics.Credential
	for _, kind := range slices.Sorted(maps.Keys(next)) {
		credentials = append(credentials, metrics.Credential{Kind: kind, Generation: p.inUse.changes[kind], Fingerprint: next[kind]})
	}
	var certificates []metrics.Certificate
	if p.now.certs != nil {
		for _, v := range p.now.certs.Validities() {
			certificates = append(certificates, metrics.Certificate{Role: v.Role, NotBefore: v.NotBefore, NotAfter: v.NotAfter})
		}
	}
	p.registry.Credentials(certificates, credentials)
	return changed
}
