package hds

import (
	"errors"
	"fmt"
	"sync"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// errHarmful marks what the last guard refused.
var errHarmful = errors.New("it would harm the Envoy")

// clusters are the HDS clusters of a plan's probes, by name. Each is made when it
// is first sent, once for all streams, and is never written to: a name stands for
// one definition. Its methods may be called from any goroutine.
type clusters struct {
	mu sync.Mutex
	// made has a key for each probe; what was not sent yet is nil.
	made map[string]*built
}

// built is one of them, or why it cannot be sent.
type built struct {
	message *healthv3.ClusterHealthCheck
	err     error
}

func newClusters(probes []*probe.Probe) *clusters {
	c := &clusters{made: make(map[string]*built, len(probes))}
	for _, p := range probes {
		c.made[p.Cluster] = nil
	}
	return c
}

// inherit takes over what the plan before has made.
func (c *clusters) inherit(before *clusters) {
	before.mu.Lock()
	defer before.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.made {
		c.made[name] = before.made[name]
	}
}

// of is the cluster of a probe of the plan.
func (c *clusters) of(p *probe.Probe) (*healthv3.ClusterHealthCheck, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made[p.Cluster] == nil {
		m, err := guarded(p)
		c.made[p.Cluster] = &built{m, err}
	}
	return c.made[p.Cluster].message, c.made[p.Cluster].err
}

// guarded is the cluster of a probe, if the last guard lets it pass.
func guarded(p *probe.Probe) (*healthv3.ClusterHealthCheck, error) {
	m, err := buildCluster(p)
	if err != nil {
		return nil, err
	}
	if err := guard(m); err != nil {
		return nil, fmt.Errorf("%w: %w", errHarmful, err)
	}
	return m, nil
}
