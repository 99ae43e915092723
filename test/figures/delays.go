package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/config"
	"github.com/consul-hds/consul-hds/test/lab"
)

// delays prints how long each failure and each recovery takes to reach the
// catalog. Each begins at a random moment of the probe's period.
func (f *figures) delays(ctx context.Context) error {
	s, err := f.newStage(ctx, lab.ConsulOptions{})
	if err != nil {
		return err
	}
	defer s.close()
	t := table{
		title:   fmt.Sprintf("From a failure, or a recovery, to the catalog; %d of each", f.runs),
		columns: []string{"failure", "detected p50", "max", "bound", "recovered p50", "max", "bound"},
	}
	var broken []error
	for i, fault := range failures() {
		down, up, err := s.delaysOf(ctx, fmt.Sprint("f", i), fault, f.runs)
		if err != nil {
			return fmt.Errorf("%s: %w", fault.name, err)
		}
		downBound, upBound := fault.bounds()
		t.row(fault.name, median(down), longest(down), downBound, median(up), longest(up), upBound)
		broken = append(broken,
			within(fault.name+", detected", longest(down), downBound), within(fault.name+", recovered", longest(up), upBound))
	}
	return errors.Join(f.print(ctx, s, "delays", t), errors.Join(broken...))
}

// bounds are those of the detection and of the recovery.
func (f failure) bounds() (down, up time.Duration) {
	d := config.Default().Defaults
	switch {
	case f.hangs:
		return detection(d.UnhealthyThreshold, d.UnhealthyThreshold), detection(d.HealthyThreshold, d.HealthyThreshold)
	case f.content:
		return detection(d.UnhealthyThreshold, d.UnhealthyThreshold-1), detection(d.HealthyThreshold, 0)
	default:
		return detection(d.UnhealthyThreshold, 0), detection(d.HealthyThreshold, 0)
	}
}

func (s *stage) delaysOf(ctx context.Context, id string, fault failure, runs int) (down, up []time.Duration, err error) {
	app, err := fault.start(s.lab)
	if err != nil {
		return nil, nil, err
	}
	defer app.close()
	if err := s.register(id, app.port, map[string]string{"hds": fault.kind}); err != nil {
		return nil, nil, err
	}
	if _, err := s.until(ctx, id, api.HealthPassing); err != nil {
		return nil, nil, err
	}
	for range runs {
		for _, turn := range []struct {
			do     func()
			status string
			took   *[]time.Duration
		}{{app.fail, api.HealthCritical, &down}, {app.mend, api.HealthPassing, &up}} {
			if err := lab.Pause(ctx, rand.N(1500*time.Millisecond)); err != nil {
				return nil, nil, err
			}
			turn.do()
			took, err := s.until(ctx, id, turn.status)
			if err != nil {
				return nil, nil, err
			}
			*turn.took = append(*turn.took, took)
		}
	}
	return down, up, s.client.Agent().ServiceDeregister(id)
}
