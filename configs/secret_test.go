package configs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
)

// hidden holds a Secret where fmt cannot call its methods.
type hidden struct{ s Secret }

func TestSecretNeverPrints(t *testing.T) {
	s := NewSecret([]byte(canary))
	c := Default()
	c.Cluster.Auth.SharedSecret = s
	var out bytes.Buffer
	for _, v := range []any{s, &s, c, &c, hidden{s}, &hidden{s}, []Secret{s}, map[string]Secret{"k": s}, []hidden{{s}}} {
		for _, verb := range "vsqxXdtpTcbUeg" {
			fmt.Fprintf(&out, "%"+string(verb)+" %+"+string(verb)+" %#"+string(verb)+"\n", v, v, v)
		}
		b, err := json.Marshal(v)
		out.Write(b)
		if err != nil {
			t.Errorf("json: %v", err)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
	}
	if err := Print(&out, &c, PrintOptions{}); err != nil {
		t.Error(err)
	}
	mustNotLeak(t, out.String())
	if !strings.Contains(out.String(), redacted) {
		t.Error("nothing was redacted: the test prints no secret at all")
	}
	if string(s.Reveal()) != canary {
		t.Error("the secret itself was lost")
	}
}

// mustNotLeak looks for the canary in clear, in hex and as a list of numbers.
func mustNotLeak(t *testing.T, text string) {
	t.Helper()
	head := canary[:6]
	for _, form := range []string{head, fmt.Sprintf("%x", head), fmt.Sprintf("%X", head), strings.Trim(fmt.Sprint([]byte(head)), "[]")} {
		if strings.Contains(text, form) {
			t.Errorf("the secret shows as %q in:\n%s", form, text)
		}
	}
}

func TestSecretCopies(t *testing.T) {
	b := []byte(canary)
	s := NewSecret(b)
	b[0] = 'X'
	s.Reveal()[1] = 'X'
	if string(s.Reveal()) != canary {
		t.Error("somebody else's bytes are the secret's")
	}
	if NewSecret(nil).IsSet() || !s.IsSet() || (Secret{}).Reveal() != nil {
		t.Error("unset and set are mixed up")
	}
	if !s.Equal(NewSecret([]byte(canary))) || s.Equal(Secret{}) {
		t.Error("Equal is wrong")
	}
}

const pskHead = `[cluster.auth]
enabled = true
`

func TestSecretSources(t *testing.T) {
	const other = "other-other-other-other-other-other-1"
	tests := []struct {
		name, conf string
		files      files
		env        string
		current    string
		previous   string
		notes      int
	}{
		{name: "inline", conf: `shared_secret = "` + canary + `"`, current: canary},
		{name: "file", conf: `shared_secret_file = "/s"`, files: files{"/s": canary}, current: canary},
		{name: "file with a newline", conf: `shared_secret_file = "/s"`, files: files{"/s": canary + "\n"}, current: canary, notes: 1},
		{name: "file with crlf", conf: `shared_secret_file = "/s"`, files: files{"/s": canary + "\r\n"}, current: canary, notes: 1},
		{name: "only one newline", conf: `shared_secret_file = "/s"`, files: files{"/s": canary + "\n\n"}, current: canary + "\n", notes: 1},
		{name: "spaces stay", conf: `shared_secret_file = "/s"`, files: files{"/s": " " + canary + " "}, current: " " + canary + " "},
		{name: "environment over file", conf: `shared_secret_file = "/s"`, env: "REPLGATE_CLUSTER_AUTH_SHARED_SECRET=" + other, current: other},
		{name: "file from environment over inline", conf: `shared_secret = "` + canary + `"`, files: files{"/e": other}, env: "REPLGATE_CLUSTER_AUTH_SHARED_SECRET_FILE=/e", current: other},
		{name: "previous", conf: `shared_secret_file = "/s"` + "\n" + `previous_shared_secret_file = "/p"`, files: files{"/s": canary, "/p": other + "\n"}, current: canary, previous: other, notes: 1},
		{name: "previous missing", conf: `shared_secret_file = "/s"` + "\n" + `previous_shared_secret_file = "/p"`, files: files{"/s": canary}, current: canary},
		{name: "previous empty", conf: `shared_secret_file = "/s"` + "\n" + `previous_shared_secret_file = "/p"`, files: files{"/s": canary, "/p": "\n"}, current: canary, notes: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := files{"/etc/r.toml": pskHead + tt.conf + base}
			for k, v := range tt.files {
				f[k] = v
			}
			l := mustLoad(t, f, "/etc/r.toml", tt.env)
			a := l.Config.Cluster.Auth
			if string(a.SharedSecret.Reveal()) != tt.current || string(a.PreviousSharedSecret.Reveal()) != tt.previous {
				t.Errorf("got %q, %q", a.SharedSecret.Reveal(), a.PreviousSharedSecret.Reveal())
			}
			if len(l.Notes) != tt.notes {
				t.Errorf("got notes %q, want %d", l.Notes, tt.notes)
			}
			mustNotLeak(t, strings.Join(append(l.Notes, l.Warnings...), "\n"))
		})
	}
}

