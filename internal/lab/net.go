package lab

import (
	"fmt"
	"math/rand/v2"
)

// Net is a /24 of the loopback net, so that clusters that run at once do not meet.
type Net struct{ prefix string }

// NewNet draws one.
func NewNet() Net {
	return Net{fmt.Sprintf("127.%d.%d", 64+rand.IntN(128), rand.IntN(256))}
}

// Replica is where stand-in i listens, Ingress where gate i takes peers in, Egress
// where gate i takes its own replica on the way to j, Metrics where gate i shows
// its metrics; Relay is a place before Egress for whoever listens in. There is room
// for ten replicas.
func (n Net) Replica(i int) string   { return fmt.Sprintf("%s.%d:9090", n.prefix, 10+i) }
func (n Net) Ingress(i int) string   { return fmt.Sprintf("%s.%d:9190", n.prefix, 10+i) }
func (n Net) Egress(i, j int) string { return fmt.Sprintf("%s.%d:9090", n.prefix, 100+10*i+j) }
func (n Net) Relay(i, j int) string  { return fmt.Sprintf("%s.%d:9091", n.prefix, 100+10*i+j) }
func (n Net) Metrics(i int) string   { return fmt.Sprintf("%s.%d:9464", n.prefix, 10+i) }

// Hosts are the addresses of all of them, for a certificate.
func (n Net) Hosts() []string {
	hosts := make([]string, 0, 256)
	for i := range 256 {
		hosts = append(hosts, fmt.Sprintf("%s.%d", n.prefix, i))
	}
	return hosts
}
