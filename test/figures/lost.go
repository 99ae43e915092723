package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/config"
	"github.com/consul-hds/consul-hds/test/lab"
)

// loss is a way in which an agent loses a check of an instance.
type loss struct {
	name string
	make func(s *stage, instance string) error
}

func losses() []loss {
	return []loss{
		{"replace-existing-checks", (*stage).replaceChecks},
		{"deregistered by hand", func(s *stage, instance string) error {
			return s.client.Agent().CheckDeregister(checkID(instance))
		}},
	}
}

// replaceChecks registers an instance once more, as it is, but without checks:
// nothing changes that the catalog would tell of, so only the poll finds it.
func (s *stage) replaceChecks(instance string) error {
	is, _, err := s.client.Agent().Service(instance, nil)
	if err != nil {
		return err
	}
	return s.client.Agent().ServiceRegisterOpts(registration(instance, is.Port, is.Meta), api.ServiceRegisterOpts{ReplaceExistingChecks: true})
}

// lost prints how long it takes from the loss of a check until the agent shows
// it again with the status and the output that it had. The ways alternate; each
// takes turns with a passing and a critical check.
func (f *figures) lost(ctx context.Context) error {
	s, err := f.newStage(ctx, lab.ConsulOptions{})
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.twoInstances(ctx); err != nil {
		return err
	}
	ways := losses()
	took := make([][]time.Duration, len(ways))
	for i := range f.losses {
		way, instance := i%len(ways), []string{healthy, failing}[i/len(ways)%2]
		d, err := s.restored(ctx, ways[way], instance)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", ways[way].name, instance, err)
		}
		took[way] = append(took[way], d)
	}
	return f.printLost(ctx, s, ways, took)
}

// restored loses a check at a random moment of the poll's period, and returns
// how long it was not as before.
func (s *stage) restored(ctx context.Context, way loss, instance string) (time.Duration, error) {
	if err := lab.Pause(ctx, rand.N(config.Default().Consul.PollInterval)); err != nil {
		return 0, err
	}
	id := checkID(instance)
	before, err := s.agentCheck(ctx, id)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := way.make(s, instance); err != nil {
		return 0, err
	}
	err = lab.Eventually(ctx, patience, func() error {
		now, err := s.agentCheck(ctx, id)
		if err != nil {
			return err
		}
		if now.Status != before.Status || now.Output != before.Output {
			return fmt.Errorf("it is %s: %q", now.Status, now.Output)
		}
		return nil
	})
	return time.Since(start), err
}

func (f *figures) printLost(ctx context.Context, s *stage, ways []loss, took [][]time.Duration) error {
	t := table{
		title:   fmt.Sprintf("From the loss of a check until the agent shows it as it was, poll_interval %s", config.Default().Consul.PollInterval),
		columns: []string{"lost by", "losses", "p50", "max", "bound"},
	}
	row := func(name string, d []time.Duration) {
		if len(d) > 0 {
			t.row(name, len(d), median(d), longest(d), restoration())
		}
	}
	for i, way := range ways {
		row(way.name, took[i])
	}
	all := slices.Concat(took...)
	row("all", all)
	return errors.Join(f.print(ctx, s, "lost", t), within("a lost check", longest(all), restoration()))
}
