package hds

import (
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

const interval = 500 * time.Millisecond

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world makes a snapshot of web instances and the plan for it.
func world(config PlanConfig, metas map[string]map[string]string, more ...*catalog.Instance) (*Plan, map[string]*probe.Probe) {
	snap := &catalog.Snapshot{Node: catalog.Node{Name: "n", Address: "127.0.0.1"}, Instances: map[string]*catalog.Instance{}}
	for id, meta := range metas {
		snap.Instances[id] = &catalog.Instance{ID: id, Service: "web", Port: 80, Meta: meta}
	}
	for _, i := range more {
		snap.Instances[i.ID] = i
	}
	rules := &probe.Rules{Defaults: probe.Settings{Interval: time.Second, Timeout: time.Second, HealthyThreshold: 1, UnhealthyThreshold: 2, Observer: probe.Auto}}
	probes := map[string]*probe.Probe{}
	derived := probe.Derive(probe.World{Snapshot: snap}, rules, nil)
	for _, p := range derived.Probes {
		probes[p.ServiceID] = p
	}
	config.ReportInterval = interval
	return NewPlan(config, snap, derived.Probes), probes
}

var (
	nodeOnly = PlanConfig{NodeIDs: []string{"n1"}}
	asHTTP   = map[string]string{"hds": "http"}
	asTCP    = map[string]string{"hds": "tcp"}
)

func newNode(id string) *corev3.Node {
	return &corev3.Node{Id: id, UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{
		UserAgentBuildVersion: &corev3.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40}},
	}}
}

// envoy plays the other end of a session: it echoes clusters with statuses.
type envoy struct {
	t   *testing.T
	s   *session
	f   frame
	now time.Time
}

func newEnvoy(t *testing.T) *envoy {
	return &envoy{t: t, s: newSession(1, newIdentity(newNode("n1")), "peer", nil), now: t0}
}

type echo struct {
	cluster string
	status  corev3.HealthStatus
	code    float64
}

func reportOf(echoes ...echo) *healthv3.HealthCheckRequestOrEndpointHealthResponse {
	r := &healthv3.EndpointHealthResponse{}
	for _, e := range echoes {
		h := &healthv3.EndpointHealth{Endpoint: &endpointv3.Endpoint{}, HealthStatus: e.status}
		if e.code != 0 {
			h.HealthMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{"http_status_code": structpb.NewNumberValue(e.code)}}
		}
		r.ClusterEndpointsHealth = append(r.ClusterEndpointsHealth, &healthv3.ClusterEndpointsHealth{
			ClusterName:             e.cluster,
			LocalityEndpointsHealth: []*healthv3.LocalityEndpointsHealth{{EndpointsHealth: []*healthv3.EndpointHealth{h}}},
		})
	}
	if len(echoes) == 0 {
		return &healthv3.HealthCheckRequestOrEndpointHealthResponse{}
	}
	return &healthv3.HealthCheckRequestOrEndpointHealthResponse{
		RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{EndpointHealthResponse: r},
	}
}

// report lets an interval pass and reports.
func (e *envoy) report(echoes ...echo) (dirty []string, freed bool) {
	e.t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(reportOf(echoes...))
	require.NoError(e.t, err)
	e.f.take(mem.BufferSlice{mem.SliceBuffer(b)})
	e.now = e.now.Add(interval)
	dirty, freed, err = e.s.report(&e.f, e.now)
	require.NoError(e.t, err)
	return dirty, freed
}

func names(s *healthv3.HealthCheckSpecifier) []string {
	var out []string
	for _, c := range s.ClusterHealthChecks {
		out = append(out, c.ClusterName)
	}
	return out
}

const (
	up   = corev3.HealthStatus_HEALTHY
	down = corev3.HealthStatus_UNHEALTHY
)

