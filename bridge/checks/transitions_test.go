package checks_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// A transition is what the agent took over, and when; not what was wanted.
func TestTransitionsAreThoseOfTheAgent(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		w := wanted("a", health.Passing)
		w.Observer = "e1"
		r.Set(w)
		r.settle()
		assert.Equal(t, []checks.Transition{
			{At: time.Now().Add(-time.Millisecond), CheckID: "hds:a", ServiceID: "a", To: health.Passing, Output: "out", Observer: "e1"},
		}, r.Transitions())

		r.agent.mu.Lock()
		r.agent.fail = func(string, string) error { return errors.New("no") }
		r.agent.mu.Unlock()
		w.Status, w.Output = health.Critical, "bad"
		r.Set(w)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.Len(t, r.Transitions(), 1, "the agent shows what it did")
		r.agent.mu.Lock()
		r.agent.fail = nil
		r.agent.mu.Unlock()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		got := r.Transitions()
		if assert.Len(t, got, 2) {
			assert.Equal(t, health.Critical, got[0].To, "the newest first")
			assert.Equal(t, health.Passing, got[0].From)
			assert.Equal(t, "bad", got[0].Output)
			assert.Equal(t, "e1", got[0].Observer)
		}
		time.Sleep(3 * ttl)
		synctest.Wait()
		assert.Len(t, r.Transitions(), 2, "a refresh is none")
	})
}

func TestATTLThatRunsOutIsATransition(t *testing.T) {
	run(t, newFakeAgent("a"), func(t *testing.T, r *rig) {
		w := wanted("a", health.Passing)
		w.Observer = "e1"
		r.Set(w)
		r.settle()
		w.Alive = false
		r.Set(w)
		time.Sleep(2 * ttl)
		got := r.Transitions()
		if assert.Len(t, got, 2) {
			assert.Equal(t, health.Critical, got[0].To)
			assert.Contains(t, got[0].Output, "TTL expired")
			assert.Empty(t, got[0].Observer, "nobody has said so")
		}
	})
}

func TestWhatIsFoundIsNoTransition(t *testing.T) {
	agent := newFakeAgent("a")
	run(t, agent, func(t *testing.T, r *rig) {
		r.Set(wanted("a", health.Passing))
		r.settle()
		r.Withdraw("hds:a")
		r.settle()
		assert.Len(t, r.Transitions(), 1, "nor is a removal")
	})
	run(t, agent, func(t *testing.T, r *rig) {
		agent.register(checks.Registration{CheckID: "hds:a", ServiceID: "a", Name: "n", Notes: checks.Mark, TTL: ttl, Status: health.Passing})
		r.Set(wanted("a", health.Passing))
		r.settle()
		assert.Empty(t, r.Transitions())
	})
}
