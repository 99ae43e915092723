package checks_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

func TestWhatTheAgentDoesNotKnowIsReadAgain(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		r.agent.writes()
		r.agent.mu.Lock()
		delete(r.agent.checks, "hds:a")
		r.agent.mu.Unlock()
		r.Set(wanted("a", health.Critical))
		time.Sleep(700 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []string{"update hds:a critical", "register hds:a critical", "update hds:a critical"}, r.agent.writes())
		assert.Empty(t, r.log.String(), "that it is lost says enough")
	})
	run(t, newFakeAgent(), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		time.Sleep(time.Minute)
		assert.Less(t, len(r.agent.writes()), 80, "a service that is gone makes no hot loop")
		assert.Equal(t, 1, strings.Count(r.log.String(), "trying again"), "it is said once")
	})
}

// The first snapshot after a service's end may show it still, without its check.
func TestACheckThatIsGoneWithItsServiceIsForgottenSilently(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		r.agent.writes()
		r.agent.mu.Lock()
		delete(r.agent.services, "a")
		delete(r.agent.checks, "hds:a")
		r.agent.mu.Unlock()
		r.Set(wanted("a", health.Critical))
		time.Sleep(300 * time.Millisecond)
		r.Forget("hds:a")
		time.Sleep(ttl)
		synctest.Wait()
		assert.Equal(t, []string{"update hds:a critical"}, r.agent.writes(), "the write that met its end, and no other")
		assert.Empty(t, r.log.String())
		assert.Zero(t, r.metrics.lost.Load())
	})
}

func TestAnAgentThatFailsIsNotFlooded(t *testing.T) {
	for _, failure := range []error{errors.New("500"), checks.ErrAway} {
		ids := []string{"a", "b", "c", "d", "e"}
		agent := newFakeAgent(ids...)
		run(t, agent, func(t *testing.T, r *rig) {
			for _, id := range ids {
				r.Set(wanted(id, health.Passing))
			}
			r.settle()
			agent.writes()
			agent.mu.Lock()
			agent.fail = func(string, string) error { return failure }
			agent.away = errors.Is(failure, checks.ErrAway)
			agent.mu.Unlock()
			for range 60 { // a flapping instance, for a minute
				r.Set(wanted("a", health.Critical))
				time.Sleep(500 * time.Millisecond)
				r.Set(wanted("a", health.Passing))
				time.Sleep(500 * time.Millisecond)
			}
			r.Set(wanted("a", health.Critical))
			assert.Less(t, len(agent.writes()), 200)
			agent.mu.Lock()
			agent.fail, agent.away = nil, false
			agent.mu.Unlock()
			time.Sleep(5100 * time.Millisecond)
			synctest.Wait()
			log := agent.writes()
			assert.Equal(t, "critical", agent.snapshot().Checks["hds:a"].Status, "the newest value wins")
			assert.NotContains(t, log, "update hds:a passing", "there is no queue of old ones")
		})
	}
}

func TestAnAgentThatIsBackIsWrittenToAtOnce(t *testing.T) {
	agent := newFakeAgent("a")
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		agent.mu.Lock()
		agent.fail, agent.away = func(string, string) error { return checks.ErrAway }, true
		agent.mu.Unlock()
		time.Sleep(75 * time.Second)
		assert.Equal(t, "critical", agent.snapshot().Checks["hds:a"].Status, "its TTL ran out meanwhile")
		agent.mu.Lock()
		agent.fail, agent.away = nil, false
		agent.mu.Unlock()
		time.Sleep(1300 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, "passing", agent.snapshot().Checks["hds:a"].Status)
	})
}

