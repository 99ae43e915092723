package bridge

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/admin"
	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/health"
)

func TestACheckThatMayNotBeRemovedIsAProblem(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1", "hds", "off")})
	r.states["hds:web-1"] = checks.State{ServiceID: "web-1", Status: health.Passing, Err: fmt.Errorf("deregistering: %w", checks.ErrDenied)}
	r.survey(at(0))
	r.survey(at(problemPatience))
	assert.Equal(t, 1, r.logged("[WARN]", "service_id=web-1", "source=consul", "cannot be written or removed", "service:write"))
	delete(r.states, "hds:web-1")
	r.survey(at(problemPatience + time.Second))
	assert.Equal(t, 1, r.logged("[INFO]", "problem is over", "service_id=web-1"))
}

func TestProblemsAreSaidOnce(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1", "hds", "htpp"), web("web-2")})
	r.states["hds:web-2"] = checks.State{Err: fmt.Errorf("writing: %w", checks.ErrDenied)}
	r.survey(at(problemPatience - 1))
	assert.Zero(t, r.logged("[WARN]"), "it may be over soon")
	for n := range 5 {
		r.survey(at(problemPatience + time.Duration(n)*time.Second))
	}
	assert.Equal(t, 1, r.logged("[WARN]", "service_id=web-1", "source=meta", "htpp"))
	assert.Equal(t, 1, r.logged("[WARN]", "service_id=web-2", "source=consul", "service:write"))
	assert.Zero(t, r.logged("over"))
	r.states["hds:web-2"] = checks.State{Err: checks.ErrAway}
	r.show(at(10*time.Second), world{web("web-1"), web("web-2")})
	r.survey(at(11 * time.Second))
	assert.Equal(t, 1, r.logged("[INFO]", "problem is over", "service_id=web-1"))
	assert.Equal(t, 1, r.logged("[INFO]", "problem is over", "service_id=web-2"))
	assert.Empty(t, r.problems)
	r.show(at(12*time.Second), world{web("web-1", "hds", "htpp")})
	r.survey(at(15 * time.Second))
	assert.Equal(t, 2, r.logged("[WARN]", "service_id=web-1"), "a problem that is back is said again")
}

func TestADeadTokenIsOneProblem(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1"), web("web-2")})
	for _, id := range []string{"hds:web-1", "hds:web-2"} {
		r.states[id] = checks.State{Status: health.Passing, Err: fmt.Errorf("updating: %w", checks.ErrTokenUnknown)}
	}
	r.health = catalog.Health{Err: "403", TokenUnknown: true}
	for n := range 6 {
		r.survey(at(time.Duration(n) * time.Second))
	}
	require.Len(t, r.messages("consul"), 1)
	assert.Contains(t, r.messages("consul")[0], "does not know the token")
	assert.Equal(t, 1, r.logged("[WARN]"))
	assert.Zero(t, r.logged("[WARN]", "service_id"), "it is none of a service")
	assert.Equal(t, 1, r.gauge["token unknown"])
	r.health = catalog.Health{Synced: true}
	r.states["hds:web-1"], r.states["hds:web-2"] = checks.State{Status: health.Passing}, checks.State{Status: health.Passing}
	r.survey(at(7 * time.Second))
	assert.Empty(t, r.problems)
	assert.Zero(t, r.gauge["token unknown"])
}

func TestAProbeThatNobodyAnswersIsAProblem(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1"), web("web-2"), sidecarOf("web-2"), web("web-3"), web("web-4", "hds", "tcp", "hds_observer", "sidecar")})
	r.seen["hds:web-3"] = []hds.Observation{{NodeID: "node-1", Stream: 1}}
	r.says("web-1", up, at(19*time.Second))
	r.tell(at(19*time.Second), "web-1")
	r.takeTime(at(20*time.Second - 1))
	r.survey(at(20*time.Second - 1))
	require.Empty(t, r.problems)
	r.takeTime(at(20 * time.Second))
	r.survey(at(20 * time.Second))
	assert.Equal(t, []string{
		`web-2: no Envoy observes check "hds:web-2": sidecar Envoy web-2-sidecar-proxy is not connected`,
		`web-3: no Envoy has answered for check "hds:web-3" in time; asked: ["node-1"]`,
	}, r.messages("envoy")[:2])
	assert.Contains(t, r.messages("envoy")[2], `no Envoy observes check "hds:web-4": no sidecar of the instance is registered`)
	assert.Equal(t, health.None, r.wants["hds:web-2"].Status, "it makes no check where there is none")
	r.says("web-3", up, at(21*time.Second))
	r.tell(at(21*time.Second), "web-3")
	r.survey(at(21 * time.Second))
	assert.Len(t, r.messages("envoy"), 2)
}

