package hds

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// planOf is a plan whose probes all node Envoys observe, and its probes.
func planOf(metas map[string]map[string]string) (*Plan, map[string]*probe.Probe) {
	return world(PlanConfig{NodeIDs: []string{"n*"}}, metas)
}

func TestNoSpecifierBeforeTheFirstPlan(t *testing.T) {
	b := serve(t)
	e := b.connect("n1")
	for range 3 {
		e.say()
	}
	b.awaitReports(3)
	assert.Zero(t, b.counts.get("sent"))
	assert.Empty(t, b.Observations(&probe.Probe{ByNode: true}), "without a plan nobody observes")
	assert.Equal(t, UnknownEnvoy, b.Streams()[0].Kind)

	plan, probes := planOf(map[string]map[string]string{"a": asHTTP})
	b.SetPlan(plan)
	assert.Equal(t, []string{probes["a"].Cluster}, names(e.spec()), "the first that comes is the plan's")
	b.await("to count", func() bool { return b.counts.get("sent") == 1 })
}

func TestAnUnknownEnvoyGetsAnEmptySpecifier(t *testing.T) {
	b := serve(t)
	plan, probes := planOf(map[string]map[string]string{"a": asHTTP})
	b.SetPlan(plan)
	e := b.connect("stranger")
	s := e.spec()
	assert.Empty(t, s.ClusterHealthChecks)
	assert.Equal(t, interval, s.Interval.AsDuration())
	e.say(echo{probes["a"].Cluster, up, 200})
	b.awaitReports(1)
	assert.Empty(t, b.Observations(probes["a"]), "a stranger's word counts nothing")
	x, _, err := b.Exchange("stranger")
	require.NoError(t, err)
	assert.Zero(t, proto.Size(x.Report), "nor is it kept: it may be long")
	assert.Empty(t, b.TakeNews())
	st := b.Streams()
	require.Len(t, st, 1)
	assert.Equal(t, UnknownEnvoy, st[0].Kind)
	assert.Equal(t, "stranger", st[0].NodeID)
	assert.Equal(t, "1.40.0", st[0].Envoy)
	assert.Zero(t, st[0].Probes)
	assert.NotZero(t, st[0].LastReport)
}

func TestAnUnknownEnvoyIsJudgedAgain(t *testing.T) {
	b := serve(t)
	before, _ := planOf(map[string]map[string]string{"web-1": asHTTP})
	b.SetPlan(before)
	e := b.connect("web-1-sidecar-proxy")
	assert.Empty(t, e.spec().ClusterHealthChecks)
	proxy := &catalog.Instance{ID: "web-1-sidecar-proxy", Kind: catalog.KindConnectProxy, Proxy: &catalog.Proxy{DestinationServiceName: "web", DestinationServiceID: "web-1"}}
	after, probes := world(nodeOnly, map[string]map[string]string{"web-1": asHTTP}, proxy)
	b.SetPlan(after)
	assert.Equal(t, SidecarEnvoy, b.Streams()[0].Kind, "as soon as the plan says so")
	assert.Equal(t, []Observation{{NodeID: proxy.ID, Stream: 1}}, b.Observations(probes["web-1"]))
	assert.Equal(t, []string{probes["web-1"].Cluster}, names(e.spec()))
}

func TestTheStreamsOfAllSidecarsComeInOrderOfTheirAge(t *testing.T) {
	b := serve(t)
	var proxies []*catalog.Instance
	for _, id := range []string{"web-1-proxy-a", "web-1-proxy-b"} {
		proxies = append(proxies, &catalog.Instance{ID: id, Kind: catalog.KindConnectProxy, Proxy: &catalog.Proxy{DestinationServiceName: "web", DestinationServiceID: "web-1"}})
	}
	plan, probes := world(nodeOnly, map[string]map[string]string{"web-1": asHTTP}, proxies...)
	require.Len(t, probes["web-1"].Sidecars, 2)
	b.SetPlan(plan)
	ids := []string{"web-1-proxy-b", "web-1-proxy-a", "web-1-proxy-b", "n1"}
	var envoys []*fakeEnvoy
	for _, id := range ids {
		envoys = append(envoys, b.connect(id))
		envoys[len(envoys)-1].spec()
	}
	assert.Equal(t, []Observation{{NodeID: ids[0], Stream: 1}, {NodeID: ids[1], Stream: 2}, {NodeID: ids[2], Stream: 3}}, b.Observations(probes["web-1"]))
	envoys[0].leave()
	b.await("to see the end of a stream", func() bool { return len(b.Streams()) == 3 })
	assert.Equal(t, []Observation{{NodeID: ids[1], Stream: 2}, {NodeID: ids[2], Stream: 3}}, b.Observations(probes["web-1"]))
}

