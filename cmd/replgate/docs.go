package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/internal/manual"
)

// newDocs is for `make docs` and for whoever packs the program; users have the
// files already, so help does not list it.
func newDocs() *cobra.Command {
	return &cobra.Command{
		Use:    "docs DIR",
		Short:  "Write the generated part of the manual below DIR",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := generated()
			if err != nil {
				return failure(err)
			}
			return failure(writeDocs(args[0], files))
		},
	}
}

// generatedDirs are the folders in which every file is generated.
func generatedDirs() []string { return []string{"man", "completion"} }

// writeDocs replaces what is generated below dir: a page of a command that is no
// more goes away.
func writeDocs(dir string, files map[string][]byte) error {
	for _, d := range generatedDirs() {
		if err := os.RemoveAll(filepath.Join(dir, d)); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generated makes every generated file of the manual, by its path below docs. The
// same program makes the same bytes.
func generated() (map[string][]byte, error) {
	files := map[string][]byte{}
	page, err := manual.Configuration(ruleSpecs())
	if err != nil {
		return nil, err
	}
	files["CONFIGURATION.md"] = page
	manPages(files)
	return files, completions(files)
}

// completions makes the scripts that shells complete command lines with.
func completions(files map[string][]byte) error {
	root := newRoot(stdio{})
	for name, write := range map[string]func(*bytes.Buffer) error{
		"replgate.bash": func(b *bytes.Buffer) error { return root.GenBashCompletionV2(b, true) },
		"_replgate":     func(b *bytes.Buffer) error { return root.GenZshCompletion(b) },
		"replgate.fish": func(b *bytes.Buffer) error { return root.GenFishCompletion(b, true) },
	} {
		var script bytes.Buffer
		if err := write(&script); err != nil {
			return fmt.Errorf("completion of %s: %w", name, err)
		}
		files["completion/"+name] = trimLines(script.Bytes())
	}
	return nil
}

// trimLines takes away the blanks at the ends of lines, which editors and git take
// away too.
func trimLines(text []byte) []byte {
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		out.WriteString(strings.TrimRight(line, " \t\n") + "\n")
	}
	return []byte(out.String())
}
