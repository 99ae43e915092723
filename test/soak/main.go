// Command soak has a daemon work for hours under steady churn, on a real Consul
// and real Envoys, and tells whether what it uses stays flat: memory, goroutines,
// descriptors, threads, series and entries of its status. It is `make soak`.
//
// The seed fixes what the churn chooses; the machine decides when. The daemon is
// never restarted: it is what is measured. It fails if anything grows, or if the
// catalog ever shows an instance that the churn leaves alone with a wrong status.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// shortest is the shortest soak that has a start, a middle and an end.
const shortest = 15 * time.Second

// options say how long to soak, from which seed, and where to write.
type options struct {
	during time.Duration
	seed   uint64
	// progress gets a line for each measurement, out the table.
	progress, out io.Writer
}

func main() {
	opts := options{progress: os.Stderr, out: os.Stdout}
	flag.DurationVar(&opts.during, "for", 2*time.Hour, "how long to soak, at least 15s; the first 24th of it is to warm up")
	flag.Uint64Var(&opts.seed, "seed", 1, "what the churn begins with")
	file := flag.String("out", "", "a file to write progress and table to as well; beside it come heap profiles of the start and of the end")
	lab.ParseFlags()
	ctx, stop := lab.SignalContext(context.Background())
	defer stop()
	if err := opts.runWith(ctx, *file); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// runWith soaks, writes to the file too if one is named, and judges.
func (o options) runWith(ctx context.Context, file string) (err error) {
	if o.during < shortest {
		return fmt.Errorf("-for must be at least %s", shortest)
	}
	if file != "" {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		o.progress, o.out = io.MultiWriter(o.progress, f), io.MultiWriter(o.out, f)
	}
	r, err := o.soak(ctx)
	if err != nil {
		return err
	}
	return errors.Join(r.print(o.out), r.writeProfiles(file), r.fault())
}

// writeProfiles writes the heap's profiles of the start and of the end beside the
// file, if there is one: go tool pprof -diff_base tells what has grown.
func (r report) writeProfiles(file string) error {
	samples := warm(r.samples, r.during)
	if file == "" || len(samples) == 0 {
		return nil
	}
	return errors.Join(
		os.WriteFile(file+".start.pb.gz", samples[0].heap, 0o644),
		os.WriteFile(file+".end.pb.gz", samples[len(samples)-1].heap, 0o644))
}

// soak starts a node, lets the churn have it, and returns what was seen. A soak
// that was interrupted returns what was seen so far.
func (o options) soak(ctx context.Context) (r report, err error) {
	l, err := lab.New(ctx, lab.Options{Progress: o.progress})
	if err != nil {
		return r, err
	}
	defer func() {
		if closing := l.Close(); ctx.Err() == nil {
			err = errors.Join(err, closing)
		}
	}()
	n, err := startNode(ctx, l)
	if err != nil {
		return r, err
	}
	c := newChurn(n, o)
	if err := c.settle(ctx); err != nil {
		return r, fmt.Errorf("before the churn: %w", err)
	}
	oracle := n.watch()
	err = c.run(ctx)
	r = c.report(oracle.stop())
	if r.interrupted = ctx.Err() != nil; r.interrupted {
		return r, nil
	}
	return r, err
}
