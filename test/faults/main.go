// Command faults breaks what the bridge stands on, in worlds of a real Consul
// server, a real agent, real Envoys and the built daemon, and judges what users see
// meanwhile: the catalog, DNS, and traffic through an ingress gateway, sampled each
// 20 ms. It is `make faults`.
//
// A healthy instance must never be shown critical, and an unhealthy one not passing
// for longer than docs/failures.md allows. It prints a row for each scenario, and
// fails if anything was seen that is not allowed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/consul-hds/consul-hds/test/lab"
)

// options are the flags.
type options struct {
	only, logs  string
	seed        uint64
	list, short bool
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "the scenarios to run, by name or group, comma-separated; all of them if empty")
	flag.Uint64Var(&o.seed, "seed", 1, "what the random order of the scenario all-at-once begins with")
	flag.BoolVar(&o.list, "list", false, "list the scenarios, and run none")
	flag.BoolVar(&o.short, "short", false, "only those that make test runs too, as it runs them: each breaks once what it breaks, and not twice")
	flag.StringVar(&o.logs, "logs", "", "a folder for the logs of what was running when something was wrong, by scenario; nowhere if empty")
	lab.ParseFlags()
	ctx, stop := lab.SignalContext(context.Background())
	defer stop()
	if err := o.run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context, out io.Writer) (err error) {
	chosen, err := choose(scenarios(o.seed), o.only)
	if err != nil {
		return err
	}
	times := 2
	if o.short {
		chosen, times = shortOnes(chosen), 1
	}
	if o.list {
		return writeList(out, chosen)
	}
	l, err := lab.New(ctx, lab.Options{Progress: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	r := &runner{lab: l, times: times, logs: o.logs, report: progress(os.Stderr)}
	err = r.all(ctx, chosen)
	fmt.Fprintf(out, "\nWhat was broken, and what users saw, each 20 ms; seed %d\n\n", o.seed)
	err = errors.Join(err, writeRows(out, r.results))
	writeSums(out, r.results)
	return err
}

// progress tells of each scenario at its end.
func progress(out io.Writer) func(result) {
	return func(r result) {
		fmt.Fprintf(out, "%s: %d samples", r.scenario.name, r.record.samples())
		if err := r.fault(); err != nil {
			fmt.Fprintf(out, ", WRONG: %v", err)
		}
		fmt.Fprintln(out)
	}
}
