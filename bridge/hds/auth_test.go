package hds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// rights is an Authorizer by a table: what the tokens that exist may write.
type rights struct {
	mu     sync.Mutex
	tokens map[string][]string
	// away is why there is no answer; hang, while it is open, holds answers back.
	away  error
	hang  chan struct{}
	asked int
}

func (r *rights) Authorize(ctx context.Context, token Token, services []string) (map[string]bool, error) {
	r.mu.Lock()
	hang := r.hang
	r.asked++
	r.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, errors.New("no answer")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away != nil {
		return nil, r.away
	}
	may, ok := r.tokens[token.Secret()]
	if !ok {
		return nil, ErrUnknownToken
	}
	out := map[string]bool{}
	for _, s := range services {
		out[s] = false
		for _, m := range may {
			out[s] = out[s] || s == m
		}
	}
	return out, nil
}

func (r *rights) set(do func(*rights)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do(r)
}

func (r *rights) questions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// as is the metadata of a stream with a token.
func as(tokens ...string) metadata.MD { return metadata.MD{tokenHeader: tokens} }

// shop is a plan of two services: web-1 and db-1, each with a sidecar if that is
// asked for, else for node Envoys.
func shop(sidecars bool, services ...string) (*Plan, map[string]*probe.Probe) {
	var more []*catalog.Instance
	for _, name := range services {
		id := name + "-1"
		more = append(more, &catalog.Instance{ID: id, Service: name, Port: 80, Meta: asHTTP})
		if sidecars {
			more = append(more, &catalog.Instance{ID: id + sidecarSuffix, Kind: catalog.KindConnectProxy, Proxy: &catalog.Proxy{DestinationServiceName: name, DestinationServiceID: id}})
		}
	}
	return world(PlanConfig{NodeIDs: []string{"n*"}}, nil, more...)
}

func TestStreamsWithoutAProperTokenAreRefusedUnasked(t *testing.T) {
	who := &rights{tokens: map[string][]string{"": {"web"}, " ": {"web"}, "anonymous": {"web"}, "good": {"web"}}}
	b := serveWith(t, Config{Authorizer: who})
	plan, _ := shop(false, "web")
	b.SetPlan(plan)
	attacks := map[string]metadata.MD{
		"no metadata": nil, "no token": as(), "empty": as(""), "blank": as(" "), "anonymous": as("anonymous"),
		"two": as("good", "good"), "two, one good": as("good", ""), "a blank in it": as("go od"), "long": as(strings.Repeat("x", maxToken+1)),
	}
	for name, md := range attacks {
		b.metadata = md
		code, _ := b.dial().listen().end()
		assert.Equal(t, codes.Unauthenticated, code, name)
	}
	assert.Zero(t, who.questions(), "the agent's default token would have answered")
	assert.Equal(t, len(attacks), b.counts.get("refused token"))
	assert.Zero(t, b.counts.get("opened"))
	b.metadata = as("good")
	assert.Len(t, b.connect("n1").spec().ClusterHealthChecks, 1)
}

func TestAnUnknownTokenIsRefusedBeforeAWordIsRead(t *testing.T) {
	b := serveWith(t, Config{Authorizer: &rights{}})
	b.metadata = as("guessed")
	start := time.Now()
	code, text := b.dial().listen().end() // which says nothing at all
	assert.Equal(t, codes.Unauthenticated, code)
	assert.NotContains(t, text, "guessed")
	assert.Less(t, time.Since(start), firstMessageTimeout)
	assert.Equal(t, 1, b.counts.get("refused token"))
	assert.Zero(t, b.counts.get("refused first_message"))
}

// Whoever may write web can register a proxy of web that names db's instance: it
// speaks for nothing.
func TestAProxyOfAnotherServiceSpeaksForNothing(t *testing.T) {
	b := serveWith(t, Config{Authorizer: &rights{tokens: map[string][]string{"webs": {"web"}, "dbs": {"db"}}}})
	plan, probes := world(PlanConfig{NodeIDs: []string{"n1"}}, nil,
		&catalog.Instance{ID: "db-1", Service: "db", Port: 80, Meta: asHTTP},
		&catalog.Instance{ID: "a", Kind: catalog.KindConnectProxy, Proxy: &catalog.Proxy{DestinationServiceName: "web", DestinationServiceID: "db-1"}})
	b.SetPlan(plan)
	b.metadata = as("webs")
	assert.Empty(t, b.connect("a").spec().ClusterHealthChecks)
	b.metadata = as("dbs")
	assert.Equal(t, []string{probes["db-1"].Cluster}, names(b.connect("n1").spec()), "the node Envoy's work is not taken away")
}

