package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/replgate/replgate/internal/lab"
)

// labView turns a lab into snapshots.
type labView struct {
	lab    *lab.Lab
	began  time.Time
	last   time.Time
	frames uint64
}

func newLabView(l *lab.Lab) *labView { return &labView{lab: l, began: time.Now(), last: time.Now()} }

// labSnapshot is a lab at one moment.
type labSnapshot struct {
	Seconds   float64      `json:"seconds"`
	Links     int          `json:"links"` // between gates
	Frames    uint64       `json:"frames"`
	PerSecond float64      `json:"frames_per_second"`
	Refused   uint64       `json:"refused"`
	Acked     int          `json:"acked"`
	Replicas  []lab.Report `json:"replicas,omitempty"` // stand-ins
	Meshed    int          `json:"meshed"`             // replicas that have every link
	Agreed    bool         `json:"agreed"`             // every stand-in has the same logs
	Fault     string       `json:"fault,omitempty"`
}

func (v *labView) snapshot(now time.Time) labSnapshot {
	s := labSnapshot{Seconds: now.Sub(v.began).Round(time.Millisecond).Seconds()}
	for i := range v.lab.Gates {
		samples, err := lab.Scrape(v.lab.Net.Metrics(i))
		if err != nil {
			s.Fault = fmt.Sprintf("gate %d: %v", i, err)
			continue
		}
		s.Links += int(samples.Sum("replgate_links", `direction="egress"`))
		s.Frames += uint64(samples.Sum("replgate_frames_total", `result="forwarded"`))
		s.Refused += uint64(samples.Sum("replgate_frames_rejected_total"))
	}
	s.PerSecond = float64(s.Frames-min(s.Frames, v.frames)) / max(now.Sub(v.last).Seconds(), 0.001)
	v.frames, v.last = s.Frames, now
	if v.lab.Iggy != "" {
		for _, server := range v.lab.Servers {
			if server.Meshed() {
				s.Meshed++
			}
			if err := server.Ended(); err != nil {
				s.Fault = err.Error()
			}
		}
		return s
	}
	s.Replicas, s.Agreed = v.lab.Reports(), v.lab.Agreed()
	for _, r := range s.Replicas {
		s.Acked += r.Acked
		if r.Links == len(s.Replicas)-1 {
			s.Meshed++
		}
		if r.Fault != "" {
			s.Fault = fmt.Sprintf("stand-in %d: %s", r.ID, r.Fault)
		}
	}
	return s
}

// line is a snapshot on one line, for a pipe.
func (s labSnapshot) line() string {
	text := fmt.Sprintf("%6.1fs links=%d frames=%d (%.0f/s) refused=%d meshed=%d", s.Seconds, s.Links, s.Frames, s.PerSecond, s.Refused, s.Meshed)
	if len(s.Replicas) > 0 {
		text += fmt.Sprintf(" primary=%d view=%d acked=%d gap=%dms", s.Replicas[0].Primary, s.Replicas[0].View, s.Acked, s.gap())
	}
	return text
}

// gap is the longest time any stand-in has waited for a heartbeat.
func (s labSnapshot) gap() (ms int64) {
	for _, r := range s.Replicas {
		ms = max(ms, r.GapMS)
	}
	return ms
}

// table is a snapshot as a screen.
func (s labSnapshot) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "replgate lab, %.0f s   links between gates %d   frames %d (%.0f/s)   refused %d\n\n",
		s.Seconds, s.Links, s.Frames, s.PerSecond, s.Refused)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "stand-in\tlinks\tview\tprimary\tcommit\tacked\tlongest heartbeat gap\tlog\t")
	for _, r := range s.Replicas {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d ms\t%s\t\n", r.ID, r.Links, r.View, r.Primary, r.Commit, r.Acked, r.GapMS, r.Hash)
	}
	w.Flush()
	if len(s.Replicas) == 0 {
		fmt.Fprintf(&b, "servers with every link: %d\n", s.Meshed)
	}
	return b.String() + "\nq ends it\n"
}

// watchLive shows the lab on a terminal until ctx ends or somebody presses q.
func watchLive(ctx context.Context, l *lab.Lab) error {
	_, err := tea.NewProgram(liveLab{view: newLabView(l)}, tea.WithContext(ctx), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return nil // its time was up
	}
	return err
}

// liveLab is the screen.
type liveLab struct {
	view *labView
	now  labSnapshot
}

type labTick time.Time

const liveEvery = 500 * time.Millisecond

func tickLab() tea.Cmd { return tea.Tick(liveEvery, func(t time.Time) tea.Msg { return labTick(t) }) }

// Init implements tea.Model.
func (m liveLab) Init() tea.Cmd { return tickLab() }

// Update implements tea.Model.
func (m liveLab) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyMsg:
		if key := msg.String(); key == "q" || key == "ctrl+c" {
			return m, tea.Quit
		}
	case labTick:
		m.now = m.view.snapshot(time.Time(msg))
		if m.now.Fault != "" {
			return m, tea.Quit
		}
		return m, tickLab()
	}
	return m, nil
}

// View implements tea.Model.
func (m liveLab) View() string { return m.now.table() }
