package bridge

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// gauges is what the ring counts from time to time.
type gauges interface {
	Probes(kind string, n int)
	Problems(source string, n int)
	Observers(kind string, n int)
	Checks(status, phase string, n int)
	ForeignChecks(n int)
	OrphanChecks(n int)
	SpecifiersUnapplied(n int)
	SpecifierOverdue()
	TokenUnknown(yes bool)
	ShadowChecks(status string, n int)
	ShadowCompared(agree bool)
}

// survey brings problems and gauges up to date.
func (r *ring) survey(now time.Time) {
	states, streams, consul := r.writer.States(), r.observers.Streams(), r.source.Health()
	current := r.collect(now, states, streams)
	if consul.TokenUnknown {
		current = append([]probe.Problem{deadToken}, current...)
	}
	r.problems = make(map[probe.Problem]bool, len(current))
	for _, p := range current {
		r.problems[p] = true
	}
	r.announcer.update(now, current)
	r.gauges.TokenUnknown(consul.TokenUnknown)
	r.measure(states, streams, current)
}

// deadToken is a problem of the node, which every check has.
var deadToken = probe.Problem{Source: probe.SourceConsul, Message: "Consul does not know the token any more (ACL not found): it was deleted or has expired. " +
	"No check can be written, and what the catalog shows of them does not change until a good token is given (consul.token_file is read again when it changes)"}

// collect gathers the problems of all parts, in order.
func (r *ring) collect(now time.Time, states map[string]checks.State, streams []hds.Stream) []probe.Problem {
	out := slices.Clone(r.derived.Problems)
	for _, t := range r.tracked {
		out = append(out, r.probeProblems(t, states[t.probe.CheckID])...)
	}
	for id, s := range states {
		if r.tracked[id] == nil && refused(s.Err) {
			out = append(out, probe.Problem{ServiceID: s.ServiceID, Source: probe.SourceConsul, Message: fmt.Sprintf(
				"check %q, which no probe wants any more, cannot be written or removed: the token needs service:write on its service (%s)", id, refusal(s.Err))})
		}
	}
	for _, s := range streams {
		out = append(out, r.streamProblems(now, s)...)
	}
	if r.access != nil {
		out = append(out, r.access(now)...)
	}
	slices.SortFunc(out, compareProblems)
	return slices.Compact(out)
}

// probeProblems are those of a probe that is derived, but not what it should be.
func (r *ring) probeProblems(t *tracked, s checks.State) (out []probe.Problem) {
	add := func(source, format string, args ...any) {
		out = append(out, probe.Problem{ServiceID: t.probe.ServiceID, Source: source, Message: fmt.Sprintf(format, args...)})
	}
	if s.Foreign {
		add(probe.SourceConsul, "check id %q belongs to a check that consul-hds did not make: it is left alone, and the probe has no check", t.probe.CheckID)
	}
	if refused(s.Err) {
		add(probe.SourceConsul, "check %q cannot be written: the token needs service:write on %q (%s)", t.probe.CheckID, t.probe.Service, refusal(s.Err))
	}
	if !t.verdict.Overdue || t.verdict.Phase == health.Reported {
		return out
	}
	if len(t.observers) == 0 {
		add(probe.SourceEnvoy, "no Envoy observes check %q: %s", t.probe.CheckID, absent(t.probe))
	} else {
		add(probe.SourceEnvoy, "no Envoy has answered for check %q in time; asked: %q", t.probe.CheckID, t.observers)
	}
	return out
}

// refused says whether the token may not do what it was to do. One that Consul does
// not know at all is a problem of the node.
func refused(err error) bool {
	return errors.Is(err, checks.ErrDenied) && !errors.Is(err, checks.ErrTokenUnknown)
}

// refusal is what the agent said when it refused a write.
func refusal(err error) string {
	var answer api.StatusError
	if errors.As(err, &answer) {
		return strings.TrimSpace(answer.Body)
	}
	return err.Error()
}

// unknownEnvoy says why an Envoy is not asked for anything.
func unknownEnvoy(nodeID string) string {
	return fmt.Sprintf("Envoy %q is unknown and probes nothing: it is neither a connect-proxy registered with this agent nor named by hds.node_ids%s", nodeID, exactly(nodeID))
}

// streamProblems are those of an Envoy as a whole.
func (r *ring) streamProblems(now time.Time, s hds.Stream) (out []probe.Problem) {
	add := func(format string, args ...any) {
		out = append(out, probe.Problem{Source: probe.SourceEnvoy, Message: fmt.Sprintf(format, args...)})
	}
	if s.Kind == hds.UnknownEnvoy && r.snap != nil { // before the first read of Consul all are unknown
		add("%s", unknownEnvoy(s.NodeID))
	}
	if r.late(now, s) {
		add("Envoy %q does not apply what it was sent: its reports do not echo it", s.NodeID)
		if !r.overdue[s.ID] {
			r.overdue[s.ID] = true
			r.gauges.SpecifierOverdue()
		}
	} else {
		delete(r.overdue, s.ID)
	}
	if len(s.Denied) > 0 {
		add("%s", deniedProblem(s))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Dropped)) {
		add("cluster %q is not sent to Envoy %q: %s", name, s.NodeID, s.Dropped[name])
	}
	return out
}

