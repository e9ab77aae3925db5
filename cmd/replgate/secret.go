package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/spf13/cobra"
)

// secretBytes is the entropy of a generated secret.
const secretBytes = 32

func newSecret() *cobra.Command {
	cmd := &cobra.Command{Use: "secret", Short: "Shared secrets", Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(&cobra.Command{
		Use:   "generate",
		Short: "Print a new shared secret; redirect it to a file that only the gate may read",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := make([]byte, secretBytes)
			rand.Read(b)
			// A word in front: Iggy reads an environment value that looks like a
			// number as one, and this can never look like a number.
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "iggy_"+base64.RawURLEncoding.EncodeToString(b))
			return failure(err)
		},
	})
	return cmd
}
