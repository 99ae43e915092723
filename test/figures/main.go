// Command figures measures what the docs claim, on a real Consul and a real
// Envoy, and prints tables: how long a failure takes to reach Consul's users
// and a mesh, what restarts do, what a steady node writes and what it costs.
//
// It fails if a bound of the contract is broken. On a machine that is busy with
// other things it may be.
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
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// sizes say how much is measured.
type sizes struct {
	runs, losses, rounds, instances int
	seed                            uint64
	steady, during                  time.Duration
}

// figures are where and how much is measured.
type figures struct {
	sizes
	lab *lab.Lab
	out io.Writer
}

// measurement makes one table, or a few.
type measurement struct {
	name string
	run  func(*figures, context.Context) error
}

func measurements() []measurement {
	return []measurement{
		{"delays", (*figures).delays},
		{"mesh", (*figures).mesh},
		{"lost", (*figures).lost},
		{"restarts", (*figures).restarts},
		{"writes", (*figures).writes},
		{"cpu", (*figures).cpu},
		{"servers", (*figures).servers},
	}
}

func main() {
	lab.AppMain()
	f := figures{out: os.Stdout}
	only := flag.String("only", "", "the measurements to make, comma-separated; all of them if empty: "+strings.Join(names(measurements()), ", "))
	flag.IntVar(&f.runs, "runs", 20, "delays, mesh: how often each failure is made")
	flag.IntVar(&f.losses, "losses", 50, "lost: how often a check is lost")
	flag.IntVar(&f.rounds, "rounds", 10, "restarts: how often daemon, Envoy and agent are restarted")
	flag.Uint64Var(&f.seed, "seed", 1, "restarts: what the random order begins with")
	flag.IntVar(&f.instances, "instances", 200, "writes, cpu: how many instances there are")
	flag.DurationVar(&f.steady, "steady", 2*time.Minute, "writes: how long steady instances are watched")
	flag.DurationVar(&f.during, "cpu", time.Minute, "cpu: how long each way to check is watched")
	lab.ParseFlags()
	ctx, stop := lab.SignalContext(context.Background())
	defer stop()
	if err := f.measure(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func names(of []measurement) (out []string) {
	for _, m := range of {
		out = append(out, m.name)
	}
	return out
}

// choose returns the measurements of a comma-separated list.
func choose(all []measurement, only string) ([]measurement, error) {
	if only == "" {
		return all, nil
	}
	var chosen []measurement
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(m measurement) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no measurement %q, only %s", name, strings.Join(names(all), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// measure makes the measurements chosen; one that fails does not keep the
// others from being made.
func (f *figures) measure(ctx context.Context, only string) (err error) {
	chosen, err := choose(measurements(), only)
	if err != nil {
		return err
	}
	if f.lab, err = lab.New(ctx, lab.Options{Progress: os.Stderr}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.lab.Close()) }()
	var errs []error
	for _, m := range chosen {
		if err := m.run(f, ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}
