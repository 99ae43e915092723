package checks_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

func wanted(id string, s health.Status) checks.Want {
	return checks.Want{CheckID: "hds:" + id, ServiceID: id, Name: "n", Status: s, Output: "out", Alive: true}
}

// settle lets everything happen that needs no time, after a snapshot.

func (r *rig) settle() {
	r.Sync(r.agent.snapshot())
	time.Sleep(time.Millisecond)
	synctest.Wait()
}

// changeToken tells of another token, with which a snapshot is read then.
func (r *rig) changeToken() {
	r.Reregister()
	time.Sleep(time.Millisecond)
	r.settle()
}

func TestARegistrationIsFollowedByAnUpdate(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Critical))
		synctest.Wait()
		assert.Empty(t, r.agent.writes(), "nothing is written before a snapshot shows what is there")
		r.settle()
		assert.Equal(t, []string{"register hds:a critical", "update hds:a critical"}, r.agent.writes())
		s := r.States()["hds:a"]
		assert.False(t, s.WroteAt.IsZero())
		s.WroteAt = time.Time{}
		assert.Equal(t, checks.State{ServiceID: "a", Status: health.Critical, Output: "out", Wrote: "update"}, s)
		c := r.agent.snapshot().Checks["hds:a"]
		assert.True(t, checks.Ours(c))
		assert.Equal(t, "out", c.Output)
	})
}

func TestAStatusChangeIsWrittenAtOnceAndOnce(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Critical))
		r.settle()
		r.agent.writes()
		r.Set(wanted("a", health.Passing))
		synctest.Wait()
		assert.Equal(t, []string{"update hds:a passing"}, r.agent.writes())
		r.Set(wanted("a", health.Passing))
		synctest.Wait()
		assert.Empty(t, r.agent.writes(), "nothing that nothing needs")
	})
}

func TestNoneRegistersNothing(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.None))
		r.settle()
		time.Sleep(2 * ttl)
		assert.Empty(t, r.agent.writes())
	})
}

func TestRefreshesComeOncePerThirdOfTheTTLAndSpread(t *testing.T) {
	ids, agent := crowd(90)
	run(t, agent, func(t *testing.T, r *rig) {
		r.allPassing(ids)
		time.Sleep(ttl / 3)
		r.agent.writes()
		for range 6 {
			time.Sleep(ttl / 3)
			synctest.Wait()
			log := r.agent.writes()
			slices.Sort(log)
			assert.Len(t, log, len(ids), "each once, nothing else")
			assert.Len(t, slices.Compact(log), len(ids))
		}
		time.Sleep(2 * time.Second)
		assert.InDelta(t, 9, len(r.agent.writes()), 7, "spread: a tenth of the period has a tenth of the writes")
		assert.Positive(t, r.metrics.refreshed.Load())
	})
}

func TestACheckThatIsNotAliveIsLeftToExpire(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		stale := wanted("a", health.Passing)
		stale.Alive = false
		r.Set(stale)
		r.agent.writes()
		time.Sleep(2 * ttl)
		assert.Empty(t, r.agent.writes(), "an expiry is not put right")
		assert.Equal(t, health.Critical, r.States()["hds:a"].Status)
		r.Set(wanted("a", health.Passing))
		synctest.Wait()
		assert.Equal(t, []string{"update hds:a passing"}, r.agent.writes(), "until it is alive again")
	})
}

func TestACheckThatComesAliveAgainIsRefreshedAtOnce(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		stale := wanted("a", health.Passing)
		stale.Alive = false
		r.Set(stale)
		time.Sleep(ttl - time.Second)
		r.agent.writes()
		r.Set(wanted("a", health.Passing))
		synctest.Wait()
		assert.Equal(t, []string{"update hds:a passing"}, r.agent.writes())
	})
}

// A token that Consul does not know fails every check alike: the agent is asked

// at the pace of one.

func TestFlushRefreshesWhatIsAlive(t *testing.T) {
	run(t, newFakeAgent("a", "b"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		stale := wanted("b", health.Passing)
		r.Set(stale)
		r.settle()
		stale.Alive = false
		r.Set(stale)
		r.agent.writes()
		require.NoError(t, r.Flush(t.Context()))
		assert.Equal(t, []string{"update hds:a passing"}, r.agent.writes())
		r.agent.mu.Lock()
		r.agent.slow = time.Hour
		r.agent.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		assert.ErrorIs(t, r.Flush(ctx), context.DeadlineExceeded, "a flush is bounded")
		r.agent.mu.Lock()
		r.agent.slow = 0
		r.agent.mu.Unlock()
	})
}

func TestFinishRemovesOrTurnsCritical(t *testing.T) {
	for _, remove := range []bool{true, false} {
		agent := newFakeAgent("a", "b", "c")
		agent.put(ownCheck("c", "passing")) // an orphan
		agent.put(&catalog.Check{ID: "hds:b", ServiceID: "b", Type: "ttl", Status: "passing"})
		run(t, agent, func(t *testing.T, r *rig) {
			r.Set(wanted("a", health.Passing))
			r.Set(wanted("b", health.Passing))
			r.settle()
			require.NoError(t, r.Finish(t.Context(), remove, "shut down"))
			left := agent.snapshot().Checks
			assert.Equal(t, "passing", left["hds:b"].Status, "a foreign check is left alone")
			if remove {
				assert.Len(t, left, 1)
				return
			}
			for _, id := range []string{"hds:a", "hds:c"} {
				assert.Equal(t, []string{"critical", "shut down"}, []string{left[id].Status, left[id].Output})
			}
		})
	}
}

func TestAnotherTTLRegistersEveryCheckAgain(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		r.agent.writes()
		r.Reconfigure(ttl, time.Hour)
		synctest.Wait()
		assert.Empty(t, r.agent.writes())
		r.Reconfigure(2*ttl, time.Hour)
		synctest.Wait()
		assert.Equal(t, []string{"register hds:a passing", "update hds:a passing"}, r.agent.writes())
	})
}