// An agent whose disk is full does what it is told, and answers 500.
func TestAnAgentThatCannotSaveLetsNobodyExpire(t *testing.T) {
	const n = 60 // more than pauses for a broken agent would let through in a TTL
	agent := newFakeAgent()
	for i := range n {
		agent.services[fmt.Sprint("s", i)] = true
	}
	run(t, agent, func(t *testing.T, r *rig) {
		for i := range n {
			r.Set(wanted(fmt.Sprint("s", i), health.Passing))
		}
		r.settle()
		agent.mu.Lock()
		agent.full = true
		agent.mu.Unlock()
		agent.writes()
		time.Sleep(3 * ttl)
		synctest.Wait()
		for id, c := range agent.snapshot().Checks {
			assert.Equal(t, "passing", c.Status, id)
		}
		assert.InDelta(t, 9*n, len(agent.writes()), n, "one in a third of the TTL, and none again")
		r.Set(wanted("s0", health.Critical))
		synctest.Wait()
		assert.Equal(t, []string{"update hds:s0 critical"}, agent.writes())
		assert.LessOrEqual(t, strings.Count(r.log.String(), "the agent shows a check, but cannot save it"), 4, "it is said once a minute")
	})
}

func TestOneCheckThatFailsDoesNotHoldUpOthers(t *testing.T) {
	agent := newFakeAgent("a", "b")
	agent.fail = func(_, id string) error {
		if id == "hds:a" {
			return checks.ErrDenied
		}
		return nil
	}
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.Set(wanted("b", health.Passing))
		r.settle()
		assert.Equal(t, health.Passing, r.States()["hds:b"].Status)
		require.ErrorIs(t, r.States()["hds:a"].Err, checks.ErrDenied)
		time.Sleep(time.Minute)
		assert.Less(t, len(agent.writes()), 20)
	})
}

// The agent lets the check expire, may tell nobody, and takes that for done. If the
// status is the right one by then, no update would be carried to the servers.
func TestACheckThatExpiredWhileItWasDeniedIsToldToTheServers(t *testing.T) {
	for _, denied := range []time.Duration{ttl / 4, ttl} {
		t.Run(denied.String(), func(t *testing.T) {
			run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
				r.Set(wanted("a", health.Passing))
				r.settle()
				r.agent.failing(checks.ErrTokenUnknown, ever)
				r.Set(wanted("a", health.Critical))
				time.Sleep(denied)
				r.agent.failing(nil, 0)
				r.agent.writes()
				time.Sleep(ttl / 2) // it is tried again by then
				synctest.Wait()
				healed := denied >= ttl
				writes := r.agent.writes()
				assert.Contains(t, writes, "update hds:a critical")
				assert.Equal(t, healed, slices.Contains(writes, "register hds:a critical"), "%q", writes)
				assert.Equal(t, healed, strings.Contains(r.agent.snapshot().Checks["hds:a"].Notes, "the catalog did not follow"))
			})
		})
	}
}

func TestACheckThatWasDeniedFromTheStartIsToldToTheServers(t *testing.T) {
	agent := newFakeAgent("a")
	run(t, agent, func(_ *testing.T, r *rig) { // an earlier life
		r.Set(wanted("a", health.Critical))
		r.settle()
	})
	run(t, agent, func(t *testing.T, r *rig) {
		agent.failing(checks.ErrDenied, ever)
		r.Set(wanted("a", health.Critical))
		time.Sleep(ttl)
		agent.failing(nil, 0)
		time.Sleep(ttl / 2)
		synctest.Wait()
		assert.Contains(t, agent.snapshot().Checks["hds:a"].Notes, "the catalog did not follow")
	})
}

func TestADeadTokenIsNoStorm(t *testing.T) {
	ids, agent := crowd(100)
	run(t, agent, func(t *testing.T, r *rig) {
		r.allPassing(ids)
		agent.mu.Lock()
		agent.fail = func(string, string) error { return checks.ErrTokenUnknown }
		agent.mu.Unlock()
		agent.writes()
		time.Sleep(time.Minute)
		assert.Less(t, len(agent.writes()), 60)
		require.ErrorIs(t, checks.ErrTokenUnknown, checks.ErrDenied)
	})
}