func TestSecretFaults(t *testing.T) {
	long := files{"/s": canary}
	tests := []struct {
		name, conf string
		files      files
		env        string
		want       []string
	}{
		{name: "none", want: []string{"r.toml:1: cluster.auth.shared_secret_file:", "found none"}},
		{name: "short inline", conf: `shared_secret = "` + canary[:31] + `"`, want: []string{"r.toml:3: cluster.auth.shared_secret:", "found 31"}},
		{name: "short file", conf: `shared_secret_file = "/s"`, files: files{"/s": canary[:31] + "\n"}, want: []string{"r.toml:3: cluster.auth.shared_secret_file:", "found 31"}},
		{name: "empty file", conf: `shared_secret_file = "/s"`, files: files{"/s": "\n"}, want: []string{"r.toml:3:", "found an empty file"}},
		{name: "missing file", conf: `shared_secret_file = "/s"`, want: []string{"r.toml:3:", "file does not exist"}},
		{name: "both", conf: `shared_secret_file = "/s"` + "\n" + `shared_secret = "` + canary + `"`, files: long, want: []string{"r.toml:4: cluster.auth.shared_secret:", "found both"}},
		{name: "same as previous", conf: `shared_secret_file = "/s"` + "\n" + `previous_shared_secret = "` + canary + `"`, files: long, want: []string{"r.toml:4: cluster.auth.previous_shared_secret:", "found the same"}},
		{name: "short previous", conf: `shared_secret_file = "/s"` + "\n" + `previous_shared_secret = "canary"`, files: long, want: []string{"r.toml:4: cluster.auth.previous_shared_secret:", "found 6"}},
		{name: "wrong type", conf: `shared_secret = ["` + canary + `"]`, want: []string{"r.toml:3: cluster.auth.shared_secret:", "found an array"}},
		{name: "no quotes", conf: `shared_secret = ` + canary, want: []string{"r.toml:3:", "syntax error"}},
		{name: "no end quote", conf: `shared_secret = "` + canary, want: []string{"r.toml:3:", "syntax error"}},
		{name: "bad escape", conf: `shared_secret = "` + canary + `\q"`, want: []string{"r.toml:3:", "syntax error"}},
		{name: "short from environment", env: "REPLGATE_CLUSTER_AUTH_SHARED_SECRET=canary", want: []string{"REPLGATE_CLUSTER_AUTH_SHARED_SECRET: cluster.auth.shared_secret:", "found 6"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := files{"r.toml": pskHead + tt.conf + base}
			for k, v := range tt.files {
				f[k] = v
			}
			got := faultsOf(f, "r.toml", tt.env)
			if !hasLine(got, tt.want...) || strings.Count(got, "\n") != 0 {
				t.Errorf("got %q, want one line with %q", got, tt.want)
			}
			mustNotLeak(t, got)
		})
	}
}

// Near a secret the decoder's message is withheld: it may quote the secret,
// also where the line itself does not name the key.
func TestSecretInSyntaxFault(t *testing.T) {
	for _, doc := range []string{
		"[cluster.auth]\nshared_secret = " + canary,
		"[cluster.auth]\nshared_secret = \"\"\"\n" + canary + "\\q\"\"\"",
		"[cluster.auth]\nshared_secret = [\n" + canary + "\n]",
		"[cluster.auth]\nenabled = true\nshared_secret " + canary,
		"cluster.auth = { previous_shared_secret = " + canary + " }",
	} {
		got := faultsOf(files{"r.toml": doc}, "r.toml")
		if !strings.Contains(got, "withheld") {
			t.Errorf("%q: got %q", doc, got)
		}
		mustNotLeak(t, got)
	}
}

