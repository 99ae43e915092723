package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what a soak has seen.
type report struct {
	options
	lasted      time.Duration
	interrupted bool
	samples     []sample
	seen        sightings
	// actions are how often the churn did what.
	actions map[string]int
	// slowest is the longest that it took, after the churn had stopped for a
	// measurement, until the catalog showed every instance as it was.
	slowest time.Duration
	// daemon and all are shares of a core, in percent: of the daemon, and of all
	// processes with this one.
	daemon, all float64
}

// line is one measurement, in words.
func (s sample) line() string {
	var parts []string
	for _, q := range quantities() {
		parts = append(parts, fmt.Sprintf("%s %s", q.name, q.text(q.of(s))))
	}
	return strings.Join(parts, ", ")
}

// text is a value with its unit; memory has two places.
func (q quantity) text(value float64) string {
	if q.unit == "" {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.2f%s", value, q.unit)
}

// print writes the table, and what else was seen.
func (r report) print(out io.Writer) error {
	fmt.Fprintf(out, "\nSoak of %s, seed %d: %s.\n", r.lasted.Round(time.Second), r.seed, r.churned())
	fmt.Fprintf(out, "The daemon took %.1f %% of a core, all of it %.1f %%.\n", r.daemon, r.all)
	fmt.Fprintf(out, "%s\n", r.seen)
	fmt.Fprintf(out, "After the churn had stopped for a measurement, all was as it should be within %s.\n\n", r.slowest.Round(10*time.Millisecond))
	growths, err := judge(warm(r.samples, r.during))
	if err != nil {
		return nil // which fault tells
	}
	return writeGrowths(out, growths)
}

func writeGrowths(out io.Writer, growths []growth) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "of the daemon\tstart\tmiddle\tend\tgrowth\tflat up to\tverdict\t")
	for _, g := range growths {
		verdict := "flat"
		if !g.flat() {
			verdict = "GROWS"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%+.2f\t%s\t%s\t\n", g.name, g.text(g.start), g.text(g.middle), g.text(g.end), g.end-g.start, g.text(g.most()), verdict)
	}
	return w.Flush()
}

// churned are the actions, with how often there was each.
func (r report) churned() string {
	sum := 0
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.actions)) {
		sum += r.actions[name]
		parts = append(parts, fmt.Sprintf("%s %d", name, r.actions[name]))
	}
	return fmt.Sprintf("%d actions (%s), %d measurements", sum, strings.Join(parts, ", "), len(r.samples))
}