func TestATokenOfAnotherServiceIsRefused(t *testing.T) {
	b := serveWith(t, Config{Authorizer: &rights{tokens: map[string][]string{"webs": {"web"}}}})
	plan, _ := world(nodeOnly, nil,
		&catalog.Instance{ID: "web-1", Service: "web", Port: 80, Meta: asHTTP},
		&catalog.Instance{ID: "web-1-sidecar-proxy", Kind: catalog.KindConnectProxy, Proxy: &catalog.Proxy{DestinationServiceName: "web", DestinationServiceID: "web-1"}},
		&catalog.Instance{ID: "db-1", Service: "db", Port: 80}, // which is not even probed
		&catalog.Instance{ID: "db-1-sidecar-proxy", Kind: catalog.KindConnectProxy, Proxy: &catalog.Proxy{DestinationServiceName: "db", DestinationServiceID: "db-1"}})
	b.SetPlan(plan)
	b.metadata = as("webs")
	code, text := b.connect("db-1-sidecar-proxy").end()
	assert.Equal(t, codes.PermissionDenied, code)
	assert.Contains(t, text, `"db-1-sidecar-proxy"`)
	assert.Contains(t, text, `service:write on ["db"]`)
	assert.Equal(t, 1, b.counts.get("refused permission"))
	assert.Empty(t, b.Streams())
	assert.Len(t, b.connect("web-1-sidecar-proxy").spec().ClusterHealthChecks, 1)
}

// A sidecar that was let in reports on what another instance is asked about.
func TestASidecarSpeaksForNoOther(t *testing.T) {
	b := serveWith(t, Config{Authorizer: &rights{tokens: map[string][]string{"webs": {"web"}}}})
	plan, probes := shop(true, "web", "db")
	b.SetPlan(plan)
	b.metadata = as("webs")
	e := b.connect("web-1-sidecar-proxy")
	assert.Equal(t, []string{probes["web-1"].Cluster}, names(e.spec()))
	e.say(echo{probes["web-1"].Cluster, up, 0}, echo{probes["db-1"].Cluster, down, 0})
	b.awaitReports(1)
	assert.True(t, b.Observations(probes["web-1"])[0].Answered)
	assert.Empty(t, b.Observations(probes["db-1"]))
	assert.NotContains(t, b.TakeNews(), probes["db-1"].CheckID)
}

func TestANodeEnvoyIsHeardForWhatItsTokenMayWrite(t *testing.T) {
	b := serveWith(t, Config{Authorizer: &rights{tokens: map[string][]string{"webs": {"web"}}}})
	plan, probes := shop(false, "web", "db")
	b.SetPlan(plan)
	b.metadata = as("webs")
	e := b.connect("n1")
	assert.Equal(t, []string{probes["web-1"].Cluster}, names(e.spec()))
	e.say(echo{probes["web-1"].Cluster, up, 0}, echo{probes["db-1"].Cluster, up, 0})
	b.awaitReports(1)
	assert.Len(t, b.Observations(probes["web-1"]), 1)
	assert.Empty(t, b.Observations(probes["db-1"]))
	assert.Equal(t, []string{"db"}, b.Streams()[0].Denied)
}

func TestAnUnknownEnvoyIsAuthorizedWhenItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := serveInMemoryWith(t, Config{Authorizer: &rights{tokens: map[string][]string{"webs": {"web"}}}})
		before, _ := shop(true)
		b.SetPlan(before)
		b.metadata = as("webs")
		web, db := b.connect("web-1-sidecar-proxy"), b.connect("db-1-sidecar-proxy")
		assert.Empty(t, web.spec().ClusterHealthChecks)
		assert.Empty(t, db.spec().ClusterHealthChecks)
		after, probes := shop(true, "web", "db")
		start := time.Now()
		b.SetPlan(after)
		code, _ := db.end()
		assert.Equal(t, codes.PermissionDenied, code)
		assert.Equal(t, []string{probes["web-1"].Cluster}, names(web.spec()))
		assert.LessOrEqual(t, time.Since(start), time.Second, "it is asked at once")
	})
}

