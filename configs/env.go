package configs

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

const envPrefix = "REPLGATE_"

// envName is the environment's name of a key: cluster.auth.shared_secret →
// REPLGATE_CLUSTER_AUTH_SHARED_SECRET.
func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// envVars returns the variables with our prefix. An empty one counts as unset:
// a container platform cannot remove a variable, only empty it.
func envVars(environ []string) map[string]string {
	vars := map[string]string{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, envPrefix) {
			vars[name] = value
		}
	}
	return vars
}

// environment is the last layer. Arrays have no names here: a roster put
// together from two sources would be a roster that nobody wrote.
func (l *loader) environment() {
	known := map[string]bool{}
	take := func(key string) (string, bool) {
		name := envName(key)
		known[name] = true
		value := l.env[name]
		if value != "" {
			l.rep.env[key] = name
			l.rep.forget(key)
		}
		return value, value != ""
	}
	leaves(reflect.ValueOf(&l.cfg).Elem(), "", func(key string, v reflect.Value) {
		if value, ok := take(key); ok {
			if err := l.envValue(value, v); err != nil {
				l.rep.add(key, "%v", err)
			}
		}
	})
	for _, r := range l.opt.Rules {
		if value, ok := take("frames.rules." + r.Name); ok {
			l.cfg.Frames.Rules[r.Name] = value
		}
	}
	for _, name := range sortedKeys(l.env) {
		if !known[name] {
			l.out.Warnings = append(l.out.Warnings, name+": expected the name of a key, found none; the variable is ignored")
		}
	}
}

// envValue gives a variable's text the type that the field's TOML value has.
func (l *loader) envValue(text string, v reflect.Value) error {
	var raw any = text
	switch v.Interface().(type) {
	case int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("expected a whole number, found %q; write digits only", text)
		}
		raw = n
	case bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("expected true or false, found %q; write one of them", text)
		}
		raw = text == "true"
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("expected UTF-8 text, found other bytes; set it anew")
	}
	return (&layer{}).scalar(raw, v)
}
