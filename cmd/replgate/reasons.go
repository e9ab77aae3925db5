package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/policy"
	"github.com/replgate/replgate/proxy"
)

func newReasons() *cobra.Command {
	return &cobra.Command{
		Use:   "reasons",
		Short: "Print every ending of a connection and every frame rule: what happened, what to look at",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ENDING\tLEVEL\tWHAT HAPPENED\tLOOK AT")
			for _, e := range proxy.Endings() {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Name, strings.ToLower(e.Level.String()), e.What, e.Do)
			}
			fmt.Fprintln(w, "\nRULE\tDEFAULT\tAGAINST IGGY\tREFUSES")
			for _, r := range policy.Rules() {
				compared := "as Iggy"
				if r.Stricter {
					compared = "stricter"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, r.Default, compared, r.Refuses)
			}
			return failure(w.Flush())
		},
	}
}