func TestASpecifierThatIsNotAppliedIsAProblem(t *testing.T) {
	for report, patience := range map[time.Duration]time.Duration{500 * time.Millisecond: 5 * time.Second, 2 * time.Second: 6 * time.Second} {
		r := newTestRing(t, func(s *Settings) { s.ReportInterval = report })
		r.show(at(0), world{})
		late := hds.Stream{ID: 7, NodeID: "node-1", Kind: hds.NodeEnvoy, Unapplied: at(0)}
		r.streams = []hds.Stream{late, {ID: 8, NodeID: "node-2", Kind: hds.NodeEnvoy, Applied: true}, {ID: 9, NodeID: "node-3", Kind: hds.NodeEnvoy}}
		r.survey(at(patience))
		assert.Empty(t, r.problems)
		for range 3 {
			r.survey(at(patience + 1))
		}
		assert.Equal(t, []string{`: Envoy "node-1" does not apply what it was sent: its reports do not echo it`}, r.messages("envoy"))
		assert.Equal(t, 1, r.gauge["overdue"], "it is counted once")
		assert.Equal(t, 1, r.gauge["unapplied"])
		r.streams[0].Applied = true
		r.survey(at(patience + 2))
		assert.Empty(t, r.problems)
		assert.Zero(t, r.gauge["unapplied"])
		r.streams[0] = late
		r.survey(at(time.Hour))
		assert.Equal(t, 2, r.gauge["overdue"], "another specifier that is late counts again")
		r.streams = nil
		r.survey(at(2 * time.Hour))
		assert.Zero(t, r.gauge["unapplied"], "a stream that has ended owes nothing")
	}
}

func TestEnvoysThatAreAProblem(t *testing.T) {
	r := newTestRing(t)
	r.streams = []hds.Stream{{ID: 1, NodeID: "stranger", Kind: hds.UnknownEnvoy, Applied: true}}
	r.survey(at(0))
	assert.Empty(t, r.messages("envoy"), "all are unknown until Consul was read")
	r.show(at(0), world{})
	r.streams = []hds.Stream{
		{ID: 1, NodeID: "stranger", Kind: hds.UnknownEnvoy, Applied: true}, {ID: 2, NodeID: "stranger", Kind: hds.UnknownEnvoy, Applied: true},
		{ID: 3, NodeID: "node-1", Kind: hds.NodeEnvoy, Applied: true, Dropped: map[string]error{"hds:a@1": errors.New("bad path")}},
		{ID: 4, NodeID: "a-sidecar-proxy", Kind: hds.SidecarEnvoy, Applied: true},
	}
	r.survey(at(0))
	assert.Equal(t, []string{
		`: Envoy "stranger" is unknown and probes nothing: it is neither a connect-proxy registered with this agent nor named by hds.node_ids`,
		`: cluster "hds:a@1" is not sent to Envoy "node-1": bad path`,
	}, r.messages("envoy"), "one each, also of two streams")
	assert.Equal(t, 2, r.gauge["problems envoy"])
	assert.Equal(t, []int{1, 1, 2}, []int{r.gauge["observers sidecar"], r.gauge["observers node"], r.gauge["observers unknown"]})
	r.streams = nil
	r.survey(at(0))
	assert.Equal(t, []int{0, 0, 0}, []int{r.gauge["observers sidecar"], r.gauge["observers node"], r.gauge["observers unknown"]})
	assert.Zero(t, r.gauge["problems envoy"])
}

