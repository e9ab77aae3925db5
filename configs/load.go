package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Options of Load. The zero value reads real files, no environment, and knows
// no rules.
type Options struct {
	Env      []string   // in the form of os.Environ; empty: nothing is overridden
	Rules    []RuleSpec // the rules that [frames.rules] may name
	ReadFile func(string) ([]byte, error)
	// Mode returns a file's mode, for the warning about readable secrets. Nil:
	// os.Stat, or no warning when ReadFile is given.
	Mode func(string) (fs.FileMode, error)
	// Later takes a configuration whose only faults are secrets that are not
	// there yet: Loaded.Missing has them, the Config is whole but for them.
	Later bool
}

// Loaded is a configuration without faults.
type Loaded struct {
	Config   Config
	Warnings []string // what works but should be looked at
	Notes    []string // what was read other than written
	Files    []string // every file that was read or, for a secret to come, looked for
	Missing  Faults   // with Options.Later: the secrets that are not there yet

	report *report // knows where each key stands
}

// Fault is one that was found later, in a file that a key names for example: it
// stands where the key does.
func (l *Loaded) Fault(key, text string) Fault {
	file, line := l.report.locate(key)
	return Fault{File: file, Line: line, Key: key, Text: text}
}

// loader is one call of Load.
type loader struct {
	opt Options
	rep *report
	env map[string]string
	cfg Config
	out *Loaded
}

// Load reads the file, the Iggy configuration it names, the secrets and the
// environment, and checks everything. The error is of type Faults and holds
// all of them; only a syntax error stands alone.
//
// A relative cluster_from in the file is relative to the file's folder. Every
// other path stays as written and is opened from the working directory, as
// Iggy does with the same keys.
func Load(path string, opt Options) (*Loaded, error) {
	l := &loader{
		opt: opt,
		rep: &report{file: path, env: map[string]string{}},
		env: envVars(opt.Env),
		cfg: Default(),
		out: &Loaded{},
	}
	l.out.report = l.rep
	doc, fault := l.document(path, "")
	if fault != nil {
		return nil, Faults{*fault}
	}
	l.rep.lines = doc.lines
	fault = l.clusterFrom(doc)
	below := l.cfg.Cluster
	(&layer{rep: l.rep}).table("", doc.root, reflect.ValueOf(&l.cfg).Elem())
	l.cfg.ClusterFrom = relativeTo(filepath.Dir(path), l.cfg.ClusterFrom)
	l.settle(below, func(key string) bool { _, ok := doc.lines[key]; return ok })
	l.inlineSecretMode(path)

	below = l.cfg.Cluster
	l.environment()
	l.settle(below, func(key string) bool { _, ok := l.rep.env[key]; return ok })
	l.secrets()
	if fault != nil {
		l.rep.addFault(*fault) // without the roster every cross-check would complain
	} else {
		l.out.Config = validate(l.cfg, opt.Rules, l.rep)
	}
	if err := l.rep.err(); err != nil {
		if !opt.Later || !l.rep.list.OnlyMissing() {
			return nil, err
		}
		l.out.Missing = l.rep.list
	}
	l.exposed()
	l.unfinished()
	return l.out, nil
}

// exposed warns about plaintext near legs that leave this host: the gate takes
// whoever comes there for the local replica, and proves itself to the peers for it.
func (l *loader) exposed() {
	c := &l.out.Config
	if c.Egress.Security == Plaintext {
		for _, p := range c.Peers {
			if p.Listen != "" && !onLoopback(p.Listen) {
				l.out.Warnings = append(l.out.Warnings, fmt.Sprintf("peers.listen: %s is not a loopback address and egress.security is plaintext; whoever reaches it speaks for the local replica", p.Listen))
			}
		}
	}
	if c.Ingress.UpstreamSecurity == Plaintext && c.Ingress.Listen != "" && !onLoopback(c.Ingress.Upstream) {
		l.out.Warnings = append(l.out.Warnings, fmt.Sprintf("ingress.upstream: %s is not a loopback address and upstream_security is plaintext; the way to the replica is unprotected", c.Ingress.Upstream))
	}
}

// unfinished warns about a way toward strict that leads nowhere.
func (l *loader) unfinished() {
	c := &l.out.Config
	if c.Security.Mode != permissive {
		return
	}
	plain := func(p Peer) bool { return p.Security == Plaintext }
	if slices.ContainsFunc(c.Peers, plain) {
		l.out.Warnings = append(l.out.Warnings, "security.mode: permissive tries what security says first, and for a peer that is plaintext; write tls or psk, or it never becomes anything else")
	}
	if c.Gate.StateDir == "" {
		l.out.Warnings = append(l.out.Warnings, "gate.state_dir: permissive without it forgets at a restart who has proved itself, and accepts that peer in plaintext again; name a folder")
	}
}

