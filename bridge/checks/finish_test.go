package checks_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// failing makes the agent's writes fail with an error, for ever or n times.
func (a *fakeAgent) failing(err error, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = func(string, string) error {
		if n--; n < 0 {
			return nil
		}
		return err
	}
}

// failingTo makes the writes fail that begin with an op.
func (a *fakeAgent) failingTo(op string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = func(what, _ string) error {
		if strings.HasPrefix(what, op) {
			return errors.New("500")
		}
		return nil
	}
}

// ever is more writes than any test has.
const ever = 1 << 30

// atEnd ends a manager in one of the ways there are, within the bound of a
// shutdown.
func (r *rig) atEnd(t *testing.T, how string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if how == "keep" {
		return r.Flush(ctx)
	}
	return r.Finish(ctx, how == "deregister", "shut down")
}

func TestTheLastWritesAreTriedAgainAndTheirFailureIsTold(t *testing.T) {
	for _, how := range []string{"keep", "deregister", "critical"} {
		t.Run(how, func(t *testing.T) {
			agent := newFakeAgent("a")
			run(t, agent, func(t *testing.T, r *rig) {
				r.Set(wanted("a", health.Passing))
				r.settle()
				agent.failing(checks.ErrAway, ever)
				require.ErrorIs(t, r.atEnd(t, how), context.DeadlineExceeded, "the agent is away")
				agent.failing(errors.New("500"), 1)
				agent.writes()
				require.NoError(t, r.atEnd(t, how), "a single failure is made up for")
				assert.Len(t, agent.writes(), 2)
			})
		})
	}
}

func TestFinishLeavesNothingThatIsStillToBeRegistered(t *testing.T) {
	for name, slow := range map[string]time.Duration{"under way": time.Second, "failed": 0} {
		t.Run(name, func(t *testing.T) {
			agent := newFakeAgent("a")
			run(t, agent, func(t *testing.T, r *rig) {
				agent.slow = slow
				if slow == 0 {
					agent.failing(errors.New("500"), 1)
				}
				r.Set(wanted("a", health.Passing))
				r.settle()
				require.NoError(t, r.atEnd(t, "deregister"))
				assert.Empty(t, agent.snapshot().Checks)
			})
		})
	}
}

func TestFinishRemovesWhatIsWithdrawn(t *testing.T) {
	agent := newFakeAgent("a")
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		agent.failing(errors.New("500"), 1)
		r.Withdraw("hds:a")
		time.Sleep(time.Millisecond)
		require.NoError(t, r.atEnd(t, "critical"))
		assert.Empty(t, agent.snapshot().Checks)
	})
}

// What a pause or a new token has held back so far waits for none at the end.
func TestTheLastWritesDoNotWaitForAPause(t *testing.T) {
	hold := map[string]func(t *testing.T, r *rig){
		"a pause": func(_ *testing.T, r *rig) {
			r.agent.failing(errors.New("500"), ever)
			r.Set(wanted("a", health.Critical))
			time.Sleep(30 * time.Second) // until the pauses are as long as they get
			for r.agent.writes(); len(r.agent.writes()) == 0; time.Sleep(time.Millisecond) {
			}
			r.Set(wanted("b", health.Critical)) // it waits from the first moment of a pause
			time.Sleep(time.Millisecond)
			r.agent.failing(nil, 0)
		},
		"a new token": func(_ *testing.T, r *rig) {
			r.agent.mu.Lock()
			r.agent.away = true // nothing is read with it
			r.agent.mu.Unlock()
			r.Reregister()
			time.Sleep(time.Millisecond)
		},
	}
	for name, hold := range hold {
		for _, how := range []string{"keep", "deregister", "critical"} {
			t.Run(name+", "+how, func(t *testing.T) {
				run(t, newFakeAgent("a", "b"), func(t *testing.T, r *rig) {
					r.Set(wanted("a", health.Passing))
					r.Set(wanted("b", health.Passing))
					r.settle()
					hold(t, r)
					begin := time.Now()
					require.NoError(t, r.atEnd(t, how))
					assert.Less(t, time.Since(begin), 50*time.Millisecond)
				})
			})
		}
	}
}
