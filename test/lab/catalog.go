package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"
)

// CatalogChecks are the checks that the catalog shows for the agent's node. The
// read is a consistent one: a server that has just started answers others by a
// log that it has not replayed to its end.
func (c *Consul) CatalogChecks(ctx context.Context) (api.HealthChecks, error) {
	list, _, err := c.Catalog().Health().Node(c.opts.NodeName, (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("reading the checks of node %s: %w", c.opts.NodeName, err)
	}
	return list, nil
}

// CheckIndexes are the modify indexes of those checks: what the servers count
// up at each write.
func (c *Consul) CheckIndexes(ctx context.Context) (map[string]uint64, error) {
	list, err := c.CatalogChecks(ctx)
	out := map[string]uint64{}
	for _, check := range list {
		out[check.CheckID] = check.ModifyIndex
	}
	return out, err
}

// WaitPassing waits until the catalog shows as many passing checks of services
// for the node, and no other ones.
func (c *Consul) WaitPassing(ctx context.Context, count int, within time.Duration) error {
	return c.until(ctx, within, func() error {
		list, err := c.CatalogChecks(ctx)
		if err != nil {
			return err
		}
		passing, all := 0, 0
		for _, check := range list {
			if check.ServiceID == "" {
				continue
			}
			all++
			if check.Status == api.HealthPassing {
				passing++
			}
		}
		if passing != count || all != count {
			return fmt.Errorf("%d of %d checks are passing, want %d", passing, all, count)
		}
		return nil
	})
}