func TestASpecifierHoldsOneClusterPerProbeInOrder(t *testing.T) {
	plan, probes := world(nodeOnly, map[string]map[string]string{"b": asHTTP, "a": asTCP, "c": nil})
	e := newEnvoy(t)
	require.True(t, e.s.differs(plan))
	spec, dropped := e.s.commit(plan, t0)
	assert.Empty(t, dropped)
	assert.Equal(t, []string{probes["a"].Cluster, probes["b"].Cluster}, names(spec))
	assert.Equal(t, interval, spec.Interval.AsDuration())
	require.NoError(t, spec.ValidateAll())
	assert.False(t, e.s.differs(plan), "sent only if different")

	hc := spec.ClusterHealthChecks[1].HealthChecks[0]
	for _, d := range []time.Duration{hc.Interval.AsDuration(), hc.NoTrafficInterval.AsDuration(), hc.NoTrafficHealthyInterval.AsDuration(), hc.Timeout.AsDuration()} {
		assert.Equal(t, time.Second, d)
	}
	assert.EqualValues(t, 5, hc.IntervalJitterPercent)
	assert.EqualValues(t, 1, hc.HealthyThreshold.Value)
	assert.EqualValues(t, 2, hc.UnhealthyThreshold.Value)
	assert.False(t, hc.ReuseConnection.Value)
	h := hc.GetHttpHealthCheck()
	assert.Equal(t, "127.0.0.1:80", h.Host)
	assert.EqualValues(t, 300, h.ExpectedStatuses[0].End, "the end of a range is left out")
	assert.EqualValues(t, []int64{100, 600}, []int64{h.RetriableStatuses[0].Start, h.RetriableStatuses[0].End})
}

func TestTheFirstEchoStartsTheCount(t *testing.T) {
	plan, probes := world(nodeOnly, map[string]map[string]string{"a": asHTTP})
	p := probes["a"]
	e := newEnvoy(t)
	e.s.commit(plan, t0)
	assert.Equal(t, Observation{NodeID: "n1", Stream: 1}, e.s.observation(p))
	dirty, _ := e.report(echo{p.Cluster, down, 0})
	assert.Contains(t, dirty, p.CheckID)
	o := e.s.observation(p)
	assert.True(t, o.Answered)
	assert.Equal(t, 0, o.Reports)
	for n := 1; n <= 7; n++ { // six reports of grace, and one past it
		dirty, _ = e.report(echo{p.Cluster, down, 0})
		assert.NotEmpty(t, dirty, "an equal report brings it closer: %d", n)
		assert.Equal(t, n, e.s.observation(p).Reports)
	}
	dirty, _ = e.report(echo{p.Cluster, down, 0})
	assert.Empty(t, dirty, "nothing is left to wait for")
	assert.Equal(t, e.now, e.s.observation(p).At, "an equal report is a heartbeat")
}

func TestAnotherPaceIsAnotherClock(t *testing.T) {
	plan, probes := world(nodeOnly, map[string]map[string]string{"a": asHTTP})
	slower, _ := world(nodeOnly, map[string]map[string]string{"a": asHTTP})
	slower.config.ReportInterval = 10 * interval
	p := probes["a"]
	e := newEnvoy(t)
	e.s.commit(plan, t0)
	for range 5 {
		e.report(echo{p.Cluster, down, 0})
	}
	require.Equal(t, 4, e.s.observation(p).Reports)
	require.True(t, e.s.differs(slower))
	e.s.commit(slower, e.now)
	o := e.s.observation(p)
	assert.Equal(t, []int{0, 0}, []int{o.Reports, o.Quiet}, "3.05 s are within the first report at 5 s")
	e.report(echo{p.Cluster, down, 0})
	assert.Equal(t, 0, e.s.observation(p).Reports)
	dirty, _ := e.report(echo{p.Cluster, down, 0})
	assert.Equal(t, 1, e.s.observation(p).Reports)
	assert.NotEmpty(t, dirty, "it counts now")
}

func TestHealthyIsRemembered(t *testing.T) {
	plan, probes := world(nodeOnly, map[string]map[string]string{"a": asHTTP})
	p := probes["a"]
	e := newEnvoy(t)
	e.s.commit(plan, t0)
	e.report(echo{p.Cluster, up, 200})
	dirty, _ := e.report(echo{p.Cluster, up, 200})
	assert.Empty(t, dirty)
	dirty, _ = e.report(echo{p.Cluster, down, 500})
	assert.Equal(t, []string{p.CheckID}, dirty)
	o := e.s.observation(p)
	assert.Equal(t, Observation{NodeID: "n1", Stream: 1, Answered: true, Status: down, Code: 500, Reports: 2, Quiet: 6, WasHealthy: true, At: e.now}, o)
}

