package main

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/harden"
)

// newHarden holds what is asked for before a gate runs; what changes a running one
// has commands of its own.
func newHarden() *cobra.Command {
	cmd := &cobra.Command{Use: "harden", Short: "Take a running plaintext cluster behind gates", Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(newHardenPlan())
	return cmd
}

// planFlags are those of `harden plan`.
type planFlags struct {
	config   string
	asJSON   bool
	loopback string
	options  harden.Options
}

func newHardenPlan() *cobra.Command {
	var f planFlags
	cmd := &cobra.Command{
		Use:   "plan --config IGGY.toml [--json]",
		Short: "Print the steps from a plaintext cluster to strict TLS, node by node, and back",
		Long: "Print the steps that take a running plaintext cluster behind gates, one node at a time, to strict, and the way back: files, " +
			"edits of each Iggy's roster, restarts, and what must hold before and after each step. Nothing is carried out. " +
			"IGGY.toml is the configuration of any of the nodes; in paths and units {replica} stands for a node's id.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan, err := f.plan()
			if err != nil {
				return err
			}
			if !f.asJSON {
				return failure(plan.Text(cmd.OutOrStdout()))
			}
			out := json.NewEncoder(cmd.OutOrStdout())
			out.SetIndent("", " ")
			out.SetEscapeHTML(false)
			return failure(out.Encode(plan))
		},
	}
	configFlag(cmd, &f.config)
	o, flags := &f.options, cmd.Flags()
	flags.Lookup("config").Usage = "Iggy's own configuration file (TOML)"
	flags.BoolVar(&f.asJSON, "json", false, "as JSON, for a program that carries it out")
	const shared = "; where replicas share an ip: "
	flags.StringVar(&o.Etc, "etc", "", "folder of a gate's files (default /etc/replgate"+shared+"/etc/replgate/{replica})")
	flags.StringVar(&o.Run, "run", "", "folder of its admin socket (default /run/replgate"+shared+"/run/replgate-{replica})")
	flags.StringVar(&o.State, "state", "", "folder of its memory (default /var/lib/replgate"+shared+"/var/lib/replgate-{replica})")
	flags.StringVar(&o.Iggy, "iggy-config", "", "Iggy's configuration on the nodes (default /etc/iggy/config.toml"+shared+"/etc/iggy/config-{replica}.toml)")
	flags.StringVar(&o.IggyUnit, "iggy-unit", "", "Iggy's unit (default iggy-server"+shared+"iggy-server@{replica})")
	flags.StringVar(&o.GateUnit, "gate-unit", "", "the gate's unit (default replgate"+shared+"replgate@{replica})")
	flags.StringVar(&o.Metrics, "metrics", "", "where a gate shows its metrics (default 127.0.0.1:9464"+shared+"port 9464 beside its Iggy)")
	flags.StringVar(&f.loopback, "loopback", "127.50.0.0/16", "net of loopback addresses for what stands behind and before the gates")
	flags.DurationVar(&o.Hold, "hold", 0, "how long links must have been up before the next node (default 10s)")
	flags.DurationVar(&o.Within, "within", 0, "how long a step may take to show its result (default 2m)")
	flags.DurationVar(&o.StrictReadyAfter, "strict-ready-after", 0, "how long a gate must have got no plaintext link before strict (default 10m)")
	return cmd
}

// plan reads Iggy's file and makes the plan.
func (f *planFlags) plan() (*harden.Plan, error) {
	var err error
	if f.options.Loopback, err = netip.ParsePrefix(f.loopback); err != nil {
		return nil, fmt.Errorf("got --loopback %q, want a /16 such as 127.50.0.0/16", f.loopback)
	}
	iggy, err := configs.LoadIggy(f.config, configs.Options{})
	if err != nil {
		return nil, err
	}
	if faults := notPlaintext(iggy); faults != nil {
		return nil, faults
	}
	c := harden.Cluster{Name: iggy.Cluster.Name, Heartbeat: iggy.Cluster.HeartbeatTimeout.Std(), Handshake: iggy.Handshake.Std(),
		Reconnect: iggy.Reconnect.Std(), MaxMessageSize: iggy.MaxMessageSize.String(), HTTPForwards: iggy.HTTPForwards,
		Nodes: make([]harden.Node, len(iggy.Cluster.Nodes)),
		Move: func(to map[int]netip.AddrPort) ([]harden.Edit, error) {
			edits, err := iggy.Move(to)
			if err != nil {
				return nil, &configError{err}
			}
			var out []harden.Edit
			for _, e := range edits {
				out = append(out, harden.Edit(e))
			}
			return out, nil
		}}
	for _, n := range iggy.Cluster.Nodes { // ids are 0 to count-1, each once
		address, err := netip.ParseAddr(n.IP)
		if err != nil {
			return nil, &configError{err}
		}
		c.Nodes[n.ReplicaID] = harden.Node{Name: n.Name, Address: netip.AddrPortFrom(address, uint16(n.Ports.TCPReplica))}
	}
	return harden.New(c, f.options)
}

// notPlaintext are the faults of a cluster that this plan is not for. Where Iggy has
// a secret already, a gate must speak it on both legs, and nothing is gained by
// permissive mode: each node can get its gate by itself.
func notPlaintext(iggy *configs.Iggy) (faults configs.Faults) {
	if !iggy.Enabled {
		faults = append(faults, iggy.Fault("cluster.enabled", "expected true, found a replica that opens no replica port; there is no cluster to harden"))
	}
	switch {
	case iggy.Cluster.TLS.Enabled:
		faults = append(faults, iggy.Fault("cluster.tls.enabled", "expected a plaintext cluster, found one that speaks TLS already; a gate with tls on both legs can stand in front of any node of it, see docs/OPERATIONS.md"))
	case iggy.Cluster.Auth.Enabled:
		faults = append(faults, iggy.Fault("cluster.auth.enabled", "expected a plaintext cluster, found one with a shared secret; this plan is not for it, write gates whose upstream_security and egress.security are psk, see docs/OPERATIONS.md"))
	}
	return faults
}
