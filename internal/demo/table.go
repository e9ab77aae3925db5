package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/replgate/replgate/internal/lab"
	"github.com/replgate/replgate/mac"
)

// table prints the frames that went through each link, by command.
func table(out io.Writer, samples []lab.Samples) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "frames forwarded\tlink 0-1\tlink 0-2\tlink 1-2\t")
	totals := map[string][replicas]float64{}
	for i, p := range []mac.Pair{{Dialer: 0, Acceptor: 1}, {Dialer: 0, Acceptor: 2}, {Dialer: 1, Acceptor: 2}} {
		peer := fmt.Sprintf(`peer="%d"`, p.Acceptor)
		for command, n := range samples[p.Dialer].Label("replgate_frames_total", "command", peer, `result="forwarded"`) {
			row := totals[command]
			row[i] = n
			totals[command] = row
		}
	}
	for _, command := range slices.Sorted(maps.Keys(totals)) {
		if row := totals[command]; row != [replicas]float64{} {
			fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t\n", command, row[0], row[1], row[2])
		}
	}
	return w.Flush()
}
