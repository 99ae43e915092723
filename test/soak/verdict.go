package main

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// quantity is something of the daemon that must not grow.
type quantity struct {
	name string
	of   func(sample) float64
	// slack is how much it may grow beside the tenth, for what comes and goes:
	// connections of a request, a garbage collector's pace, a first error of some
	// kind, which makes a series.
	slack float64
	unit  string
}

const megabyte = 1e6

func quantities() []quantity {
	return []quantity{
		{"resident size", func(s sample) float64 { return s.resident / megabyte }, 6, " MB"},
		{"live heap", func(s sample) float64 { return s.live / megabyte }, 0.5, " MB"},
		{"goroutines", func(s sample) float64 { return s.goroutines }, 8, ""},
		{"descriptors", func(s sample) float64 { return s.descriptors }, 5, ""},
		{"threads", func(s sample) float64 { return s.threads }, 3, ""},
		{"series", func(s sample) float64 { return s.series }, 10, ""},
		{"status entries", func(s sample) float64 { return s.entries }, 4, ""},
	}
}

// growth is how a quantity was at the start, in the middle and at the end: the
// medians of a tenth of the samples each.
type growth struct {
	quantity
	start, middle, end float64
}

// most is what the end may be.
func (g growth) most() float64 { return g.start*1.1 + g.slack }

func (g growth) flat() bool { return g.end <= g.most() }

func (g growth) fault() error {
	if g.flat() {
		return nil
	}
	return fmt.Errorf("%s: from %.2f to %.2f%s, but at most %.2f would be flat", g.name, g.start, g.end, g.unit, g.most())
}

// warm are the samples that were taken after the warm-up.
func warm(all []sample, during time.Duration) []sample {
	i := slices.IndexFunc(all, func(s sample) bool { return s.at >= during/24 })
	if i < 0 {
		return nil
	}
	return all[i:]
}

// judge compares the ends of a series of samples, of which there must be three.
func judge(samples []sample) ([]growth, error) {
	n := len(samples)
	if n < 3 {
		return nil, fmt.Errorf("there are %d measurements after the warm-up, too few to judge", n)
	}
	tenth := max(1, n/10)
	var out []growth
	for _, q := range quantities() {
		at := func(first int) float64 { return q.median(samples[first : first+tenth]) }
		out = append(out, growth{q, at(0), at((n - tenth) / 2), at(n - tenth)})
	}
	return out, nil
}

// median is the middle value of a quantity; of an even number the higher one.
func (q quantity) median(samples []sample) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, q.of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// fault is why the soak has failed, or nil.
func (r report) fault() error {
	if r.interrupted {
		return errors.New("interrupted")
	}
	errs := []error{r.seen.fault()}
	growths, err := judge(warm(r.samples, r.during))
	errs = append(errs, err)
	for _, g := range growths {
		errs = append(errs, g.fault())
	}
	return errors.Join(errs...)
}