func TestWhoIsNoObserverAnyMoreIsNotHeard(t *testing.T) {
	b := serve(t)
	plan, probes := planOf(map[string]map[string]string{"a": asHTTP})
	b.SetPlan(plan)
	e := b.connect("n1")
	e.spec()
	e.say(echo{probes["a"].Cluster, down, 0})
	b.awaitReports(1)
	require.Len(t, b.Observations(probes["a"]), 1)
	others, _ := world(PlanConfig{NodeIDs: []string{"other"}}, map[string]map[string]string{"a": asHTTP})
	b.SetPlan(others)
	assert.Empty(t, b.Observations(probes["a"]), "whoever evaluates after SetPlan must not hear it")
	assert.Empty(t, e.spec().ClusterHealthChecks)
}

func TestEachNewStreamGetsTheWholeSpecifier(t *testing.T) {
	b := serve(t)
	plan, probes := planOf(map[string]map[string]string{"a": asHTTP, "b": asTCP})
	b.SetPlan(plan)
	whole := []string{probes["a"].Cluster, probes["b"].Cluster}
	for range 3 {
		e := b.connect("n1")
		assert.Equal(t, whole, names(e.spec()))
		e.leave()
		b.await("to close the stream", func() bool { return len(b.Streams()) == 0 })
	}
	assert.Equal(t, 3, b.counts.get("opened"))
	assert.Equal(t, 3, b.counts.get("ended"))
}

func TestOnlyAChangedPlanGoesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serveInMemory(t)
		one, _ := planOf(map[string]map[string]string{"a": asHTTP})
		b.SetPlan(one)
		e := b.connect("n1")
		e.spec()
		for range 3 {
			same, _ := planOf(map[string]map[string]string{"a": asHTTP})
			b.SetPlan(same)
			time.Sleep(2 * time.Second) // of the bubble: more than changes are ever gathered
			synctest.Wait()
		}
		assert.Empty(t, e.specs)
		two, more := planOf(map[string]map[string]string{"a": asHTTP, "b": asHTTP})
		b.SetPlan(two)
		assert.Equal(t, []string{more["a"].Cluster, more["b"].Cluster}, names(e.spec()))
		synctest.Wait()
		assert.Equal(t, 2, b.counts.get("sent"))
	})
}

func TestChangesThatFollowAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serveInMemory(t)
		set := func(n int) {
			plan, _ := planOf(webs(n))
			b.SetPlan(plan)
			synctest.Wait()
		}
		set(1)
		e := b.connect("n1")
		synctest.Wait()
		require.Len(t, e.specs, 1, "the first at once")
		time.Sleep(time.Minute)
		set(2)
		require.Len(t, e.specs, 2, "after a quiet time at once")
		begin := time.Now()
		for n := 3; n <= 5; n++ {
			time.Sleep(50 * time.Millisecond)
			set(n)
		}
		time.Sleep(249 * time.Millisecond)
		synctest.Wait()
		require.Len(t, e.specs, 2, "what follows waits for 250 ms without a change")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		require.Len(t, e.specs, 3)
		assert.Equal(t, 400*time.Millisecond, time.Since(begin))

		last := time.Now()
		for n := 6; len(e.specs) == 3; n++ {
			time.Sleep(110 * time.Millisecond) // never at the moment of the deadline itself
			set(n)
			require.Less(t, n, 30, "changes without an end are sent at last")
		}
		assert.Equal(t, 1210*time.Millisecond, time.Since(last), "a second after the first of them, which came after 110 ms")
		for range 3 {
			<-e.specs
		}
		assert.Equal(t, 15, len((<-e.specs).ClusterHealthChecks), "and what is sent is the newest")
	})
}