func TestGaugesFollowTheChecks(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1"), web("web-2", "hds", "tcp"), web("web-3")})
	r.states["hds:web-1"] = checks.State{Status: health.Passing}
	r.states["hds:gone"] = checks.State{Status: health.Passing, Orphan: true}
	r.says("web-1", up, at(0))
	r.tell(at(0), "web-1")
	r.survey(at(0))
	assert.Equal(t, []int{2, 1, 1}, []int{r.gauge["probes http"], r.gauge["probes tcp"], r.gauge["orphans"]})
	assert.Equal(t, []int{1, 2, 0}, []int{r.gauge["checks passing reported"], r.gauge["checks  pending"], r.gauge["checks passing pending"]})
	r.show(at(time.Second), world{})
	delete(r.states, "hds:gone")
	r.survey(at(time.Second))
	for _, name := range []string{"probes http", "probes tcp", "orphans", "checks passing reported", "checks  pending"} {
		assert.Zero(t, r.gauge[name], name)
	}
}

func TestDescribe(t *testing.T) {
	r := newTestRing(t)
	var s admin.Status
	r.describe(&s)
	assert.Equal(t, admin.Status{}, s, "nothing is known yet")
	r.show(at(0), world{web("web-2", "hds", "tcp"), web("web-1"), web("web-3", "hds", "htpp"), web("web-0", "hds", "htpp")})
	r.seen["hds:web-1"] = []hds.Observation{
		{NodeID: "node-2", Stream: 1, Answered: true, Status: down, Reports: 100, At: at(time.Second)},
		{NodeID: "node-1", Stream: 2}, {NodeID: "node-2", Stream: 3},
	}
	r.tell(at(time.Second), "web-1")
	r.states["hds:web-1"] = checks.State{Status: health.Critical, Output: "what the agent shows"}
	r.describe(&s)
	assert.Equal(t, "n1", s.Node)
	assert.Equal(t, []admin.Check{
		{
			CheckID: "hds:web-1", Service: "web", ServiceID: "web-1", Probe: "default", Kind: "http", Target: "10.0.0.1:80", Mode: "enforce",
			Phase: "reported", Status: "critical", Output: "what the agent shows", Since: at(time.Second), Observers: []string{"node-1", "node-2"},
		},
		{CheckID: "hds:web-2", Service: "web", ServiceID: "web-2", Probe: "default", Kind: "tcp", Target: "10.0.0.1:80", Mode: "enforce", Phase: "pending"},
	}, withoutEmpty(s.Checks))
	require.Len(t, s.Problems, 2)
	assert.Equal(t, []string{"web-0", "web-3"}, []string{s.Problems[0].ServiceID, s.Problems[1].ServiceID})
	assert.Equal(t, "meta", s.Problems[0].Source)
}

func TestAShadowProbeShowsAndWritesNothing(t *testing.T) {
	r := newTestRing(t)
	shadowed := web("web-1")
	shadowed.Meta = map[string]string{"hds": "http", "hds_mode": "shadow"}
	own := &catalog.Check{ID: "own", ServiceID: "web-1", Type: "http", Status: "passing"}
	r.show(at(0), world{})
	r.show(at(time.Second), world{shadowed, own})
	assert.Empty(t, r.wants)
	r.says("web-1", up, at(2*time.Second))
	r.news = []string{"hds:web-1"}
	r.takeNews(at(2 * time.Second))
	r.survey(at(3 * time.Second))
	assert.Empty(t, r.wants)
	assert.Equal(t, []int{1, 1, 0}, []int{r.gauge["shadow passing"], r.gauge["agree true"], r.gauge["agree false"]})
	assert.Zero(t, r.gauge["checks passing reported"], "it is no check")
	var s admin.Status
	r.describe(&s)
	assert.Equal(t, []string{"shadow", "reported", "passing"}, []string{s.Checks[0].Mode, s.Checks[0].Phase, s.Checks[0].Status})

	r.show(at(4*time.Second), world{web("web-1"), own})
	assert.Equal(t, health.Passing, r.wants["hds:web-1"].Status, "to enforce is to write what was shown")
	r.taken()
	r.show(at(5*time.Second), world{shadowed, own})
	assert.Contains(t, r.taken(), "withdraw hds:web-1")
}
