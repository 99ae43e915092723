package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// streamsReport is how often each Envoy reports.
	streamsReport = 100 * time.Millisecond
	// turning is how many of them turn at a time.
	turning = 10
	// storms is how often all of them turn one after the other at the end, faster
	// than an agent can be told; an odd number, so that they end as they were not before.
	storms = 9
	// written is how long it may take until the agent shows what was reported.
	written = time.Second + busy
)

// simulating has many Envoys report ten times a second, beside the real ones. They
// are sidecars: each has something to say of its own guest alone.
func simulating(name string, envoys int, lasts time.Duration, short bool) scenario {
	return scenario{name: name, group: "envoy", what: fmt.Sprintf("%d simulated Envoys report each %s", envoys, streamsReport), long: brief(lasts),
		short: short, setting: quick(),
		run: func(ctx context.Context, t *trial) (err error) {
			c := &crowd{trial: t, random: rand.New(rand.NewPCG(1, 0))}
			defer func() { err = errors.Join(err, c.end(ctx)) }()
			if err := c.begin(ctx, envoys); err != nil {
				return err
			}
			return c.goOn(ctx, lasts)
		}}
}

// crowd is many simulated Envoys.
type crowd struct {
	*trial
	random *rand.Rand
	guests []guest
	envoys []*simulated
	turns  int
	// slowest is the longest time from a turn to the agent.
	slowest time.Duration
}

func (c *crowd) begin(ctx context.Context, envoys int) error {
	for n := range envoys {
		// The port is nobody's: a simulated Envoy does not probe.
		c.guests = append(c.guests, guest{id: fmt.Sprintf("guest-%d", n), port: 9, meta: map[string]string{"hds": "http"}, meshed: true})
	}
	if err := c.host(c.guests); err != nil {
		return err
	}
	for _, g := range c.guests {
		e, err := c.simulate(g.sidecarID(), streamsReport)
		if err != nil {
			return err
		}
		c.envoys = append(c.envoys, e)
	}
	return c.shown(ctx, patience)
}

// goOn turns some, waits until the agent shows all as they are, and turns others. At
// last all turn more often than that: only the newest word counts.
func (c *crowd) goOn(ctx context.Context, lasts time.Duration) error {
	begun := time.Now()
	for turnAt := lasts / 2 % turnEvery; time.Since(begun) < lasts; {
		if err := errors.Join(c.turnSome(ctx, c.random.Perm(len(c.envoys))[:turning], 1), c.alive()); err != nil {
			return err
		}
		if time.Since(begun) >= turnAt {
			turnAt += turnEvery
			if err := c.turnBusy("many streams"); err != nil {
				return err
			}
		}
	}
	c.note("%d turns of %d Envoys, the slowest shown after %s", c.turns, turning, seconds(c.slowest))
	c.slowest = 0
	if err := c.turnSome(ctx, c.random.Perm(len(c.envoys)), storms); err != nil {
		return err
	}
	c.note("all %d of them turned %d times, and were shown %s after the last", len(c.envoys), storms, seconds(c.slowest))
	return nil
}

// turnSome turns some, so often, and waits until that is shown.
func (c *crowd) turnSome(ctx context.Context, some []int, times int) error {
	for range times {
		for _, n := range some {
			if err := c.envoys[n].is(!c.envoys[n].isHealthy()); err != nil {
				return err
			}
		}
	}
	c.turns++
	begun := time.Now()
	err := c.shown(ctx, written)
	c.slowest = max(c.slowest, time.Since(begun))
	return err
}

// shown waits until the agent shows what all Envoys say.
func (c *crowd) shown(ctx context.Context, within time.Duration) error {
	return lab.Eventually(ctx, within, func() error {
		statuses, err := c.guestChecks(ctx)
		if err != nil {
			return err
		}
		for n, g := range c.guests {
			want := map[bool]string{true: api.HealthPassing, false: api.HealthCritical}[c.envoys[n].isHealthy()]
			if got := statuses[g.checkID()]; got != want {
				return fmt.Errorf("%s is %q, and not %s", g.checkID(), got, want)
			}
		}
		return nil
	})
}

// end lets all Envoys and guests go. That an Envoy's stream had ended is an error.
func (c *crowd) end(ctx context.Context) error {
	var errs []error
	for _, e := range c.envoys {
		errs = append(errs, e.close())
	}
	return errors.Join(append(errs, c.seeOff(ctx, c.guests))...)
}
