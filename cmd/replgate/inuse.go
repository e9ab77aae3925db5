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

// change lets a gate take the place of the one before by apply, tells the metrics in
// the same moment, and returns the kinds of credentials that are others than before.
// On an error of apply all stays as it was.
func (p *process) change(next *gate, apply func() error) (changed []string, err error) {
	now, changes := next.inUse(), maps.Clone(p.inUse.changes)
	for _, kind := range []string{"secret", "previous_secret", "certificate", "ca", "crl"} {
		if now[kind] != p.inUse.now[kind] {
			changes[kind]++
			changed = append(changed, kind)
		}
	}
	var credentials []metrics.Credential
	for _, kind := range slices.Sorted(maps.Keys(now)) {
		credentials = append(credentials, metrics.Credential{Kind: kind, Generation: changes[kind], Fingerprint: now[kind]})
	}
	var certificates []metrics.Certificate
	if next.certs != nil {
		for _, v := range next.certs.Validities() {
			certificates = append(certificates, metrics.Certificate{Role: v.Role, NotBefore: v.NotBefore, NotAfter: v.NotAfter})
		}
	}
	if err := p.registry.Credentials(certificates, credentials, apply); err != nil {
		return nil, err
	}
	p.inUse = inUse{now, changes}
	return changed, nil
}
