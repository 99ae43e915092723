package bridge

import (
	"context"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/consul-hds/consul-hds/bridge/agenda"
	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/logging"
	"github.com/consul-hds/consul-hds/bridge/lookup"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

const (
	// tickEvery is how often at most the ring looks for what time alone changes.
	tickEvery = 100 * time.Millisecond
	// surveyEvery is how often problems and gauges are brought up to date.
	surveyEvery = time.Second
)

// source is where snapshots come from.
type source interface {
	Updates() <-chan struct{}
	Snapshot() *catalog.Snapshot
	Health() catalog.Health
}

// observers are the Envoys.
type observers interface {
	Updates() <-chan struct{}
	TakeNews() []string
	Observations(*probe.Probe) []hds.Observation
	Streams() []hds.Stream
	SetPlan(*hds.Plan)
}

// table is where what a name or a file says comes from.
type table[T any] interface {
	Updates() <-chan struct{}
	Want(keys map[string]bool)
	Entries() map[string]lookup.Entry[T]
}

// writer is what keeps the checks.
type writer interface {
	Set(checks.Want)
	Withdraw(checkID string)
	Forget(checkID string)
	Sync(*catalog.Snapshot)
	Reconfigure(ttl, orphanGrace time.Duration)
	States() map[string]checks.State
}

// ring joins the parts: it alone decides, in one goroutine, and everything it
// decides by is a value that one of the parts holds.
type ring struct {
	source    source
	names     table[netip.Addr]
	files     table[[]byte]
	observers observers
	writer    writer
	logger    hclog.Logger
	gauges    gauges
	// access tells what keeps Envoys out that should come in; nil is nothing.
	access func(now time.Time) []probe.Problem
	// plan is what every plan has in common.
	plan hds.PlanConfig

	// mu is held while the ring takes a step, and while somebody looks.
	mu       sync.Mutex
	settings Settings
	snap     *catalog.Snapshot
	memory   probe.Memory
	derived  probe.Result
	tracked  map[string]*tracked
	// agenda is when time alone changes the verdict of a probe, by its check's id.
	agenda agenda.Agenda[string]
	// tick goes off when something on the agenda is due; looked is when it was
	// looked at last.
	tick   *time.Timer
	looked time.Time
	// round counts how often probes were derived.
	round uint64
	// newToken is when the token changed, if no snapshot has been read with it yet.
	newToken time.Time
	// arriving are the instances that have appeared and of which a probe awaits a
	// name or a file.
	arriving map[string]bool
	// problems are those of the last survey; the announcer logs them.
	problems  map[probe.Problem]bool
	announcer *announcer
	// overdue are the streams whose unapplied specifier was counted.
	overdue map[uint64]bool
}

// tracked is a probe with its verdict.
type tracked struct {
	probe   *probe.Probe
	title   string // of the probe
	round   uint64 // in which it was derived last
	tracker *health.Tracker
	verdict health.Verdict
	// changed says that more than time and reports may have changed the verdict.
	changed bool
	// want is what the writer was told last, if it was told anything: a probe in
	// shadow mode is none of its matters.
	want    checks.Want
	written bool
	// observers are the node ids of the streams that are to observe the probe.
	observers []string
	shadow    comparison
}

// run steps until ctx ends.
func (r *ring) run(ctx context.Context) {
	tick := r.start()
	defer tick.Stop()
	survey := time.NewTicker(surveyEvery)
	defer survey.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.source.Updates():
			r.step(func(now time.Time) { r.takeSnapshot(r.source.Snapshot(), now) })
		case <-r.observers.Updates():
			r.step(r.takeNews)
		case <-r.names.Updates():
			r.step(r.takeLookups)
		case <-r.files.Updates():
			r.step(r.takeLookups)
		case <-tick.C:
			r.step(r.takeTime)
		case <-survey.C:
			r.step(func(now time.Time) { r.survey(now) })
		}
	}
}

// start makes the timer of what is due, which each step sets from then on.
func (r *ring) start() *time.Timer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tick = time.NewTimer(0)
	return r.tick
}

