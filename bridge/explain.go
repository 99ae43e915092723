package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/consul-hds/consul-hds/bridge/admin"
	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// explainTimeout bounds the question to the catalog.
const explainTimeout = 2 * time.Second

// Explain tells why the checks of an instance are what they are. id is that of a
// service or of a check.
func (b backend) Explain(ctx context.Context, id string) (admin.Explanation, error) {
	catalog := b.catalogNow(ctx)
	return b.ring.explain(id, b.server, catalog, time.Now())
}

// catalogView is what the catalog shows of the node's checks, or why it is not
// known.
type catalogView struct {
	statuses map[string]health.Status
	err      error
	at       time.Time
}

func (b backend) catalogNow(ctx context.Context) catalogView {
	ctx, cancel := context.WithTimeout(ctx, explainTimeout)
	defer cancel()
	v := catalogView{at: time.Now()}
	if node := b.drift.node(); node != "" {
		v.statuses, v.err = b.drift.catalog(ctx, node)
	} else {
		v.err = errors.New("the node's name is unknown")
	}
	return v
}

// envoys is what is known of Envoys, those that are let in and those that are not.
type envoys interface {
	Views(*probe.Probe) []hds.View
	Refusals(now time.Time) []hds.Refusal
}

// explain finds the probes that an id stands for, and explains each.
func (r *ring) explain(id string, envoys envoys, cat catalogView, now time.Time) (admin.Explanation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snap == nil {
		return admin.Explanation{}, errUnsynced
	}
	out := admin.Explanation{ID: id}
	serviceID := id
	if t := r.tracked[id]; t != nil {
		serviceID = t.probe.ServiceID
	}
	states := r.writer.States()
	for _, checkID := range slices.Sorted(maps.Keys(r.tracked)) {
		t := r.tracked[checkID]
		if checkID != id && t.probe.ServiceID != id {
			continue
		}
		e := explainer{ring: r, tracked: t, views: envoys.Views(t.probe), refusals: envoys.Refusals(now), catalog: cat, now: now, state: states[checkID]}
		out.Checks = append(out.Checks, e.explain())
	}
	for _, p := range slices.SortedFunc(maps.Keys(r.problems), compareProblems) {
		if p.ServiceID == serviceID {
			out.Problems = append(out.Problems, admin.Problem{ServiceID: p.ServiceID, Source: p.Source, Message: p.Message})
		}
	}
	if len(out.Checks) > 0 {
		return out, nil
	}
	var err error
	out.Conclusion, err = r.explainNothing(id, out.Problems)
	return out, err
}

// explainNothing says why an id has no probe.
func (r *ring) explainNothing(id string, problems []admin.Problem) (string, error) {
	inst := r.snap.Instances[id]
	switch {
	case inst == nil && r.snap.Checks[id] != nil && checks.Ours(r.snap.Checks[id]):
		return fmt.Sprintf("%s is a check of ours that no probe explains (an orphan): it is kept for checks.orphan_grace, and then removed.", id), nil
	case inst == nil && r.snap.Checks[id] != nil:
		return fmt.Sprintf("%s is a check of somebody else's: consul-hds neither reads nor writes it.", id), nil
	case inst == nil:
		return "", fmt.Errorf("%w: the local Consul agent has no service and no check with the id %.200q, or the daemon's token may not read it", admin.ErrNotFound, id)
	case r.snap.Served(inst) != nil:
		return fmt.Sprintf("%s is a proxy and never probed itself; ask for the instance that it serves, %s.", id, r.snap.Served(inst).ID), nil
	case inst.Kind != "":
		return fmt.Sprintf("%s is a %s and never probed itself.", id, inst.Kind), nil
	case len(problems) > 0:
		return fmt.Sprintf("%s has no probe because of a problem: %s.", id, problems[0].Message), nil
	case r.derived.Waiting[id]:
		return fmt.Sprintf("%s has no probe yet: a host name or file of it is being looked up.", id), nil
	case strings.EqualFold(strings.TrimSpace(inst.Meta["hds"]), string(probe.Off)):
		return fmt.Sprintf("%s is not probed, because its meta says hds = off.", id), nil
	}
	return fmt.Sprintf("%s is not probed: its meta has no key hds, and no service block of the configuration names its service, %q.", id, inst.Service), nil
}

