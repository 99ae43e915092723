package checks

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// fakeAgent answers as a real agent does, as far as TTL checks go: a check's
// status survives to be registered again, what it does not know is ErrUnknown.
type fakeAgent struct {
	mu       sync.Mutex
	services map[string]bool
	checks   map[string]*catalog.Check
	log      []string
	at       []time.Time
	// fail, if set, is asked before each write.
	fail func(op, id string) error
	// slow is how long each write takes.
	slow time.Duration
	// away says that the agent cannot be read either.
	away bool
}

func newFakeAgent(services ...string) *fakeAgent {
	a := &fakeAgent{services: map[string]bool{}, checks: map[string]*catalog.Check{}}
	for _, s := range services {
		a.services[s] = true
	}
	return a
}

func (a *fakeAgent) note(op, id, more string) error {
	a.mu.Lock()
	slow := a.slow
	a.mu.Unlock()
	time.Sleep(slow)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, fmt.Sprint(op, " ", id, more))
	a.at = append(a.at, time.Now())
	if a.fail != nil {
		return a.fail(op, id)
	}
	return nil
}

func (a *fakeAgent) Register(_ context.Context, r Registration) error {
	if err := a.note("register", r.CheckID, " "+string(r.Status)); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.services[r.ServiceID] {
		return ErrUnknown
	}
	c := &catalog.Check{ID: r.CheckID, Name: r.Name, ServiceID: r.ServiceID, Type: "ttl", Status: string(r.Status), Notes: r.Notes}
	if old := a.checks[r.CheckID]; old != nil {
		c.Status, c.Output = old.Status, old.Output
	}
	a.checks[r.CheckID] = c
	return nil
}

func (a *fakeAgent) Update(_ context.Context, id string, s health.Status, output string) error {
	if err := a.note("update", id, " "+string(s)); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.checks[id]
	if c == nil {
		return ErrUnknown
	}
	c.Status, c.Output = string(s), output
	return nil
}

func (a *fakeAgent) Deregister(_ context.Context, id string) error {
	if err := a.note("deregister", id, ""); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.checks[id] == nil {
		return ErrUnknown
	}
	delete(a.checks, id)
	return nil
}

// snapshot is what a read that begins now would show.
func (a *fakeAgent) snapshot() *catalog.Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &catalog.Snapshot{ReadAt: time.Now(), Instances: map[string]*catalog.Instance{}, Checks: map[string]*catalog.Check{}}
	for id := range a.services {
		s.Instances[id] = &catalog.Instance{ID: id}
	}
	for id, c := range a.checks {
		clone := *c
		s.Checks[id] = &clone
	}
	return s
}

// writes returns the writes since the last call.
func (a *fakeAgent) writes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	log := a.log
	a.log, a.at = nil, nil
	return log
}

type noMetrics struct{ lost, refreshed atomic.Int64 }

func (*noMetrics) CheckWrite(string, string, time.Duration) {}
func (m *noMetrics) Refreshed()                             { m.refreshed.Add(1) }
func (*noMetrics) Transition(string)                        {}
func (*noMetrics) WriteDelay(time.Duration)                 {}
func (m *noMetrics) CheckLost()                             { m.lost.Add(1) }

const ttl = time.Minute

// rig is a running manager on a fake agent in fake time. Its poll reads the
// agent once a second, as the watcher does.
type rig struct {
	*Manager
	agent   *fakeAgent
	metrics *noMetrics
}

func run(t *testing.T, agent *fakeAgent, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{agent: agent, metrics: &noMetrics{}}
		again := make(chan struct{}, 1)
		m, err := New(Config{
			Agent: agent, TTL: ttl, OrphanGrace: ttl, Logger: hclog.NewNullLogger(), Metrics: r.metrics,
			ReadAgain: func() {
				select {
				case again <- struct{}{}:
				default:
				}
			},
		})
		require.NoError(t, err)
		r.Manager = m
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = m.Run(ctx) })
		group.Go(func() {
			for tick := time.NewTicker(time.Second); ; {
				select {
				case <-ctx.Done():
					tick.Stop()
					return
				case <-tick.C:
				case <-again:
					time.Sleep(200 * time.Millisecond) // the pace at which the watcher reads again
				}
				agent.mu.Lock()
				away := agent.away
				agent.mu.Unlock()
				if !away {
					m.Sync(agent.snapshot())
				}
			}
		})
		test(t, r)
		cancel()
		group.Wait()
	})
}