func TestSecretReadableByOthers(t *testing.T) {
	f := files{
		"f.toml": pskHead + `shared_secret_file = "/s"` + base, "/s": canary,
		"i.toml": pskHead + `shared_secret = "` + canary + `"` + base,
		"p.toml": base,
	}
	for _, tt := range []struct {
		path string
		mode fs.FileMode
		want int
	}{{"f.toml", 0o644, 1}, {"f.toml", 0o640, 0}, {"i.toml", 0o604, 1}, {"i.toml", 0o600, 0}, {"p.toml", 0o644, 0}} {
		l, err := Load(tt.path, Options{ReadFile: f.read, Mode: func(string) (fs.FileMode, error) { return tt.mode, nil }})
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Warnings) != tt.want {
			t.Errorf("%s %o: got %q, want %d warnings", tt.path, tt.mode, l.Warnings, tt.want)
		}
	}
	l := mustLoad(t, files{"r.toml": f["f.toml"], "/s": canary + "\xff"}, "r.toml")
	if !hasLine(strings.Join(l.Warnings, "\n"), "not UTF-8") {
		t.Errorf("got %q, want a warning", l.Warnings)
	}
}

// T6: each fault of a secret's file has a word of its own, and the one line end
// that an editor leaves is none.
func TestSecretReasons(t *testing.T) {
	unreadable := func(string) ([]byte, error) { return nil, &fs.PathError{Op: "open", Path: "/s", Err: fs.ErrPermission} }
	for _, tt := range []struct {
		name, content, previous, want string
		read                          func(string) ([]byte, error)
	}{
		{name: "whole", content: canary},
		{name: "newline", content: canary + "\n"},
		{name: "crlf", content: canary + "\r\n"},
		{name: "no file", want: ReasonMissing},
		{name: "mode", read: unreadable, want: ReasonUnreadable},
		{name: "empty", content: "\n", want: ReasonEmpty},
		{name: "truncated", content: canary[:31], want: ReasonShort},
		{name: "only long enough with its line end", content: canary[:31] + "\r\n", want: ReasonShort},
		{name: "previous truncated", content: canary, previous: canary[:31], want: ReasonShort},
		{name: "previous is current", content: canary, previous: canary + "\n", want: ReasonInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := files{"r.toml": pskHead + "shared_secret_file = \"/s\"\nprevious_shared_secret_file = \"/p\"\n" + base}
			for path, content := range map[string]string{"/s": tt.content, "/p": tt.previous} {
				if content != "" {
					f[path] = content
				}
			}
			_, err := Load("r.toml", Options{ReadFile: func(path string) ([]byte, error) {
				if path == "/s" && tt.read != nil {
					return tt.read(path)
				}
				return f.read(path)
			}})
			var faults Faults
			errors.As(err, &faults)
			if tt.want == "" && err != nil || tt.want != "" && (len(faults) != 1 || faults[0].Reason != tt.want) {
				t.Errorf("got %+v and %v, want the reason %q", faults, err, tt.want)
			}
		})
	}
}

// A secret that is not there yet is no fault for who can wait; anything else is.
func TestSecretLater(t *testing.T) {
	f := files{"r.toml": pskHead + `shared_secret_file = "/s"` + base}
	load := func() (*Loaded, error) {
		return Load("r.toml", Options{ReadFile: f.read, Rules: testRules(), Later: true})
	}
	l, err := load()
	if err != nil || len(l.Missing) != 1 || l.Missing[0].Reason != ReasonMissing || l.Missing[0].Line != 3 {
		t.Fatalf("got %+v and %v, want one missing secret", l, err)
	}
	if c := l.Config; len(c.Peers) != 2 || c.Metrics.Listen == "" || c.Cluster.Auth.SharedSecret.IsSet() {
		t.Errorf("got %+v, want all but the secret", c)
	}
	if _, err := f.load("r.toml"); err == nil {
		t.Error("got no fault without Later, want one")
	}
	f["/s"] = canary[:31]
	if _, err := load(); err == nil {
		t.Error("got no fault of a short secret, want one")
	}
	f["/s"] = canary
	if l, err := load(); err != nil || len(l.Missing) != 0 || !l.Config.Cluster.Auth.SharedSecret.IsSet() {
		t.Errorf("got %+v and %v, want the secret that has come", l, err)
	}
	delete(f, "/s")
	f["r.toml"] += "[log]\nlevel = \"loud\"\n"
	if _, err := load(); err == nil {
		t.Error("got no fault of the level beside a missing secret, want one")
	}
}
