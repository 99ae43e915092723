package bridge

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/admin"
	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/hds"
	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/lookup"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

const (
	up   = corev3.HealthStatus_HEALTHY
	down = corev3.HealthStatus_UNHEALTHY
)

func TestAnInstanceThatWasThereHasNoCheckBeforeItsFirstAnswer(t *testing.T) {
	r := newTestRing(t)
	r.show(at(time.Second), world{web("web-1"), web("other", "x", "y")})
	assert.Equal(t, []string{"plan", "set hds:web-1 ", "sync 1"}, r.taken(), "wants are set before the agent is compared with them")
	assert.Equal(t, checks.Want{CheckID: "hds:web-1", ServiceID: "web-1", Service: "web", Name: "Envoy HDS: http /", Phase: "pending"}, r.wants["hds:web-1"])
	assert.Equal(t, health.Pending, r.tracked["hds:web-1"].verdict.Phase)

	r.says("web-1", down, at(9*time.Second))
	r.tell(at(10*time.Second), "web-1")
	w := r.wants["hds:web-1"]
	assert.Equal(t, health.Critical, w.Status)
	assert.Equal(t, "http GET http://10.0.0.1:80/: unhealthy, says Envoy node-1", w.Output)
	assert.True(t, w.Alive)
	assert.Equal(t, at(9*time.Second), w.ReportedAt)
}

func TestAnInstanceThatAppearsHasItsCheckAtOnce(t *testing.T) {
	for status, want := range map[string]health.Status{"critical": health.Critical, "passing": health.Passing, "warning": health.Warning, "none": health.None} {
		t.Run(status, func(t *testing.T) {
			r := newTestRing(t, func(s *Settings) { s.InitialStatus = status })
			r.show(at(0), world{})
			r.show(at(time.Second), world{web("web-1"), web("web-2"), sidecarOf("web-2")})
			assert.Equal(t, want, r.wants["hds:web-1"].Status)
			assert.Zero(t, r.wants["hds:web-1"].ReportedAt, "no report says so")
			if want != health.None {
				assert.Equal(t, "http GET http://10.0.0.1:80/: awaiting the first answer of a node Envoy", r.wants["hds:web-1"].Output)
				assert.Equal(t, "http GET http://127.0.0.1:80/: awaiting the first answer of sidecar Envoy web-2-sidecar-proxy", r.wants["hds:web-2"].Output)
			}
		})
	}
}

// TestAProbeThatComesToARunningInstance is what must not turn a healthy

// instance critical: opting in.

func TestAProbeThatComesToARunningInstance(t *testing.T) {
	rules := func(s *Settings) {
		s.Rules.Services = []probe.Service{{Name: "web", Checks: []probe.Check{{Name: "ready", Settings: probe.Settings{Kind: probe.TCP}}}}}
	}
	for name, optIn := range map[string]func(*testRing) string{
		"by reload": func(r *testRing) string {
			s := testSettings()
			rules(&s)
			r.reload(s)
			return "hds.ready:web-1"
		},
		"by meta": func(r *testRing) string {
			r.show(at(time.Hour), world{web("web-1")})
			return "hds:web-1"
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestRing(t)
			r.show(at(0), world{})
			r.show(at(time.Second), world{web("web-1", "x", "y")})
			require.Empty(t, r.wants)
			id := optIn(r)
			require.Contains(t, r.wants, id)
			assert.Equal(t, health.None, r.wants[id].Status)
		})
	}
}

func TestAnInstanceThatWasGoneIsANewOne(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1")})
	r.says("web-1", up, at(time.Second))
	r.tell(at(time.Second), "web-1")
	require.Equal(t, health.Passing, r.wants["hds:web-1"].Status)
	r.taken()
	r.show(at(time.Minute), world{})
	assert.Equal(t, []string{"forget hds:web-1", "plan", "sync 2"}, r.taken(), "its check went with it")
	assert.Empty(t, r.tracked)

	delete(r.seen, "hds:web-1")
	r.show(at(2*time.Minute), world{web("web-1")})
	assert.Equal(t, health.Critical, r.wants["hds:web-1"].Status, "nothing is restored")
	assert.Equal(t, at(2*time.Minute), r.tracked["hds:web-1"].verdict.Since)
	r.takeTime(at(2*time.Minute + 19*time.Second))
	assert.False(t, r.tracked["hds:web-1"].verdict.Overdue, "its time begins with it, not with the daemon")
	r.takeTime(at(2*time.Minute + 20*time.Second))
	assert.True(t, r.tracked["hds:web-1"].verdict.Overdue)
}

