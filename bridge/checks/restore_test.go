package checks_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

func TestALostCheckIsBackWithItsLastStatus(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		w := wanted("a", health.Warning)
		w.ReportedAt = time.Now()
		r.Set(w)
		r.settle()
		r.agent.writes()
		for range 3 {
			time.Sleep(30 * time.Second)
			r.agent.writes()
			r.agent.mu.Lock()
			delete(r.agent.checks, "hds:a")
			r.agent.mu.Unlock()
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			assert.Equal(t, []string{"register hds:a warning", "update hds:a warning"}, r.agent.writes())
			assert.Equal(t, "out", r.agent.snapshot().Checks["hds:a"].Output)
		}
		assert.EqualValues(t, 3, r.metrics.lost.Load())
		assert.EqualValues(t, 1, r.metrics.delays.Load(), "a check that is restored is no news of an Envoy's")
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

// A token that could not write is replaced after the TTL has run out.
func TestAStaleCheckThatHasExpiredIsNotRevivedByBeingRegistered(t *testing.T) {
	agent := newFakeAgent("a")
	agent.put(ownCheck("a", "passing"))
	run(t, agent, func(t *testing.T, r *rig) {
		agent.failing(checks.ErrDenied, ever)
		r.Set(wanted("a", health.Passing))
		r.settle()
		stale := wanted("a", health.Passing)
		stale.Alive = false
		r.Set(stale)
		agent.mu.Lock()
		agent.checks["hds:a"].Status, agent.checks["hds:a"].Output = "critical", "TTL expired"
		agent.mu.Unlock()
		time.Sleep(2 * time.Second)
		agent.failing(nil, 0)
		agent.writes()
		r.changeToken()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Equal(t, []string{"register hds:a critical", "update hds:a critical"}, agent.writes())
		assert.Equal(t, "TTL expired", agent.snapshot().Checks["hds:a"].Output)
	})
}

// What could never be written would have run out all the same: in the place of no
// check, which counts as healthy, comes one that says so.
func TestAStaleCheckThatCouldNeverBeWrittenRunsOutAllTheSame(t *testing.T) {
	for name, test := range map[string]struct {
		allowed time.Duration // since it was stale
		first   string
	}{
		"it could still pass": {ttl / 2, "register hds:a passing"},
		"it has run out":      {ttl + 2*time.Second, "register hds:a critical"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newFakeAgent("a")
			run(t, agent, func(t *testing.T, r *rig) {
				agent.failing(checks.ErrDenied, ever)
				r.Set(wanted("a", health.Passing))
				r.settle()
				time.Sleep(ttl)
				stale := wanted("a", health.Passing)
				stale.Alive = false
				r.Set(stale)
				since := time.Now()
				time.Sleep(test.allowed)
				agent.failing(nil, 0)
				agent.writes()
				r.changeToken()
				time.Sleep(2 * time.Second)
				require.NotEmpty(t, agent.snapshot().Checks)
				assert.Equal(t, test.first, agent.writes()[0])
				time.Sleep(ttl + 2*time.Second - time.Since(since))
				synctest.Wait()
				assert.Equal(t, "critical", agent.snapshot().Checks["hds:a"].Status)
			})
		})
	}
}

// A check that could not be written while it was answered for runs out a TTL after it
// lapsed, whatever was written of it, and whenever it lapsed, before.
func TestAStaleCheckThatWasNotThereRunsOutATTLAfterItLapsed(t *testing.T) {
	stale := wanted("a", health.Passing)
	stale.Alive = false
	put := func(r *rig, c *catalog.Check) {
		r.agent.mu.Lock()
		defer r.agent.mu.Unlock()
		delete(r.agent.checks, "hds:a")
		if c != nil {
			r.agent.put(c)
		}
	}
	for name, before := range map[string]func(r *rig){
		"it was lost": func(r *rig) {
			r.agent.failing(checks.ErrDenied, ever)
			put(r, nil)
		},
		"it was somebody else's": func(r *rig) {
			put(r, &catalog.Check{ID: "hds:a", ServiceID: "a", Type: "ttl", Status: "passing", Notes: "somebody else's"})
		},
		"it had lapsed once before": func(r *rig) {
			r.agent.failing(checks.ErrDenied, ever)
			put(r, nil)
			time.Sleep(ttl)
			r.Set(stale)
			time.Sleep(ttl/3 + 5*time.Second)
			r.Set(wanted("a", health.Passing))
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
				r.Set(wanted("a", health.Passing))
				r.settle()
				before(r)
				time.Sleep(10 * ttl)
				r.Set(stale)
				since := time.Now()
				time.Sleep(time.Second)
				r.agent.failing(nil, 0)
				put(r, nil)
				r.agent.writes()
				r.changeToken()
				time.Sleep(3 * time.Second)
				assert.Equal(t, "register hds:a passing", r.agent.writes()[0])
				time.Sleep(ttl - time.Second - time.Since(since))
				assert.Equal(t, "passing", r.agent.snapshot().Checks["hds:a"].Status)
				time.Sleep(3 * time.Second)
				assert.Equal(t, "critical", r.agent.snapshot().Checks["hds:a"].Status)
			})
		})
	}
}