func TestTwoStreamsWithOneNodeID(t *testing.T) {
	b := serve(t)
	plan, probes := planOf(map[string]map[string]string{"a": asHTTP})
	a := probes["a"]
	b.SetPlan(plan)
	first := b.connect("n1")
	first.spec()
	second := b.connect("n1")
	second.spec()
	second.say(echo{a.Cluster, down, 503})
	b.awaitReports(1)
	first.say(echo{a.Cluster, up, 200})
	b.awaitReports(2)
	got := b.Observations(a)
	require.Len(t, got, 2)
	assert.Less(t, got[0].Stream, got[1].Stream, "in order of age, not of speech")
	assert.Equal(t, []corev3.HealthStatus{up, down}, []corev3.HealthStatus{got[0].Status, got[1].Status})
	assert.Equal(t, []int{200, 503}, []int{got[0].Code, got[1].Code})

	bigger, _ := planOf(map[string]map[string]string{"a": asHTTP, "b": asHTTP})
	b.SetPlan(bigger)
	assert.Len(t, first.spec().ClusterHealthChecks, 2, "both are served")
	assert.Len(t, second.spec().ClusterHealthChecks, 2)
}

func TestTheEndOfAStreamIsNews(t *testing.T) {
	b := serve(t)
	plan, probes := planOf(map[string]map[string]string{"a": asHTTP, "b": asHTTP})
	b.SetPlan(plan)
	e := b.connect("n1")
	e.spec()
	assert.ElementsMatch(t, []string{"hds:a", "hds:b"}, b.TakeNews(), "so is its beginning")
	<-b.Updates()
	e.say(echo{probes["a"].Cluster, up, 200})
	<-b.Updates()
	assert.Equal(t, []string{"hds:a"}, b.TakeNews())
	assert.Empty(t, b.TakeNews())
	require.Len(t, b.Observations(probes["a"]), 1)
	e.leave()
	select {
	case <-b.Updates():
	case <-time.After(patience):
		t.Fatal("no signal of the end")
	}
	assert.ElementsMatch(t, []string{"hds:a", "hds:b"}, b.TakeNews())
	assert.Empty(t, b.Observations(probes["a"]))
	assert.Empty(t, b.Streams())
}

// A proxy whose id is that of a node Envoy makes that a sidecar: what it said of the
// probes of others counts no more, although none of these has changed.
func TestAnEnvoyThatTurnsIsNews(t *testing.T) {
	b := serve(t)
	metas := map[string]map[string]string{"a": asHTTP, "b": asHTTP}
	before, probes := planOf(metas)
	b.SetPlan(before)
	e := b.connect("n1")
	e.spec()
	b.TakeNews() // of its beginning
	e.say(echo{probes["a"].Cluster, down, 503}, echo{probes["b"].Cluster, up, 200})
	b.await("to tell of the report", func() bool { return len(b.TakeNews()) > 0 })
	b.SetPlan(before)
	assert.Empty(t, b.TakeNews(), "nothing has changed")

	after, _ := world(PlanConfig{NodeIDs: []string{"n*"}}, metas,
		&catalog.Instance{ID: "n1", Kind: catalog.KindConnectProxy, Proxy: &catalog.Proxy{DestinationServiceName: "web", DestinationServiceID: "b"}})
	b.SetPlan(after)
	assert.Empty(t, b.Observations(probes["a"]))
	assert.ElementsMatch(t, []string{"hds:a", "hds:b"}, b.TakeNews())
	b.SetPlan(before)
	assert.ElementsMatch(t, []string{"hds:a", "hds:b"}, b.TakeNews(), "it is a node Envoy again")
}

