package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/proxy"
)

func newCheck() *cobra.Command {
	var path string
	var online bool
	cmd := &cobra.Command{
		Use:   "check --config FILE [--online]",
		Short: "Check a configuration and say what the gate would do; opens no socket unless --online",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := load(path)
			if err != nil {
				return err
			}
			g, err := build(loaded, parts{})
			if err != nil {
				return err
			}
			if _, err := proxy.New(g.settings); err != nil {
				return &configError{err}
			}
			if err := g.describe(cmd.OutOrStdout()); err != nil || !online {
				return err
			}
			return g.online(cmd.Context(), cmd.OutOrStdout())
		},
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVar(&online, "online", false, "then probe every peer that the gate dials, and the local replica; exit 4 on a fault")
	return cmd
}

// describe prints the ways through the gate, its memory, and what to look at.
func (g *gate) describe(w io.Writer) error {
	s := &g.settings
	p := &printer{w: w}
	p.line("cluster %q, replica %d of %d, id on the wire %x", g.config.Cluster.Name, s.Local, s.Replicas, s.Cluster)
	for _, peer := range s.Peers {
		if peer.ID < s.Local {
			p.line("ingress: replica %d (%s) -> %s -> replica %d at %s (%s)", peer.ID, peer.Security, s.Listen, s.Local, s.Upstream, s.UpstreamSecurity)
		} else {
			p.line("egress: replica %d (%s) -> %s -> replica %d at %s (%s)", s.Local, s.EgressSecurity, peer.Listen, peer.ID, peer.Address, peer.Security)
		}
	}
	bytes, formula := s.LinkMemory()
	p.line("memory: at most %d bytes a link = %s; %d links: %d bytes", bytes, formula, s.Replicas-1, bytes*(s.Replicas-1))
	bytes, formula = s.HandshakeMemory()
	p.line("memory before authentication: at most %d bytes = %s", bytes, formula)
	for _, n := range append(g.loaded.Notes, g.tokens()...) {
		p.line("note: %s", n)
	}
	for _, warning := range g.warnings() {
		p.line("warning: %s", warning)
	}
	p.line("ok")
	return failure(p.err)
}

// tokens notes what moving the secret out of Iggy takes from it (§8.2): without
// cluster.auth Iggy has no source for the key of its HTTP tokens.
func (g *gate) tokens() []string {
	s := &g.settings
	near := func(p proxy.Peer) bool {
		if p.ID < s.Local {
			return s.UpstreamSecurity == proxy.Plaintext
		}
		return s.EgressSecurity == proxy.Plaintext
	}
	if s.Keys == nil || slices.ContainsFunc(s.Peers, func(p proxy.Peer) bool { return !near(p) }) {
		return nil
	}
	return []string{"Iggy speaks plaintext to this gate, so its own cluster.auth is off and gives its HTTP tokens no key: " +
		"set encoding_secret and decoding_secret of [http.jwt] in every Iggy, or a token is valid on one node only"}
}

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
