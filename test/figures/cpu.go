package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/config"
	"github.com/consul-hds/consul-hds/test/lab"
)

// settling is how long a stage is left alone before its CPU time is measured.
const settling = 10 * time.Second

// usage is the share of a core that each process has taken, in percent.
type usage struct{ agent, daemon, envoy float64 }

func (u usage) sum() float64 { return u.agent + u.daemon + u.envoy }

// cpu prints what it costs to check many steady instances: if nobody does, which
// is the floor, if the agent does it itself, and if consul-hds does; one after
// the other, each on a fresh agent.
func (f *figures) cpu(ctx context.Context) error {
	floor, err := f.usageOfAgent(ctx, nil)
	if err != nil {
		return err
	}
	own, err := f.usageOfAgent(ctx, ownCheck)
	if err != nil {
		return err
	}
	s, err := f.newStage(ctx, lab.ConsulOptions{})
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.registerMany(f.instances, map[string]string{"hds": "http"}, nil); err != nil {
		return err
	}
	ours, err := f.usageOf(ctx, s, f.instances)
	if err != nil {
		return err
	}
	return f.printCPU(ctx, s, floor, own, ours)
}

// ownCheck is the agent's own check that does what the default probe does.
func ownCheck(port int) *api.AgentServiceCheck {
	d := config.Default().Defaults
	return &api.AgentServiceCheck{
		HTTP: fmt.Sprintf("http://127.0.0.1:%d/", port), Interval: d.Interval.String(), Timeout: d.Timeout.String(),
	}
}

// usageOfAgent measures an agent alone, with the same instances, each with that
// check of its own if any.
func (f *figures) usageOfAgent(ctx context.Context, check func(port int) *api.AgentServiceCheck) (usage, error) {
	s, err := f.newAgent(ctx, lab.ConsulOptions{})
	if err != nil {
		return usage{}, err
	}
	defer s.close()
	if err := s.registerMany(f.instances, nil, check); err != nil {
		return usage{}, err
	}
	if check == nil {
		return f.usageOf(ctx, s, 0)
	}
	return f.usageOf(ctx, s, f.instances)
}

// usageOf measures a stage once so many checks are passing.
func (f *figures) usageOf(ctx context.Context, s *stage, checks int) (usage, error) {
	if err := s.consul.WaitPassing(ctx, checks, patience); err != nil {
		return usage{}, err
	}
	if err := lab.Pause(ctx, settling); err != nil {
		return usage{}, err
	}
	before, err := s.cpuTimes()
	if err != nil {
		return usage{}, err
	}
	start := time.Now()
	if err := lab.Pause(ctx, f.during); err != nil {
		return usage{}, err
	}
	after, err := s.cpuTimes()
	took := time.Since(start)
	share := func(i int) float64 { return 100 * (after[i] - before[i]).Seconds() / took.Seconds() }
	return usage{agent: share(0), daemon: share(1), envoy: share(2)}, err
}

// cpuTimes are those of the agent, the daemon and the Envoy, as far as there
// are any.
func (s *stage) cpuTimes() (times [3]time.Duration, err error) {
	processes := []*lab.Process{s.consul.Process}
	if s.daemon != nil {
		processes = append(processes, s.daemon.Process, s.envoy.Process)
	}
	for i, p := range processes {
		if times[i], err = p.CPUTime(); err != nil {
			return times, err
		}
	}
	return times, nil
}

func (f *figures) printCPU(ctx context.Context, s *stage, floor, own, ours usage) error {
	t := table{
		title: fmt.Sprintf("CPU time for %d steady instances, checked every %s, in %% of a core over %s (a dev agent, which is its own server)",
			f.instances, config.Default().Defaults.Interval, f.during),
		columns: []string{"checked by", "agent", "consul-hds", "Envoy", "sum", "agent, to its own checks", "sum, to its own checks"},
	}
	percent := func(x float64) string { return fmt.Sprintf("%.1f", x) }
	ratio := func(x float64) string { return fmt.Sprintf("%.2f", x/own.agent) }
	row := func(name string, u usage) {
		t.row(name, percent(u.agent), percent(u.daemon), percent(u.envoy), percent(u.sum()), ratio(u.agent), ratio(u.sum()))
	}
	row("nobody", floor)
	row("the agent's HTTP checks", own)
	row("Envoy, by consul-hds", ours)
	return f.print(ctx, s, "cpu", t)
}