// What nobody has answered for, for long, passes for no further TTL: neither what is
// made now, as after shadow mode, nor what is found.
func TestWhatHasLapsedLongAgoIsCriticalAtOnce(t *testing.T) {
	for name, found := range map[string]bool{"made": false, "found": true} {
		t.Run(name, func(t *testing.T) {
			agent := newFakeAgent("a")
			run(t, agent, func(t *testing.T, r *rig) {
				r.Set(wanted("a", health.None))
				r.settle()
				time.Sleep(10 * ttl)
				w := wanted("a", health.Passing)
				w.Alive, w.Lapsed = false, time.Now().Add(-9*ttl)
				want := "TTL expired, last output: " + w.Output
				if found {
					agent.mu.Lock()
					agent.put(ownCheck("a", "passing"))
					agent.mu.Unlock()
					w.Output, want = "", "TTL expired"
				}
				r.Set(w)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				c := agent.snapshot().Checks["hds:a"]
				assert.Equal(t, "critical", c.Status)
				assert.Equal(t, want, c.Output)
			})
		})
	}
}

// The last word of a check that lapsed before it could be written begins its TTL anew at
// the agent: it is over when it would have been without.
func TestALateWordOfALapsedCheckIsNoNewTTL(t *testing.T) {
	for name, test := range map[string]struct {
		before func(r *rig)
		word   health.Status
	}{
		"the output of a new check": {func(*rig) {}, health.Passing},
		"the output of a check that is registered again": {func(r *rig) {
			r.Set(wanted("a", health.Passing))
			r.settle()
			r.agent.failingTo("update")
			r.changeToken()
		}, health.Passing},
		"a worse status": {func(r *rig) {
			r.Set(wanted("a", health.Passing))
			r.settle()
		}, health.Warning},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newFakeAgent("a")
			run(t, agent, func(t *testing.T, r *rig) {
				test.before(r)
				agent.failingTo("update")
				r.Set(wanted("a", test.word))
				r.settle()
				time.Sleep(10 * time.Second)
				w := wanted("a", test.word)
				w.Alive, w.Lapsed = false, time.Now()
				r.Set(w)
				time.Sleep(40 * time.Second)
				agent.failing(nil, 0)
				time.Sleep(5 * time.Second)
				assert.Equal(t, string(test.word), agent.snapshot().Checks["hds:a"].Status)
				time.Sleep(w.Lapsed.Add(ttl + 5*time.Second).Sub(time.Now()))
				assert.Equal(t, "critical", agent.snapshot().Checks["hds:a"].Status)
			})
		})
	}
}

// Each new TTL counts from the same moment, also if it comes back to what it was.
func TestANewTTLOfALapsedCheckCountsFromThere(t *testing.T) {
	for name, test := range map[string]struct{ first, after time.Duration }{
		"longer for a moment": {10 * ttl, 4 * time.Second}, "shorter for a moment": {ttl / 4, 4 * time.Second}, "longer for long": {60 * ttl, 30 * ttl},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newFakeAgent("a")
			run(t, agent, func(t *testing.T, r *rig) {
				r.Set(wanted("a", health.Passing))
				r.settle()
				w := wanted("a", health.Passing)
				w.Alive, w.Lapsed = false, time.Now()
				r.Set(w)
				time.Sleep(2 * time.Second)
				r.Reconfigure(test.first, ttl)
				time.Sleep(test.after)
				r.Reconfigure(ttl, ttl)
				if left := w.Lapsed.Add(ttl - 5*time.Second).Sub(time.Now()); left > 0 {
					time.Sleep(left)
					assert.Equal(t, "passing", agent.snapshot().Checks["hds:a"].Status, "5 s are left")
				}
				time.Sleep(10 * time.Second)
				assert.Equal(t, "critical", agent.snapshot().Checks["hds:a"].Status)
			})
		})
	}
}

// While a write hangs, what snapshots show of its check is not looked at.
func TestAStaleCheckThatExpiresBehindAHangingWriteIsNotRevived(t *testing.T) {
	agent := newFakeAgent("a")
	agent.put(ownCheck("a", "passing"))
	run(t, agent, func(t *testing.T, r *rig) {
		agent.mu.Lock()
		agent.checks["hds:a"].ends, agent.slow = time.Now().Add(10*time.Second), 15*time.Second-time.Second
		agent.mu.Unlock()
		r.Set(wanted("a", health.Passing))
		r.settle() // the register is under way
		stale := wanted("a", health.Passing)
		stale.Alive = false
		r.Set(stale)
		time.Sleep(15*time.Second - 2*time.Second)
		agent.mu.Lock()
		agent.slow = 0
		agent.mu.Unlock()
		time.Sleep(5 * time.Second)
		assert.Contains(t, agent.writes(), "register hds:a passing")
		assert.Equal(t, "critical", agent.snapshot().Checks["hds:a"].Status)
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
		r.changeToken()
		assert.Equal(t, []string{"register hds:a passing", "update hds:a passing"}, agent.writes(), "as after a token change")
	})
}

