package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/consul-hds/consul-hds/test/lab"
)

// row is one line of the table. The cells are text, in whatever unit they have.
type row struct {
	number, measure, ours, floor, ratio, target string
	met                                         bool
}

// add adds a row, and says so at once: the whole takes minutes.
func (b *bench) add(r row) {
	b.rows = append(b.rows, r)
	fmt.Fprintf(os.Stderr, "%s %s: %s, %s, %s\n", r.number, r.measure, r.ours, r.floor, r.ratio)
}

// print prints the table, below the machine and the versions.
func (b *bench) print(ctx context.Context) error {
	consul, err := b.consulVersion(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s, %d cores, load average %s; %s, grpc-go %s, Consul %s; medians of %d runs\n\n",
		cpuModel(), runtime.NumCPU(), loadAverage(), runtime.Version(), moduleVersion("google.golang.org/grpc"), consul, b.runs)
	fmt.Fprintln(b.out, "| # | measure | ours | floor | ratio | target | met |\n| --- | --- | --- | --- | --- | --- | --- |")
	for _, r := range b.rows {
		met := "no"
		if r.met {
			met = "yes"
		}
		fmt.Fprintf(b.out, "| %s |\n", strings.Join([]string{r.number, r.measure, r.ours, r.floor, r.ratio, r.target, met}, " | "))
	}
	return nil
}

// consulVersion is that of the Consul of the lab.
func (b *bench) consulVersion(ctx context.Context) (string, error) {
	c, err := b.lab.StartConsul(ctx, lab.ConsulOptions{Name: "version"})
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Kill() }()
	self, err := c.Client().Agent().Self()
	return fmt.Sprint(self["Config"]["Version"]), err
}

// cpuModel is what the kernel calls the processor.
func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, " \t:\n")
		}
	}
	return "unknown processor"
}

// loadAverage is how busy the machine was in the last minute.
func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// moduleVersion is that of a module that this program is built of.
func moduleVersion(path string) string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return "unknown"
}

// quantile is the value below which the share q of some values is.
func quantile[T cmp.Ordered](values []T, q float64) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// median is the middle one.
func median[T cmp.Ordered](values []T) T { return quantile(values, 0.5) }

// ratios are those of values that were measured side by side.
func ratios[T ~int64 | ~float64](ours, floor []T) []float64 {
	out := make([]float64, len(ours))
	for i := range out {
		out[i] = float64(ours[i]) / float64(floor[i])
	}
	return out
}
