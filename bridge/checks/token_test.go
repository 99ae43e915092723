package checks_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// With a dead token nothing is read, and a check may have gone over to somebody else.
func TestANewTokenWritesNothingBeforeItHasRead(t *testing.T) {
	agent := newFakeAgent("a", "b")
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.Set(wanted("b", health.Passing))
		r.settle()
		agent.writes()
		before := agent.snapshot()
		agent.put(&catalog.Check{ID: "hds:a", ServiceID: "a", Type: "ttl", Status: "warning", Notes: "somebody else's"})
		r.Reregister()
		r.Set(wanted("b", health.Critical))
		r.Sync(before)
		synctest.Wait()
		assert.Empty(t, agent.writes(), "what was read before says nothing")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"update hds:b critical", "register hds:b critical", "update hds:b critical"}, agent.writes())
		assert.True(t, r.States()["hds:a"].Foreign)
	})
}

// To be registered tells the servers what the agent shows: with many checks that have
// expired while the token was dead, all of them would be critical until the last is
// registered.
func TestWithANewTokenNoCheckIsRegisteredAsItHasExpired(t *testing.T) {
	ids, agent := crowd(100)
	run(t, agent, func(t *testing.T, r *rig) {
		r.allPassing(ids)
		agent.dead(true)
		time.Sleep(2 * ttl)
		require.Equal(t, "critical", agent.snapshot().Checks["hds:s0"].Status)
		agent.dead(false)
		agent.writes()
		r.Reregister()
		time.Sleep(3 * time.Second)
		writes := agent.writes()
		for _, id := range ids {
			first := slices.IndexFunc(writes, func(w string) bool { return strings.HasSuffix(w, " hds:"+id+" passing") })
			require.NotEqual(t, -1, first)
			assert.Equal(t, "update hds:"+id+" passing", writes[first])
			assert.Contains(t, writes[first+1:], "register hds:"+id+" passing")
			assert.Contains(t, agent.snapshot().Checks["hds:"+id].Notes, "the catalog did not follow", "or the agent, which carries the update by the dead token, tells nobody")
		}
	})
}

// A token that is known again, as when it is made anew with the same secret, is used at
// once for all that has waited.
func TestATokenThatIsKnownAgainIsUsedAtOnce(t *testing.T) {
	ids, agent := crowd(20)
	run(t, agent, func(t *testing.T, r *rig) {
		r.allPassing(ids)
		agent.dead(true)
		time.Sleep(10 * ttl) // until the pauses are as long as they get
		agent.dead(false)
		time.Sleep(7 * time.Second) // the pause of all, a read, and some more
		for _, id := range ids {
			assert.Equal(t, "passing", agent.snapshot().Checks["hds:"+id].Status)
		}
	})
}

// What is denied to a token that is known is tried again about as often as it would be
// refreshed: a right that comes back must not come too late by that.
func TestADeniedCheckIsTriedAsOftenAsItIsRefreshed(t *testing.T) {
	agent := newFakeAgent("a")
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		agent.failing(checks.ErrDenied, ever)
		time.Sleep(5 * ttl)
		agent.writes()
		time.Sleep(10 * ttl)
		n := len(agent.writes())
		assert.GreaterOrEqual(t, n, 29)
		assert.LessOrEqual(t, n, 61, "the agent logs each")
	})
}

// An agent that has been away since the token changed could not be read: what it holds
// when it is back may be somebody else's. It is read within a second.
func TestANewTokenAwaitsAReadAlsoOfAnAgentThatWasAway(t *testing.T) {
	agent := newFakeAgent("a")
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		agent.dead(true)
		agent.failing(checks.ErrAway, ever)
		r.Reregister()
		time.Sleep(2 * ttl)
		agent.writes()
		for len(agent.writes()) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		agent.put(&catalog.Check{ID: "hds:a", ServiceID: "a", Type: "ttl", Status: "warning", Notes: "somebody else's"})
		agent.failing(nil, 0) // it is back, and is read a moment later
		time.Sleep(5 * time.Second)
		assert.Empty(t, agent.writes())
		agent.dead(false)
		time.Sleep(2 * time.Second)
		assert.Empty(t, agent.writes())
		assert.True(t, r.States()["hds:a"].Foreign)
	})
}

