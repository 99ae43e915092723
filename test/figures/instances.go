package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

// registerMany registers n instances, each with an app, and with a check of its
// own if check is not nil.
func (s *stage) registerMany(n int, meta map[string]string, check func(port int) *api.AgentServiceCheck) error {
	for i := range n {
		app, err := s.app()
		if err != nil {
			return err
		}
		r := registration(fmt.Sprint("steady", i), app.Port(), meta)
		if check != nil {
			r.Check = check(app.Port())
		}
		if err := s.client.Agent().ServiceRegister(r); err != nil {
			return err
		}
	}
	return nil
}

// slowness is longer than report_interval: a new Envoy reports, and calls an
// instance unhealthy, before its first probe has ended.
const slowness = 600 * time.Millisecond

// twoInstances registers a healthy and a failing instance, both slow, and waits
// until their checks say so, in the daemon, the agent and the catalog.
func (s *stage) twoInstances(ctx context.Context) error {
	for id, code := range map[string]int{healthy: 200, failing: 500} {
		app, err := s.app()
		if err != nil {
			return err
		}
		app.SetStatus(code)
		app.SetDelay(slowness)
		if err := s.register(id, app.Port(), map[string]string{"hds": "http"}); err != nil {
			return err
		}
	}
	if err := s.reported(ctx); err != nil {
		return err
	}
	for _, id := range []string{healthy, failing} {
		if _, err := s.until(ctx, id, asTheyAre()[checkID(id)]); err != nil {
			return err
		}
	}
	return nil
}

// The instances of twoInstances, and what their checks are.
const (
	healthy = "healthy"
	failing = "failing"
)

// checkID is the id of the check of an instance.
func checkID(instance string) string { return "hds:" + instance }

// asTheyAre are the statuses of the checks of twoInstances.
func asTheyAre() map[string]string {
	return map[string]string{checkID(healthy): api.HealthPassing, checkID(failing): api.HealthCritical}
}

// reported waits until the checks of twoInstances say what an Envoy has
// answered, and no earlier state, in the daemon and in the agent.
func (s *stage) reported(ctx context.Context) error {
	return lab.Eventually(ctx, patience, func() error {
		st, err := s.daemon.Status(ctx)
		if err != nil {
			return err
		}
		for id, status := range asTheyAre() {
			if c, _ := st.Check(id); c.Phase != "reported" || c.Status != status {
				return fmt.Errorf("check %s is %s, %s", id, c.Phase, c.Status)
			} else if err := s.shows(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// shows says that the agent's check is what the daemon says.
func (s *stage) shows(ctx context.Context, c lab.StatusCheck) error {
	check, err := s.agentCheck(ctx, c.CheckID)
	if err != nil {
		return err
	}
	if check.Status != c.Status || check.Output != c.Output {
		return fmt.Errorf("the agent's check %s is %s: %q", c.CheckID, check.Status, check.Output)
	}
	return nil
}

// agentCheck is a check of the agent's; that there is none is an error.
func (s *stage) agentCheck(ctx context.Context, id string) (*api.AgentCheck, error) {
	checks, err := s.client.Agent().ChecksWithFilterOpts("", (&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return nil, err
	}
	if checks[id] == nil {
		return nil, fmt.Errorf("the agent has no check %s", id)
	}
	return checks[id], nil
}
