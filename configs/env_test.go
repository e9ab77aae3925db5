package configs

import (
	"reflect"
	"strings"
	"testing"
)

// flat lists the scalar keys of a Config, secrets revealed.
func flat(c Config) map[string]any {
	out := map[string]any{}
	leaves(reflect.ValueOf(&c).Elem(), "", func(path string, v reflect.Value) {
		out[path] = v.Interface()
		if s, ok := v.Interface().(Secret); ok {
			out[path] = string(s.Reveal())
		}
	})
	return out
}

// Every scalar key has a name of its own in the environment, and setting it
// changes that key and nothing else.
func TestEnvEveryKey(t *testing.T) {
	values := map[string]string{ // where a made-up text would be a fault
		"cluster.heartbeat_timeout": "6 s", "cluster.auth.shared_secret": canary, "cluster.auth.shared_secret_file": "/s",
		"cluster.auth.previous_shared_secret": "2" + canary, "cluster.auth.previous_shared_secret_file": "/p", "cluster_from": "/iggy.toml",
		"message_bus.max_message_size": "65 MiB", "gate.replica_id": "1", "ingress.listen": ":1", "ingress.security": "psk",
		"ingress.upstream": "localhost:1", "ingress.upstream_security": "psk", "egress.security": "psk", "security.mode": "strict",
		"frames.validation": "observe", "frames.store_limit": "70000", "timeouts.handshake": "1s", "timeouts.prove": "1s",
		"timeouts.write_stall": "9s", "timeouts.drain": "9s", "timeouts.drain_min_delay": "1s", "limits.handshakes": "65",
		"limits.handshakes_per_source": "9", "limits.connections": "7", "limits.frame_min_rate": "70000", "admin.listen": "unix:/x", "metrics.listen": ":2",
		"log.level": "debug", "log.format": "text", "chaos.enabled": "false", "cluster.tls.self_signed": "true", "cluster.tls.enabled": "false",
		"cluster.tls.client_auth": "off", "cluster.tls.peer_identity": "iggy-{replica}.test", "security.strict_ready_after": "1s",
		"security.reauth_window": "2s", "reload.interval": "20ms", "reload.watch": "false",
	}
	same := map[string]bool{ // the one legal value is the one of the file
		"gate.replica_id": true, "security.mode": true, "chaos.enabled": true, "cluster.tls.enabled": true,
	}
	f := files{
		"r.toml": "[cluster.auth]\nshared_secret = \"1" + canary + "\"\n" + base,
		"/s":     "3" + canary, "/p": "4" + canary, "/iggy.toml": "[cluster]\nenabled = true\n",
	}
	before := flat(mustLoad(t, f, "r.toml").Config)
	seen := map[string]string{}
	for path := range before {
		name := envName(path)
		if seen[name] != "" {
			t.Errorf("%s and %s are both %s", path, seen[name], name)
		}
		seen[name] = path
		value := values[path]
		if value == "" {
			value = "true" // names, paths, flags
		}
		l := mustLoad(t, f, "r.toml", "PATH=x", name+"="+value)
		if len(l.Warnings) != 0 {
			t.Errorf("%s: got %q", name, l.Warnings)
		}
		after := flat(l.Config)
		if (after[path] == before[path]) != same[path] {
			t.Errorf("%s: got %v, as before", name, after[path])
		}
		for other := range after {
			// Security of the peers follows, so does the secret its file, and what
			// is asked of a certificate who signs it.
			follows := strings.HasPrefix(path, "cluster.auth.") || strings.HasPrefix(path, "cluster.tls.")
			if other != path && after[other] != before[other] && !follows {
				t.Errorf("%s changed %s to %v", name, other, after[other])
			}
		}
	}
	if len(seen) < 35 {
		t.Errorf("got %d keys, the walk lost some", len(seen))
	}
}

func TestEnv(t *testing.T) {
	broken := strings.Replace(base, "[gate]\nreplica_id = 1", "[gate]\nreplica_id = \"x\"", 1)
	f := files{"r.toml": base, "broken.toml": broken}
	c := mustLoad(t, f, "r.toml", "REPLGATE_FRAMES_RULES_SENDER=observe", "REPLGATE_CLUSTER_NAME=n", "REPLGATE_CLUSTER_NAME=m").Config
	if c.Frames.Rules["sender"] != "observe" || c.Cluster.Name != "m" {
		t.Errorf("got %v, %s", c.Frames.Rules, c.Cluster.Name)
	}
	if c := mustLoad(t, f, "r.toml", "REPLGATE_CLUSTER_NAME=", "REPLGATE_GATE_REPLICA_ID=").Config; c.Cluster.Name != "c" {
		t.Errorf("an empty variable counted: %q", c.Cluster.Name)
	}
	mustLoad(t, f, "broken.toml", "REPLGATE_GATE_REPLICA_ID=1") // replaces the wrong one

	l := mustLoad(t, f, "r.toml", "REPLGATE_SERVICE_HOST="+canary, "REPLGATE_PORT=tcp://x", "OTHER=1", "REPLGATE_PEERS_0_ADDRESS=x")
	if got := strings.Join(l.Warnings, "\n"); len(l.Warnings) != 3 || !hasLine(got, "REPLGATE_SERVICE_HOST") || !hasLine(got, "REPLGATE_PEERS_0_ADDRESS") {
		t.Errorf("got %q", l.Warnings)
	} else {
		mustNotLeak(t, got) // nobody knows what an unknown variable holds
	}
	if got := faultsOf(f, "r.toml", "REPLGATE_CLUSTER_NAME=\xff"); !hasLine(got, "REPLGATE_CLUSTER_NAME: cluster.name:", "UTF-8") {
		t.Errorf("got %q", got)
	}
}
