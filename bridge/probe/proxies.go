package probe

import (
	"cmp"
	"slices"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// proxies are those that name an instance, in order of id.
type proxies struct {
	// sidecars are the registered sidecars, foreign those that name the instance's
	// id, but another service.
	sidecars, foreign []*catalog.Instance
	// bare are the sidecars without an alias check.
	bare []*catalog.Instance
}

// proxiesOf finds the proxies around each instance that has any, by its id.
func proxiesOf(snap *catalog.Snapshot) map[string]proxies {
	out := map[string]proxies{}
	var has map[string]bool
	for _, inst := range snap.Instances {
		if inst.Kind != catalog.KindConnectProxy || inst.Proxy == nil {
			continue
		}
		if has == nil {
			has = aliased(snap)
		}
		p := out[inst.Proxy.DestinationServiceID]
		p.add(inst, snap.Served(inst) != nil, has[inst.ID])
		out[inst.Proxy.DestinationServiceID] = p
	}
	for _, p := range out {
		for _, some := range [][]*catalog.Instance{p.sidecars, p.foreign, p.bare} {
			slices.SortFunc(some, func(a, b *catalog.Instance) int { return cmp.Compare(a.ID, b.ID) })
		}
	}
	return out
}

// add adds a proxy that names the instance.
func (p *proxies) add(inst *catalog.Instance, serves, aliased bool) {
	switch {
	case !serves:
		p.foreign = append(p.foreign, inst)
	case !aliased:
		p.bare = append(p.bare, inst)
		fallthrough
	default:
		p.sidecars = append(p.sidecars, inst)
	}
}

// equal says whether they are the same, and have not changed.
func (p proxies) equal(o proxies) bool {
	return slices.Equal(p.sidecars, o.sidecars) && slices.Equal(p.foreign, o.foreign) && slices.Equal(p.bare, o.bare)
}

// aliased finds the services that have an alias check.
func aliased(snap *catalog.Snapshot) map[string]bool {
	out := map[string]bool{}
	for _, c := range snap.Checks {
		if c.Type == catalog.CheckTypeAlias {
			out[c.ServiceID] = true
		}
	}
	return out
}