func (r *ring) step(do func(now time.Time)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do(time.Now())
	if r.tick == nil {
		return
	}
	if next := r.agenda.Next(); next.IsZero() {
		r.tick.Stop()
	} else {
		r.tick.Reset(max(time.Until(next), time.Until(r.looked.Add(tickEvery))))
	}
}

// takeSnapshot derives the probes anew if anything has changed, and compares
// the checks with the agent's.
func (r *ring) takeSnapshot(snap *catalog.Snapshot, now time.Time) {
	if snap == nil {
		return
	}
	appeared := r.appeared(snap)
	if r.snap == nil || r.snap.Revision != snap.Revision {
		r.snap = snap
		r.derive(appeared, now)
	}
	r.snap = snap
	r.writer.Sync(snap)
}

// appeared are the instances of a snapshot that were not in the last one: nothing
// of an earlier instance of the same id is carried over. What a new token shows
// for the first time was there already, as far as anybody knows.
func (r *ring) appeared(snap *catalog.Snapshot) map[string]bool {
	out := map[string]bool{}
	if r.snap == nil {
		return out
	}
	if !r.newToken.IsZero() && snap.ReadAt.After(r.newToken) {
		r.newToken = time.Time{}
		return out
	}
	for id := range snap.Instances {
		if r.snap.Instances[id] == nil {
			out[id] = true
		}
	}
	return out
}

// tokenChanged tells that the next snapshot may show what the last could not.
func (r *ring) tokenChanged() { r.step(func(now time.Time) { r.newToken = now }) }

// derive turns the newest snapshot into probes, plan and verdicts.
func (r *ring) derive(appeared map[string]bool, now time.Time) {
	world := probe.World{Snapshot: r.snap, Names: known(r.names.Entries()), Files: known(r.files.Entries())}
	r.derived = r.memory.Derive(world, &r.settings.Rules)
	r.names.Want(r.derived.Names)
	r.files.Want(r.derived.Files)
	appeared = r.arrivals(appeared)
	r.round++
	for _, p := range r.derived.Probes {
		r.track(p, appeared[p.ServiceID], now)
	}
	for id, t := range r.tracked {
		if t.round != r.round {
			r.drop(id, t)
		}
	}
	r.observers.SetPlan(hds.NewPlan(r.plan, r.snap, r.derived.Probes))
	for _, t := range r.tracked {
		if t.changed {
			r.evaluate(t, now)
		}
	}
	r.survey(now)
}

// arrivals adds those that appeared earlier, and whose probes have been waiting
// since, and keeps those that go on to wait.
func (r *ring) arrivals(appeared map[string]bool) map[string]bool {
	all := maps.Clone(r.arriving)
	maps.Copy(all, appeared)
	r.arriving = maps.Clone(all)
	maps.DeleteFunc(r.arriving, func(id string, _ bool) bool { return !r.derived.Waiting[id] })
	return all
}

// track starts or goes on to track a probe.
func (r *ring) track(p *probe.Probe, appeared bool, now time.Time) {
	t := r.tracked[p.CheckID]
	switch {
	case t == nil:
		t = &tracked{probe: p, title: p.Title(), changed: true, tracker: health.NewTracker(definition(p), r.settings.policy(), now)}
		r.tracked[p.CheckID] = t
	case t.probe != p:
		anew := t.probe.Cluster != p.Cluster
		t.probe, t.title, t.changed = p, p.Title(), true
		t.tracker.Redefine(definition(p), r.settings.policy(), anew)
	}
	t.round = r.round
	if p.Settings.Mode == probe.Shadow || t.verdict.Status != health.None {
		return
	}
	t.changed = true
	if c := r.snap.Checks[p.CheckID]; c != nil && checks.Ours(c) {
		t.tracker.Adopt(now, health.Status(c.Status), c.Output)
	} else if appeared {
		t.tracker.Appear(now, awaited(p))
	}
}