func TestWhatIsNoAnswerLeavesTheLastOne(t *testing.T) {
	plan, probes := world(nodeOnly, map[string]map[string]string{"a": asHTTP})
	p := probes["a"]
	two := reportOf(echo{p.Cluster, down, 0})
	list := two.GetEndpointHealthResponse().ClusterEndpointsHealth[0].LocalityEndpointsHealth[0]
	list.EndpointsHealth = append(list.EndpointsHealth, list.EndpointsHealth[0])
	for name, silence := range map[string]*healthv3.HealthCheckRequestOrEndpointHealthResponse{
		"unknown": reportOf(echo{p.Cluster, corev3.HealthStatus_UNKNOWN, 0}), "draining": reportOf(echo{p.Cluster, corev3.HealthStatus_DRAINING, 0}),
		"a number": reportOf(echo{p.Cluster, 99, 0}), "other clusters": reportOf(echo{"other", down, 0}), "nothing": reportOf(),
		"two endpoints": two,
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvoy(t)
			e.s.commit(plan, t0)
			e.report(echo{p.Cluster, up, 200})
			answered := e.now
			for range 3 {
				b, err := proto.Marshal(silence)
				require.NoError(t, err)
				e.f.take(mem.BufferSlice{mem.SliceBuffer(b)})
				e.now = e.now.Add(interval)
				_, _, err = e.s.report(&e.f, e.now)
				require.NoError(t, err)
			}
			o := e.s.observation(p)
			assert.Equal(t, up, o.Status)
			assert.Equal(t, answered, o.At, "it is not refreshed")
			assert.Zero(t, o.Reports, "and does not come closer to counting")
			dirty, _ := e.report(echo{p.Cluster, up, 200})
			assert.Contains(t, dirty, p.CheckID, "the same answer after silence is news")
			assert.Equal(t, e.now, e.s.observation(p).At)
		})
	}
}

func TestAWithdrawnClusterIsNotSentAgainBeforeItIsGone(t *testing.T) {
	with, probes := world(nodeOnly, map[string]map[string]string{"a": asHTTP})
	without, _ := world(nodeOnly, nil)
	p := probes["a"]
	e := newEnvoy(t)
	e.s.commit(with, t0)
	e.report(echo{p.Cluster, up, 200})
	spec, _ := e.s.commit(without, e.now)
	assert.Empty(t, spec.ClusterHealthChecks)
	assert.False(t, e.s.differs(with), "it may still be echoed")
	_, freed := e.report(echo{p.Cluster, up, 200})
	assert.False(t, freed)
	_, freed = e.report()
	assert.True(t, freed)
	require.True(t, e.s.differs(with))
	spec, _ = e.s.commit(with, e.now)
	assert.Equal(t, []string{p.Cluster}, names(spec))
	e.report(echo{p.Cluster, down, 0})
	o := e.s.observation(p)
	assert.False(t, o.WasHealthy, "the new cluster knows nothing of the old one")
	assert.Zero(t, o.Reports)
}

func TestTheEchoTellsWhetherASpecifierIsApplied(t *testing.T) {
	one, probes := world(nodeOnly, map[string]map[string]string{"a": asHTTP})
	two, more := world(nodeOnly, map[string]map[string]string{"a": asHTTP, "b": asTCP})
	empty, _ := world(nodeOnly, nil)
	a, b := echo{probes["a"].Cluster, up, 0}, echo{more["b"].Cluster, up, 0}
	e := newEnvoy(t)
	assert.False(t, e.s.info().Applied, "nothing was sent")
	e.s.commit(empty, e.now)
	assert.False(t, e.s.info().Applied)
	e.report()
	assert.True(t, e.s.info().Applied, "an empty specifier is echoed by an empty report")
	e.s.commit(one, e.now)
	assert.Equal(t, e.now, e.s.info().Unapplied)
	e.report(a)
	assert.True(t, e.s.info().Applied)
	sent := e.now
	e.s.commit(two, sent)
	e.report(a)
	e.report(a)
	assert.Equal(t, sent, e.s.info().Unapplied, "the old structure is no echo, also when it is repeated")
	e.report(a, b)
	assert.True(t, e.s.info().Applied)
	e.s.commit(one, e.now)
	e.report(a, b)
	assert.False(t, e.s.info().Applied, "what was withdrawn is still there")
	e.report(a)
	assert.True(t, e.s.info().Applied)
}

