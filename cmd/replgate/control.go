package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

func newReload() *cobra.Command {
	var where socketFlags
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Let a running gate read its configuration and credentials again; exit 3 when it refuses them",
		Long: "Let a running gate read its configuration and every file of a credential again. Credentials are read by themselves when\n" +
			"they change; the configuration is read on this, and on SIGHUP. What is wrong is printed, and nothing of it applies.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := where.client()
			if err != nil {
				return err
			}
			var out outcome
			if err := client.Reload(cmd.Context(), &out); err != nil {
				return failure(noGate(err))
			}
			if !out.Applied {
				return &configError{errors.New("got what the gate refuses, want another configuration or credential:\n" + strings.Join(out.Faults, "\n"))}
			}
			what := "nothing"
			if len(out.Changed) > 0 {
				what = strings.Join(out.Changed, " ")
			}
			lines := &printer{w: cmd.OutOrStdout()}
			lines.line("reloaded; changed credentials: %s", what)
			for _, c := range out.Cut {
				lines.line("strict cuts: %s", c)
			}
			return failure(lines.err)
		},
	}
	where.add(cmd)
	return cmd
}

func newPeers() *cobra.Command {
	cmd := &cobra.Command{Use: "peers", Short: "What a running gate remembers of its peers", Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(newPeersReset())
	return cmd
}

func newPeersReset() *cobra.Command {
	var where socketFlags
	cmd := &cobra.Command{
		Use:   "reset ID",
		Short: "Forget what a peer has proved: a permissive gate then takes it weaker again",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.Atoi(args[0])
			if err != nil || id < 0 || id >= nobody {
				return fmt.Errorf("got peer %q, want the id of another replica", args[0])
			}
			client, err := where.client()
			if err != nil {
				return err
			}
			if err := client.ResetPeer(cmd.Context(), id); err != nil {
				return failure(noGate(err))
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "peer %d has proved nothing\n", id)
			return failure(err)
		},
	}
	where.add(cmd)
	return cmd
}