// What is looked at now and then comes to be looked at all at once.
func TestLooksComeTogether(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1"), web("web-2")})
	for id, told := range map[string]time.Time{"web-1": at(time.Second), "web-2": at(1300 * time.Millisecond)} {
		r.says(id, up, told)
		r.tell(told, id)
	}
	require.Equal(t, at(2*time.Second), r.agenda.Next())
	r.takeTime(at(2 * time.Second))
	next := at(3 * time.Second)
	require.Equal(t, next, r.agenda.Next())
	_, first := r.agenda.Due(next)
	_, second := r.agenda.Due(next)
	assert.True(t, first && second)
}

func TestACheckOfOursIsAdopted(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1"), ours("web-1", "passing", "as it was")})
	w := r.wants["hds:web-1"]
	assert.Equal(t, health.Passing, w.Status)
	assert.Equal(t, "as it was", w.Output)
	assert.True(t, w.Alive, "it is kept alive")
	assert.Zero(t, w.ReportedAt)
	assert.Equal(t, health.Adopted, r.tracked["hds:web-1"].verdict.Phase)
	r.show(at(time.Second), world{web("web-1"), web("web-2"), ours("web-1", "critical", "TTL expired"), ours("web-2", "critical", "")})
	assert.Equal(t, health.Passing, r.wants["hds:web-1"].Status, "only once")
	assert.Equal(t, health.Adopted, r.tracked["hds:web-2"].verdict.Phase, "also one that came with the registration")
	r.takeTime(at(20 * time.Second))
	assert.False(t, r.wants["hds:web-1"].Alive, "without an answer it is left to expire")
}

func TestAForeignCheckIsNoCheckOfOurs(t *testing.T) {
	unmarked, typed := ours("web-1", "passing", "theirs"), ours("web-1", "passing", "theirs")
	unmarked.Notes, typed.Type = "theirs", "http"
	for name, c := range map[string]*catalog.Check{"without our mark": unmarked, "of another type": typed} {
		t.Run(name, func(t *testing.T) {
			r := newTestRing(t)
			r.states["hds:web-1"] = checks.State{Foreign: true}
			r.show(at(0), world{web("web-1"), c})
			assert.Equal(t, health.None, r.wants["hds:web-1"].Status)
			assert.Equal(t, health.Pending, r.tracked["hds:web-1"].verdict.Phase)
			assert.Equal(t, []string{`web-1: check id "hds:web-1" belongs to a check that consul-hds did not make: it is left alone, and the probe has no check`}, r.messages("consul"))
			assert.Equal(t, 1, r.gauge["foreign"])
			delete(r.states, "hds:web-1")
			r.survey(at(time.Second))
			assert.Empty(t, r.problems)
			assert.Zero(t, r.gauge["foreign"])
		})
	}
}

func TestAProbeThatIsWithdrawnLosesItsCheck(t *testing.T) {
	for name, after := range map[string]*catalog.Instance{"off": web("web-1", "hds", "off"), "no word of it": web("web-1", "x", "y")} {
		t.Run(name, func(t *testing.T) {
			r := newTestRing(t)
			r.show(at(0), world{web("web-1")})
			r.taken()
			r.show(at(time.Second), world{after})
			assert.Equal(t, []string{"withdraw hds:web-1", "plan", "sync 2"}, r.taken())
			assert.Empty(t, r.tracked)
		})
	}
}

func TestAChangedDefinitionKeepsTheStatusAndAwaitsItsOwnAnswer(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1")})
	r.says("web-1", up, at(time.Second))
	r.tell(at(time.Second), "web-1")
	delete(r.seen, "hds:web-1") // of the new cluster nothing was said
	r.show(at(2*time.Second), world{web("web-1", "hds", "http", "hds_path", "/new")})
	assert.Equal(t, health.Passing, r.wants["hds:web-1"].Status)
	assert.Equal(t, health.Adopted, r.tracked["hds:web-1"].verdict.Phase)
	r.takeTime(at(15 * time.Second))
	assert.True(t, r.wants["hds:web-1"].Alive, "it has as long as a check that was adopted")
	r.says("web-1", down, at(16*time.Second))
	r.tell(at(16*time.Second), "web-1")
	assert.Equal(t, "http GET http://10.0.0.1:80/new: unhealthy, says Envoy node-1", r.wants["hds:web-1"].Output)
}

