// Command fuzz runs every fuzz target of the module for a while, one after the
// other, and prints how often each was run. It finds them in the source, and
// fails on the first finding. It is `make fuzz`.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

func main() {
	during := flag.Duration("time", 10*time.Minute, "how long each target is run")
	only := flag.String("only", "", "the targets to run, comma-separated, as FuzzLoad or config.FuzzLoad; all of them if empty")
	lab.ParseFlags()
	ctx, stop := lab.SignalContext(context.Background())
	defer stop()
	root, err := lab.RepoRoot()
	if err == nil {
		err = all(ctx, os.Stdout, root, *only, *during)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// all runs the chosen targets below root, and prints a row of each.
func all(ctx context.Context, out io.Writer, root, only string, during time.Duration) error {
	targets, err := find(root)
	if err != nil {
		return err
	}
	if targets, err = choose(targets, only); err != nil {
		return err
	}
	fmt.Fprintf(out, "%-36s %12s %9s %8s\n", "target", "executions", "corpus", "time")
	sum := 0
	for _, t := range targets {
		r, err := t.run(ctx, root, during)
		if err != nil {
			return err
		}
		sum += r.executions
		fmt.Fprintf(out, "%-36s %12d %9d %8s\n", t, r.executions, r.corpus, r.took.Round(time.Second))
	}
	fmt.Fprintf(out, "%d targets, %d executions, no finding\n", len(targets), sum)
	return nil
}

// choose keeps the targets that only names. A name of none is an error.
func choose(all []target, only string) ([]target, error) {
	if only == "" {
		return all, nil
	}
	var out []target
	for name := range strings.SplitSeq(only, ",") {
		before := len(out)
		for _, t := range all {
			if t.name == name || t.String() == name {
				out = append(out, t)
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("there is no target %q", name)
		}
	}
	return out, nil
}
