package checks_test

import (
	"context"
	"errors"
	"fmt"
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

func TestARegistrationIsFollowedByAnUpdate(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Critical))
		synctest.Wait()
		assert.Empty(t, r.agent.writes(), "nothing is written before a snapshot shows what is there")
		r.settle()
		assert.Equal(t, []string{"register hds:a critical", "update hds:a critical"}, r.agent.writes())
		assert.Equal(t, checks.State{Status: health.Critical, Output: "out"}, r.States()["hds:a"])
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
	ids := make([]string, 90)
	for i := range ids {
		ids[i] = fmt.Sprint("s", i)
	}
	run(t, newFakeAgent(ids...), func(t *testing.T, r *rig) {
		for _, id := range ids {
			r.Set(wanted(id, health.Passing))
		}
		r.settle()
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

func TestALostCheckIsBackWithItsLastStatus(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Warning))
		r.settle()
		r.agent.writes()
		for range 3 {
			time.Sleep(30 * time.Second)
			r.agent.writes()
			r.agent.mu.Lock()
			delete(r.agent.checks, "hds:a")
			r.agent.mu.Unlock()
			time.Sleep(1300 * time.Millisecond)
			synctest.Wait()
			assert.Equal(t, []string{"register hds:a warning", "update hds:a warning"}, r.agent.writes())
			assert.Equal(t, "out", r.agent.snapshot().Checks["hds:a"].Output)
		}
		assert.EqualValues(t, 3, r.metrics.lost.Load())
	})
}

func TestACheckThatIsMissingForAnInstantIsNotLost(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		r.agent.writes()
		without := r.agent.snapshot() // as while the agent reloads its configuration
		without.Checks = map[string]*catalog.Check{}
		time.Sleep(time.Millisecond)
		without.ReadAt = time.Now()
		r.Sync(without)
		time.Sleep(500 * time.Millisecond)
		assert.Empty(t, r.agent.writes())
		assert.Zero(t, r.metrics.lost.Load())
	})
}

func TestALossDoesNotKeepAStaleCheckAlive(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		stale := wanted("a", health.Passing)
		stale.Alive = false
		r.Set(stale)
		start := time.Now()
		for time.Since(start) < 2*ttl {
			time.Sleep(30 * time.Second)
			r.agent.mu.Lock()
			delete(r.agent.checks, "hds:a")
			r.agent.mu.Unlock()
			time.Sleep(1700 * time.Millisecond)
			synctest.Wait()
			status := r.agent.snapshot().Checks["hds:a"].Status
			if time.Since(start) < ttl {
				assert.Equal(t, "passing", status, time.Since(start))
			} else {
				assert.Equal(t, "critical", status, time.Since(start))
			}
		}
	})
}

func TestAnOlderSnapshotSaysNothingOfANewerWrite(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Sync(r.agent.snapshot())
		before := r.agent.snapshot()
		time.Sleep(time.Millisecond)
		r.Set(wanted("a", health.Passing))
		r.settle()
		r.agent.writes()
		r.Sync(before)
		synctest.Wait()
		assert.Empty(t, r.agent.writes())
		assert.Zero(t, r.metrics.lost.Load())
	})
}

func ownCheck(id, status string) *catalog.Check {
	return &catalog.Check{ID: "hds:" + id, Name: "n", ServiceID: id, Type: "ttl", Status: status, Output: "old", Notes: checks.Mark + " x"}
}

func TestAFoundCheckIsRegisteredOnceMoreAndKeepsItsStatus(t *testing.T) {
	agent := newFakeAgent("a")
	agent.put(ownCheck("a", "passing"))
	run(t, agent, func(t *testing.T, r *rig) {
		w := wanted("a", health.Passing)
		w.Output = "old"
		r.Set(w)
		r.settle()
		assert.Equal(t, []string{"register hds:a passing", "update hds:a passing"}, agent.writes())
		time.Sleep(5 * time.Second)
		for _, l := range agent.writes() {
			assert.Equal(t, "update hds:a passing", l)
		}
		r.Reregister()
		synctest.Wait()
		assert.Equal(t, []string{"register hds:a passing", "update hds:a passing"}, agent.writes(), "as after a token change")
	})
}

func TestARegisterUnderWayIsOfTheTokenBefore(t *testing.T) {
	agent := newFakeAgent("a")
	run(t, agent, func(t *testing.T, r *rig) {
		agent.mu.Lock()
		agent.slow = 2 * time.Second
		agent.mu.Unlock()
		r.Set(wanted("a", health.Passing))
		r.settle() // the register is under way
		r.Reregister()
		r.Reconfigure(2*ttl, time.Hour)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"register hds:a passing", "register hds:a passing"}, agent.writes()[:2])
	})
}

func TestAForeignCheckIsLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*catalog.Check){
		"without the mark": func(c *catalog.Check) { c.Notes = "somebody's" }, "not a TTL check": func(c *catalog.Check) { c.Type = "http" },
		"of another service": func(c *catalog.Check) { c.ServiceID = "b" }, "of the node": func(c *catalog.Check) { c.ServiceID = "" },
	} {
		t.Run(name, func(t *testing.T) {
			agent := newFakeAgent("a", "b")
			foreign := ownCheck("a", "passing")
			change(foreign)
			agent.put(foreign)
			run(t, agent, func(t *testing.T, r *rig) {
				r.Set(wanted("a", health.Critical))
				r.settle()
				assert.True(t, r.States()["hds:a"].Foreign)
				time.Sleep(3 * ttl)
				r.Withdraw("hds:a")
				require.NoError(t, r.Flush(t.Context()))
				time.Sleep(time.Second)
				assert.Empty(t, agent.writes())
			})
		})
	}
}

func TestOrphansAreKeptAliveForTheirGrace(t *testing.T) {
	agent := newFakeAgent("a", "b")
	agent.put(ownCheck("a", "passing"))
	agent.put(&catalog.Check{ID: "other", ServiceID: "a", Type: "ttl", Notes: checks.Mark, Status: "passing"})
	run(t, agent, func(t *testing.T, r *rig) {
		r.settle()
		assert.True(t, r.States()["hds:a"].Orphan)
		time.Sleep(ttl - time.Second)
		synctest.Wait()
		assert.GreaterOrEqual(t, len(agent.writes()), 4, "registered, told, and refreshed")
		assert.Equal(t, "passing", agent.snapshot().Checks["hds:a"].Status)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"deregister hds:a"}, agent.writes())
		assert.Len(t, agent.snapshot().Checks, 1, "an id that is not ours is no orphan")
		assert.Empty(t, r.States())
	})
}

func TestAnOrphanThatIsWantedAgainStays(t *testing.T) {
	agent := newFakeAgent("a")
	agent.put(ownCheck("a", "passing"))
	run(t, agent, func(t *testing.T, r *rig) {
		r.settle()
		time.Sleep(ttl - time.Second)
		r.Set(wanted("a", health.Passing))
		time.Sleep(ttl)
		assert.NotContains(t, agent.writes(), "deregister hds:a")
		assert.False(t, r.States()["hds:a"].Orphan)
	})
}

func TestWithdrawAndForget(t *testing.T) {
	run(t, newFakeAgent("a", "b"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.Set(wanted("b", health.Passing))
		r.settle()
		r.agent.writes()
		r.Withdraw("hds:a")
		r.Forget("hds:b")
		synctest.Wait()
		assert.Equal(t, []string{"deregister hds:a"}, r.agent.writes(), "a forgotten one went with its service")
		assert.Empty(t, r.States())
	})
}

func TestAnOlderSnapshotBringsNothingBackThatWasRemoved(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		before := r.agent.snapshot()
		time.Sleep(time.Millisecond)
		r.Withdraw("hds:a")
		synctest.Wait()
		r.agent.writes()
		r.Sync(before)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		assert.Empty(t, r.agent.writes())
		assert.Empty(t, r.States())
	})
}

func TestWhatTheAgentDoesNotKnowIsReadAgain(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		r.agent.writes()
		r.agent.mu.Lock()
		delete(r.agent.checks, "hds:a")
		r.agent.mu.Unlock()
		r.Set(wanted("a", health.Critical))
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, []string{"update hds:a critical", "register hds:a critical", "update hds:a critical"}, r.agent.writes())
	})
	run(t, newFakeAgent(), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		time.Sleep(time.Minute)
		assert.Less(t, len(r.agent.writes()), 80, "a service that is gone makes no hot loop")
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

// A token that Consul does not know fails every check alike: the agent is asked
// at the pace of one.
func TestADeadTokenIsNoStorm(t *testing.T) {
	ids := make([]string, 100)
	for i := range ids {
		ids[i] = fmt.Sprintf("a%d", i)
	}
	agent := newFakeAgent(ids...)
	run(t, agent, func(t *testing.T, r *rig) {
		for _, id := range ids {
			r.Set(wanted(id, health.Passing))
		}
		r.settle()
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
	ids := make([]string, 60)
	for i := range ids {
		ids[i] = fmt.Sprint("s", i)
	}
	agent := newFakeAgent(ids...)
	run(t, agent, func(t *testing.T, r *rig) {
		for _, id := range ids {
			r.Set(wanted(id, health.Passing))
		}
		r.settle()
		agent.mu.Lock()
		agent.slow = 5 * time.Second
		agent.mu.Unlock()
		r.Reregister()
		synctest.Wait()
		agent.writes()
		start := time.Now()
		r.Set(wanted("s59", health.Critical))
		for agent.snapshot().Checks["hds:s59"].Status != "critical" {
			time.Sleep(time.Second)
		}
		assert.LessOrEqual(t, time.Since(start), 11*time.Second, "one write is waited for, and its own")
	})
}

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
