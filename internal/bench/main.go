//go:build linux

// Command bench measures gates against other relays, side by side in one run, and
// prints a table of goals. It makes a network namespace for itself, so it needs
// root. It measures whole processes from outside; benchmarks of single parts
// stand beside their tests.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/replgate/replgate/internal/replica"
)

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) > 1 {
		switch args[1] {
		case "sink":
			return sink()
		case "splice":
			return splice(args[2])
		case "inside":
			return inside(args[2:])
		}
	}
	if os.Getuid() != 0 {
		return errors.New("got a user who is not root, want root: the bench makes a network namespace")
	}
	install()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return apart(append([]string{self}, args[1:]...))
}

// install fetches the peers that Debian has. What cannot be had is left out of
// the run, which says so.
func install() {
	var want []string
	for program, pkgs := range map[string][]string{"haproxy": {"haproxy"}, "nginx": {"nginx-light", "libnginx-mod-stream"}, "ss": {"iproute2"}} {
		if _, err := exec.LookPath(program); err != nil {
			want = append(want, pkgs...)
		}
	}
	if _, err := exec.LookPath("apt-get"); err != nil || len(want) == 0 {
		return
	}
	for _, argv := range [][]string{{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, want...)} {
		cmd := exec.Command("apt-get", argv...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "bench: apt-get %s: %v: %s\n", argv[0], err, out)
			return
		}
	}
}

// inside is the run proper, in the namespace.
func inside(args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "fewer and shorter rounds")
	only := flags.String("only", "", "only cells whose name holds this")
	saved := flags.String("json", "", "write every sample to this file")
	page := flags.String("page", "", "write the table to this file as well")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := furnish(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "replgate-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "replgate")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", binary, "./cmd/replgate").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ground, err := newField(dir, binary, self)
	if err != nil {
		return err
	}
	b := &bench{field: ground, out: os.Stderr, buffers: map[string][]int{}}
	groups, rounds := plan(*quick)
	groups = filtered(groups, *only)
	began := time.Now()
	if err := b.run(groups, rounds); err != nil {
		return err
	}
	r := b.report()
	fmt.Fprintf(os.Stderr, "measured in %v\n", time.Since(began).Round(time.Second))
	return b.publish(r, *saved, *page)
}

// filtered leaves the cells whose name holds part.
func filtered(groups []group, part string) (left []group) {
	for _, g := range groups {
		g.cells = slices.DeleteFunc(slices.Clone(g.cells), func(c cell) bool { return !strings.Contains(c.name(), part) })
		if len(g.cells) > 0 {
			left = append(left, g)
		}
	}
	return left
}

func mint(dir string) (replica.PKI, error) {
	return replica.Mint(dir, []string{serverName, "127.0.0.1"}, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
}

// publish prints the table and writes the files that were asked for.
func (b *bench) publish(r report, saved, page string) error {
	r.write(os.Stdout)
	if saved != "" {
		if err := r.save(saved); err != nil {
			return err
		}
	}
	if page == "" {
		return nil
	}
	f, err := os.Create(page)
	if err != nil {
		return err
	}
	r.write(f)
	return f.Close()
}
