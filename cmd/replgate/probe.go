package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/certs"
	"github.com/replgate/replgate/mac"
	"github.com/replgate/replgate/probe"
	"github.com/replgate/replgate/proxy"
	"github.com/replgate/replgate/wire"
)

// errFault: an online check, a probe or a lab found a fault.
var errFault = errors.New("got a fault")

// probeFlags say what is expected at the address.
type probeFlags struct {
	config                         string
	cluster, security, ca, name    string
	secretFile, previousSecretFile string
	peer                           int
	timeout                        time.Duration
	asJSON                         bool
}

func newProbe() *cobra.Command {
	var f probeFlags
	cmd := &cobra.Command{
		Use:   "probe ADDRESS [--config FILE] [--peer N] [--json]",
		Short: "Ask an address what answers there: security, cluster, replica, secret, faults; exit 4 on a fault",
		Long: "Ask an address what answers there. Nothing but ADDRESS is needed; what is not given is reported and not judged. With --config\n" +
			"everything comes from a gate's configuration, and the address tells which peer is meant, or --peer does.\n" +
			"A probe never becomes a replica: it sends no Finish, and no Hello that an acceptor without the MAC could take.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd, args[0])
			if err != nil {
				return err
			}
			o.Timeout = f.timeout
			r := probe.Run(cmd.Context(), o)
			if f.asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(r)
			} else {
				err = printReport(cmd.OutOrStdout(), r)
			}
			if err != nil {
				return failure(err)
			}
			return verdict([]probe.Report{r})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "a gate's configuration file (TOML)")
	flags.IntVar(&f.peer, "peer", 0, "the id of the replica whose acceptor it should be (default: what the configuration says of ADDRESS)")
	flags.StringVar(&f.cluster, "cluster", "", "the cluster's name")
	flags.StringVar(&f.security, "security", "", "the security it should speak: plaintext, psk or tls (default: any)")
	flags.StringVar(&f.secretFile, "secret-file", "", "a file with the shared secret")
	flags.StringVar(&f.previousSecretFile, "previous-secret-file", "", "a file with the previous shared secret, in a rotation")
	flags.StringVar(&f.ca, "ca", "", "a file with the CAs that are trusted (PEM)")
	flags.StringVar(&f.name, "server-name", "", "the name its certificate must be for (default with --ca: the host of ADDRESS)")
	flags.DurationVar(&f.timeout, "timeout", probe.DefaultTimeout, "how long each step may take")
	flags.BoolVar(&f.asJSON, "json", false, "as JSON, one object")
	for _, alone := range []string{"cluster", "secret-file", "previous-secret-file", "ca"} {
		cmd.MarkFlagsMutuallyExclusive("config", alone)
	}
	return cmd
}

// options are what the flags or the configuration say.
func (f *probeFlags) options(cmd *cobra.Command, address string) (o probe.Options, err error) {
	switch f.security {
	case "", probe.Plaintext, probe.PSK, probe.TLS:
	default:
		return o, fmt.Errorf("got --security %s, want plaintext, psk or tls", f.security)
	}
	if f.timeout <= 0 {
		return o, fmt.Errorf("got --timeout %v, want one above 0", f.timeout)
	}
	switch {
	case !cmd.Flags().Changed("peer"):
		f.peer = -1
	case f.peer < 0 || f.peer >= nobody:
		return o, fmt.Errorf("got --peer %d, want the id of a replica", f.peer)
	}
	if f.config == "" {
		o, err = f.alone(address)
	} else {
		o, err = f.configured(address)
	}
	if f.security != "" {
		o.Expected = f.security
	}
	if f.name != "" {
		o.ServerName = f.name
	}
	return o, err
}

// nobody is above every id of a roster.
const nobody = 255

// alone makes options without a configuration.
func (f *probeFlags) alone(address string) (o probe.Options, err error) {
	o = probe.Options{Address: address, ClusterName: f.cluster, Explain: explainTLS}
	if f.cluster != "" {
		o.Cluster = wire.ClusterIDOf(f.cluster)
	}
	if f.peer >= 0 {
		id := uint8(f.peer)
		o.Target = &id
	}
	if f.ca != "" {
		pem, err := os.ReadFile(f.ca)
		pool := x509.NewCertPool()
		if err == nil && !pool.AppendCertsFromPEM(pem) {
			err = fmt.Errorf("got no certificate in %s, want at least one CA", f.ca)
		}
		if err != nil {
			return o, &configError{err}
		}
		o.TLS, o.ServerName = &tls.Config{RootCAs: pool}, host(address)
	}
	if f.secretFile == "" && f.previousSecretFile != "" {
		return o, errors.New("got --previous-secret-file without --secret-file, want both")
	}
	if f.secretFile != "" {
		o.Keys, err = keyringOf(f.secretFile, f.previousSecretFile)
	}
	return o, err
}

// keyringOf reads secrets as a configuration does: one newline at the end is not
// part of them.
func keyringOf(current, previous string) (*mac.Keyring, error) {
	var secrets [2][]byte
	for i, path := range []string{current, previous} {
		if path == "" {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, &configError{err}
		}
		b = bytes.TrimSuffix(b, []byte("\n"))
		secrets[i] = bytes.TrimSuffix(b, []byte("\r"))
	}
	k, err := mac.NewKeyring(secrets[0], secrets[1])
	if err != nil {
		return nil, &configError{err}
	}
	return k, nil
}

