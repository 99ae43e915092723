package probe

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ryanuber/go-glob"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// The sources of problems.
const (
	SourceMeta   = "meta"
	SourceConfig = "config"
	SourceConsul = "consul"
	SourceEnvoy  = "envoy"
)

// Result is what Derive found: the probes in order of their check ids, and the
// problems in order of their services.
type Result struct {
	Probes   []*Probe
	Problems []Problem
}

// Derive tells which probes the instances of a snapshot want under the rules.
// A probe whose wishes are faulty is left out and becomes a problem; if it is
// among the last result's probes, and its instance is still there, that last
// good definition goes on. Nothing is guessed. last may be nil.
func Derive(snap *catalog.Snapshot, rules *Rules, last []*Probe) Result {
	d := deriver{snap: snap, rules: rules, last: make(map[string]*Probe, len(last)), sidecars: sidecars(snap)}
	for _, p := range last {
		d.last[p.CheckID] = p
	}
	for _, id := range slices.Sorted(maps.Keys(snap.Instances)) {
		if inst := snap.Instances[id]; inst.Kind == "" {
			d.instance(inst)
		}
	}
	slices.SortFunc(d.out.Probes, func(a, b *Probe) int { return cmp.Compare(a.CheckID, b.CheckID) })
	return d.out
}

type deriver struct {
	snap     *catalog.Snapshot
	rules    *Rules
	last     map[string]*Probe
	sidecars map[string][]*catalog.Instance
	out      Result
}

// sidecars finds the registered sidecars of each instance, in order of id.
func sidecars(snap *catalog.Snapshot) map[string][]*catalog.Instance {
	out := map[string][]*catalog.Instance{}
	for _, id := range slices.Sorted(maps.Keys(snap.Instances)) {
		inst := snap.Instances[id]
		if inst.Kind == catalog.KindConnectProxy && inst.Proxy != nil && inst.Proxy.DestinationServiceID != "" {
			dest := inst.Proxy.DestinationServiceID
			out[dest] = append(out[dest], inst)
		}
	}
	return out
}

// instance adds the probes of one instance.
func (d *deriver) instance(inst *catalog.Instance) {
	m := readMeta(inst.Meta)
	checks := d.rules.checksOf(inst.Service)
	if m.settings.Kind == Off || len(m.keys) == 0 && len(checks) == 0 {
		return
	}
	if err := CheckServiceID(inst.ID); err != nil {
		d.problem(inst, SourceConsul, err)
		return
	}
	var byMeta bool
	for _, c := range checks {
		if c.Name == DefaultName && len(m.keys) > 0 {
			byMeta = true
			d.fromMeta(inst, m, &c)
			continue
		}
		d.add(inst, c.Name, c.Settings, SourceConfig)
	}
	if len(m.keys) > 0 && !byMeta {
		d.fromMeta(inst, m, nil)
	}
}

// fromMeta adds the probe that meta describes, or that it refines.
func (d *deriver) fromMeta(inst *catalog.Instance, m meta, base *Check) {
	s := m.settings
	errs := m.errs
	switch {
	case base != nil:
		s = overlay(m.settings, base.Settings)
	case s.Kind == "" && len(errs) == 0:
		errs = append(errs, fmt.Errorf("meta %s is set, but neither meta %s nor a config check %q says what to probe", m.keys[0], metaKind, DefaultName))
	}
	if err := errors.Join(append(errs, m.misfits(s.Kind))...); err != nil {
		for _, e := range flatten(err) {
			d.problem(inst, SourceMeta, e)
		}
		d.keep(inst, DefaultName)
		return
	}
	d.add(inst, DefaultName, s, SourceMeta)
}

// flatten lists the errors that errors.Join put together.
func flatten(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

// add derives one probe from its settings and the config's defaults.
func (d *deriver) add(inst *catalog.Instance, name string, s Settings, source string) {
	p := &Probe{
		CheckID:   CheckID(name, inst.ID),
		Service:   inst.Service,
		ServiceID: inst.ID,
		Name:      name,
		Settings:  complete(s, d.rules.Defaults),
	}
	if err := CheckGrace(p.Settings); err != nil {
		d.problem(inst, source, err)
		d.keep(inst, name)
		return
	}
	if err := d.aim(p, inst); err != nil {
		d.problem(inst, SourceConsul, err)
		d.keep(inst, name)
		return
	}
	p.Cluster = clusterName(p)
	d.out.Probes = append(d.out.Probes, p)
}

// keep goes on with the last good definition of a probe, if there was one.
func (d *deriver) keep(inst *catalog.Instance, name string) {
	if p := d.last[CheckID(name, inst.ID)]; p != nil {
		d.out.Probes = append(d.out.Probes, p)
	}
}

func (d *deriver) problem(inst *catalog.Instance, source string, err error) {
	p := Problem{ServiceID: inst.ID, Source: source, Message: err.Error()}
	if !slices.Contains(d.out.Problems, p) {
		d.out.Problems = append(d.out.Problems, p)
	}
}

// checksOf finds the checks of the one service block that applies to a service:
// an exact name beats a glob, a longer glob a shorter one, equal ones go by
// order of name.
func (r *Rules) checksOf(service string) []Check {
	var best *Service
	for i := range r.Services {
		s := &r.Services[i]
		if (s.Name == service || glob.Glob(s.Name, service)) && (best == nil || s.beats(best, service)) {
			best = s
		}
	}
	if best == nil {
		return nil
	}
	return best.Checks
}

func (s *Service) beats(o *Service, service string) bool {
	if (s.Name == service) != (o.Name == service) {
		return s.Name == service
	}
	if len(s.Name) != len(o.Name) {
		return len(s.Name) > len(o.Name)
	}
	return strings.Compare(s.Name, o.Name) < 0
}

// overlay lays settings over others, attribute by attribute; what belongs to a
// kind falls away below another kind.
func overlay(over, under Settings) Settings {
	if over.Kind != "" && under.Kind != over.Kind {
		under.Address, under.Port = "", 0
		under.Path, under.Method, under.Host, under.ExpectedStatuses = "", "", "", nil
	}
	out := Settings{
		Kind:               cmp.Or(over.Kind, under.Kind),
		Interval:           cmp.Or(over.Interval, under.Interval),
		Timeout:            cmp.Or(over.Timeout, under.Timeout),
		HealthyThreshold:   cmp.Or(over.HealthyThreshold, under.HealthyThreshold),
		UnhealthyThreshold: cmp.Or(over.UnhealthyThreshold, under.UnhealthyThreshold),
		Observer:           cmp.Or(over.Observer, under.Observer),
		Address:            cmp.Or(over.Address, under.Address),
		Port:               cmp.Or(over.Port, under.Port),
		Path:               cmp.Or(over.Path, under.Path),
		Method:             cmp.Or(over.Method, under.Method),
		Host:               cmp.Or(over.Host, under.Host),
		ExpectedStatuses:   over.ExpectedStatuses,
	}
	if out.ExpectedStatuses == nil {
		out.ExpectedStatuses = under.ExpectedStatuses
	}
	return out
}

// complete fills what is still unset: first by the config's defaults, then by
// what every HTTP probe has.
func complete(s, defaults Settings) Settings {
	s = overlay(s, defaults)
	if s.Kind == HTTP {
		s = overlay(s, Settings{Kind: HTTP, Path: "/", Method: "GET", ExpectedStatuses: []StatusRange{{200, 299}}})
	}
	return s
}