func TestATypoChangesNothingThatIsThere(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1")})
	r.says("web-1", up, at(time.Second))
	r.tell(at(time.Second), "web-1")
	r.taken()
	r.show(at(2*time.Second), world{web("web-1", "hds", "htpp"), web("web-2", "hds", "htpp")})
	assert.Equal(t, []string{"plan", "sync 2"}, r.taken())
	assert.Len(t, r.messages("meta"), 2)
	assert.Equal(t, 2, r.gauge["problems meta"])
	assert.Equal(t, 1, r.gauge["probes http"])
}

func TestTheSameRevisionIsOnlyCompared(t *testing.T) {
	r := newTestRing(t)
	s := r.picture(world{web("web-1")})
	r.takeSnapshot(s, at(0))
	r.taken()
	again := *s
	r.takeSnapshot(&again, at(time.Second))
	assert.Equal(t, []string{"sync 1"}, r.taken())
	r.takeSnapshot(nil, at(time.Second))
	assert.Empty(t, r.taken())
}

func TestOnlyWhatChangesIsWritten(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1"), web("web-2")})
	r.taken()
	r.says("web-1", up, at(time.Second))
	r.says("web-2", up, at(time.Second))
	r.tell(at(time.Second), "web-1")
	assert.Equal(t, []string{"set hds:web-1 passing"}, r.taken(), "who is not news is not looked at")
	r.says("web-1", up, at(2*time.Second))
	r.tell(at(2*time.Second), "web-1")
	r.tell(at(2*time.Second), "nobody")
	assert.Empty(t, r.taken())
	assert.Equal(t, at(time.Second), r.wants["hds:web-1"].ReportedAt)
	r.says("web-1", down, at(3*time.Second))
	r.tell(at(3*time.Second), "web-1")
	assert.Equal(t, []string{"set hds:web-1 critical"}, r.taken())
	assert.Equal(t, at(3*time.Second), r.wants["hds:web-1"].ReportedAt)
	r.says("web-1", corev3.HealthStatus_DEGRADED, at(4*time.Second))
	r.tell(at(4*time.Second), "web-1")
	assert.Equal(t, []string{"set hds:web-1 warning"}, r.taken())
}

func TestStatusesThatAreNoAnswerChangeNothing(t *testing.T) {
	for _, s := range []corev3.HealthStatus{corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_DRAINING, 99} {
		r := newTestRing(t)
		r.show(at(0), world{web("web-1")})
		r.taken()
		r.says("web-1", s, at(time.Second))
		r.tell(at(time.Second), "web-1")
		assert.Empty(t, r.taken(), s)
		assert.Equal(t, health.Pending, r.tracked["hds:web-1"].verdict.Phase)
	}
}

func TestSilenceMakesAProbeStale(t *testing.T) {
	for onStale, want := range map[string]checks.Want{
		"expire":   {Status: health.Passing, Alive: false},
		"keep":     {Status: health.Passing, Alive: true},
		"critical": {Status: health.Critical, Alive: true},
	} {
		t.Run(onStale, func(t *testing.T) {
			r := newTestRing(t, func(s *Settings) { s.OnStale = onStale })
			r.show(at(0), world{web("web-1")})
			r.says("web-1", up, at(time.Second))
			r.tell(at(time.Second), "web-1")
			r.taken()
			r.takeTime(at(11*time.Second - 1))
			assert.Empty(t, r.taken())
			r.takeTime(at(11 * time.Second))
			got := r.wants["hds:web-1"]
			assert.Equal(t, want.Status, got.Status)
			assert.Equal(t, want.Alive, got.Alive)
			assert.Equal(t, health.Stale, r.tracked["hds:web-1"].verdict.Phase)
			if onStale != "keep" { // which changes nothing
				assert.Equal(t, "stale", got.Phase, "the log tells of it")
			}
			if onStale == "critical" {
				assert.Zero(t, got.ReportedAt, "it follows from no report: its delay is none of a write")
			} else {
				assert.Equal(t, at(time.Second), got.ReportedAt)
			}
		})
	}
}

