package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/consul-hds/consul-hds/test/lab"
)

// runner runs scenarios one after the other, in worlds that they share.
type runner struct {
	lab *lab.Lab
	// times is how often scenarios break what they break: see trial.
	times   int
	world   *world
	results []result
	// logs is where the logs are kept of a world in which something was wrong, in a
	// folder of the scenario's name; empty is nowhere.
	logs string
	// report gets each result as soon as it is there; nil is silence.
	report func(result)
}

// all runs scenarios; one that fails does not keep the others from being run. The
// error has what each was broken by.
func (r *runner) all(ctx context.Context, scenarios []scenario) error {
	var errs []error
	for _, s := range scenarios {
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		if err := r.one(ctx, s); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(append(errs, r.close())...)
}

// one runs a scenario, in the world of the one before if it has the same setting.
// A world in which anything went wrong is not used again.
func (r *runner) one(ctx context.Context, s scenario) error {
	w, err := r.worldFor(ctx, s.setting)
	if err != nil {
		return err
	}
	result := w.try(ctx, s, r.times)
	if r.logs != "" && result.fault() != nil {
		result.err = errors.Join(result.err, w.saveLogs(filepath.Join(r.logs, s.name)))
	}
	if result.err != nil {
		result.err = errors.Join(result.err, r.close())
	}
	r.results = append(r.results, result)
	if r.report != nil {
		r.report(result)
	}
	return result.fault()
}

func (r *runner) worldFor(ctx context.Context, s setting) (*world, error) {
	if r.world != nil && r.world.setting.name == s.name {
		return r.world, nil
	}
	if err := r.close(); err != nil {
		return nil, err
	}
	var err error
	r.world, err = startWorld(ctx, r.lab, s)
	return r.world, err
}

// close ends the world, if there is one.
func (r *runner) close() error {
	if r.world == nil {
		return nil
	}
	w := r.world
	r.world = nil
	return w.close()
}
