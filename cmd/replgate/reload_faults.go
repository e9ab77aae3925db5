package main

import (
	"errors"
	"strings"

	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/proxy"
)

// The kinds of what is reloaded, as labels and in words of the log.
const (
	kindConfig      = "config"
	kindSecret      = "secret"
	kindCertificate = "certificate"
)

// kindOf is the kind of what a key names.
func kindOf(key string) string {
	switch {
	case strings.HasPrefix(key, "cluster.auth."):
		return kindSecret
	case strings.HasPrefix(key, "cluster.tls."):
		return kindCertificate
	}
	return kindConfig
}

// wrong is one thing for which a reading does not apply.
type wrong struct {
	kind, result string // as labels
	text         string // for people, with its place
}

// reason is the word for it: secret_missing, cert_mismatch, config_restart.
func (w wrong) reason() string {
	return strings.Replace(w.kind, kindCertificate, "cert", 1) + "_" + w.result
}

// wrongs are the things that an error of the way of control holds.
func wrongs(err error) (all []wrong) {
	if faults, ok := errors.AsType[configs.Faults](err); ok {
		for _, f := range faults {
			if f.Reason == "" {
				all = append(all, wrong{kindConfig, "invalid", f.String()})
			} else {
				all = append(all, wrong{kindOf(f.Key), f.Reason, f.String()})
			}
		}
		return all
	}
	result := "invalid"
	if _, ok := errors.AsType[*proxy.RestartError](err); ok {
		result = "restart"
	}
	return []wrong{{kindConfig, result, err.Error()}}
}

// complain says what is wrong, a line for each thing that was not wrong before. A
// gate that has not begun is not ready for these reasons.
func (p *process) complain(err error) outcome {
	var out outcome
	message, now := "reload refused", map[wrong]bool{}
	var why []string
	if p.server.Load() == nil {
		message = "not ready"
	}
	counted := map[[2]string]bool{}
	for _, w := range wrongs(err) {
		now[w] = true
		if !p.wrong[w] {
			p.log.Warn(message, "reason", w.reason(), "got", w.text)
		}
		counted[[2]string{w.kind, w.result}] = true
		out.Faults = append(out.Faults, w.text)
		why = append(why, w.reason()+": "+w.text)
	}
	for labels := range counted {
		p.registry.Reload(labels[0], labels[1])
	}
	p.wrong = now
	if p.server.Load() == nil {
		p.health.say(strings.Join(why, "\n"))
		p.manager.waiting(strings.Join(why, "; "))
	}
	return out
}