func TestReloadTakesEverythingOver(t *testing.T) {
	r := newTestRing(t)
	s := testSettings()
	s.TTL, s.OrphanGrace = 2*time.Minute, time.Hour
	r.reload(s)
	assert.Equal(t, []string{"reconfigure 2m0s 1h0m0s"}, r.taken(), "before the first snapshot there is nothing to derive")
	r.show(at(0), world{web("web-1")})
	r.says("web-1", up, at(time.Second))
	r.tell(at(time.Second), "web-1")
	r.taken()

	s.OnStale, s.ReportInterval, s.NodeIDs = "keep", 5*time.Second, []string{"n*"}
	r.reload(s)
	assert.Equal(t, []string{"reconfigure 2m0s 1h0m0s", "plan", "sync 1"}, r.taken())
	assert.Equal(t, hds.PlanConfig{NodeIDs: s.NodeIDs, ReportInterval: s.ReportInterval}, r.plan)
	r.takeTime(at(time.Hour))
	assert.True(t, r.wants["hds:web-1"].Alive, "the new policy goes for what was tracked before")
	s.Rules.Defaults.Interval = time.Minute
	r.reload(s)
	assert.Equal(t, time.Minute, r.tracked["hds:web-1"].probe.Settings.Interval)
}

// A reload that changes no probe may change what follows from what is known.
func TestAReloadIsFeltAtOnce(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1")})
	r.says("web-1", up, at(time.Second))
	r.tell(at(time.Second), "web-1")
	r.takeTime(at(time.Minute))
	require.False(t, r.wants["hds:web-1"].Alive)
	s := testSettings()
	s.OnStale = "keep"
	r.reload(s)
	assert.True(t, r.wants["hds:web-1"].Alive)
}

// Of an instance that has not changed, a check may come all the same.
func TestACheckThatComesLaterIsAdoptedAtOnce(t *testing.T) {
	r := newTestRing(t)
	same := web("web-1")
	r.show(at(0), world{same})
	require.Equal(t, health.None, r.wants["hds:web-1"].Status)
	r.show(at(time.Second), world{same, ours("web-1", "passing", "")})
	assert.Equal(t, health.Passing, r.wants["hds:web-1"].Status)
	assert.True(t, r.wants["hds:web-1"].Alive)
}

func TestTimeDoesNotTouchWhatIsGone(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1")})
	r.show(at(time.Second), world{})
	r.taken()
	r.takeTime(at(time.Hour))
	assert.Empty(t, r.taken())
}

// curious are observers that remember for which checks they were asked.
type curious struct {
	fakeObservers
	asked map[string]bool
}

func (c curious) Observations(p *probe.Probe) []hds.Observation {
	c.asked[p.CheckID] = true
	return c.fakeObservers.Observations(p)
}

func TestWhatHasNotChangedIsNotEvaluatedAgain(t *testing.T) {
	r := newTestRing(t)
	c := curious{fakeObservers{r.fakeParts}, map[string]bool{}}
	r.observers = c
	same, one, two := web("web-2"), ours("web-1", "passing", ""), ours("web-2", "passing", "")
	r.show(at(0), world{web("web-1"), same, one, two})
	require.Equal(t, map[string]bool{"hds:web-1": true, "hds:web-2": true}, c.asked)
	clear(c.asked)
	r.show(at(time.Second), world{web("web-1", "hds", "tcp"), same, one, two})
	assert.Equal(t, map[string]bool{"hds:web-1": true}, c.asked)
}

// withoutEmpty makes empty lists nil, which JSON does not tell apart here.

func withoutEmpty(c []admin.Check) []admin.Check {
	for i := range c {
		if len(c[i].Observers) == 0 {
			c[i].Observers = nil
		}
	}
	return c
}

// TestRunHearsEverything lets the ring run: each thing that it waits for must

// be heard, and time must be looked at.

func TestRunHearsEverything(t *testing.T) {
	r := newTestRing(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r.fakeParts.snapshots, r.fakeParts.heard = make(chan struct{}, 1), make(chan struct{}, 1)
		names := &fakeTable[netip.Addr]{updates: make(chan struct{}, 1)}
		r.names, r.files = names, &fakeTable[[]byte]{updates: make(chan struct{}, 1)}
		done := make(chan struct{})
		go func() { defer close(done); r.run(ctx) }()
		signal := func(c chan struct{}) {
			c <- struct{}{}
			synctest.Wait()
		}
		func() {
			defer r.lock()()
			r.fakeParts.snap = r.picture(world{web("web-1")})
		}()
		signal(r.snapshots)
		assert.Equal(t, []string{"plan", "set hds:web-1 ", "sync 1"}, r.taken())

		r.says("web-1", up, time.Now())
		func() { defer r.lock()(); r.news = []string{"hds:web-1"} }()
		signal(r.heard)
		assert.Equal(t, []string{"set hds:web-1 passing"}, r.taken())

		time.Sleep(10*time.Second + tickEvery)
		synctest.Wait()
		assert.Equal(t, []string{"set hds:web-1 passing"}, r.taken(), "no longer alive")
		assert.False(t, r.wants["hds:web-1"].Alive)
		time.Sleep(surveyEvery)
		synctest.Wait()
		var s admin.Status
		r.describe(&s)
		assert.True(t, slices.ContainsFunc(s.Problems, func(p admin.Problem) bool { return p.ServiceID == "web-1" }))
		cancel()
		<-done
	})
}

