package checks_test

import (
	"bytes"
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
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// fakeAgent answers as a real agent does, as far as TTL checks go (checkstest):
// a check's status survives to be registered again, TTLs run out, and what it
// does not know is ErrUnknown.
type fakeAgent struct {
	mu       sync.Mutex
	services map[string]bool
	checks   map[string]*fakeCheck
	log      []string
	// fail, if set, is asked before each write.
	fail func(op, id string) error
	// slow is how long each write takes.
	slow time.Duration
	// away says that the agent cannot be read either.
	away bool
	// full says that its disk is, which it tells of after each update.
	full bool
}

// fakeCheck is a check of a fakeAgent.
type fakeCheck struct {
	catalog.Check
	ttl time.Duration
	// ends is when the TTL runs out; zero is never.
	ends time.Time
	// last is the output that was written since the check was registered.
	last string
}

func newFakeAgent(services ...string) *fakeAgent {
	a := &fakeAgent{services: map[string]bool{}, checks: map[string]*fakeCheck{}}
	for _, s := range services {
		a.services[s] = true
	}
	return a
}

// crowd is an agent with n services.
func crowd(n int) (ids []string, agent *fakeAgent) {
	for i := range n {
		ids = append(ids, fmt.Sprint("s", i))
	}
	return ids, newFakeAgent(ids...)
}

// allPassing sets the checks of services, and lets them be written.
func (r *rig) allPassing(ids []string) {
	for _, id := range ids {
		r.Set(wanted(id, health.Passing))
	}
	r.settle()
}

// dead makes our token one that Consul does not know, or knows again: nothing can be
// read by it either.
func (a *fakeAgent) dead(is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away, a.fail = is, nil
	if is {
		a.fail = func(string, string) error { return checks.ErrTokenUnknown }
	}
}

// put makes a check be there whose TTL does not run out, whoever made it.
func (a *fakeAgent) put(c *catalog.Check) { a.checks[c.ID] = &fakeCheck{Check: *c} }

// lock locks the agent as it is now: where a TTL has run out, that shows.
func (a *fakeAgent) lock() (unlock func()) {
	a.mu.Lock()
	for _, c := range a.checks {
		if c.ends.IsZero() || time.Now().Before(c.ends) {
			continue
		}
		c.Status, c.Output, c.ends = "critical", "TTL expired", time.Time{}
		if c.last != "" {
			c.Output += " (last output before timeout follows): " + c.last
		}
	}
	return a.mu.Unlock
}

// begin notes a write, and lets it fail before anything is written.
func (a *fakeAgent) begin(ctx context.Context, op, id, more string) error {
	a.mu.Lock()
	slow := a.slow
	a.mu.Unlock()
	if slow > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(slow):
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log = append(a.log, fmt.Sprint(op, " ", id, more))
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", checks.ErrAway, ctx.Err())
	case a.fail != nil:
		return a.fail(op, id)
	}
	return nil
}

func (a *fakeAgent) Register(ctx context.Context, r checks.Registration) error {
	if err := a.begin(ctx, "register", r.CheckID, " "+string(r.Status)); err != nil {
		return err
	}
	defer a.lock()()
	if !a.services[r.ServiceID] {
		return checks.ErrUnknown
	}
	a.register(r)
	return nil
}

// register makes a check, or changes all of it but its status and output.
func (a *fakeAgent) register(r checks.Registration) {
	c := &fakeCheck{ttl: r.TTL, ends: time.Now().Add(r.TTL), Check: catalog.Check{
		ID: r.CheckID, Name: r.Name, ServiceID: r.ServiceID, Type: "ttl", Status: string(r.Status), Notes: r.Notes,
	}}
	if old := a.checks[r.CheckID]; old != nil {
		c.Status, c.Output = old.Status, old.Output
	}
	a.checks[r.CheckID] = c
}

func (a *fakeAgent) Update(ctx context.Context, id string, s health.Status, output string) error {
	if err := a.begin(ctx, "update", id, " "+string(s)); err != nil {
		return err
	}
	defer a.lock()()
	c := a.checks[id]
	if c == nil || c.Type != "ttl" {
		return checks.ErrUnknown
	}
	c.Status, c.Output, c.last = string(s), output, output
	if c.ttl > 0 {
		c.ends = time.Now().Add(c.ttl)
	}
	if a.full {
		return checks.ErrUnsaved
	}
	return nil
}

func (a *fakeAgent) Deregister(ctx context.Context, id string) error {
	if err := a.begin(ctx, "deregister", id, ""); err != nil {
		return err
	}
	defer a.lock()()
	if a.checks[id] == nil {
		return checks.ErrUnknown
	}
	delete(a.checks, id)
	return nil
}

// snapshot is what a read that begins now would show.
func (a *fakeAgent) snapshot() *catalog.Snapshot {
	defer a.lock()()
	s := &catalog.Snapshot{ReadAt: time.Now(), Instances: map[string]*catalog.Instance{}, Checks: map[string]*catalog.Check{}}
	for id := range a.services {
		s.Instances[id] = &catalog.Instance{ID: id}
	}
	for id, c := range a.checks {
		clone := c.Check
		s.Checks[id] = &clone
	}
	return s
}

// writes returns the writes since the last call.
func (a *fakeAgent) writes() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	log := a.log
	a.log = nil
	return log
}

type noMetrics struct{ lost, refreshed, delays atomic.Int64 }

func (*noMetrics) CheckWrite(string, string, time.Duration) {}
func (m *noMetrics) Refreshed()                             { m.refreshed.Add(1) }
func (*noMetrics) Transition(string)                        {}
func (m *noMetrics) WriteDelay(time.Duration)               { m.delays.Add(1) }
func (m *noMetrics) CheckLost()                             { m.lost.Add(1) }

const ttl = time.Minute

// rig is a running manager on a fake agent in fake time. Its poll reads the
// agent once a second, as the watcher does.
type rig struct {
	*checks.Manager
	agent   *fakeAgent
	metrics *noMetrics
	log     bytes.Buffer // warnings and errors
}

func run(t *testing.T, agent *fakeAgent, test func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{agent: agent, metrics: &noMetrics{}}
		again := make(chan struct{}, 1)
		m, err := checks.New(checks.Config{
			Agent: agent, TTL: ttl, OrphanGrace: ttl, Metrics: r.metrics,
			Logger: hclog.New(&hclog.LoggerOptions{Output: &r.log, Level: hclog.Warn}),
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
