package bridge

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/hashicorp/go-hclog"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/lookup"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// t0 is when the ring of every test was made.
var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

// fakeParts plays the three parts that a ring joins, and what it counts with.
// Only what a test sets is there.
type fakeParts struct {
	mu sync.Mutex
	// snapshots and heard are the signals of the two sources.
	snapshots, heard chan struct{}
	snap             *catalog.Snapshot
	health           catalog.Health
	news             []string
	// seen is what the Envoys said, by check id.
	seen    map[string][]hds.Observation
	streams []hds.Stream
	states  map[string]checks.State
	// log is what the ring told the writer and the observers, in order.
	log   []string
	wants map[string]checks.Want
	// gauge is what every gauge stands at.
	gauge map[string]int
}

func newFakeParts() *fakeParts {
	return &fakeParts{
		snapshots: make(chan struct{}, 1), heard: make(chan struct{}, 1),
		seen: map[string][]hds.Observation{}, states: map[string]checks.State{},
		wants: map[string]checks.Want{}, gauge: map[string]int{},
	}
}

// note notes a call; calls are told one from another by their text.
func (f *fakeParts) note(format string, args ...any) {
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

// taken returns the log and begins a new one.
func (f *fakeParts) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	return log
}

func (f *fakeParts) lock() func() {
	f.mu.Lock()
	return f.mu.Unlock
}

// fakeSource, fakeObservers and fakeWriter are the sides of the same fake.
type (
	fakeSource    struct{ *fakeParts }
	fakeObservers struct{ *fakeParts }
	fakeWriter    struct{ *fakeParts }
	fakeGauges    struct{ *fakeParts }
)

func (f fakeSource) Updates() <-chan struct{} { return f.snapshots }
func (f fakeSource) Snapshot() *catalog.Snapshot {
	defer f.lock()()
	return f.snap
}

func (f fakeSource) Health() catalog.Health {
	defer f.lock()()
	return f.health
}

func (f fakeObservers) Updates() <-chan struct{} { return f.heard }
func (f fakeObservers) TakeNews() []string {
	defer f.lock()()
	news := f.news
	f.news = nil
	return news
}
func (f fakeObservers) Observations(p *probe.Probe) []hds.Observation {
	defer f.lock()()
	return slices.Clone(f.seen[p.CheckID])
}
func (f fakeObservers) Streams() []hds.Stream {
	defer f.lock()()
	return slices.Clone(f.streams)
}
func (f fakeObservers) SetPlan(*hds.Plan) {
	defer f.lock()()
	f.note("plan")
}

func (f fakeWriter) Set(w checks.Want) {
	defer f.lock()()
	f.wants[w.CheckID] = w
	f.note("set %s %s", w.CheckID, w.Status)
}
func (f fakeWriter) Withdraw(id string) {
	defer f.lock()()
	f.note("withdraw %s", id)
}
func (f fakeWriter) Forget(id string) {
	defer f.lock()()
	f.note("forget %s", id)
}
func (f fakeWriter) Sync(s *catalog.Snapshot) {
	defer f.lock()()
	f.note("sync %d", s.Revision)
}
func (f fakeWriter) Reconfigure(ttl, grace time.Duration) {
	defer f.lock()()
	f.note("reconfigure %s %s", ttl, grace)
}
func (f fakeWriter) States() map[string]checks.State {
	defer f.lock()()
	return maps.Clone(f.states)
}

func (f fakeGauges) set(n int, names ...string) {
	defer f.lock()()
	f.gauge[strings.Join(names, " ")] = n
}
func (f fakeGauges) TokenUnknown(yes bool) {
	if yes {
		f.set(1, "token unknown")
	} else {
		f.set(0, "token unknown")
	}
}
func (f fakeGauges) Probes(kind string, n int)          { f.set(n, "probes", kind) }
func (f fakeGauges) Problems(source string, n int)      { f.set(n, "problems", source) }
func (f fakeGauges) Observers(kind string, n int)       { f.set(n, "observers", kind) }
func (f fakeGauges) Checks(status, phase string, n int) { f.set(n, "checks", status, phase) }
func (f fakeGauges) ShadowChecks(status string, n int)  { f.set(n, "shadow", status) }
func (f fakeGauges) ShadowCompared(agree bool) {
	defer f.lock()()
	f.gauge[fmt.Sprint("agree ", agree)]++
}
func (f fakeGauges) ForeignChecks(n int)       { f.set(n, "foreign") }
func (f fakeGauges) OrphanChecks(n int)        { f.set(n, "orphans") }
func (f fakeGauges) SpecifiersUnapplied(n int) { f.set(n, "unapplied") }
func (f fakeGauges) SpecifierOverdue() {
	defer f.lock()()
	f.gauge["overdue"]++
}

// testRing is a ring of fakes. Its tests pass the time in; only those of run
// live in a synctest's bubble.
type testRing struct {
	*ring
	*fakeParts
	t        *testing.T
	text     bytes.Buffer
	revision uint64
}

// fakeTable knows what a test tells it.
type fakeTable[T any] struct {
	updates chan struct{}
	wanted  map[string]bool
	entries map[string]lookup.Entry[T]
}