func TestTheEndAwaitsNoSnapshot(t *testing.T) {
	agent := newFakeAgent("a")
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		agent.writes()
		r.Reregister()
		start := time.Now()
		require.NoError(t, r.Flush(t.Context()))
		assert.Less(t, time.Since(start), 100*time.Millisecond)
		assert.Equal(t, []string{"register hds:a passing", "update hds:a passing"}, agent.writes())
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
				assert.Equal(t, checks.State{ServiceID: "a", Foreign: true}, r.States()["hds:a"])
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
		last := agent.writes()
		assert.Equal(t, "deregister hds:a", last[len(last)-1])
		time.Sleep(ttl)
		assert.Empty(t, agent.writes())
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

func TestAnOrphanThatGoesIsNotRestored(t *testing.T) {
	agent := newFakeAgent("a")
	agent.put(ownCheck("a", "critical"))
	run(t, agent, func(t *testing.T, r *rig) {
		r.settle()
		agent.writes()
		agent.mu.Lock()
		delete(agent.services, "a")
		delete(agent.checks, "hds:a")
		agent.mu.Unlock()
		time.Sleep(3 * time.Second)
		agent.mu.Lock()
		agent.services["a"] = true // another instance of the same id, which wants no check
		agent.mu.Unlock()
		time.Sleep(ttl)
		synctest.Wait()
		assert.Empty(t, agent.writes())
		assert.Empty(t, r.States())
		assert.Empty(t, r.log.String())
		assert.Zero(t, r.metrics.lost.Load())
	})
}

func TestAnIDThatTheAPIWouldCleanIsNeverOurs(t *testing.T) {
	agent := newFakeAgent("a//b", "a")
	agent.put(ownCheck("a//b", "passing"))
	climbing := ownCheck("a", "passing")
	climbing.ID = "hds.x/../hds.y:a"
	agent.put(climbing)
	run(t, agent, func(t *testing.T, r *rig) {
		r.settle()
		time.Sleep(3 * ttl)
		synctest.Wait()
		assert.Empty(t, agent.writes(), "they would reach hds:a/b and hds.y:a")
		assert.Empty(t, r.States())
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

// A registration that changes nothing is none to an agent with a data directory:
// what has to reach the servers differs in its notes, all else does not, for it
// would cost a write to the catalog.
func TestOnlyAHealedCheckIsRegisteredWithOtherNotes(t *testing.T) {
	agent := newFakeAgent("a")
	run(t, agent, func(t *testing.T, r *rig) {
		registered := func() string {
			time.Sleep(2 * time.Second)
			synctest.Wait()
			return agent.snapshot().Checks["hds:a"].Notes
		}
		r.Set(wanted("a", health.Passing))
		first := registered()
		r.Reregister()
		assert.Equal(t, first, registered(), "a new token is no news for the catalog")
		r.Heal("hds:a")
		healed := registered()
		assert.NotEqual(t, first, healed)
		assert.True(t, strings.HasPrefix(healed, checks.Mark))
		r.Reregister()
		assert.Equal(t, healed, registered())
		r.Heal("hds:a")
		assert.Equal(t, first, registered())

		agent.mu.Lock()
		agent.fail = func(string, string) error { return checks.ErrTokenUnknown }
		agent.mu.Unlock()
		r.Set(wanted("a", health.Critical))
		time.Sleep(3 * time.Second)
		agent.mu.Lock()
		agent.fail = nil
		agent.mu.Unlock()
		r.Reregister()
		assert.Equal(t, healed, registered(), "with the dead token the agent may have failed as well")
	})
}

// While an agent reloads its configuration, it may not list a service for longer
// than a check's second look, and then its checks are not listed either.
func TestTheChecksOfAnUnlistedServiceAreNotLost(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		r.agent.writes()
		r.agent.mu.Lock()
		r.agent.away = true // for the rig, which would show what there is
		r.agent.mu.Unlock()
		for range 5 {
			without := r.agent.snapshot()
			without.Checks, without.Unconfirmed = map[string]*catalog.Check{}, map[string]bool{"a": true}
			time.Sleep(150 * time.Millisecond)
			without.ReadAt = time.Now()
			r.Sync(without)
		}
		synctest.Wait()
		assert.Empty(t, r.agent.writes())
		assert.Zero(t, r.metrics.lost.Load())
	})
}