func TestAReportIsHeardForWhatMatches(t *testing.T) {
	one, probes := world(nodeOnly, map[string]map[string]string{"a": asHTTP})
	two, _ := world(nodeOnly, map[string]map[string]string{"a": asHTTP, "b": asTCP})
	e := newEnvoy(t)
	e.s.commit(one, e.now)
	e.report(echo{probes["a"].Cluster, up, 0})
	e.s.commit(two, e.now)
	dirty, _ := e.report(echo{probes["a"].Cluster, down, 0})
	assert.Equal(t, []string{"hds:a"}, dirty, "before the newest specifier is echoed")
	assert.Equal(t, down, e.s.observation(probes["a"]).Status)
}

func TestTheGuardLeavesOutASingleCluster(t *testing.T) {
	plan, probes := world(nodeOnly, map[string]map[string]string{"a": asHTTP, "b": asHTTP})
	probes["a"].Settings.Path = "no slash"
	e := newEnvoy(t)
	spec, dropped := e.s.commit(plan, t0)
	assert.Equal(t, []string{probes["b"].Cluster}, names(spec))
	assert.Contains(t, dropped[probes["a"].Cluster].Error(), "no slash")
	assert.False(t, e.s.differs(plan))
}

func TestCodesAreTrustedSinceEnvoy1393(t *testing.T) {
	for version, trusted := range map[[3]uint32]bool{{1, 38, 3}: false, {1, 39, 2}: false, {1, 39, 3}: true, {1, 40, 0}: true, {2, 0, 0}: true} {
		n := newNode("n1")
		n.GetUserAgentBuildVersion().Version = &typev3.SemanticVersion{MajorNumber: version[0], MinorNumber: version[1], Patch: version[2]}
		assert.Equal(t, trusted, newIdentity(n).codes, version)
	}
	assert.False(t, newIdentity(&corev3.Node{Id: "x"}).codes, "an Envoy that does not say")
}

func TestStatusCodesThatAreNone(t *testing.T) {
	for _, n := range []float64{0, 99, 600, 200.5, -1, 1e300} {
		m := &structpb.Struct{Fields: map[string]*structpb.Value{"http_status_code": structpb.NewNumberValue(n)}}
		assert.Zero(t, statusCode(m), n)
	}
	assert.Zero(t, statusCode(&structpb.Struct{Fields: map[string]*structpb.Value{"http_status_code": structpb.NewStringValue("200")}}))
	assert.Zero(t, statusCode(nil))
}

func TestWhoAnEnvoyIs(t *testing.T) {
	proxy := &catalog.Instance{ID: "web-1-sidecar-proxy", Kind: catalog.KindConnectProxy, Proxy: &catalog.Proxy{DestinationServiceName: "web", DestinationServiceID: "web-1"}}
	other := &catalog.Instance{ID: "odd", Kind: catalog.KindConnectProxy}
	gateway := &catalog.Instance{ID: "gw", Kind: "ingress-gateway"}
	plan, probes := world(PlanConfig{NodeIDs: []string{"gw", "n*", "x-sidecar-proxy", "*proxy"}}, map[string]map[string]string{"web-1": asHTTP, "web-2": asHTTP}, proxy, other, gateway)
	is := func(n *corev3.Node) (Kind, []*probe.Probe) { return plan.assign(newIdentity(n)) }

	kind, got := is(newNode("web-1-sidecar-proxy"))
	assert.Equal(t, SidecarEnvoy, kind)
	assert.Equal(t, []*probe.Probe{probes["web-1"]}, got, "its own instance and nothing else")
	kind, got = is(newNode("odd"))
	assert.Equal(t, SidecarEnvoy, kind)
	assert.Empty(t, got)
	for _, id := range []string{"n1", "gw", "x-sidecar-proxy"} {
		kind, got = is(newNode(id))
		assert.Equal(t, NodeEnvoy, kind, id)
		assert.Equal(t, []*probe.Probe{probes["web-2"]}, got, id)
	}
	for _, id := range []string{"", "stranger", "web-2-sidecar-proxy"} {
		kind, got = is(newNode(id))
		assert.Equal(t, UnknownEnvoy, kind, id)
		assert.Empty(t, got, id)
	}
	meta := func(key, value string) *corev3.Node {
		n := newNode("n1")
		n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{key: structpb.NewStringValue(value)}}
		return n
	}
	kind, _ = is(meta("namespace", "default"))
	assert.Equal(t, NodeEnvoy, kind)
	kind, _ = is(meta("namespace", "team"))
	assert.Equal(t, UnknownEnvoy, kind)
	kind, _ = is(meta("partition", "team"))
	assert.Equal(t, UnknownEnvoy, kind)
}

