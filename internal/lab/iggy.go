package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Server is a real iggy-server process, given by the user.
type Server struct {
	cmd *exec.Cmd
	end chan struct{} // closed when it has ended
	err error         // its end, once end is closed
	// Client is its client address, Log the file it writes.
	Client, Log string
}

// clientPorts of a real server: tcp, quic, http, websocket. Every server has a
// loopback address of its own, so all use the same.
const (
	portTCP       = 8090
	portQUIC      = 8080
	portHTTP      = 3000
	portWebSocket = 8092
)

// startServers runs one real server behind each gate. Everything it is told comes
// from its environment: its own roster, in which higher ids are at the gate.
func (l *Lab) startServers() error {
	for i := range l.Replicas {
		home := filepath.Join(l.Dir, fmt.Sprintf("iggy-%d", i))
		if err := os.MkdirAll(home, 0o700); err != nil {
			return err
		}
		s := &Server{cmd: exec.Command(l.Iggy, "--replica-id", fmt.Sprint(i)), end: make(chan struct{}), Log: filepath.Join(home, "log")}
		log, err := os.Create(s.Log)
		if err != nil {
			return err
		}
		apart(s.cmd)
		s.cmd.Dir, s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = home, append(os.Environ(), l.serverEnv(i, home)...), log, log
		err = s.cmd.Start()
		log.Close()
		if err != nil {
			return err
		}
		s.Client = fmt.Sprintf("%s:%d", host(l.Net.Replica(i)), portTCP)
		l.Servers = append(l.Servers, s)
		go s.wait()
	}
	return nil
}

func (s *Server) wait() {
	s.err = s.cmd.Wait()
	close(s.end)
}

// Ended tells how the server has ended by itself, nil while it runs: with the end
// of its log.
func (s *Server) Ended() error {
	select {
	case <-s.end:
	default:
		return nil
	}
	text, err := os.ReadFile(s.Log)
	if err != nil {
		return err
	}
	last := text[max(0, len(text)-1000):]
	return fmt.Errorf("lab: a server ended (%v); its log ends with:\n%s", s.err, last)
}

// Stop ends the server in order.
func (s *Server) Stop() error {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.end:
		return nil
	case <-time.After(stopTime):
		s.cmd.Process.Kill()
		<-s.end
		return fmt.Errorf("lab: a server did not end in time; its log is %s", s.Log)
	}
}

// Meshed reports whether the server's log says that all links are up.
func (s *Server) Meshed() bool {
	text, err := os.ReadFile(s.Log)
	return err == nil && strings.Contains(string(text), "replica mesh complete")
}

// serverEnv is one server's configuration (§8, §12.2). A roster in the environment
// must be whole: naming one value replaces all nodes.
func (l *Lab) serverEnv(i int, home string) []string {
	self := host(l.Net.Replica(i))
	env := []string{
		"IGGY_SYSTEM_PATH=" + filepath.Join(home, "data"), "IGGY_ROOT_USERNAME=iggy", "IGGY_ROOT_PASSWORD=iggy",
		"IGGY_SHARD_RUNTIME_CAPACITY=256", "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION=0..1", "IGGY_MESSAGE_BUS_RECONNECT_PERIOD=100ms",
		"IGGY_CLUSTER_ENABLED=true", "IGGY_CLUSTER_NAME=" + clusterName,
		fmt.Sprintf("IGGY_TCP_ADDRESS=%s:%d", self, portTCP), fmt.Sprintf("IGGY_QUIC_ADDRESS=%s:%d", self, portQUIC),
		fmt.Sprintf("IGGY_HTTP_ADDRESS=%s:%d", self, portHTTP), fmt.Sprintf("IGGY_WEBSOCKET_ADDRESS=%s:%d", self, portWebSocket),
	}
	if l.Near != "plaintext" {
		env = append(env, "IGGY_CLUSTER_AUTH_ENABLED=true", "IGGY_CLUSTER_AUTH_SHARED_SECRET="+l.Secret)
	}
	if l.Near == "tls" {
		env = append(env, "IGGY_CLUSTER_TLS_ENABLED=true", "IGGY_CLUSTER_TLS_CERT_FILE="+l.PKI.Cert,
			"IGGY_CLUSTER_TLS_KEY_FILE="+l.PKI.Key, "IGGY_CLUSTER_TLS_CA_FILE="+l.PKI.CA)
	}
	for j := range l.Replicas {
		ip := host(l.Net.Replica(j))
		if j > i {
			ip = host(l.Net.Egress(i, j))
		}
		node := fmt.Sprintf("IGGY_CLUSTER_NODES_%d_", j)
		env = append(env, fmt.Sprintf("%sNAME=iggy-node-%d", node, j+1), node+"IP="+ip, fmt.Sprintf("%sREPLICA_ID=%d", node, j),
			node+"ADVERTISED_ADDRESS="+host(l.Net.Replica(j)),
			fmt.Sprintf("%sPORTS_TCP=%d", node, portTCP), fmt.Sprintf("%sPORTS_QUIC=%d", node, portQUIC),
			fmt.Sprintf("%sPORTS_HTTP=%d", node, portHTTP), fmt.Sprintf("%sPORTS_WEBSOCKET=%d", node, portWebSocket),
			node+"PORTS_TCP_REPLICA=9090")
	}
	return env
}
