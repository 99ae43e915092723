// Package catalog reads what the local Consul agent knows of its node: the
// registered service instances and their checks. It turns the agent's answers
// into immutable snapshots and knows nothing of probes, Envoys or verdicts.
package catalog

import (
	"time"

	"github.com/hashicorp/consul/api"
)

// The types of checks that the agent reports and that matter here.
const (
	CheckTypeTTL   = "ttl"
	CheckTypeAlias = "alias"
)

// Kind is a service's kind as Consul spells it; empty is a typical service.
type Kind string

// KindConnectProxy marks a Connect sidecar proxy registration.
const KindConnectProxy Kind = "connect-proxy"

// Snapshot is what the agent knew at one moment. It is immutable: whoever holds
// one may read it from any goroutine and must not change it. An instance or check
// that has not changed since the last snapshot of the same Watcher is the same
// pointer.
type Snapshot struct {
	// Node is the agent's node, as far as it could be learnt.
	Node Node
	// Instances are the agent's services by service id, proxies and gateways
	// included. An instance is left out only when the agent confirmed, by a 404
	// on agent/service/<id>, that it is gone (facts/consul.md 0.11).
	Instances map[string]*Instance
	// Checks are the agent's checks by check id. A check that names a service
	// has its instance in Instances: a check of a service that was registered
	// while the snapshot was read waits, with its service, for the next one.
	Checks map[string]*Check
	// Unconfirmed are the service ids in Instances that the agent's list does not
	// show (any more), and of which it has not confirmed that they are gone. What
	// Checks shows of them, or does not, means nothing.
	Unconfirmed map[string]bool
	// Revision moves up whenever Node, Instances or Checks differ from those of
	// the snapshot before. Equal revisions of one Watcher mean equal content
	// (and the very same maps). The first snapshot has revision 1.
	Revision uint64
	// ReadAt is the moment before the first request of this snapshot was sent:
	// whatever was acknowledged by the agent before it, the snapshot shows.
	ReadAt time.Time
}

// Served is the instance that a proxy is the sidecar of, or nil. It has to be one
// of the service that the proxy names: Consul lets nobody name a service that his
// token may not write, and takes any id.
func (s *Snapshot) Served(proxy *Instance) *Instance {
	if proxy.Kind != KindConnectProxy || proxy.Proxy == nil {
		return nil
	}
	inst := s.Instances[proxy.Proxy.DestinationServiceID]
	if inst == nil || inst.Service != proxy.Proxy.DestinationServiceName {
		return nil
	}
	return inst
}

// Maintenance is what is in maintenance mode around an instance: "node",
// "service", or empty.
func (s *Snapshot) Maintenance(serviceID string) string {
	switch {
	case s.Checks[api.NodeMaint] != nil:
		return "node"
	case s.Checks[api.ServiceMaintPrefix+serviceID] != nil:
		return "service"
	}
	return ""
}

// Node names the agent's node. Both fields may be empty: a token without
// node:read and agent:read cannot learn them (facts/consul.md 3).
type Node struct {
	Name    string
	Address string
}

// Instance is one service registration of the local agent.
type Instance struct {
	ID      string
	Service string
	Kind    Kind
	// Address is the registered address as text; Consul accepts anything here
	// (facts/consul.md 0.14). Empty means the node's address.
	Address    string
	Port       int
	SocketPath string
	Meta       map[string]string
	// Proxy is set for connect-proxy registrations only.
	Proxy *Proxy
}

// Proxy is the part of a connect-proxy registration that says whom it serves.
// Every field may be empty (facts/consul.md 0.18).
type Proxy struct {
	DestinationServiceName string
	DestinationServiceID   string
	LocalServiceAddress    string
	LocalServicePort       int
	LocalServiceSocketPath string
}

// Check is one check of the local agent, as agent/checks shows it. Its
// definition cannot be read back (facts/consul.md 0.4).
type Check struct {
	ID        string
	Name      string
	ServiceID string
	Type      string
	// Status is passing, warning or critical.
	Status string
	Output string
	Notes  string
}