func TestARevokedTokenLosesItsStream(t *testing.T) {
	for name, revoke := range map[string]func(*rights){
		"deleted":  func(r *rights) { delete(r.tokens, "webs") },
		"lessened": func(r *rights) { r.tokens["webs"] = []string{"other"} },
	} {
		synctest.Test(t, func(t *testing.T) {
			who := &rights{tokens: map[string][]string{"webs": {"web"}}}
			b := serveInMemoryWith(t, Config{Authorizer: who})
			plan, probes := shop(false, "web")
			b.SetPlan(plan)
			b.metadata = as("webs")
			e := b.connect("n1")
			e.spec()
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Empty(t, e.ended, "a token that lives is not disturbed")
			who.set(revoke)
			time.Sleep(recheckEvery)
			synctest.Wait()
			assert.Empty(t, b.Observations(probes["web-1"]), name)
			code, _ := e.end()
			assert.Contains(t, []codes.Code{codes.Unauthenticated, codes.PermissionDenied}, code, name)
			assert.Equal(t, 1, b.counts.get("refused token")+b.counts.get("refused permission"))
		})
	}
}

// Consul's trouble turns nobody critical, and lets nobody in.
func TestVerdictsStandWhileConsulIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := &rights{tokens: map[string][]string{"webs": {"web", "db"}}}
		b := serveInMemoryWith(t, Config{Authorizer: who})
		plan, probes := shop(false, "web")
		b.SetPlan(plan)
		b.metadata = as("webs")
		e := b.connect("n1")
		e.spec()
		who.set(func(r *rights) { r.away = errors.New("the agent is away") })
		more, _ := shop(false, "web", "db")
		b.SetPlan(more)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Empty(t, e.ended)
		assert.Empty(t, e.specs, "a new service waits for its answer")
		assert.Len(t, b.Observations(probes["web-1"]), 1)
		require.ErrorContains(t, b.AuthError(), "the agent is away")

		code, text := b.dial().listen().end()
		assert.Equal(t, codes.Unavailable, code)
		assert.Contains(t, text, "the agent is away")
		assert.Equal(t, 1, b.counts.get("refused consul"))

		who.set(func(r *rights) { r.away = nil })
		assert.Len(t, e.spec().ClusterHealthChecks, 2)
		require.NoError(t, b.AuthError())
	})
}

// The handler goes on while an answer of Consul's hangs.
func TestAStreamDoesNotWaitForConsul(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := &rights{tokens: map[string][]string{"all": {"web", "db", "api"}}}
		b := serveInMemoryWith(t, Config{Authorizer: who})
		plan, probes := shop(false, "web", "db")
		b.SetPlan(plan)
		b.metadata = as("all")
		e := b.connect("n1")
		assert.Len(t, e.spec().ClusterHealthChecks, 2)
		time.Sleep(time.Second)
		hang := make(chan struct{})
		who.set(func(r *rights) { r.hang = hang })
		changed, _ := shop(false, "web", "api") // one goes, and one comes
		start := time.Now()
		b.SetPlan(changed)
		assert.Equal(t, []string{probes["web-1"].Cluster}, names(e.spec()))
		e.say(echo{probes["web-1"].Cluster, up, 0})
		synctest.Wait()
		assert.True(t, b.Observations(probes["web-1"])[0].Answered)
		assert.Less(t, time.Since(start), time.Second)
		who.set(func(r *rights) { r.hang = nil })
		close(hang)
		assert.Len(t, e.spec().ClusterHealthChecks, 2)
	})
}

// An Envoy that comes before the first plan, as after a restart of the daemon, is
// not sent an empty specifier first: it would stop what it probes.
func TestTheFirstSpecifierWaitsForItsRights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := &rights{tokens: map[string][]string{"all": {"web", "db"}}}
		b := serveInMemoryWith(t, Config{Authorizer: who})
		b.metadata = as("all")
		e := b.connect("n1")
		synctest.Wait()
		hang := make(chan struct{})
		who.set(func(r *rights) { r.hang = hang })
		plan, _ := shop(false, "web", "db")
		b.SetPlan(plan)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Empty(t, e.specs)
		who.set(func(r *rights) { r.hang = nil })
		close(hang)
		assert.Len(t, e.spec().ClusterHealthChecks, 2)
	})
}

