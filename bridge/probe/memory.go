package probe

import (
	"bytes"
	"cmp"
	"net/netip"
	"reflect"
	"slices"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// Memory remembers what was derived from each instance, so that deriving again
// costs what has changed and little more. Its zero value remembers nothing. It is
// for one goroutine.
type Memory struct {
	// rules and node are those by which parts were derived.
	rules Rules
	node  catalog.Node
	parts map[string]*part
	// last are the probes of the newest result.
	last []*Probe
}

// part is what was derived from one instance, and all that it was derived from,
// beside rules, node and the probes of the part before.
type part struct {
	inst    *catalog.Instance
	proxies proxies
	names   map[string]looked[netip.Addr]
	files   map[string]looked[[]byte]

	probes   []*Probe
	problems []Problem
	// waiting says that a probe awaits a look-up.
	waiting bool
}

// looked is what was seen of a name or a file; there is false if it was not
// looked up yet.
type looked[T any] struct {
	Known[T]
	there bool
}

// Derive is the function of that name, with the probes of its own last result. Of
// an instance that has not changed it gives the very same probes.
func (m *Memory) Derive(world World, rules *Rules) Result {
	m.forget(world.Snapshot, rules)
	d := deriver{world: world, snap: world.Snapshot, rules: rules, last: m.last}
	var c changes
	before := m.last
	if m.parts == nil {
		m.parts, before = make(map[string]*part, len(d.snap.Instances)), nil
	}
	around, here := proxiesOf(d.snap), 0
	for id, inst := range d.snap.Instances {
		if inst.Kind != "" {
			continue
		}
		here++
		if p := m.parts[id]; p == nil || !p.stands(inst, around[id], world) {
			m.parts[id] = c.replace(p, d.derive(inst, around[id]))
		}
	}
	if here < len(m.parts) {
		c.sweep(m.parts, d.snap)
	}
	m.last = c.apply(before)
	return m.result()
}

// forget forgets what was derived by other rules, or on another node.
func (m *Memory) forget(snap *catalog.Snapshot, rules *Rules) {
	if m.node != snap.Node || !reflect.DeepEqual(m.rules, *rules) {
		m.rules, m.node, m.parts = *rules, snap.Node, nil
	}
}

// result puts the parts together.
func (m *Memory) result() Result {
	out := Result{Probes: m.last}
	for _, p := range m.parts {
		out.add(p)
	}
	slices.SortStableFunc(out.Problems, func(a, b Problem) int { return cmp.Compare(a.ServiceID, b.ServiceID) })
	return out
}

// changes are the probes that come and go with the parts that change.
type changes struct{ come, gone []*Probe }

// replace notes that a part takes the place of another, or of none.
func (c *changes) replace(old, p *part) *part {
	if old != nil {
		c.gone = append(c.gone, old.probes...)
	}
	c.come = append(c.come, p.probes...)
	return p
}

// sweep takes the parts out whose instances are gone.
func (c *changes) sweep(parts map[string]*part, snap *catalog.Snapshot) {
	for id, p := range parts {
		if inst := snap.Instances[id]; inst == nil || inst.Kind != "" {
			c.gone = append(c.gone, p.probes...)
			delete(parts, id)
		}
	}
}

// apply gives the probes that there are after the changes, in order, as those
// before have to be.
func (c *changes) apply(before []*Probe) []*Probe {
	if len(c.come)+len(c.gone) == 0 {
		return before
	}
	slices.SortFunc(c.come, compareProbes)
	slices.SortFunc(c.gone, compareProbes)
	come, gone := c.come, c.gone
	after := make([]*Probe, 0, len(before)+len(come))
	for _, p := range before {
		if len(gone) > 0 && gone[0].CheckID == p.CheckID {
			gone = gone[1:]
			continue
		}
		for len(come) > 0 && come[0].CheckID < p.CheckID {
			after, come = append(after, come[0]), come[1:]
		}
		after = append(after, p)
	}
	if after = append(after, come...); len(after) == 0 {
		return nil
	}
	return after
}

func compareProbes(a, b *Probe) int { return cmp.Compare(a.CheckID, b.CheckID) }

// stands says whether the part is what its instance would give now. Snapshots are
// immutable: the same instance is an unchanged one.
func (p *part) stands(inst *catalog.Instance, around proxies, world World) bool {
	return p.inst == inst && p.proxies.equal(around) &&
		unchanged(p.names, world.Names, func(a, b netip.Addr) bool { return a == b }) && unchanged(p.files, world.Files, bytes.Equal)
}

// unchanged says whether what was looked up is still what was seen of it.
func unchanged[T any](seen map[string]looked[T], now map[string]Known[T], equal func(a, b T) bool) bool {
	for key, was := range seen {
		is, there := now[key]
		if there != was.there || is.Good != was.Good || !sameError(is.Err, was.Err) || !equal(is.Value, was.Value) {
			return false
		}
	}
	return true
}

// sameError goes by the text: each look that fails makes an error of its own.
func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Error() == b.Error()
}

// look is what is known of a name or a file; that it was needed is noted.
func look[T any](seen *map[string]looked[T], known map[string]Known[T], key string) looked[T] {
	k, there := known[key]
	if *seen == nil {
		*seen = map[string]looked[T]{}
	}
	(*seen)[key] = looked[T]{k, there}
	return (*seen)[key]
}

// add adds what was derived from one instance, beside its probes.
func (r *Result) add(p *part) {
	r.Problems = append(r.Problems, p.problems...)
	for name := range p.names {
		note(&r.Names, name)
	}
	for path := range p.files {
		note(&r.Files, path)
	}
	if p.waiting {
		note(&r.Waiting, p.inst.ID)
	}
}

// note adds a key to a set that may not have been made yet.
func note(set *map[string]bool, key string) {
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[key] = true
}