func TestAStatusChangeOvertakesRefreshes(t *testing.T) {
	ids, agent := crowd(60)
	run(t, agent, func(t *testing.T, r *rig) {
		r.allPassing(ids)
		agent.mu.Lock()
		agent.slow = 5 * time.Second
		agent.mu.Unlock()
		r.changeToken()
		agent.writes()
		start := time.Now()
		r.Set(wanted("s59", health.Critical))
		for agent.snapshot().Checks["hds:s59"].Status != "critical" {
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, time.Since(start), 16*time.Second, "one write is waited for, then its own two")
	})
}

// Each worker wakes the next: one whose write hangs leaves none to wait that others
// could do.
func TestACrowdIsWrittenByAllWorkers(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e", "f", "g"}
	agent := newFakeAgent(ids...)
	run(t, agent, func(t *testing.T, r *rig) {
		r.allPassing(ids)
		agent.mu.Lock()
		agent.slow = time.Second
		agent.mu.Unlock()
		agent.writes()
		r.Reconfigure(2*ttl, ttl)
		time.Sleep(1001 * time.Millisecond)
		synctest.Wait()
		assert.Len(t, agent.writes(), 3, "of each worker one")
	})
}

// A job that starts on a large node registers many instances at once.
func TestACrowdOfNewInstancesHoldsUpNoChange(t *testing.T) {
	ids := []string{"h"}
	for i := range 1000 {
		ids = append(ids, fmt.Sprint("new", i))
	}
	agent := newFakeAgent(ids...)
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("h", health.Passing))
		r.settle()
		agent.mu.Lock()
		agent.slow = 20 * time.Millisecond
		agent.mu.Unlock()
		for _, id := range ids[1:] {
			r.Set(wanted(id, health.Critical))
		}
		r.Sync(agent.snapshot())
		time.Sleep(time.Second)
		start := time.Now()
		r.Set(wanted("h", health.Critical))
		for agent.snapshot().Checks["hds:h"].Status != "critical" {
			time.Sleep(10 * time.Millisecond)
		}
		assert.Less(t, time.Since(start), time.Second, "it took 10 s while all waited in one queue")
		agent.mu.Lock()
		delete(agent.checks, "hds:h")
		agent.mu.Unlock()
		start = time.Now()
		for agent.snapshot().Checks["hds:h"] == nil {
			time.Sleep(10 * time.Millisecond)
		}
		assert.Less(t, time.Since(start), 3*time.Second, "what is lost does not wait for what is new")
	})
}

// Checks that change or fail all the time always have an urgent write.
func TestAStormOfUrgentWritesLetsNoOtherCheckExpire(t *testing.T) {
	ids := []string{"h"}
	for i := range 20 {
		ids = append(ids, fmt.Sprint("bad", i))
	}
	agent := newFakeAgent(ids...)
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("h", health.Passing))
		r.settle()
		agent.mu.Lock()
		agent.fail = func(_, id string) error {
			if id != "hds:h" {
				return errors.New("500")
			}
			return nil
		}
		agent.mu.Unlock()
		for _, id := range ids[1:] {
			r.Set(wanted(id, health.Critical))
		}
		for range 5 * ttl / time.Second {
			time.Sleep(time.Second)
			require.Equal(t, "passing", agent.snapshot().Checks["hds:h"].Status)
		}
	})
}

func TestBadNewsThatCouldNotBeWrittenIsWrittenWhenStale(t *testing.T) {
	agent := newFakeAgent("a")
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		agent.failing(errors.New("500"), ever)
		w := wanted("a", health.Critical)
		r.Set(w)
		time.Sleep(15 * time.Second)
		w.Alive = false
		r.Set(w)
		agent.failing(nil, 0)
		time.Sleep(10 * time.Second)
		assert.Equal(t, "critical", agent.snapshot().Checks["hds:a"].Status)
		agent.writes()
		time.Sleep(3 * ttl)
		assert.Empty(t, agent.writes())
	})
}