func TestThePacerGathersWhatFollows(t *testing.T) {
	var p pacer
	p.note(t0)
	assert.Zero(t, p.wait(t0), "the first change goes out at once")
	p.sent(t0)
	ms := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Millisecond) }
	p.note(ms(100))
	assert.Equal(t, 250*time.Millisecond, p.wait(ms(100)))
	for n := 200; n <= 1000; n += 200 {
		p.note(ms(n))
	}
	assert.Equal(t, 100*time.Millisecond, p.wait(ms(1000)), "for at most a second")
	p.sent(ms(1100))
	p.note(ms(1400))
	assert.Zero(t, p.wait(ms(1400)), "after a quiet time at once again")
}

func TestFramesCompareSegments(t *testing.T) {
	var f frame
	take := func(parts ...string) bool {
		var s mem.BufferSlice
		for _, p := range parts {
			s = append(s, mem.SliceBuffer(p))
		}
		f.take(s)
		return f.equal
	}
	assert.False(t, take(), "the first message is new, also an empty one")
	assert.True(t, take())
	assert.False(t, take("abc", "def"))
	assert.True(t, take("ab", "cdef"))
	assert.True(t, take("abcdef"))
	assert.False(t, take("abcde"))
	assert.False(t, take("abcdef"))
	assert.False(t, take("abcdefg"))
	assert.Equal(t, "abcdefg", string(f.last))
	assert.False(t, take(""))
	assert.Empty(t, f.last)
}

func TestAnEqualFrameCostsNoAllocation(t *testing.T) {
	plan, probes := world(nodeOnly, map[string]map[string]string{"a": asHTTP})
	e := newEnvoy(t)
	e.s.commit(plan, t0)
	e.report(echo{probes["a"].Cluster, up, 0})
	same := mem.BufferSlice{mem.SliceBuffer(append([]byte(nil), e.f.last...))}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		e.f.take(same)
		if _, _, err := e.s.report(&e.f, e.now); err != nil {
			t.Fatal(err)
		}
	}))
}

func TestAPlanHasEachClusterOnceInOrder(t *testing.T) {
	of := func(clusters ...string) (out []*probe.Probe) {
		for _, c := range clusters {
			out = append(out, &probe.Probe{Cluster: c, ByNode: true, Sidecars: []string{"s"}})
		}
		return out
	}
	given := of("hds:b@1", "hds:a@1", "hds:a!@1", "hds:a@1")
	plan := NewPlan(PlanConfig{}, &catalog.Snapshot{}, given)
	assert.Equal(t, of("hds:a!@1", "hds:a@1", "hds:b@1"), plan.node)
	assert.Equal(t, plan.node, plan.sidecar["s"])
	assert.Equal(t, "hds:b@1", given[0].Cluster, "what was given is left as it is")
	for i, p := range plan.node {
		k, ok := asked{probes: plan.node}.index(p.Cluster)
		assert.True(t, ok)
		assert.Equal(t, i, k)
	}
	assert.False(t, asked{probes: plan.node}.has("hds:a@2"))
}