// explainer explains one check.
type explainer struct {
	*ring
	*tracked
	views    []hds.View
	refusals []hds.Refusal
	catalog  catalogView
	state    checks.State
	now      time.Time
}

func (e explainer) explain() admin.ExplainedCheck {
	links := []admin.Link{e.registration(), e.optIn(), e.target(), e.observer(), e.specifier(), e.report(), e.judgement(), e.write(), e.inCatalog()}
	return admin.ExplainedCheck{CheckID: e.probe.CheckID, Chain: links, Conclusion: e.conclusion()}
}

func (e explainer) registration() admin.Link {
	l := admin.Link{Name: "registration", Time: e.snap.ReadAt, Source: "the Consul agent"}
	inst := e.snap.Instances[e.probe.ServiceID]
	if inst == nil { // between two snapshots
		l.Text = fmt.Sprintf("%s is not registered any more", e.probe.ServiceID)
		return l
	}
	l.Text = fmt.Sprintf("service %q, id %q, at %s", inst.Service, inst.ID, placeText(inst))
	if m := e.snap.Maintenance(inst.ID); m != "" {
		l.Details = append(l.Details, "maintenance mode of the "+m+": Consul keeps the instance out, whatever its checks say")
	}
	for _, c := range sortedChecks(e.snap, inst.ID) {
		if !checks.Ours(c) {
			l.Details = append(l.Details, fmt.Sprintf("beside ours: check %q, %s", c.ID, c.Status))
		}
	}
	return l
}

func placeText(inst *catalog.Instance) string {
	if inst.SocketPath != "" {
		return "unix socket " + inst.SocketPath
	}
	return fmt.Sprintf("%s:%d", cmp.Or(inst.Address, "(the node's address)"), inst.Port)
}

func sortedChecks(snap *catalog.Snapshot, serviceID string) (out []*catalog.Check) {
	for _, id := range slices.Sorted(maps.Keys(snap.Checks)) {
		if c := snap.Checks[id]; c.ServiceID == serviceID {
			out = append(out, c)
		}
	}
	return out
}

// optIn says who asked for the probe, and where each attribute comes from.
func (e explainer) optIn() admin.Link {
	l := admin.Link{Name: "opt-in", Source: "default"}
	inst := e.snap.Instances[e.probe.ServiceID]
	if inst == nil {
		return l
	}
	for _, o := range probe.Origins(inst, e.probe, &e.settings.Rules) {
		if o.Attribute == "kind" {
			l.Source = o.Source
		}
		l.Details = append(l.Details, fmt.Sprintf("%s = %s (%s)", o.Attribute, o.Value, o.Source))
	}
	l.Text = fmt.Sprintf("a probe %q of the kind %s is asked for", e.probe.Name, e.probe.Settings.Kind)
	return l
}

// target says what is probed, and why there.
func (e explainer) target() admin.Link {
	s := e.probe.Settings
	source := "the registration"
	switch {
	case s.Address != "" && e.probe.Target.Socket == "":
		source = "attribute address"
	case len(e.probe.Sidecars) > 0:
		source = "the registration of sidecar " + e.probe.Sidecars[0]
	}
	l := admin.Link{Name: "probe", Source: source}
	l.Text = fmt.Sprintf("%s, each %s, timeout %s", e.probe.Subject(), s.Interval, s.Timeout)
	l.Details = []string{"cluster " + e.probe.Cluster}
	return l
}

// observer says who probes, and why.
func (e explainer) observer() admin.Link {
	policy := e.probe.Settings.Observer
	l := admin.Link{Name: "observer", Source: fmt.Sprintf("observer = %q", policy)}
	switch {
	case e.probe.ByNode && policy == probe.Auto:
		l.Text = "the node Envoys (hds.node_ids), as no sidecar of the instance is registered"
	case e.probe.ByNode:
		l.Text = "the node Envoys (hds.node_ids)"
	case len(e.probe.Sidecars) > 0:
		l.Text = "the instance's own sidecar, " + strings.Join(e.probe.Sidecars, " and ")
	default:
		l.Text = "the instance's own sidecar, but none is registered"
	}
	for _, v := range e.views {
		l.Details = append(l.Details, fmt.Sprintf("connected: %s, Envoy %s, %s, stream %d", v.NodeID, cmp.Or(v.Envoy, "of unknown version"), v.Peer, v.ID))
	}
	if len(e.views) == 0 {
		l.Details = append([]string{"none of them is connected"}, e.unknown()...)
		l.Details = append(l.Details, e.refused()...)
	}
	return l
}