func TestHalfConfiguredServersAreRefused(t *testing.T) {
	good := Config{Listen: []string{"127.0.0.1:1"}, MaxStreams: 1, Logger: hclog.NewNullLogger(), Metrics: &counts{}}
	_, err := New(good)
	require.NoError(t, err)
	for name, spoil := range map[string]func(*Config){
		"no stream": func(c *Config) { c.MaxStreams = 0 }, "no logger": func(c *Config) { c.Logger = nil },
		"no metrics": func(c *Config) { c.Metrics = nil }, "identities without TLS": func(c *Config) { c.AllowedIdentities = []string{"*"} },
	} {
		c := good
		spoil(&c)
		_, err := New(c)
		require.Error(t, err, name)
	}
}

func TestATokenIsNeverPrinted(t *testing.T) {
	token, err := NewToken("hush-hush")
	require.NoError(t, err)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		assert.NotContains(t, fmt.Sprintf(format, token), "hush")
		assert.NotContains(t, fmt.Sprintf(format, token), "68757368")
		assert.NotContains(t, fmt.Sprintf(format, struct{ T Token }{token}), "hush")
	}

	var log bytes.Buffer
	logger := hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Trace})
	who := &rights{tokens: map[string][]string{"hush-hush": {"web"}}}
	b := serveWith(t, Config{Authorizer: who, Logger: logger})
	plan, _ := shop(false, "web")
	b.SetPlan(plan)
	b.metadata = as("hush-hush")
	e := b.connect("n1")
	e.spec()
	b.metadata = as("hush-other")
	_, text := b.dial().listen().end()
	assert.NotContains(t, text, "hush")
	e.leave()
	require.NoError(t, b.shutDown())
	assert.Contains(t, log.String(), "stream opened")
	assert.Contains(t, log.String(), "refused Envoys")
	assert.NotContains(t, log.String(), "hush")
}

func TestRefusalsAreLoggedOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	r := newRefusals(hclog.New(&hclog.LoggerOptions{Output: &log}), &counts{})
	for i := range 100 {
		r.note(reasonToken, fmt.Sprintf("peer %d", i), errNoToken, t0.Add(time.Duration(i)*time.Millisecond))
	}
	assert.Equal(t, 1, strings.Count(log.String(), "reason=token"), "the first is told at once")
	assert.Contains(t, log.String(), `peer="peer 0"`)
	r.note(reasonTLS, "peer x", errNoToken, t0)
	assert.Equal(t, 1, strings.Count(log.String(), "reason=tls"), "another reason is another line")
	r.lines.Flush(t0.Add(59 * time.Second))
	assert.Equal(t, 2, strings.Count(log.String(), "refused"))
	r.lines.Flush(t0.Add(time.Minute))
	assert.Regexp(t, `peer="peer 99" .*count=99\n`, log.String(), "nothing goes untold")
	r.lines.Flush(t0.Add(10 * time.Minute))
	assert.Equal(t, 3, strings.Count(log.String(), "refused"))
}

func TestRefusalsAreShownForFiveMinutes(t *testing.T) {
	r := newRefusals(hclog.NewNullLogger(), &counts{})
	for i := range 3 {
		r.note(reasonToken, fmt.Sprintf("peer %d", i), errNoToken, t0)
	}
	r.lines.Flush(t0.Add(time.Minute)) // what is logged is shown still
	tls := errors.New("expired")
	r.note(reasonTLS, "peer x", tls, t0.Add(time.Minute))
	token := Refusal{Reason: reasonToken, Count: 3, At: t0, Peer: "peer 2", Err: errNoToken}
	other := Refusal{Reason: reasonTLS, Count: 1, At: t0.Add(time.Minute), Peer: "peer x", Err: tls}
	assert.Equal(t, []Refusal{other, token}, r.recent(t0.Add(refusalsShown-1)), "the newest of each reason")
	assert.Equal(t, []Refusal{other}, r.recent(t0.Add(refusalsShown)))
	assert.Empty(t, r.recent(t0.Add(refusalsShown+time.Minute)))
}