// onLoopback reports whether an address cannot be reached from another host.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, parseErr := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || parseErr == nil && ip.Unmap().IsLoopback())
}

// document is one TOML file that the decoder has accepted.
type document struct {
	text  string
	root  map[string]any
	lines map[string]int
}

// document reads and parses a file; key is the key that named it.
func (l *loader) document(path, key string) (*document, *Fault) {
	l.out.Files = append(l.out.Files, path)
	b, err := l.read(path)
	if err != nil {
		f := Fault{File: path, Text: "expected a readable file, found " + cause(err) + "; check the path and its permissions"}
		if key != "" {
			f.File, f.Line = l.rep.locate(key)
			f.Key, f.Text = key, "expected a readable Iggy configuration, found "+cause(err)+" for "+path+"; check the path and its permissions"
		}
		return nil, &f
	}
	doc := &document{text: string(b)}
	if _, err := toml.Decode(string(b), &doc.root); err != nil {
		f := syntaxFault(path, string(b), err)
		return nil, &f
	}
	doc.lines = keyLines(string(b))
	return doc, nil
}

// syntaxFault turns the decoder's error into a fault. The decoder quotes the
// text it stumbles over, and near a secret that text may be the secret.
func syntaxFault(path, doc string, err error) Fault {
	f := Fault{File: path, Text: "expected TOML, found " + err.Error() + "; correct the syntax"}
	var pe toml.ParseError
	if errors.As(err, &pe) {
		// The decoder's own line is one too far when it stumbles over a line end.
		f.Line = 1 + strings.Count(doc[:min(pe.Position.Start, len(doc))], "\n")
		f.Text = "expected TOML, found a syntax error (" + pe.Message + "); correct the line"
		lines := strings.Split(doc, "\n")
		near := pe.LastKey
		if i := f.Line - 1; i >= 0 && i < len(lines) {
			near += lines[i]
		}
		if strings.Contains(strings.ToLower(near), "secret") {
			f.Text = "expected TOML, found a syntax error (its text is withheld, it may hold a secret); correct the line"
		}
	}
	return f
}

// cause names an I/O error without repeating the path.
func cause(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func (l *loader) read(path string) ([]byte, error) {
	if l.opt.ReadFile != nil {
		return l.opt.ReadFile(path)
	}
	return os.ReadFile(path)
}

func (l *loader) mode(path string) (fs.FileMode, error) {
	if l.opt.Mode != nil {
		return l.opt.Mode(path)
	}
	if l.opt.ReadFile != nil {
		return 0, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Mode(), nil
}

// inlineSecretMode warns about the configuration file itself, once, when it is
// the file that holds a secret.
func (l *loader) inlineSecretMode(path string) {
	for _, s := range secretSlots(&l.cfg.Cluster.Auth) {
		if _, own := l.rep.lines[s.key]; own && s.value.IsSet() {
			l.modeWarning(path, s.key)
			return
		}
	}
}

func relativeTo(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// settle lets a layer that names a secret or a certificate in one form take the
// other form away from the layers below: an override must not become a conflict
// with what it overrides. Both forms in one layer stay, and are a fault.
func (l *loader) settle(below Cluster, given func(key string) bool) {
	slots := secretSlots(&l.cfg.Cluster.Auth)
	for _, s := range slots {
		value := given(s.key) && s.value.IsSet()
		file := given(s.key+"_file") && *s.file != ""
		switch {
		case value && file:
			l.rep.add(s.key, "expected one of %s and %[1]s_file, found both; remove one", lastKey(s.key))
		case value:
			*s.file = ""
		case file:
			*s.value = Secret{}
		}
	}
	t := &l.cfg.Cluster.TLS
	selfSigned := given("cluster.tls.self_signed")
	files := given("cluster.tls.cert_file") || given("cluster.tls.key_file") || given("cluster.tls.ca_file")
	switch {
	case selfSigned && t.SelfSigned && !files:
		*t = TLSMaterial{Enabled: t.Enabled, SelfSigned: true, ClientAuth: clientAuthRequest}
	case files && !selfSigned && below.TLS.SelfSigned && t.CertFile+t.KeyFile+t.CAFile != "":
		t.SelfSigned = false
	}
}

func lastKey(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