// exactly tells of the rule that keeps sidecars from being taken for node Envoys.
func exactly(id string) string {
	if strings.HasSuffix(id, "-sidecar-proxy") {
		return " (an id that ends in -sidecar-proxy matches no glob there, only an exact entry)"
	}
	return ""
}

// late says whether an Envoy had time enough to echo its newest specifier.
func (r *ring) late(now time.Time, s hds.Stream) bool {
	return !s.Applied && !s.Unapplied.IsZero() && now.Sub(s.Unapplied) > max(3*r.plan.ReportInterval, 5*time.Second)
}

// measure sets the gauges; each label value is set every time, so that what is
// no more goes to zero.
func (r *ring) measure(states map[string]checks.State, streams []hds.Stream, problems []probe.Problem) {
	kinds := map[probe.Kind]int{probe.HTTP: 0, probe.TCP: 0, probe.GRPC: 0}
	type cell struct {
		status health.Status
		phase  health.Phase
	}
	cells := map[cell]int{}
	for _, s := range []health.Status{health.None, health.Passing, health.Warning, health.Critical} {
		for _, p := range []health.Phase{health.Pending, health.Adopted, health.Reported, health.Stale} {
			cells[cell{s, p}] = 0
		}
	}
	for _, t := range r.tracked {
		kinds[t.probe.Settings.Kind]++
		if t.probe.Settings.Mode == probe.Shadow {
			continue
		}
		cells[cell{states[t.probe.CheckID].Status, t.verdict.Phase}]++
	}
	for k, n := range kinds {
		r.gauges.Probes(string(k), n)
	}
	for c, n := range cells {
		r.gauges.Checks(string(c.status), string(c.phase), n)
	}
	r.measureShadows()
	r.measureStreams(streams)
	r.measureRest(states, problems)
}

// measureShadows counts what the checks in shadow mode would be, and whether
// Consul's own checks of their instances are of one mind with them.
func (r *ring) measureShadows() {
	counts := map[health.Status]int{health.None: 0, health.Passing: 0, health.Warning: 0, health.Critical: 0}
	var others map[string]health.Status
	for _, t := range r.tracked {
		if t.probe.Settings.Mode != probe.Shadow {
			continue
		}
		counts[t.verdict.Status]++
		if others == nil {
			others = worstOfOthers(r.snap)
		}
		if theirs := others[t.probe.ServiceID]; theirs != health.None && t.verdict.Phase == health.Reported {
			agree := theirs == t.verdict.Status
			t.shadow.compared(agree)
			r.gauges.ShadowCompared(agree)
		}
	}
	for status, n := range counts {
		r.gauges.ShadowChecks(string(status), n)
	}
}

// comparison counts how often the verdict of a check in shadow mode was that of
// Consul's own checks.
type comparison struct{ agreed, differed int }

func (c *comparison) compared(agree bool) {
	if agree {
		c.agreed++
	} else {
		c.differed++
	}
}

// worstOfOthers is the worst status of each instance's checks that are not ours.
func worstOfOthers(snap *catalog.Snapshot) map[string]health.Status {
	worst := map[string]health.Status{}
	for _, c := range snap.Checks {
		if s := health.Status(c.Status); !checks.Ours(c) && s.Worse(worst[c.ServiceID]) {
			worst[c.ServiceID] = s
		}
	}
	return worst
}

func (r *ring) measureStreams(streams []hds.Stream) {
	kinds := map[hds.Kind]int{hds.SidecarEnvoy: 0, hds.NodeEnvoy: 0, hds.UnknownEnvoy: 0}
	for _, s := range streams {
		kinds[s.Kind]++
	}
	for k, n := range kinds {
		r.gauges.Observers(string(k), n)
	}
	maps.DeleteFunc(r.overdue, func(id uint64, _ bool) bool { // a stream that has ended owes nothing
		return !slices.ContainsFunc(streams, func(s hds.Stream) bool { return s.ID == id })
	})
	r.gauges.SpecifiersUnapplied(len(r.overdue))
}

func (r *ring) measureRest(states map[string]checks.State, problems []probe.Problem) {
	sources := map[string]int{probe.SourceMeta: 0, probe.SourceConfig: 0, probe.SourceConsul: 0, probe.SourceEnvoy: 0}
	for _, p := range problems {
		sources[p.Source]++
	}
	for s, n := range sources {
		r.gauges.Problems(s, n)
	}
	foreign, orphans := 0, 0
	for _, s := range states {
		if s.Foreign {
			foreign++
		}
		if s.Orphan {
			orphans++
		}
	}
	r.gauges.ForeignChecks(foreign)
	r.gauges.OrphanChecks(orphans)
}
