package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// scenario breaks something in a world, and leaves it whole.
type scenario struct {
	name, group string
	// what is broken, and for how long, in words.
	what, long string
	// short is true for those that `make test` runs too.
	short   bool
	setting setting
	// run breaks it. What users see meanwhile is judged by the oracle, an error is
	// what is wrong beyond that. The world is well when it begins, and has to become
	// well again after its end.
	run func(context.Context, *trial) error
}

// scenarios are all, in the order in which they are run: those of one setting after
// one another. Those of one group tell one story, in a file of its own.
func scenarios(seed uint64) []scenario {
	all := slices.Concat(processScenarios(seed), envoyScenarios(), networkScenarios(), consulScenarios())
	slices.SortStableFunc(all, func(a, b scenario) int { return strings.Compare(b.setting.name, a.setting.name) })
	return all
}

// shortOnes are those that `make test` runs too.
func shortOnes(all []scenario) []scenario {
	return slices.DeleteFunc(slices.Clone(all), func(s scenario) bool { return !s.short })
}

// choose returns the scenarios of a comma-separated list of names and groups; all
// if it is empty.
func choose(all []scenario, only string) ([]scenario, error) {
	if only == "" {
		return all, nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(only, ",") {
		found := slices.DeleteFunc(slices.Clone(all), func(s scenario) bool { return s.name != name && s.group != name })
		if len(found) == 0 {
			return nil, fmt.Errorf("there is no scenario and no group %q; -list lists them", name)
		}
		chosen = append(chosen, found...)
	}
	return chosen, nil
}

// trial is a world that a scenario runs in, under the eyes of an oracle.
type trial struct {
	*world
	oracle *oracle
	// times is how often a scenario breaks what it breaks: in a long run twice, so
	// that apps fail the first time and recover the second; in a short one once, so
	// that they do either.
	times int
	// notes are what else is worth telling of it.
	notes []string
}

// note tells something beside what users saw.
func (t *trial) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// turn turns the instances that flip, all to the other side.
func (t *trial) turn() {
	for n, i := range t.instances {
		if i.flips {
			t.oracle.record.turned(n, time.Now(), !i.healthy)
			i.is(!i.healthy)
		}
	}
}

// each runs something as often as it shall be, and waits each time until the world
// is well again.
func (t *trial) each(ctx context.Context, run func() error) error {
	for range t.times {
		if err := run(); err != nil {
			return err
		}
		if err := t.well(ctx); err != nil {
			return err
		}
	}
	return nil
}

// during breaks something by do, which also mends it, and lets a fault allow what
// is seen of it.
func (t *trial) during(f fault, do func() error) error {
	begun := t.oracle.record.begin(f)
	err := do()
	t.oracle.record.ended(begun)
	if err != nil {
		return fmt.Errorf("%s: %w", f.what, err)
	}
	return nil
}

// try runs a scenario in a world that is well, and judges it.
func (w *world) try(ctx context.Context, s scenario, times int) result {
	if err := w.well(ctx); err != nil {
		return result{scenario: s, record: newRecord(time.Now(), nil, nil), err: fmt.Errorf("before: %w", err)}
	}
	t := &trial{world: w, oracle: w.watch(), times: times}
	err := s.run(ctx, t)
	if err == nil {
		err = w.well(ctx)
	}
	record := t.oracle.stop()
	return result{scenario: s, record: record, verdict: judge(record, w.setting.bounds()), notes: t.notes, err: err}
}

// result is what became of a scenario.
type result struct {
	scenario scenario
	record   *record
	verdict  verdict
	notes    []string
	// err is what was wrong beyond what users saw.
	err error
}

// fault is an error if anything was seen that no rule allows, or went wrong.
func (r result) fault() error {
	errs := []error{r.err}
	for _, v := range r.verdict.violations {
		errs = append(errs, errors.New(v))
	}
	return errors.Join(errs...)
}
