package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"

	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/metrics"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/watch"
)

// The way of control while a gate runs: a file that changed, SIGHUP or a request →
// the reading and the building of a start → the settings of whoever comes next.
// Nothing else gets there, so what a reload takes, a start takes too. One at a
// time; what is wrong changes nothing.

// outcome is what came of a reload, for whoever asked for it.
type outcome struct {
	Applied bool        `json:"applied"`
	Changed []string    `json:"changed,omitempty"` // the credentials that are others now
	Cut     []proxy.Cut `json:"cut,omitempty"`     // whom a switch to strict cuts
	Faults  []string    `json:"faults,omitempty"`  // why it was not applied
}

// errDraining: the gate ends, and takes nothing any more.
var errDraining = errors.New("draining: nothing is reloaded any more")

// follow looks at the files of the credentials until ctx is done.
func (p *process) follow(ctx context.Context) { p.watcher.Run(ctx, watch.Snapshot{}, p.changed) }

// obey reloads on SIGHUP until ctx is done. One that comes in a drain finds nobody.
func (p *process) obey(ctx context.Context, hangup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			p.reload() // what is wrong is in the log
		}
	}
}

// reload reads the configuration and everything that it names. Nobody waits for the
// reading but whoever has asked: a file system may hang. What was taken meanwhile is
// newer, so then it is read again.
func (p *process) reload() (any, error) {
	p.asked.Lock()
	defer p.asked.Unlock()
	for {
		before := p.taken.Load()
		r, err := read(p.path)
		if out, done := p.takeAt(before, r, err); done {
			return out, nil
		}
		if p.ended.Load() {
			return nil, errDraining
		}
	}
}

// takeAt takes what was asked for, unless something else was taken since.
func (p *process) takeAt(before uint64, r reading, err error) (out outcome, done bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended.Load() || p.taken.Load() != before {
		return out, false
	}
	if p.server.Load() != nil {
		p.manager.reloading()
		defer p.manager.serving()
	}
	out = p.take(r, err, true)
	p.watcher.SetPaths(credentialPaths(&p.files.loaded.Config))
	return out, true
}

// changed takes credentials that were read anew. What it is given first is what the
// start has read already, unless that has changed since.
func (p *process) changed(fresh watch.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended.Load() {
		return
	}
	known := !p.looked || len(p.wrong) == 0 // what was read last is what p.files holds
	if p.looked = true; known && len(p.kinds(sources{fresh})) == 0 {
		return
	}
	r, err := p.files.again(p.path, fresh)
	p.take(r, err, false)
}

// take lets a reading apply, or says why not: in the log, in the metrics, and to who
// has asked for it.
func (p *process) take(r reading, err error, asked bool) outcome {
	p.taken.Add(1)
	kinds := p.kinds(r.files)
	var out outcome
	if err == nil {
		out, err = p.try(r)
	}
	if err != nil {
		return p.complain(err)
	}
	for w := range p.wrong {
		if w.kind != kindConfig {
			kinds[w.kind] = true // it is right again
		}
	}
	if asked {
		kinds[kindConfig] = true
	}
	for kind := range kinds {
		p.registry.Reload(kind, metrics.ResultOK)
	}
	p.wrong = nil
	p.tell()
	p.log.Info("reloaded", "changed", strings.Join(out.Changed, " "))
	for _, c := range out.Cut {
		p.log.Warn("strict cuts a peer", "peer", c.Peer, "got", c.String(), "do", "harden it, or go back to permissive")
	}
	if p.server.Load() == nil {
		p.start()
	}
	return out
}

// kinds are those whose files hold something else than what was read last.
func (p *process) kinds(files sources) map[string]bool {
	kinds := map[string]bool{}
	for _, f := range p.files.loaded.Config.CredentialFiles() {
		now, nowErr := files.Read(f.Path)
		before, beforeErr := p.files.files.Read(f.Path)
		if !bytes.Equal(now, before) || (nowErr == nil) != (beforeErr == nil) {
			kinds[kindOf(f.Key)] = true
		}
	}
	return kinds
}

// try makes a gate of a reading and lets it take the place of the one before. On an
// error that one stays.
func (p *process) try(r reading) (out outcome, err error) {
	if p.now.Load() == nil {
		p.files = r // what is waited for is what the newest configuration names
	}
	next, err := build(r.loaded, parts{log: p.log, registry: p.registry, memory: p.memory, read: r.files.Read, before: p.now.Load()})
	if err != nil {
		return out, err
	}
	if err := fixed(p.first, next.config); err != nil {
		return out, err
	}
	out.Changed, err = p.change(next, func() error {
		s := p.server.Load()
		if s == nil {
			return nil
		}
		cuts := s.WouldCut(next.settings)
		err := s.Apply(next.settings)
		if err == nil && p.now.Load().settings.Mode == proxy.Permissive && next.settings.Mode == proxy.Strict {
			out.Cut = cuts
		}
		return err
	})
	if err != nil {
		return out, err
	}
	p.now.Store(next)
	p.files, out.Applied = r, true
	p.setLevel(next.config)
	return out, nil
}

// fixed refuses what no running gate changes and proxy does not know of.
func fixed(first, next *configs.Config) error {
	for _, f := range []struct {
		name string
		same bool
	}{
		{"admin.listen", first.Admin == next.Admin},
		{"metrics.listen", first.Metrics == next.Metrics},
		{"log.format", first.Log.Format == next.Log.Format},
		{"gate.state_dir", first.Gate.StateDir == next.Gate.StateDir},
		{"reload.interval", first.Reload.Interval == next.Reload.Interval},
		{"reload.watch", first.Reload.Watch == next.Reload.Watch},
	} {
		if !f.same {
			return &proxy.RestartError{Field: f.name}
		}
	}
	return nil
}

// begin starts the gate, or says what it waits for.
func (p *process) begin(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.complain(err)
		return
	}
	p.tell()
	p.start()
}

// start brings up the first gate that is whole.
func (p *process) start() {
	server, err := proxy.New(p.now.Load().settings)
	if err != nil {
		p.began <- &configError{err}
		return
	}
	p.server.Store(server)
	p.began <- server.Start(context.Background())
}

// moved returns when no reload is in progress.
func (p *process) moved() {
	p.mu.Lock()
	defer p.mu.Unlock()
}

// tell logs what was read other than written and what should be looked at, each
// once.
func (p *process) tell() {
	told, now := map[string]bool{}, p.now.Load()
	for _, w := range now.warnings() {
		if told[w] = true; !p.told[w] {
			p.log.Warn("configuration", "warning", w)
		}
	}
	for _, n := range now.loaded.Notes {
		if told[n] = true; !p.told[n] {
			p.log.Info("configuration", "note", n)
		}
	}
	p.told = told
}

// credentialPaths are the files to look at.
func credentialPaths(c *configs.Config) (paths []string) {
	for _, f := range c.CredentialFiles() {
		paths = append(paths, f.Path)
	}
	return paths
}