// unknown tells of the Envoys that nobody has named: the one that is missing may be
// among them, under a wrong node id.
func (e explainer) unknown() (out []string) {
	for _, s := range e.ring.observers.Streams() {
		if s.Kind == hds.UnknownEnvoy {
			out = append(out, fmt.Sprintf("%s (%s)", unknownEnvoy(s.NodeID), s.Peer))
		}
	}
	return out
}

// refused tells of the Envoys that were not let in: the one that is missing may be
// among them. Most are refused before they have said who they are.
func (e explainer) refused() (out []string) {
	for _, r := range e.refusals {
		out = append(out, fmt.Sprintf("an Envoy was refused at %s (%s), maybe this one: %s: %s", r.At.UTC().Format(time.RFC3339), r.Reason, r.Peer, r.Err))
	}
	return out
}

func (e explainer) specifier() admin.Link {
	l := admin.Link{Name: "specifier", Source: "consul-hds", Text: "sent to nobody"}
	for _, v := range e.views {
		if v.Sent.After(l.Time) {
			l.Time = v.Sent
		}
		l.Text = "sent"
		switch {
		case v.Left != nil:
			l.Details = append(l.Details, fmt.Sprintf("%s is not asked: %s", v.NodeID, v.Left))
		case !v.Included:
			l.Details = append(l.Details, fmt.Sprintf("%s is not asked yet", v.NodeID))
		case v.Echoed:
			l.Details = append(l.Details, fmt.Sprintf("%s has applied it: its reports show the cluster", v.NodeID))
		default:
			l.Details = append(l.Details, fmt.Sprintf("%s has not applied it: its reports do not show the cluster", v.NodeID))
		}
	}
	return l
}

func (e explainer) report() admin.Link {
	l := admin.Link{Name: "report", Source: "Envoy", Text: "none yet"}
	for _, o := range e.said() {
		if o.At.After(l.Time) {
			l.Time = o.At
		}
		text := o.Answer.String()
		if o.Code != 0 {
			text += fmt.Sprintf(", HTTP %d", o.Code)
		}
		l.Text = "the newest answers"
		l.Details = append(l.Details, fmt.Sprintf("%s says %s: %s", o.Observer, text, o.Explain(e.now, e.settings.policy())))
	}
	return l
}

// said is what the Envoys said, in the words of health.
func (e explainer) said() []health.Observation {
	seen := make([]hds.Observation, len(e.views))
	for i, v := range e.views {
		seen[i] = v.Observation
	}
	return observations(seen)
}

func (e explainer) judgement() admin.Link {
	return admin.Link{
		Name: "verdict", Time: e.verdict.Since, Source: "consul-hds",
		Text:    fmt.Sprintf("%s, phase %s", cmp.Or(string(e.verdict.Status), "no status"), e.verdict.Phase),
		Details: []string{e.tracker.Explain(e.now, e.said())},
	}
}

func (e explainer) write() admin.Link {
	l := admin.Link{Name: "write", Time: e.state.WroteAt, Source: "the Consul agent"}
	switch {
	case e.probe.Settings.Mode == probe.Shadow:
		l.Text = "nothing is written: mode = \"shadow\""
	case e.state.Foreign:
		l.Text = "nothing is written: the check id belongs to a check of somebody else's"
	case e.state.Status == health.None:
		l.Text = "there is no check yet"
	case e.state.Wrote == "":
		l.Text = fmt.Sprintf("the agent shows %s; it was found so, and not written since the start", e.state.Status)
	default:
		l.Text = fmt.Sprintf("the agent shows %s; the last write was: %s", e.state.Status, e.state.Wrote)
	}
	if e.state.Err != nil {
		l.Details = append(l.Details, "the last try failed: "+e.state.Err.Error())
	}
	return l
}

func (e explainer) inCatalog() admin.Link {
	l := admin.Link{Name: "catalog", Time: e.catalog.at, Source: "the Consul servers"}
	switch status, ok := e.catalog.statuses[e.probe.CheckID]; {
	case e.catalog.err != nil:
		l.Text = "not known: " + e.catalog.err.Error()
	case !ok:
		l.Text = "no such check"
	default:
		l.Text = string(status)
	}
	return l
}
