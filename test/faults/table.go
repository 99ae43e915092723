package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// writeRows prints a row for each result: what was broken, for how long, what was
// seen and, behind the word of, what is allowed.
func writeRows(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(columns(), "\t")+"\t")
	for _, r := range results {
		fmt.Fprintln(w, strings.Join(r.row(), "\t")+"\t")
	}
	return errors.Join(w.Flush(), writeNotes(out, results))
}

// writeNotes prints what else was noted, if anything was.
func writeNotes(out io.Writer, results []result) error {
	var errs []error
	for _, r := range results {
		for _, note := range r.notes {
			_, err := fmt.Fprintf(out, "%s: %s\n", r.scenario.name, note)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func columns() []string {
	return []string{"scenario", "for", "samples", "away", "false critical", "false passing", "missing", "bad requests", "failed requests", "verdict"}
}

func (r result) row() []string {
	v := r.verdict
	cells := []string{r.scenario.name, r.scenario.long, fmt.Sprint(r.record.samples()), fmt.Sprint(r.record.notTaken())}
	for _, c := range []class{falseCritical, falsePassing, missing} {
		cells = append(cells, v.seenOf(c))
	}
	cells = append(cells, fmt.Sprintf("%d, %s", v.bad, v.seenOf(badTraffic)), fmt.Sprintf("%d, %s", v.failed, v.seenOf(failedTraffic)))
	return append(cells, r.word())
}

// word is the verdict in a word or two.
func (r result) word() string {
	switch n := len(r.verdict.violations); {
	case r.err != nil:
		return fmt.Sprintf("BROKEN, %d VIOLATIONS", n)
	case n > 0:
		return fmt.Sprintf("%d VIOLATIONS", n)
	}
	return "as allowed"
}

// seenOf is the longest spell of a class, and the longest that is allowed.
func (v verdict) seenOf(c class) string {
	return fmt.Sprintf("%s of %s", seconds(v.longest[c]), seconds(v.allowed[c]))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

// writeSums prints what all results come to.
func writeSums(out io.Writer, results []result) {
	samples, away, violations := 0, 0, 0
	longest := map[class]time.Duration{}
	for _, r := range results {
		samples, away, violations = samples+r.record.samples(), away+r.record.notTaken(), violations+len(r.verdict.violations)
		for c, d := range r.verdict.longest {
			longest[c] = max(longest[c], d)
		}
	}
	fmt.Fprintf(out, "%d scenarios, %d samples (%d could not be taken), %d violations\nlongest wrong:", len(results), samples, away, violations)
	for i, c := range classes() {
		fmt.Fprintf(out, "%s %s %s", map[bool]string{true: ",", false: ""}[i > 0], c, seconds(longest[c]))
	}
	fmt.Fprintln(out)
}

// writeList prints what there is to be run, by group.
func writeList(out io.Writer, all []scenario) error {
	groups := map[string][]scenario{}
	for _, s := range all {
		groups[s.group] = append(groups[s.group], s)
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "group\tscenario\tsettings\tset\twhat is broken")
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		for _, s := range groups[g] {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", g, s.name, s.setting.name, map[bool]string{true: "short", false: "long"}[s.short], s.what)
		}
	}
	return w.Flush()
}
