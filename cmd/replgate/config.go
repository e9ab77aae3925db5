package main

import (
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/configs"
)

func newConfig() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show configuration", Args: cobra.NoArgs, RunE: showHelp}
	cmd.AddCommand(newConfigPrint())
	return cmd
}

func newConfigPrint() *cobra.Command {
	var path string
	var defaults, effective bool
	cmd := &cobra.Command{
		Use:   "print --defaults | --effective --config FILE",
		Short: "Print the configuration as TOML: every default, or what a file comes to; secrets are not printed",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if defaults {
				c := configs.Default()
				return failure(configs.Print(cmd.OutOrStdout(), &c, configs.PrintOptions{Rules: ruleSpecs()}))
			}
			if path == "" {
				return errors.New("got no configuration, want --config FILE with --effective")
			}
			loaded, err := load(path)
			if err != nil {
				return err
			}
			c := &loaded.Config
			if c.ClusterFrom != "" {
				// The output may be saved anywhere, and a relative path is read from there.
				if c.ClusterFrom, err = filepath.Abs(c.ClusterFrom); err != nil {
					return failure(err)
				}
			}
			return failure(configs.Print(cmd.OutOrStdout(), c, configs.PrintOptions{Rules: ruleSpecs()}))
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration file (TOML)")
	cmd.Flags().BoolVar(&defaults, "defaults", false, "every key with its default")
	cmd.Flags().BoolVar(&effective, "effective", false, "what the file, the environment and the roster come to")
	cmd.MarkFlagsOneRequired("defaults", "effective")
	cmd.MarkFlagsMutuallyExclusive("defaults", "effective")
	return cmd
}