func TestMaxStreams(t *testing.T) {
	b := serveWith(t, Config{MaxStreams: 2})
	plan, _ := planOf(nil)
	b.SetPlan(plan)
	one, two := b.connect("n1"), b.connect("n2")
	one.spec()
	two.spec()
	code, text := b.connect("n3").end()
	assert.Equal(t, codes.ResourceExhausted, code)
	assert.Contains(t, text, "at most 2 streams")
	assert.Equal(t, 1, b.counts.get("refused max_streams"))
	one.leave()
	b.await("to close the stream", func() bool { return len(b.Streams()) == 1 })
	b.await("to let another in", func() bool {
		e := b.connect("n3")
		defer e.leave()
		select {
		case <-e.specs:
			return true
		case <-e.ended:
			return false
		}
	})
}

func TestFirstMessagesThatAreNone(t *testing.T) {
	b := serve(t)
	noNode := &healthv3.HealthCheckRequestOrEndpointHealthResponse{
		RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_HealthCheckRequest{HealthCheckRequest: &healthv3.HealthCheckRequest{}},
	}
	for name, m := range map[string]any{
		"nothing": reportOf(), "a report": reportOf(echo{"x", up, 0}), "no node": noNode,
		"no node id": requestOf(""), "a line of its own": requestOf("n1\nn2"), "no message": "\xff\xff\xff", "id is no text": "\x0a\x07\x0a\x05\x0a\x03\xff\xfe\xfd",
	} {
		t.Run(name, func(t *testing.T) {
			e := b.dialRaw()
			e.send(m)
			code, text := e.end()
			assert.Equal(t, codes.InvalidArgument, code, text)
		})
	}
	assert.Equal(t, 7, b.counts.get("refused first_message"))
	assert.Zero(t, b.counts.get("opened"))
	assert.Empty(t, b.Streams())
}

func TestASilentStreamIsEndedAfterFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serveInMemory(t)
		begin := time.Now()
		e := b.dial().listen()
		code, text := e.end()
		assert.Equal(t, codes.InvalidArgument, code)
		assert.Contains(t, text, "within 5 s")
		assert.Equal(t, 5*time.Second, time.Since(begin))
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		assert.Zero(t, b.admitted, "it no longer counts against max_streams")
	})
}

// TestBadReportsEndTheirStreamAlone sends what no Envoy may send.
func TestBadReportsEndTheirStreamAlone(t *testing.T) {
	for name, m := range map[string]any{
		"a second request": requestOf("n1"), "no message": "\xff\xff\xff", "cut": "\x12\x0a\x0a",
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t)
			plan, probes := planOf(map[string]map[string]string{"a": asHTTP})
			b.SetPlan(plan)
			good := b.connect("n1")
			good.spec()
			bad := b.dialRaw()
			bad.send(requestOf("n2"))
			bad.spec()
			bad.send(m)
			code, text := bad.end()
			assert.Equal(t, codes.InvalidArgument, code, text)
			assert.Equal(t, 1, b.counts.get("invalid"))
			b.await("to close the stream", func() bool { return len(b.Streams()) == 1 })

			good.say(echo{probes["a"].Cluster, up, 200})
			b.awaitReports(1)
			assert.Equal(t, up, b.Observations(probes["a"])[0].Status)
		})
	}
}

// TestAnEnvoyThatDoesNotRead blocks the sender by HTTP/2's flow control, as an
// Envoy that hangs does.
func TestAnEnvoyThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serveInMemory(t)
		good := b.connect("n1")
		hung := b.dial()
		hung.send(requestOf("n2"))
		begin, blocked, ended := time.Now(), time.Time{}, time.Time{}
		for n := 0; ended.IsZero(); n++ {
			require.Less(t, time.Since(begin), 30*time.Second)
			plan, _ := planOf(webs(400 + n)) // more than windows and quotas hold
			b.SetPlan(plan)
			synctest.Wait()
			if blocked.IsZero() && b.counts.get("sent") < 2*(n+1) {
				blocked = time.Now() // this one does not have its specifier
			}
			assert.Equal(t, 400+n, len(good.spec().ClusterHealthChecks), "the other stream goes on")
			if len(b.Streams()) == 1 {
				ended = time.Now()
			}
			time.Sleep(500 * time.Millisecond)
		}
		require.False(t, blocked.IsZero())
		assert.Equal(t, 10*time.Second, ended.Sub(blocked))
		assert.Equal(t, "n1", b.Streams()[0].NodeID)
		b.mu.Lock()
		defer b.mu.Unlock()
		assert.Equal(t, 1, b.admitted)
	})
}