func (f *fakeTable[T]) Updates() <-chan struct{}            { return f.updates }
func (f *fakeTable[T]) Want(keys map[string]bool)           { f.wanted = keys }
func (f *fakeTable[T]) Entries() map[string]lookup.Entry[T] { return f.entries }

func newTestRing(t *testing.T, change ...func(*Settings)) *testRing {
	f := newFakeParts()
	r := &testRing{t: t, fakeParts: f}
	s := testSettings()
	for _, c := range change {
		c(&s)
	}
	r.ring = &ring{
		names: &fakeTable[netip.Addr]{}, files: &fakeTable[[]byte]{}, arriving: map[string]bool{},
		source: fakeSource{f}, observers: fakeObservers{f}, writer: fakeWriter{f}, gauges: fakeGauges{f},
		logger: logTo(&r.text), settings: s,
		plan:     hds.PlanConfig{NodeIDs: s.NodeIDs, ReportInterval: s.ReportInterval},
		tracked:  map[string]*tracked{},
		problems: map[probe.Problem]bool{}, announcer: newAnnouncer(logTo(&r.text)), overdue: map[uint64]bool{},
	}
	return r
}

// testSettings are the defaults of the config.
func testSettings() Settings {
	return Settings{
		Rules: probe.Rules{Defaults: probe.Settings{
			Interval: time.Second, Timeout: time.Second, HealthyThreshold: 1, UnhealthyThreshold: 2, Observer: probe.Auto,
		}},
		NodeIDs: []string{"node-*"}, ReportInterval: 500 * time.Millisecond,
		TTL: time.Minute, OrphanGrace: time.Minute, StaleAfter: 10 * time.Second, AdoptTimeout: 20 * time.Second,
		OnStale: "expire", InitialStatus: "critical",
	}
}

// world is what a snapshot holds: instances and checks.
type world []any

// show gives the ring a snapshot that differs from the one before.
func (r *testRing) show(now time.Time, w world) {
	r.t.Helper()
	r.takeSnapshot(r.picture(w), now)
}

func (r *testRing) picture(w world) *catalog.Snapshot {
	r.revision++
	s := &catalog.Snapshot{
		Node: catalog.Node{Name: "n1", Address: "10.0.0.1"}, Revision: r.revision,
		Instances: map[string]*catalog.Instance{}, Checks: map[string]*catalog.Check{},
	}
	for _, x := range w {
		switch x := x.(type) {
		case *catalog.Instance:
			s.Instances[x.ID] = x
			if x.Kind == catalog.KindConnectProxy { // as Consul does for each sidecar_service
				s.Checks["alias:"+x.ID] = &catalog.Check{ServiceID: x.ID, Type: catalog.CheckTypeAlias}
			}
		case *catalog.Check:
			s.Checks[x.ID] = x
		}
	}
	return s
}

// web is an instance with an HTTP probe, or what meta pairs say instead.
func web(id string, meta ...string) *catalog.Instance {
	if meta == nil {
		meta = []string{"hds", "http"}
	}
	i := &catalog.Instance{ID: id, Service: "web", Port: 80, Meta: map[string]string{}}
	for k := 0; k < len(meta); k += 2 {
		i.Meta[meta[k]] = meta[k+1]
	}
	return i
}

// sidecarOf is the registered sidecar of an instance.
func sidecarOf(id string) *catalog.Instance {
	return &catalog.Instance{
		ID: id + "-sidecar-proxy", Service: "web-sidecar-proxy", Kind: catalog.KindConnectProxy,
		Proxy: &catalog.Proxy{DestinationServiceName: "web", DestinationServiceID: id, LocalServicePort: 80},
	}
}

// ours is a check as this or an earlier daemon made it.
func ours(id, status, output string) *catalog.Check {
	return &catalog.Check{
		ID: "hds:" + id, ServiceID: id, Type: catalog.CheckTypeTTL, Notes: checks.Mark + " and so on", Status: status, Output: output,
	}
}

// says is what a node Envoy with 100 reports behind it says of an instance.
func (r *testRing) says(id string, status corev3.HealthStatus, at time.Time) {
	defer r.lock()()
	r.seen["hds:"+id] = []hds.Observation{{
		NodeID: "node-1", Stream: 1, Answered: true, Status: status, Reports: 100, At: at,
	}}
}

// tell says that there is news of an instance, and lets the ring take it.
func (r *testRing) tell(now time.Time, id string) {
	func() {
		defer r.lock()()
		r.news = append(r.news, "hds:"+id)
	}()
	r.takeNews(now)
}

// logged counts the lines of the log that hold all of the words.
func (r *testRing) logged(words ...string) (n int) {
	for line := range strings.Lines(r.text.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// messages are what the problems of a source say, in order.
func (r *testRing) messages(source string) (out []string) {
	for _, p := range slices.SortedFunc(maps.Keys(r.problems), compareProblems) {
		if p.Source == source {
			out = append(out, p.ServiceID+": "+p.Message)
		}
	}
	return out
}

// logTo logs into a buffer that is to be read when nobody writes.
func logTo(b *bytes.Buffer) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: b, Level: hclog.Debug})
}
