package probe

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
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
	// Names and Files are the host names and files that have to be looked up.
	Names, Files map[string]bool
	// Waiting are the instances of which a probe awaits a look-up.
	Waiting map[string]bool
}

// Derive tells which probes the instances of a snapshot want under the rules.
// A probe whose wishes are faulty is left out and becomes a problem; if it is
// among the last result's probes, and its instance is still there, that last
// good definition goes on. Nothing is guessed. last has to be in order, and may be
// nil. Whoever derives over and over has it cheaper with a Memory.
func Derive(world World, rules *Rules, last []*Probe) Result {
	return (&Memory{last: last}).Derive(world, rules)
}

// deriver derives the part of one instance after the other.
type deriver struct {
	world World
	snap  *catalog.Snapshot
	rules *Rules
	last  []*Probe
	// unresolved is set when an address in use is that of a name that does not
	// resolve any more.
	unresolved error
	// out is the part that is being derived.
	out *part
}

// derive gives the part of one instance.
func (d *deriver) derive(inst *catalog.Instance, around proxies) *part {
	d.out = &part{inst: inst, proxies: around}
	d.instance(inst)
	return d.out
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
	d.warnOfAlias(inst)
	d.warnOfForeign(inst)
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
	if err := checkWhole(p.Settings); err != nil {
		d.leave(inst, name, source, err)
		return
	}
	// Both, so that what one awaits does not keep the other's look-up waiting.
	d.unresolved = nil
	insecure, aimless := d.secure(p), d.aim(p, inst)
	if insecure != nil {
		d.leave(inst, name, source, insecure)
		return
	}
	if aimless != nil {
		if errors.As(aimless, new(errRegistered)) {
			source = SourceConsul
		}
		d.leave(inst, name, source, aimless)
		return
	}
	if d.unresolved != nil {
		d.problem(inst, SourceConsul, named(name, d.unresolved))
	}
	p.Cluster = clusterName(p)
	d.out.probes = append(d.out.probes, p)
}

// named says which of several checks a problem is of.
func named(name string, err error) error {
	if name == DefaultName {
		return err
	}
	return fmt.Errorf("check %q: %w", name, err)
}

// checkWhole says whether settings that are right one by one go together.
func checkWhole(s Settings) error {
	if err := CheckGrace(s); err != nil {
		return err
	}
	return CheckPayloads(s)
}

// leave leaves a probe out: for good as a problem, or until a look-up ends.
func (d *deriver) leave(inst *catalog.Instance, name, source string, err error) {
	if errors.Is(err, errWaiting) {
		d.out.waiting = true
	} else {
		d.problem(inst, source, named(name, err))
	}
	d.keep(inst, name)
}

// keep goes on with the last good definition of a probe, if there was one.
func (d *deriver) keep(inst *catalog.Instance, name string) {
	i, found := slices.BinarySearchFunc(d.last, CheckID(name, inst.ID), func(p *Probe, id string) int { return cmp.Compare(p.CheckID, id) })
	if found {
		d.out.probes = append(d.out.probes, d.last[i])
	}
}

func (d *deriver) problem(inst *catalog.Instance, source string, err error) {
	p := Problem{ServiceID: inst.ID, Source: source, Message: err.Error()}
	if !slices.Contains(d.out.problems, p) {
		d.out.problems = append(d.out.problems, p)
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

// shared are the attributes of every kind of probe; the others belong to a kind
// block.
var shared = map[string]bool{"Interval": true, "Timeout": true, "HealthyThreshold": true, "UnhealthyThreshold": true, "Observer": true, "Mode": true}

// overlay lays settings over others, attribute by attribute; what belongs to a
// kind falls away below another kind.
func overlay(over, under Settings) Settings {
	out := reflect.ValueOf(&over).Elem()
	below := reflect.ValueOf(under)
	sameKind := over.Kind == "" || over.Kind == under.Kind
	for i := range out.NumField() {
		if out.Field(i).IsZero() && (sameKind || shared[out.Type().Field(i).Name]) {
			out.Field(i).Set(below.Field(i))
		}
	}
	return over
}

// complete fills what is still unset: first by the config's defaults, then by
// what every HTTP probe has.
func complete(s, defaults Settings) Settings {
	s = completeTLS(overlay(s, defaults), defaults)
	if s.Kind == HTTP {
		s = overlay(s, Settings{Kind: HTTP, Path: "/", Method: "GET", ExpectedStatuses: []StatusRange{{200, 299}}})
	}
	return s
}
