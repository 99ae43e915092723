package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
)

// CleanupConfig says what to clean up.
type CleanupConfig struct {
	Consul ConsulConfig
	// DataDir is that of the agent that must not be running.
	DataDir string
	// DryRun removes nothing.
	DryRun bool
	// Force cleans up beside a running agent, which makes its checks anew.
	Force bool
}

// Cleaned is a check that was removed, or would be.
type Cleaned struct {
	CheckID   string
	ServiceID string
	// Err is why it could not be removed.
	Err error
}

// Cleanup removes every check of ours from the local agent, whichever daemon made
// it, and touches no other. It refuses to do so beside a running agent of the
// data directory. Checks that could not be removed are among the returned ones;
// the error is that of the whole.
func Cleanup(ctx context.Context, c CleanupConfig) ([]Cleaned, error) {
	if !c.Force && !c.DryRun {
		l, err := takeLock(c.DataDir)
		switch {
		case errors.Is(err, errHeld):
			return nil, fmt.Errorf("refusing to clean up beside a running daemon, which would make its checks anew (stop it first): %w", err)
		case err != nil:
			return nil, fmt.Errorf("whether a daemon runs cannot be told: %w", err)
		}
		defer l.release()
	}
	t, err := newToken(c.Consul.Token, c.Consul.TokenFile)
	if err != nil {
		return nil, err
	}
	client, _, err := newClient(c.Consul, t)
	if err != nil {
		return nil, err
	}
	q := (&api.QueryOptions{Namespace: c.Consul.Namespace, Partition: c.Consul.Partition}).WithContext(ctx)
	all, err := client.Agent().ChecksWithFilterOpts("", q)
	if err != nil {
		return nil, fmt.Errorf("reading agent/checks: %w", err)
	}
	agent := checks.ConsulAgent{Client: client, Namespace: c.Consul.Namespace, Partition: c.Consul.Partition}
	var out []Cleaned
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if a := all[id]; isOurs(a) {
			out = append(out, Cleaned{CheckID: id, ServiceID: a.ServiceID, Err: remove(ctx, agent, id, c.DryRun)})
		}
	}
	return out, nil
}

// isOurs says whether a check of the agent was made by consul-hds.
func isOurs(a *api.AgentCheck) bool {
	return checks.Ours(&catalog.Check{ID: a.CheckID, ServiceID: a.ServiceID, Type: a.Type, Notes: a.Notes})
}

// remove removes a check; one that is gone already is no failure.
func remove(ctx context.Context, agent checks.Agent, id string, dry bool) error {
	if dry {
		return nil
	}
	if err := agent.Deregister(ctx, id); err != nil && !errors.Is(err, checks.ErrUnknown) {
		return err
	}
	return nil
}
