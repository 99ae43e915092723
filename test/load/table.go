package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/consul-hds/consul-hds/test/lab"
)

// row is one line of the table. The cells are text, in whatever unit they have. A
// row without a target is there for comparison.
type row struct {
	number, measure, ours, floor, ratio, target string
	met                                         bool
}

// add adds a row, and says so at once: the whole takes minutes.
func (b *bench) add(r row) {
	b.rows = append(b.rows, r)
	fmt.Fprintf(os.Stderr, "%s %s: %s, %s, %s\n", r.number, r.measure, r.ours, r.floor, r.ratio)
}

// print prints the table, below the machine and what it was measured with.
func (b *bench) print(versions string) {
	fmt.Fprintf(b.out, "%s, %d cores, load average %s; %s; medians of %d runs\n\n", cpuModel(), runtime.NumCPU(), loadAverage(), versions, b.runs)
	fmt.Fprintln(b.out, "| # | measure | ours | floor | ratio | target | met |\n| --- | --- | --- | --- | --- | --- | --- |")
	for _, r := range b.rows {
		fmt.Fprintf(b.out, "| %s |\n", strings.Join(r.cells(), " | "))
	}
}

// cells are the row's, as they are printed.
func (r row) cells() []string {
	met := "no"
	switch {
	case r.target == "":
		r.target, met = "–", "–"
	case r.met:
		met = "yes"
	}
	return []string{r.number, r.measure, r.ours, r.floor, r.ratio, r.target, met}
}

// versions are those of all that takes part.
func versions(ctx context.Context) (string, error) {
	consul, err := consulVersion(ctx)
	if err != nil {
		return "", err
	}
	envoy, err := envoyVersion(ctx)
	return fmt.Sprintf("%s, grpc-go %s, Consul %s, Envoy %s", runtime.Version(), moduleVersion("google.golang.org/grpc"), consul, envoy), err
}

// envoyVersion is that of the Envoy of the lab.
func envoyVersion(ctx context.Context) (string, error) {
	binary, err := lab.EnvoyBinary(ctx, "", os.Stderr)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking Envoy for its version: %w", err)
	}
	return versionIn(string(out)), nil
}

// versionIn finds the version in what Envoy says of itself, as in
// "envoy  version: 60f25aa/1.40.0/Clean/RELEASE/BoringSSL".
func versionIn(text string) string {
	_, text, _ = strings.Cut(text, "version: ")
	if parts := strings.Split(text, "/"); len(parts) > 1 {
		return parts[1]
	}
	return "unknown"
}

// consulVersion is that of the Consul of the lab, which says "Consul v1.13.9" first.
func consulVersion(ctx context.Context) (string, error) {
	binary, err := lab.ConsulBinary(ctx, os.Stderr)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, binary, "version").Output()
	if err != nil {
		return "", fmt.Errorf("asking Consul for its version: %w", err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimPrefix(first, "Consul v"), nil
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
