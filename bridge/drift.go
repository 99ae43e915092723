package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"

	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

const (
	// driftEvery is how often the catalog is compared with the agent.
	driftEvery = time.Minute
	// driftTimeout bounds one comparison.
	driftTimeout = 10 * time.Second
)

// drift compares what the catalog shows of our checks with what the agent does.
// The agent answers 200 to a write that it could not carry to its servers, and
// may never do so with a dead token (facts/consul.md 1.2, 3): only the catalog
// tells what routing goes by.
type drift struct {
	// node is the agent's node; empty while it is not known.
	node func() string
	// catalog reads the statuses that the catalog shows for a node's checks.
	catalog func(ctx context.Context, node string) (map[string]health.Status, error)
	writer  interface {
		States() map[string]checks.State
		Heal(checkID string)
	}
	// found counts a check that has drifted.
	found  func()
	logger hclog.Logger

	// suspects are the checks that differed at the last comparison, with what the
	// agent showed then.
	suspects map[string]health.Status
	// mute says that a failure was logged, and none has ended since.
	mute bool
}

// run compares until ctx ends.
func (d *drift) run(ctx context.Context) {
	tick := time.NewTicker(driftEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.look(ctx)
		}
	}
}

// look compares once. A node whose name is not known, or whose catalog cannot be
// read, is not compared; this is said once.
func (d *drift) look(ctx context.Context) {
	node := d.node()
	if node == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, driftTimeout)
	defer cancel()
	shown, err := d.catalog(ctx, node)
	if err != nil {
		if !d.mute {
			d.logger.Info("cannot compare the catalog with the agent", "error", err)
		}
		d.mute, d.suspects = true, nil
		return
	}
	d.mute = false
	d.compare(shown)
}

// compare heals what differs for the second time in a row: a write may just be
// on its way.
func (d *drift) compare(shown map[string]health.Status) {
	suspects := map[string]health.Status{}
	for id, s := range d.writer.States() {
		if s.Status == health.None || s.Foreign || shown[id] == s.Status {
			continue
		}
		if d.suspects[id] != s.Status {
			suspects[id] = s.Status
			continue
		}
		d.logger.Warn("the catalog shows a check other than the agent does, registering it again",
			"check_id", id, "agent", s.Status, "catalog", shown[id])
		d.found()
		d.writer.Heal(id)
	}
	d.suspects = suspects
}

// catalogStatuses reads the statuses of a node's checks from the catalog.
func catalogStatuses(client *api.Client, namespace, partition string) func(context.Context, string) (map[string]health.Status, error) {
	return func(ctx context.Context, node string) (map[string]health.Status, error) {
		q := (&api.QueryOptions{AllowStale: true, Namespace: namespace, Partition: partition}).WithContext(ctx)
		list, _, err := client.Health().Node(node, q)
		if err != nil {
			return nil, fmt.Errorf("reading health/node: %w", err)
		}
		if len(list) == 0 { // a node has its serfHealth at least: it may not be read
			return nil, fmt.Errorf("reading health/node: the catalog does not show node %q: node:read is missing", node)
		}
		out := make(map[string]health.Status, len(list))
		for _, c := range list {
			out[c.CheckID] = health.Status(c.Status)
		}
		return out, nil
	}
}
