package configs

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

// iggyKeys are the keys of Iggy's schema that mean nothing to a gate. People
// paste whole tables from one file into the other, so these are accepted.
// An index is written as [].
const iggyKeys = ` cluster.enabled cluster.commit_broadcast_interval cluster.prepare_retransmit_interval
 cluster.view_change_retransmit_interval cluster.view_change_status_timeout
 cluster.request_start_view_retransmit_interval cluster.view_probe_attempts_max
 cluster.repair_retry_interval cluster.repair_chunk_max cluster.superblock_wedged_fatal_timeout
 cluster.coordinator cluster.nodes[].advertised_address cluster.nodes[].advertised_addresses
 cluster.nodes[].ports.tcp cluster.nodes[].ports.quic cluster.nodes[].ports.http
 cluster.nodes[].ports.websocket message_bus.max_batch message_bus.peer_queue_capacity
 message_bus.reconnect_period message_bus.close_peer_timeout message_bus.close_grace
 message_bus.handshake_grace `

// iggyOnly reports whether a key is Iggy's and not ours.
func iggyOnly(path string) bool {
	bare := regexp.MustCompile(`\[\d+\]`).ReplaceAllString(path, "[]")
	for _, k := range strings.Fields(iggyKeys) {
		if k == bare {
			return true
		}
	}
	return false
}

// clusterFrom is the layer below the file: what a real Iggy configuration says
// about the cluster. The fault it returns is that the file cannot be read.
func (l *loader) clusterFrom(own *document) *Fault {
	path, fromEnv := l.env[envName("cluster_from")], true
	if path == "" {
		path, _ = own.root["cluster_from"].(string) // a wrong type is reported with the rest
		path, fromEnv = relativeTo(filepath.Dir(l.rep.file), path), false
	}
	if path == "" {
		return nil
	}
	if fromEnv {
		l.rep.env["cluster_from"] = envName("cluster_from")
	}
	doc, fault := l.document(path, "cluster_from")
	if fault != nil {
		return fault
	}
	l.rep.iggyFile = path
	l.rep.iggy = iggyLines(doc.lines, own.lines)
	l.iggyLayer(doc)
	return nil
}

// iggyLayer takes the tables that a gate shares with its replica. Relative
// paths in them are relative to the working directory of Iggy and stay as they
// are.
func (l *loader) iggyLayer(doc *document) {
	cluster, _ := doc.root["cluster"].(map[string]any)
	bus, _ := doc.root["message_bus"].(map[string]any)
	if on, ok := cluster["enabled"].(bool); !ok || !on {
		l.out.Warnings = append(l.out.Warnings, "cluster_from: cluster.enabled is not true in "+l.rep.iggyFile+"; a replica with this file opens no replica port")
	}
	// Faults must point into Iggy's file, not at the same key of ours.
	rep := &report{file: l.rep.iggyFile, lines: doc.lines}
	layer := &layer{rep: rep, iggy: true}
	layer.table("cluster", cluster, reflect.ValueOf(&l.cfg.Cluster).Elem())
	if raw, ok := bus["max_message_size"]; ok {
		layer.value("message_bus.max_message_size", raw, reflect.ValueOf(&l.cfg.MessageBus.MaxMessageSize).Elem())
	}
	if raw, ok := bus["handshake_grace"]; ok {
		layer.value("message_bus.handshake_grace", raw, reflect.ValueOf(&l.cfg.Timeouts.Handshake).Elem())
	}
	if t := &l.cfg.Cluster.TLS; t.SelfSigned {
		t.CertFile, t.KeyFile, t.CAFile = "", "", "" // as Iggy, which does not read them then
	}
	for _, f := range rep.list {
		if _, counts := l.rep.iggy[ourName(f.Key)]; counts {
			l.rep.addFault(f)
		}
	}
}

// iggyLines gives Iggy's lines replgate's key names, and leaves out what the
// file says itself.
func iggyLines(lines, own map[string]int) map[string]int {
	_, ownRoster := own["cluster.nodes"]
	out := map[string]int{}
	for key, line := range lines {
		ours := ourName(key)
		if _, set := own[ours]; ours != "" && !set && !(ownRoster && strings.HasPrefix(ours, "cluster.nodes")) {
			out[ours] = line
		}
	}
	return out
}

// ourName is replgate's name for a key that is taken from Iggy's file, or empty.
func ourName(key string) string {
	switch {
	case key == "message_bus.handshake_grace":
		return "timeouts.handshake"
	case key == "message_bus.max_message_size", strings.HasPrefix(key, "cluster."):
		return key
	}
	return ""
}