func TestReportsOfWhatNobodyAskedFor(t *testing.T) {
	b := serve(t)
	plan, probes := planOf(map[string]map[string]string{"a": asHTTP})
	b.SetPlan(plan)
	e := b.connect("n1")
	e.spec()
	e.send(&healthv3.HealthCheckRequestOrEndpointHealthResponse{
		RequestType: &healthv3.HealthCheckRequestOrEndpointHealthResponse_EndpointHealthResponse{},
	})
	e.say()
	e.say(echo{"who", down, 0}, echo{"", down, 0}, echo{probes["a"].Cluster, up, 200}, echo{"who", up, 0})
	b.awaitReports(3)
	o := b.Observations(probes["a"])[0]
	assert.True(t, o.Answered)
	assert.Equal(t, up, o.Status)
	assert.False(t, b.Streams()[0].Applied, "it reports more than it was sent")
	e.say(echo{probes["a"].Cluster, up, 200})
	b.awaitReports(4)
	assert.True(t, b.Streams()[0].Applied)
}

func TestAHugeReportIsSurvived(t *testing.T) {
	b := serve(t)
	plan, probes := planOf(map[string]map[string]string{"a": asHTTP})
	b.SetPlan(plan)
	e := b.connect("n1")
	e.spec()
	echoes := make([]echo, 50_000)
	for i := range echoes {
		echoes[i] = echo{fmt.Sprintf("hds:%d@00000000", i), down, 503}
	}
	e.say(append(echoes, echo{probes["a"].Cluster, up, 200})...)
	b.awaitReports(1)
	assert.Equal(t, up, b.Observations(probes["a"])[0].Status)
	e.say(echo{probes["a"].Cluster, down, 503})
	b.awaitReports(2)
	assert.Equal(t, down, b.Observations(probes["a"])[0].Status)
}

func TestAMessageOverTheLimitEndsTheStream(t *testing.T) {
	b := serve(t)
	plan, _ := planOf(nil)
	b.SetPlan(plan)
	e := b.dialRaw()
	e.send(requestOf("n1"))
	e.spec()
	// The write may be cut short by the end itself.
	_ = e.stream.SendMsg(string(make([]byte, maxMessage+1)))
	e.end()
	b.await("to close the stream", func() bool { return len(b.Streams()) == 0 })
	assert.Zero(t, b.counts.reports())
}

func TestAClusterThatTheGuardRefusesIsLeftOutAndCounted(t *testing.T) {
	b := serve(t)
	plan, probes := planOf(map[string]map[string]string{"a": asHTTP, "b": asHTTP})
	probes["a"].Settings.Path = "no slash"
	b.SetPlan(plan)
	e := b.connect("n1")
	assert.Equal(t, []string{probes["b"].Cluster}, names(e.spec()))
	assert.Equal(t, 1, b.counts.get("dropped"))
	assert.Contains(t, b.Streams()[0].Dropped, probes["a"].Cluster)
}

func TestShutdownEndsTheStreams(t *testing.T) {
	for name, others := range map[string]func(*bed){
		"streams alone":             func(*bed) {},
		"one that has not begun":    func(b *bed) { b.dial().listen() },
		"one that does not read":    func(b *bed) { b.dial().send(requestOf("n2")) },
		"one that is still reading": func(b *bed) { b.connect("n3").spec() },
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t)
			plan, _ := planOf(webs(1000))
			b.SetPlan(plan)
			e := b.connect("n1")
			e.spec()
			others(b)
			begin := time.Now()
			require.NoError(t, b.shutDown())
			assert.Less(t, time.Since(begin), 3*time.Second, "a second, and slack: no stream may hold up the last writes")
			code, text := e.end()
			assert.Equal(t, codes.Unavailable, code)
			assert.Contains(t, text, "shutting down")
			assert.Empty(t, b.Streams())
		})
	}
}
