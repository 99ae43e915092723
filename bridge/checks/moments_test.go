package checks

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// tale is a manager to which anything happens, in any order, beside an agent that
// does what is written if it wants to.
type tale struct {
	*Manager
	agent    map[string]*catalog.Check
	underWay []job
}

func newTale(t require.TestingT, ttl time.Duration) *tale {
	m, err := New(Config{
		Agent: idleAgent{}, TTL: ttl, OrphanGrace: time.Minute,
		Logger: hclog.NewNullLogger(), Metrics: silent{}, ReadAgain: func() {},
	})
	require.NoError(t, err)
	return &tale{Manager: m, agent: map[string]*catalog.Check{}}
}

// bubble keeps rapid from the test's deadline, for which nobody may ask in a bubble.
type bubble struct{ rapid.TB }

// TestNoMomentIsMissed: whatever has happened, a check that needs a write waits for a
// worker after the next tick, although a tick looks only at those on the agenda; and
// what a snapshot shows that is known already would have told nothing.
func TestNoMomentIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(bubble{t}, func(t *rapid.T) {
			s := newTale(t, 30*time.Second)
			for range rapid.IntRange(1, 80).Draw(t, "steps") {
				s.step(t)
				s.sleeps(t)
				s.wake(time.Now())
				s.sleeps(t)
				s.hold(t)
			}
		})
	})
}

// A check that is left to expire and had to be registered again has its TTL counted
// here. No snapshot tells of the end of it, only time.
func TestTheEndOfACountedTTLIsNotMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTale(t, 5*time.Minute)
		w := Want{CheckID: "hds:a", ServiceID: "a", Name: "n", Status: health.Passing, Output: "fine", Alive: true}
		s.Set(w)
		s.calm(nil)
		begun := time.Now()
		w.Alive = false
		s.Set(w)
		clear(s.agent)
		s.calm(nil)
		s.calm(nil) // it was missing twice, so it is lost
		require.Equal(t, "passing", s.agent["hds:a"].Status, "registered again, as it was")
		for range 2 {
			s.calm(nil)
		}
		require.Equal(t, "passing", s.agent["hds:a"].Status, "it has time still")
		time.Sleep(time.Until(begun.Add(s.config.TTL)))
		s.wake(time.Now())
		j, ok := s.take(time.Now())
		require.True(t, ok)
		require.Equal(t, health.Critical, j.status)
	})
}

// sleeps holds the manager to waking for what is due next.
func (s *tale) sleeps(t *rapid.T) {
	if next := s.agenda.Next(); !next.IsZero() {
		require.False(t, s.alarm.IsZero() || s.alarm.After(next), "asleep until %v, and %v is due", s.alarm, next)
	}
	if now := time.Now(); !s.queues.empty() && now.Before(s.heldUntil()) {
		_, ok := s.take(now)
		require.False(t, ok)
		require.False(t, s.alarm.IsZero() || s.alarm.After(s.heldUntil()), "asleep until %v, and writes go on at %v", s.alarm, s.heldUntil())
	}
}

// hold holds the manager to having missed nothing.
func (s *tale) hold(t *rapid.T) {
	now := time.Now()
	for id, e := range s.entries {
		if o, _ := e.need(now, s.generation); o != opNone {
			require.NotEqual(t, nowhere, e.queued, "%s needs %s: %+v", id, o, e)
		}
		if !e.orphan.IsZero() && now.Sub(e.orphan) >= s.config.OrphanGrace {
			require.True(t, e.withdrawn, "the grace of %s is over", id)
		}
	}
}

func (s *tale) step(t *rapid.T) {
	steps := []func(*tale, *rapid.T){
		(*tale).want, (*tale).leave, (*tale).meddle, (*tale).sync, (*tale).begin, (*tale).end, (*tale).end, (*tale).sleep, (*tale).sleep, (*tale).renew, (*tale).calm,
	}
	rapid.SampledFrom(steps).Draw(t, "step")(s, t)
}

func service(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "service") }

var statuses = []health.Status{health.None, health.Passing, health.Passing, health.Warning, health.Critical}

