//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/replgate/replgate/internal/replica"
)

// bufferSize is the batch buffer of every tuned peer: the one of a gate's pump.
const bufferSize = 1 << 20

// The relays of other makers, one configuration each. %s and %d are filled with
// addresses, files and bufferSize.
const (
	haproxyFormat = `global
  maxconn 3000
  stats socket %s
  tune.bufsize %d
  ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256
  ssl-default-server-ciphersuites TLS_AES_128_GCM_SHA256
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend f
  bind %s %s
  default_backend b
backend b
  server s %s %s
`
	nginxFormat = `%sworker_processes %d;
daemon off;
pid %s;
error_log %s error;
events { worker_connections 8000; }
stream {
  tcp_nodelay on;
  proxy_timeout 1h;
  proxy_buffer_size %d;
  server { listen %s%s proxy_pass %s; }
}
`
)

// side is what TLS a relay speaks.
type side int

const (
	plain  side = iota // none
	server             // toward whoever dials it
	client             // toward whom it dials
)

// relay is one process of somebody else's proxy.
type relay struct {
	maker  string // haproxy | nginx | ghostunnel | toxiproxy
	side   side
	listen string
	next   string
	pinned bool
}

func (r relay) name() string {
	return fmt.Sprintf("%s-%s", r.maker, filepath.Ext(r.listen)[1:])
}

// argv writes the relay's configuration and returns how it is started.
func (r relay) argv(dir string, pki replica.PKI) ([]string, error) {
	switch r.maker {
	case "haproxy":
		return r.haproxy(dir, pki)
	case "nginx":
		return r.nginx(dir, pki)
	case "ghostunnel":
		common := []string{"--listen", r.listen, "--target", r.next, "--cacert", pki.CA, "--disable-authentication"}
		if r.side == server {
			return append([]string{"ghostunnel", "server", "--cert", pki.Cert, "--key", pki.Key}, common...), nil
		}
		return append([]string{"ghostunnel", "client", "--override-server-name", serverName}, common...), nil
	case "toxiproxy":
		path := filepath.Join(dir, r.name()+".json")
		text := fmt.Sprintf(`[{"name":"p","listen":%q,"upstream":%q,"enabled":true}]`, r.listen, r.next)
		return []string{"toxiproxy-server", "-config", path}, os.WriteFile(path, []byte(text), 0o600)
	}
	return nil, fmt.Errorf("got maker %q", r.maker)
}

func (r relay) haproxy(dir string, pki replica.PKI) ([]string, error) {
	bind, to := "", ""
	switch r.side {
	case server:
		bundle, err := bundled(dir, pki)
		if err != nil {
			return nil, err
		}
		bind = "ssl crt " + bundle + " ssl-min-ver TLSv1.3"
	case client:
		to = fmt.Sprintf("ssl verify required ca-file %s verifyhost %s sni str(%s) ssl-min-ver TLSv1.3 no-ssl-reuse", pki.CA, serverName, serverName)
	}
	path := filepath.Join(dir, r.name()+".cfg")
	text := fmt.Sprintf(haproxyFormat, r.stats(dir), bufferSize, r.listen, bind, r.next, to)
	return []string{"haproxy", "-db", "-f", path}, os.WriteFile(path, []byte(text), 0o600)
}

// stats is HAProxy's control socket, from which its buffer size is read back.
func (r relay) stats(dir string) string { return filepath.Join(dir, r.name()+".sock") }

// bundled is certificate and key in one file, as HAProxy wants them.
func bundled(dir string, pki replica.PKI) (string, error) {
	cert, err := os.ReadFile(pki.Cert)
	if err != nil {
		return "", err
	}
	key, err := os.ReadFile(pki.Key)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "bundle.pem")
	return path, os.WriteFile(path, append(cert, key...), 0o600)
}

func (r relay) nginx(dir string, pki replica.PKI) ([]string, error) {
	listen, out := ";", ""
	suite := "Ciphersuites TLS_AES_128_GCM_SHA256;"
	switch r.side {
	case server:
		listen = fmt.Sprintf(" ssl; ssl_certificate %s; ssl_certificate_key %s; ssl_protocols TLSv1.3; ssl_session_tickets off; ssl_conf_command %s", pki.Cert, pki.Key, suite)
	case client:
		out = fmt.Sprintf(" proxy_ssl on; proxy_ssl_protocols TLSv1.3; proxy_ssl_verify on; proxy_ssl_trusted_certificate %s; proxy_ssl_name %s; proxy_ssl_server_name on; proxy_ssl_session_reuse off; proxy_ssl_conf_command %s", pki.CA, serverName, suite)
	}
	workers := 2
	if r.pinned {
		workers = 1
	}
	path := filepath.Join(dir, r.name()+".conf")
	text := fmt.Sprintf(nginxFormat, nginxModule(), workers, filepath.Join(dir, r.name()+".pid"), filepath.Join(dir, r.name()+".err"),
		bufferSize, r.listen, listen+out, r.next)
	return []string{"nginx", "-c", path}, os.WriteFile(path, []byte(text), 0o600)
}

// nginxModule loads the stream module where it is a file of its own, as in Debian.
func nginxModule() string {
	const path = "/usr/lib/nginx/modules/ngx_stream_module.so"
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return "load_module " + path + ";\n"
}