func TestDefinition(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("a", "hds", "http", "hds_healthy_threshold", "3", "hds_expected_statuses", "204"), web("b", "hds", "tcp")})
	d := definition(r.tracked["hds:a"].probe)
	assert.Equal(t, "http GET http://10.0.0.1:80/", d.Subject)
	assert.Equal(t, 3050*time.Millisecond, d.Grace)
	assert.Equal(t, 6150*time.Millisecond, d.Recovery)
	assert.True(t, d.Expects(204))
	assert.False(t, d.Expects(200))
	assert.Nil(t, definition(r.tracked["hds:b"].probe).Expects, "codes say nothing of a TCP probe")
}

// named is an instance whose address is a host name.

func named(id, host string) *catalog.Instance {
	i := web(id)
	i.Address = host
	return i
}

func TestAnInstanceBehindANameIsCriticalAsSoonAsTheNameIsKnown(t *testing.T) {
	r := newTestRing(t)
	names := &fakeTable[netip.Addr]{}
	r.names = names
	r.show(at(0), world{})
	r.show(at(time.Second), world{named("web-1", "app.internal")})
	assert.Equal(t, map[string]bool{"app.internal": true}, names.wanted)
	assert.Empty(t, r.wants)
	assert.Empty(t, r.problems, "it is awaited")

	names.entries = map[string]lookup.Entry[netip.Addr]{"app.internal": {Value: netip.MustParseAddr("127.0.0.9"), Good: true}}
	r.takeLookups(at(2 * time.Second))
	assert.Equal(t, health.Critical, r.wants["hds:web-1"].Status, "it has appeared, and had no check so far")
	assert.Equal(t, "127.0.0.9:80", r.tracked["hds:web-1"].probe.Target.String())

	names.entries["app.internal"] = lookup.Entry[netip.Addr]{Value: netip.MustParseAddr("127.0.0.8"), Good: true}
	r.takeLookups(at(3 * time.Second))
	assert.Equal(t, "127.0.0.8:80", r.tracked["hds:web-1"].probe.Target.String(), "another address is another target")
	assert.Equal(t, health.Critical, r.wants["hds:web-1"].Status)
}

func TestANameThatDoesNotResolveIsAProblemUntilItDoes(t *testing.T) {
	r := newTestRing(t)
	names := &fakeTable[netip.Addr]{entries: map[string]lookup.Entry[netip.Addr]{"app.internal": {Err: errors.New("no such host")}}}
	r.names = names
	r.show(at(0), world{named("web-1", "app.internal")})
	assert.Equal(t, []string{`web-1: address "app.internal" cannot be probed yet: no such host`}, r.messages("consul"))
	names.entries["app.internal"] = lookup.Entry[netip.Addr]{Value: netip.MustParseAddr("127.0.0.9"), Good: true}
	r.takeLookups(at(time.Second))
	assert.Empty(t, r.messages("consul"))
	assert.Equal(t, health.None, r.wants["hds:web-1"].Status, "it was there already")
}

func TestWhatANewTokenShowsHasNotAppeared(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{})
	r.newToken = at(time.Second)
	s := r.picture(world{web("web-1")})
	s.ReadAt = at(2 * time.Second)
	r.takeSnapshot(s, at(2*time.Second))
	assert.Equal(t, health.None, r.wants["hds:web-1"].Status)
	r.show(at(3*time.Second), world{web("web-1"), web("web-2")})
	assert.Equal(t, health.Critical, r.wants["hds:web-2"].Status, "and then all is as ever")
}

func TestANewTokenThatShowsNothingNewIsOver(t *testing.T) {
	r := newTestRing(t)
	r.show(at(0), world{web("web-1")})
	r.newToken = at(time.Second)
	same := *r.ring.snap
	same.ReadAt = at(2 * time.Second)
	r.takeSnapshot(&same, at(2*time.Second))
	later := r.picture(world{web("web-1"), web("web-2")})
	later.ReadAt = at(time.Hour)
	r.takeSnapshot(later, at(time.Hour))
	assert.Equal(t, health.Critical, r.wants["hds:web-2"].Status, "it appeared long after the token")
}
