// Command load measures what the bridge costs beside what it cannot cost less
// than, each side by side in the same run, and prints a table of ratios. It is
// `make bench`.
//
// Envoys are simulated, byte by byte as real ones speak (bridge/hds/hdstest), but
// for rows 6 and 10; the Consul agent is a real one. What sends is never measured:
// both sides of a ratio are processes of their own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/consul-hds/consul-hds/test/lab"
)

// bench is where and how often is measured.
type bench struct {
	lab  *lab.Lab
	out  io.Writer
	runs int
	// samples is how many there are in a run of what is measured one by one.
	samples int
	// profiles is the folder for profiles of the servers; empty makes none.
	profiles string
	rows     []row
}

// measurement makes some rows of the table, by their number in it.
type measurement struct {
	number string
	run    func(*bench, context.Context) error
}

func measurements() []measurement {
	return []measurement{
		{"1", (*bench).unchangedReports},
		{"2", (*bench).flippedReports},
		{"3", (*bench).flips},
		{"4", (*bench).registrations},
		{"5", (*bench).changed},
		{"6", (*bench).steadyCPU},
		{"7", (*bench).memory},
		{"8", (*bench).reconnects},
		{"9", (*bench).growth},
		{"10", (*bench).detections},
	}
}

func main() {
	serveMain()
	b := bench{out: os.Stdout}
	only := flag.String("only", "", "the rows to measure, by number, comma-separated, as 1,7; all of them, 1 to 10, if empty")
	flag.IntVar(&b.runs, "runs", 5, "how often each side is measured; what is printed is the median")
	flag.IntVar(&b.samples, "samples", 100, "row 3: how many flips a run has; row 4: ten times the registrations, of all runs")
	flag.StringVar(&b.profiles, "profiles", "", "a folder that exists, for profiles of the servers of rows 1, 2 and 7; with it their CPU time is not what it is without")
	lab.ParseFlags()
	ctx, stop := lab.SignalContext(context.Background())
	defer stop()
	if err := b.measure(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// measure makes the measurements chosen; one that fails does not keep the others
// from being made, and what was measured is printed in any case.
func (b *bench) measure(ctx context.Context, only string) (err error) {
	if b.runs < 1 || b.samples < 1 {
		return errors.New("-runs and -samples must be at least 1")
	}
	chosen, err := choose(measurements(), only)
	if err != nil {
		return err
	}
	setting, err := versions(ctx)
	if err != nil {
		return err
	}
	if b.lab, err = lab.New(ctx, lab.Options{Progress: os.Stderr}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.lab.Close()) }()
	var errs []error
	for _, m := range chosen {
		err := m.run(b, ctx)
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("row %s: %w", m.number, context.Cause(ctx)))
			break
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("row %s: %w", m.number, err))
		}
	}
	b.print(setting)
	return errors.Join(errs...)
}

// choose returns the measurements of a comma-separated list.
func choose(all []measurement, only string) ([]measurement, error) {
	if only == "" {
		return all, nil
	}
	var chosen []measurement
	for number := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(m measurement) bool { return m.number == strings.TrimSpace(number) })
		if i < 0 {
			return nil, fmt.Errorf("there is no row %q, only 1 to %s", number, all[len(all)-1].number)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