// As long as the agent takes writes, those that are lost now and then hold up no others,
// also if nothing can be read with a new token.
func TestLostWritesHoldNothingUpAfterANewToken(t *testing.T) {
	for name, lost := range map[string]func(n int) bool{
		"none": func(int) bool { return false }, "the first": func(n int) bool { return n == 1 }, "one of twenty": func(n int) bool { return n%20 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			ids, agent := crowd(200)
			run(t, agent, func(t *testing.T, r *rig) {
				r.allPassing(ids)
				time.Sleep(ttl)
				agent.mu.Lock()
				agent.away, agent.slow = true, 50*time.Millisecond // reads hang
				n := 0
				agent.fail = func(string, string) error {
					if n++; lost(n) {
						return checks.ErrAway
					}
					return nil
				}
				agent.mu.Unlock()
				r.Reregister()
				for range 150 {
					time.Sleep(ttl / 30)
					for id, c := range agent.snapshot().Checks {
						require.Equal(t, "passing", c.Status, id)
					}
				}
			})
		})
	}
}

// Tokens that change again and again hold nothing up for longer than one.
func TestManyTokensHoldWritesNoLongerThanOne(t *testing.T) {
	agent := newFakeAgent("a")
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		time.Sleep(ttl)
		agent.mu.Lock()
		agent.away = true // reads hang, writes do not
		agent.mu.Unlock()
		for range 12 {
			r.Hold()
			r.Reregister()
			time.Sleep(ttl / 4)
			assert.Equal(t, "passing", agent.snapshot().Checks["hds:a"].Status)
		}
	})
}

// What is decided before a token changes is not written with the new one, and from then
// on nothing is decided before a read.
func TestNothingIsDecidedWithoutAReadOnceATokenIsAboutToChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var token atomic.Value
		token.Store("old")
		agent := &tokenAgent{slow: 10 * time.Millisecond}
		m, err := checks.New(checks.Config{
			Agent: agent, TTL: ttl, OrphanGrace: ttl, Metrics: &noMetrics{}, Logger: hclog.NewNullLogger(), ReadAgain: func() {},
			Bind: func(ctx context.Context) context.Context { return context.WithValue(ctx, tokenKey{}, token.Load()) },
		})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx) }()
		sync := func() { m.Sync(&catalog.Snapshot{ReadAt: time.Now()}) }
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			m.Set(wanted(id, health.Passing))
		}
		sync()
		synctest.Wait()
		m.Hold()
		token.Store("new")
		time.Sleep(ttl / 6)
		assert.Equal(t, []any{"old", "old", "old"}, agent.took(), "three are under way at once")
		m.Reregister()
		time.Sleep(ttl / 6)
		assert.Empty(t, agent.took())
		sync()
		time.Sleep(time.Second)
		for _, used := range agent.took() {
			assert.Equal(t, "new", used)
		}
		cancel()
		require.NoError(t, <-done)
	})
}

type tokenKey struct{}

// tokenAgent takes all, and notes with which token after a while.
type tokenAgent struct {
	slow time.Duration
	mu   sync.Mutex
	used []any
}

func (a *tokenAgent) take(ctx context.Context) error {
	time.Sleep(a.slow)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = append(a.used, ctx.Value(tokenKey{}))
	return nil
}

// took are the tokens that were used since the last call.
func (a *tokenAgent) took() []any {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := a.used
	a.used = nil
	return used
}

func (a *tokenAgent) Register(ctx context.Context, _ checks.Registration) error { return a.take(ctx) }
func (a *tokenAgent) Deregister(ctx context.Context, _ string) error            { return a.take(ctx) }
func (a *tokenAgent) Update(ctx context.Context, _ string, _ health.Status, _ string) error {
	return a.take(ctx)
}
