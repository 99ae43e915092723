package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// pace is the mean pause between two actions.
	pace = 300 * time.Millisecond
	// settleEvery is the pause between two looks whether all has settled.
	settleEvery = 100 * time.Millisecond
)

// churn does one thing after the other to a node, and now and then lets all come
// to rest and measures the daemon.
type churn struct {
	*node
	options
	random  *rand.Rand
	start   time.Time
	ghosts  []*ghost
	born    int // ghosts so far
	rare    []*rarity
	samples []sample
	actions map[string]int
	slowest time.Duration
	// warmLoad is the CPU time at warmAt, the end of the warm-up.
	warmLoad load
	warmAt   time.Time
}

// rarity is done from time to time.
type rarity struct {
	action
	every time.Duration
	next  time.Time
}

func newChurn(n *node, o options) *churn {
	c := &churn{node: n, options: o, random: rand.New(rand.NewPCG(o.seed, 0)), actions: map[string]int{}}
	// A short soak has its share of each, too.
	for _, r := range []struct {
		name  string
		do    func(*churn, context.Context) error
		every time.Duration
		share time.Duration
	}{
		{"reload", (*churn).reload, 30 * time.Second, 5},
		{"new token", (*churn).newToken, time.Minute, 4},
		{"Envoy restarted", (*churn).restartEnvoy, 3 * time.Minute, 4},
		{"agent restarted", (*churn).restartAgent, 20 * time.Minute, 2},
		{"measurement", (*churn).measure, time.Minute, 20},
	} {
		c.rare = append(c.rare, &rarity{action: action{name: r.name, do: r.do}, every: max(min(r.every, o.during/r.share), 3*time.Second)})
	}
	return c
}

// run churns until the time is over, and measures once more at its end. A short
// soak on a slow machine takes longer: until there was some of everything.
func (c *churn) run(ctx context.Context) error {
	defer c.dropGhosts(0)
	c.start = time.Now()
	for _, r := range c.rare {
		r.next = c.start.Add(r.every)
	}
	for time.Since(c.start) < c.during || !c.complete() {
		if err := c.step(ctx); err != nil {
			return err
		}
		if err := lab.Pause(ctx, time.Duration(c.random.Int64N(int64(2*pace)))); err != nil {
			return err
		}
	}
	return c.measure(ctx)
}

// complete says that each rarity has come, and that with the last measurement
// there is a start, a middle and an end.
func (c *churn) complete() bool {
	for _, r := range c.rare {
		if c.actions[r.name] == 0 {
			return false
		}
	}
	return len(c.samples) >= 2
}

// due is the rarity that has waited longest, or nil.
func (c *churn) due(now time.Time) *rarity {
	longest := slices.MinFunc(c.rare, func(a, b *rarity) int { return a.next.Compare(b.next) })
	if now.Before(longest.next) {
		return nil
	}
	return longest
}

// step does the rarity that is due, else something of every day.
func (c *churn) step(ctx context.Context) error {
	now := time.Now()
	if c.warmAt.IsZero() && now.Sub(c.start) >= c.during/24 {
		c.warmAt, c.warmLoad = now, c.load()
	}
	r := c.due(now)
	if r == nil {
		c.everyDay(ctx)
		return c.alive()
	}
	c.actions[r.name]++
	err := r.do(c, ctx)
	r.next = time.Now().Add(r.every)
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	return nil
}

// everyDay does one of the usual things. What fails is told and counted: the
// agent refuses some of it for a moment after its restart.
func (c *churn) everyDay(ctx context.Context) {
	a := c.choose()
	c.actions[a.name]++
	if err := a.do(c, ctx); err != nil && ctx.Err() == nil {
		c.actions["failed"]++
		fmt.Fprintf(c.progress, "%s: %v\n", a.name, err)
	}
}

// alive is an error if the daemon has ended.
func (c *churn) alive() error {
	select {
	case <-c.daemon.Done():
		return fmt.Errorf("the daemon has ended; the end of its log:\n%s", c.daemon.LogTail(30))
	default:
		return nil
	}
}

// measure brings the node to rest and measures the daemon.
func (c *churn) measure(ctx context.Context) error {
	began := time.Now()
	if err := c.settle(ctx); err != nil {
		return err
	}
	c.slowest = max(c.slowest, time.Since(began))
	var s sample
	err := lab.Eventually(ctx, patience, func() (err error) { // a busy machine may be late with a profile
		s, err = measure(ctx, c.daemon)
		return err
	})
	if err != nil {
		return fmt.Errorf("measuring: %w", err)
	}
	s.at = time.Since(c.start)
	c.samples = append(c.samples, s)
	fmt.Fprintf(c.progress, "%s: %s\n", s.at.Round(time.Second), s.line())
	return nil
}

// settle registers all instances, with good meta, sends the simulated Envoys
// away, and waits until the catalog shows everything as it is.
func (c *churn) settle(ctx context.Context) error {
	c.dropGhosts(0)
	for _, i := range c.churned {
		if c.isBad(i) {
			i.meta, i.there = goodMeta(), false
		}
	}
	deadline := time.Now().Add(patience)
	for {
		err := c.settled(ctx)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not at rest within %s: %w", patience, err)
		}
		if err := errors.Join(lab.Pause(ctx, settleEvery), c.alive()); err != nil {
			return err
		}
	}
}

// settled is an error if something is not yet as it should be.
func (c *churn) settled(ctx context.Context) error {
	for _, i := range c.churned {
		if i.there {
			continue
		}
		if err := c.register(i, false); err != nil {
			return err
		}
	}
	if err := c.shown(ctx); err != nil {
		return err
	}
	st, err := c.daemon.Status(ctx)
	if err != nil {
		return err
	}
	return atRest(st)
}

// shown is an error if the catalog does not show an instance as it is.
func (n *node) shown(ctx context.Context) error {
	statuses, err := n.catalog(ctx)
	if err != nil {
		return err
	}
	for _, list := range [][]*instance{n.steady, n.churned} {
		for _, i := range list {
			if got := statuses[i.checkID()]; got != i.status() {
				return fmt.Errorf("the catalog's check %s is %q, and should be %q", i.checkID(), got, i.status())
			}
		}
	}
	return nil
}

// atRest is an error if the daemon's status has more or less than it should.
func atRest(st lab.Status) error {
	checks, observers := steadyInstances+churnedInstances, 2
	if len(st.Checks) != checks || len(st.Observers) != observers || len(st.Problems) != 0 {
		return fmt.Errorf("the status has %d checks, %d observers and problems %v; it should have %d, %d and none",
			len(st.Checks), len(st.Observers), st.Problems, checks, observers)
	}
	return nil
}

// report is what has been seen so far.
func (c *churn) report(seen sightings) report {
	r := report{options: c.options, lasted: time.Since(c.start), samples: c.samples, seen: seen, actions: c.actions, slowest: c.slowest}
	if !c.warmAt.IsZero() && c.alive() == nil {
		r.daemon, r.all = c.load().since(c.warmLoad, time.Since(c.warmAt))
	}
	return r
}