func (s *tale) want(t *rapid.T) {
	id := service(t)
	w := Want{CheckID: "hds:" + id, ServiceID: id, Name: rapid.SampledFrom([]string{"n", "m"}).Draw(t, "name"), Status: rapid.SampledFrom(statuses).Draw(t, "status")}
	w.Output, w.Alive = string(w.Status), w.Status != health.None && rapid.Bool().Draw(t, "alive")
	s.Set(w)
}

func (s *tale) leave(t *rapid.T) {
	rapid.SampledFrom([]func(string){s.Withdraw, s.Forget}).Draw(t, "how")("hds:" + service(t))
}

// meddle is what others do to the agent's checks.
func (s *tale) meddle(t *rapid.T) {
	id := service(t)
	c := &catalog.Check{ID: "hds:" + id, ServiceID: id, Type: catalog.CheckTypeTTL, Notes: notes, Status: string(rapid.SampledFrom(statuses[1:]).Draw(t, "status"))}
	switch rapid.IntRange(0, 3).Draw(t, "meddle") {
	case 0:
		delete(s.agent, c.ID)
		return
	case 1:
		c.Type = "http"
	}
	s.agent[c.ID] = c
}

func (s *tale) sync(t *rapid.T) {
	snap := &catalog.Snapshot{ReadAt: time.Now(), Checks: maps.Clone(s.agent), Unconfirmed: map[string]bool{}}
	if rapid.IntRange(0, 4).Draw(t, "unconfirmed") == 0 {
		id := service(t)
		snap.Unconfirmed[id] = true
		delete(snap.Checks, "hds:"+id)
	}
	for id, e := range s.entries {
		if c := snap.Checks[id]; e.knows(c) && !e.busy && snap.ReadAt.After(e.touched) {
			same := *e
			lost, again := same.see(c, snap.ReadAt)
			require.False(t, lost || again)
			require.Equal(t, *e, same)
		}
	}
	time.Sleep(time.Millisecond)
	s.Sync(snap)
}

func (s *tale) begin(*rapid.T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j, ok := s.take(time.Now()); ok {
		s.underWay = append(s.underWay, j)
	}
}

func (s *tale) end(t *rapid.T) {
	if len(s.underWay) == 0 {
		return
	}
	j := s.underWay[0]
	s.underWay = s.underWay[1:]
	err := rapid.SampledFrom([]error{nil, nil, nil, ErrUnsaved, ErrUnknown, ErrDenied, ErrTokenUnknown, ErrAway, errors.New("odd")}).Draw(t, "err")
	if err == nil || errors.Is(err, ErrUnsaved) {
		s.obey(j)
	}
	s.done(j, err, time.Now())
}

// calm is a time in which all that is needed is done.
func (s *tale) calm(*rapid.T) {
	time.Sleep(retryDenied)
	s.Sync(&catalog.Snapshot{ReadAt: time.Now(), Checks: maps.Clone(s.agent)})
	s.wake(time.Now())
	for j, ok := s.take(time.Now()); ok; j, ok = s.take(time.Now()) {
		s.obey(j)
		s.done(j, nil, time.Now())
	}
}

// obey is what the agent makes of a write.
func (s *tale) obey(j job) {
	if j.op == opDeregister {
		delete(s.agent, j.id)
		return
	}
	c := &catalog.Check{ID: j.id, Name: j.want.Name, ServiceID: j.want.ServiceID, Type: catalog.CheckTypeTTL, Notes: j.notes, Status: string(j.status), Output: j.output}
	if old := s.agent[j.id]; old != nil && j.op == opRegister {
		c.Status, c.Output = old.Status, old.Output
	}
	s.agent[j.id] = c
}

func (s *tale) sleep(t *rapid.T) {
	time.Sleep(rapid.SampledFrom([]time.Duration{
		10 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
	}).Draw(t, "pause"))
}

// renew is what makes every check be looked at.
func (s *tale) renew(t *rapid.T) {
	switch rapid.IntRange(0, 2).Draw(t, "renew") {
	case 0:
		s.Reregister()
	case 1:
		s.Heal("hds:" + service(t))
	default:
		s.Reconfigure(rapid.SampledFrom([]time.Duration{10 * time.Second, 30 * time.Second}).Draw(t, "ttl"), rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "grace"))
	}
}
