// Command replgate is a gate in front of the replica port of one Apache Iggy
// server. See the README.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/proxy"
)

// version is set by the linker; a plain `go build` takes it from the build info.
var version string

// Exit codes, part of the contract with scripts.
const (
	exitOK       = 0
	exitFailure  = 1
	exitUsage    = 2
	exitConfig   = 3
	exitFault    = 4
	exitDeadline = 5
	exitNotReady = 6
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr}))
}

// stdio are the streams of a command.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// run executes one command line and returns its exit code. Errors go to standard
// error, a line for each.
func run(ctx context.Context, args []string, std stdio) int {
	root := newRoot(std)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if faults, ok := errors.AsType[configs.Faults](err); ok {
		fmt.Fprintln(std.err, faults)
		return exitConfig
	}
	fmt.Fprintln(std.err, "replgate:", err)
	invalid, isInvalid := errors.AsType[*configError](err)
	switch {
	case isInvalid && invalid != nil:
		return exitConfig
	case errors.Is(err, errFault):
		return exitFault
	case errors.Is(err, proxy.ErrDeadline):
		return exitDeadline
	case errors.Is(err, errNotReady):
		return exitNotReady
	case errors.Is(err, errRuntime):
		return exitFailure
	}
	return exitUsage
}

// errNotReady: the gate was not ready in time.
var errNotReady = errors.New("got no ready gate")

// errRuntime marks an error that is nobody's wrong usage.
var errRuntime = errors.New("runtime")

// failure marks err as one that happened at run time.
func failure(err error) error {
	if err == nil || errors.Is(err, proxy.ErrDeadline) {
		return err
	}
	return &runtimeError{err}
}

type runtimeError struct{ err error }

func (e *runtimeError) Error() string        { return e.err.Error() }
func (e *runtimeError) Unwrap() error        { return e.err }
func (e *runtimeError) Is(target error) bool { return target == errRuntime }

// configError is a configuration that loads and whose parts do not fit together,
// or whose certificates cannot be read.
type configError struct{ err error }

func (e *configError) Error() string { return e.err.Error() }
func (e *configError) Unwrap() error { return e.err }

func newRoot(std stdio) *cobra.Command {
	root := &cobra.Command{
		Use:           "replgate",
		Short:         "A gate in front of the replica port of one Apache Iggy server",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          showHelp,
	}
	root.SetIn(std.in)
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.AddCommand(newRun(), newCheck(), newProbe(), newHarden(), newLab(), newStandIn(), newStatus(), newWait(), newReload(), newRotate(), newPeers(), newDecode(), newConfig(), newSecret(), newReasons(), newVersion(), newDocs())
	return root
}

// showHelp is what a command does that only holds others. A command that does
// nothing at all would let every unknown word pass: cobra checks the arguments
// only of what it runs.
func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "replgate %s %s\n", buildVersion(), goVersion())
			return failure(err)
		},
	}
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.GoVersion
	}
	return "unknown"
}
