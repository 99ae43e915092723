package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// change is what one changed instance costs on a node of some size.
type change struct {
	cpu    time.Duration
	allocs int64
}

// changed is row 5: what the benchmarks called OneChange find. Beside it stands what
// comes before it, which the agent's lists cost.
func (b *bench) changed(ctx context.Context) error {
	for _, part := range []struct{ measure, folder, target string }{
		{"one changed of 1,000 instances: derive, compare, plan, verdicts", "./bridge", "≤ 1 ms, or grows with the change alone"},
		{"for comparison: to read the agent's lists before, find the change and decode it", "./bridge/catalog", ""},
	} {
		of := map[int]change{}
		for _, n := range []int{100, 1000, 10000} {
			var err error
			if of[n], err = b.oneChange(ctx, part.folder, n); err != nil {
				return err
			}
		}
		b.add(row{
			number: "5", measure: part.measure, ours: of[1000].String(), floor: "–",
			ratio:  fmt.Sprintf("100: %s; 10,000: %s", of[100], of[10000]),
			target: part.target, met: of[1000].cpu <= time.Millisecond,
		})
	}
	return nil
}

// String is the change as the table shows it.
func (c change) String() string {
	return fmt.Sprintf("%s, %d allocations", milliseconds(c.cpu), c.allocs)
}

// oneChange runs one of the benchmarks, and takes the medians of its runs.
func (b *bench) oneChange(ctx context.Context, folder string, n int) (c change, err error) {
	root, err := lab.RepoRoot()
	if err != nil {
		return c, err
	}
	times := strconv.Itoa(max(200000/n, 20)) + "x"
	cmd := lab.GoTest(ctx, root, "-run", "^$", "-bench", fmt.Sprintf("^BenchmarkOneChange$/^%d$", n),
		"-benchtime", times, "-count", strconv.Itoa(b.runs), folder)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return c, fmt.Errorf("%s: %w\n%s", folder, err, out)
	}
	spent, err := metrics(string(out), "cpu-ns/op")
	if err != nil {
		return c, err
	}
	allocs, err := metrics(string(out), "allocs/op")
	if err != nil {
		return c, err
	}
	return change{time.Duration(median(spent)), int64(median(allocs))}, nil
}

// metrics are the values of one unit in what benchmarks print.
func metrics(out, unit string) (values []float64, err error) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		for i := 3; i < len(fields); i += 2 { // name, count, then values and units in turn
			if fields[i] != unit || !strings.HasPrefix(line, "Benchmark") {
				continue
			}
			v, err := strconv.ParseFloat(fields[i-1], 64)
			if err != nil {
				return nil, fmt.Errorf("reading a benchmark: %w", err)
			}
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("a benchmark told no %s:\n%s", unit, out)
	}
	return values, nil
}
