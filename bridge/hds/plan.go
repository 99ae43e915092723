package hds

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ryanuber/go-glob"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// Kind is what an Envoy is to the bridge.
type Kind string

// The kinds of observers. Unknown ones get an empty specifier.
const (
	SidecarEnvoy Kind = "sidecar"
	NodeEnvoy    Kind = "node"
	UnknownEnvoy Kind = "unknown"
)

// sidecarSuffix ends the ids of the sidecars that Consul and Nomad register.
const sidecarSuffix = "-sidecar-proxy"

// PlanConfig is what a plan is made of, beside a snapshot and its probes.
type PlanConfig struct {
	// NodeIDs are globs of the node ids that are node Envoys.
	NodeIDs []string
	// Namespace and Partition are those the daemon serves; empty is default.
	Namespace, Partition string
	// ReportInterval is the pause between two reports of an Envoy.
	ReportInterval time.Duration
}

// Plan says what each Envoy is to probe. It is immutable.
type Plan struct {
	// clusters are what Envoys are sent of it.
	clusters *clusters
	config   PlanConfig
	proxies  map[string]bool
	sidecar  map[string][]*probe.Probe
	node     []*probe.Probe
	// destinations are the services that sidecars are registered for, by the
	// sidecar's id, whether they are probed or not.
	destinations map[string]string
}

// NewPlan makes the plan for the probes that were derived from a snapshot.
func NewPlan(config PlanConfig, snap *catalog.Snapshot, probes []*probe.Probe) *Plan {
	p := &Plan{config: config, clusters: newClusters(probes), proxies: map[string]bool{}, sidecar: map[string][]*probe.Probe{}, destinations: map[string]string{}}
	for id, inst := range snap.Instances {
		if inst.Kind != catalog.KindConnectProxy {
			continue
		}
		p.proxies[id] = true
		if served := snap.Served(inst); served != nil {
			p.destinations[id] = served.Service
		}
	}
	for _, pr := range byCluster(probes) {
		for _, id := range pr.Sidecars {
			p.sidecar[id] = append(p.sidecar[id], pr)
		}
		if pr.ByNode {
			p.node = append(p.node, pr)
		}
	}
	return p
}

// byCluster are probes in the order of their clusters' names, of which each is
// there once: so they are looked up, and sent.
func byCluster(probes []*probe.Probe) []*probe.Probe {
	order := func(a, b *probe.Probe) int { return cmp.Compare(a.Cluster, b.Cluster) }
	return slices.CompactFunc(slices.SortedFunc(slices.Values(probes), order), func(a, b *probe.Probe) bool { return a.Cluster == b.Cluster })
}

// assign tells what an Envoy is and what it is to probe, by the node it names.
func (p *Plan) assign(ident identity) (Kind, []*probe.Probe) {
	id := ident.id
	switch {
	case id == "" || !p.serves(ident):
		return UnknownEnvoy, nil
	case p.proxies[id]:
		return SidecarEnvoy, p.sidecar[id]
	case p.isNode(id):
		return NodeEnvoy, p.node
	}
	return UnknownEnvoy, nil
}

// kind is what an Envoy is. Without a plan nobody is known.
func (p *Plan) kind(ident identity) Kind {
	if p == nil {
		return UnknownEnvoy
	}
	kind, _ := p.assign(ident)
	return kind
}

// turned lists the checks that an Envoy was to observe and is to observe, if it is
// another kind than it was by the plan before: those have another observer, although
// their probes may be the very same.
func (p *Plan) turned(before *Plan, ident identity) []string {
	if before == nil {
		return nil // nobody was an observer
	}
	if p.kind(ident) == before.kind(ident) {
		return nil
	}
	return append(before.checksOf(ident), p.checksOf(ident)...)
}

// services are those that an Envoy speaks for, in order: what its token has to
// be allowed to write. A sidecar speaks for its destination also while that is
// not probed. Without a plan nobody speaks for anything.
func (p *Plan) services(ident identity) (out []string) {
	if p == nil {
		return nil
	}
	kind, probes := p.assign(ident)
	for _, pr := range probes {
		out = append(out, pr.Service)
	}
	if name, ok := p.destinations[ident.id]; ok && kind == SidecarEnvoy {
		out = append(out, name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// serves says whether an Envoy is of the namespace and partition that the daemon
// serves, as far as its metadata tells.
func (p *Plan) serves(ident identity) bool {
	return same(ident.namespace, p.config.Namespace) && same(ident.partition, p.config.Partition)
}

// same says whether an Envoy's namespace or partition is ours. An Envoy that
// names none has a bootstrap that Consul did not write, and is nobody else's;
// an empty one of ours is the default one.
func same(theirs, ours string) bool {
	return theirs == "" || theirs == cmp.Or(ours, "default")
}

// isNode says whether an id is a node Envoy's. A sidecar that is not registered
// yet must not be taken for one by a wide glob.
func (p *Plan) isNode(id string) bool {
	for _, g := range p.config.NodeIDs {
		if g == id || !strings.HasSuffix(id, sidecarSuffix) && glob.Glob(g, id) {
			return true
		}
	}
	return false
}