// drop stops to track a probe. Its check goes with the instance, or is removed
// from one that stays.
func (r *ring) drop(id string, t *tracked) {
	delete(r.tracked, id)
	r.agenda.Set(id, time.Time{})
	if r.snap.Instances[t.probe.ServiceID] == nil {
		r.writer.Forget(id)
		return
	}
	r.logger.Info("probe withdrawn, removing its check", naming(t.probe)...)
	r.writer.Withdraw(id)
}

// takeLookups derives the probes anew, by what names and files say now.
func (r *ring) takeLookups(now time.Time) {
	if r.snap == nil {
		return
	}
	r.derive(nil, now)
	r.writer.Sync(r.snap)
}

// takeNews evaluates the probes of which an Envoy has said something new.
func (r *ring) takeNews(now time.Time) {
	for _, id := range r.observers.TakeNews() {
		if t := r.tracked[id]; t != nil {
			r.evaluate(t, now)
		}
	}
}

// takeTime evaluates the probes whose verdict time alone may have changed, and at
// once those that are to be looked at soon: what is looked at now and then comes
// to be looked at all at once, and each wake-up costs more than a look.
func (r *ring) takeTime(now time.Time) {
	r.looked = now
	soon := now.Add(r.settings.policy().StaleAfter / 20)
	var due []string // all of them first: a verdict may be due again at once
	for id, ok := r.agenda.Due(soon); ok; id, ok = r.agenda.Due(soon) {
		due = append(due, id)
	}
	for _, id := range due {
		r.evaluate(r.tracked[id], now)
	}
}

// evaluate brings a probe's verdict up to date and tells the writer if its
// check should be another.
func (r *ring) evaluate(t *tracked, now time.Time) {
	seen := r.observers.Observations(t.probe)
	t.observers = t.observers[:0]
	for _, o := range seen {
		t.observers = append(t.observers, o.NodeID)
	}
	before := t.verdict
	t.changed = false
	verdict, next := t.tracker.Evaluate(now, observations(seen))
	t.verdict = verdict
	r.agenda.Set(t.probe.CheckID, next)
	if before.Phase != t.verdict.Phase {
		r.logger.Debug("probe changed its phase", append(naming(t.probe),
			logging.Known("from", before.Phase, "to", t.verdict.Phase, "status", t.verdict.Status)...)...)
	}
	if t.probe.Settings.Mode == probe.Shadow {
		r.shadow(t, before.Status)
		return
	}
	want := checks.Want{
		CheckID: t.probe.CheckID, ServiceID: t.probe.ServiceID, Service: t.probe.Service, Name: t.title,
		Status: t.verdict.Status, Output: t.verdict.Output, Observer: t.verdict.Observer,
		Alive: t.verdict.Alive, Lapsed: t.verdict.Lapsed, ReportedAt: t.want.ReportedAt,
	}
	if before.Status != t.verdict.Status {
		want.ReportedAt = time.Time{} // silence and what was found are no reports
		if t.verdict.Phase == health.Reported {
			want.ReportedAt = lastReport(seen)
		}
	}
	if want != t.want || !t.written {
		t.want, t.written = want, true
		want.Phase = string(t.verdict.Phase) // which alone is no reason to tell
		r.writer.Set(want)
	}
}

// naming is how lines of the log name a probe.
func naming(p *probe.Probe) []any {
	return []any{"check_id", p.CheckID, "service", p.Service, "service_id", p.ServiceID}
}

// reload takes new settings over.
func (r *ring) reload(s Settings) {
	r.step(func(now time.Time) {
		r.settings = s
		r.plan.NodeIDs, r.plan.ReportInterval = s.NodeIDs, s.ReportInterval
		for _, t := range r.tracked {
			t.changed = true
			t.tracker.Redefine(definition(t.probe), s.policy(), false)
		}
		r.writer.Reconfigure(s.TTL, s.OrphanGrace)
		if r.snap != nil {
			r.derive(nil, now)
			r.writer.Sync(r.snap)
		}
	})
}