// configured makes options of a gate's configuration.
func (f *probeFlags) configured(address string) (probe.Options, error) {
	loaded, err := load(f.config)
	if err != nil {
		return probe.Options{}, err
	}
	g, err := build(loaded, parts{})
	if err != nil {
		return probe.Options{}, err
	}
	for _, e := range g.entrances() {
		if e.address == address && (f.peer < 0 || f.peer == int(e.target)) {
			return g.probeOptions(e), nil
		}
	}
	if f.peer < 0 {
		return probe.Options{}, fmt.Errorf("got address %s, which the configuration does not name, want --peer N with it", address)
	}
	if f.peer >= g.settings.Replicas {
		return probe.Options{}, fmt.Errorf("got --peer %d, want an id of the roster, below %d", f.peer, g.settings.Replicas)
	}
	return g.probeOptions(g.elsewhere(address, uint8(f.peer))), nil
}

// elsewhere is an address that the configuration does not name. A peer that this
// gate dials speaks the same there; of the local replica it could be the gate's
// place or its own, and a lower id is dialed by others.
func (g *gate) elsewhere(address string, id uint8) entrance {
	for _, p := range g.settings.Peers {
		if p.ID == id && p.Address != "" {
			return entrance{address: address, target: id, dialer: g.settings.Local, security: p.Security, name: p.Name}
		}
	}
	return entrance{address: address, target: id, name: host(address)}
}

// entrance is a place where replicas of the configuration are dialed.
type entrance struct {
	address  string
	target   uint8
	dialer   uint8
	security proxy.Security // empty: any
	name     string
	real     bool // the replica's own place, and no listener of this gate
}

// entrances are the addresses that a configuration names, those that a gate dials
// first.
func (g *gate) entrances() (all []entrance) {
	s := &g.settings
	for _, p := range s.Peers {
		if p.Address != "" {
			all = append(all, entrance{p.Address, p.ID, s.Local, p.Security, p.Name, true})
		}
	}
	if s.Listen == "" {
		return append(all, g.doors()...)
	}
	all = append(all, entrance{s.Upstream, s.Local, 0, s.UpstreamSecurity, s.UpstreamName, true})
	for _, p := range s.Peers {
		if p.ID == 0 {
			all = append(all, entrance{s.Listen, s.Local, 0, p.Security, host(s.Listen), false})
		}
	}
	return append(all, g.doors()...)
}

// doors are where the local replica dials peers.
func (g *gate) doors() (all []entrance) {
	for _, p := range g.settings.Peers {
		if p.Listen != "" {
			all = append(all, entrance{p.Listen, p.ID, g.settings.Local, g.settings.EgressSecurity, host(p.Listen), false})
		}
	}
	return all
}

func (g *gate) probeOptions(e entrance) probe.Options {
	o := probe.Options{Address: e.address, Target: &e.target, Dialer: e.dialer, Cluster: g.settings.Cluster,
		ClusterName: g.config.Cluster.Name, Expected: string(e.security), Keys: g.settings.Keys, ServerName: e.name, Explain: explainTLS}
	if g.certs != nil {
		o.TLS = g.certs.Client(e.name)
	}
	return o
}

func explainTLS(err error) (word, detail string) {
	f := certs.ClassifyClient(err, time.Now())
	return f.Word, f.Detail
}

// online probes everything that the gate dials, at once, and prints the reports in
// the order of the ids, the local replica last.
func (g *gate) online(ctx context.Context, w io.Writer) error {
	var reports []probe.Report
	var work sync.WaitGroup
	var asked []entrance
	for _, e := range g.entrances() {
		if e.real {
			asked = append(asked, e)
		}
	}
	reports = make([]probe.Report, len(asked))
	for i, e := range asked {
		work.Go(func() { reports[i] = probe.Run(ctx, g.probeOptions(e)) })
	}
	work.Wait()
	for i, r := range reports {
		if asked[i].target == g.settings.Local && !r.Reached() {
			absent(&r)
			reports[i] = r
		}
		if err := printReport(w, r); err != nil {
			return failure(err)
		}
	}
	return verdict(reports)
}

// absent takes it for no fault that the local replica does not run: a gate starts
// before it and outlives it.
func absent(r *probe.Report) {
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Verdict == probe.Fault {
			f.Verdict, f.Do = probe.Unknown, "the local replica may not run yet; else look at ingress.upstream"
		}
	}
}

// printReport prints a line for each finding, and a summary.
func printReport(out io.Writer, r probe.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Verdict, f.Code, f)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, r.Summary())
	return err
}

// verdict is errFault where there is a fault.
func verdict(reports []probe.Report) error {
	faults := 0
	for _, r := range reports {
		faults += r.Count(probe.Fault)
	}
	if faults == 0 {
		return nil
	}
	return fmt.Errorf("%w, want none: %s in all, each with what to do", errFault, probe.Faults(faults))
}
