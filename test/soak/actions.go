package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// action is something that the churn does.
type action struct {
	name string
	do   func(*churn, context.Context) error
	// weight is how often it is done, beside the others.
	weight int
}

func actions() []action {
	return []action{
		{"health turned", (*churn).turnHealth, 30},
		{"meta changed", (*churn).changeMeta, 16},
		{"instance gone or back", (*churn).comeOrGo, 20},
		{"meta broken or mended", (*churn).breakMeta, 8},
		{"check lost", (*churn).loseCheck, 8},
		{"request", (*churn).request, 20},
		{"simulated Envoy", (*churn).haunt, 8},
	}
}

// mostAway is how many instances are not registered at most.
const mostAway = 8

// choose picks an action of every day.
func (c *churn) choose() action {
	all := actions()
	sum := 0
	for _, a := range all {
		sum += a.weight
	}
	at := c.random.IntN(sum)
	for _, a := range all {
		if at < a.weight {
			return a
		}
		at -= a.weight
	}
	panic("the weights have another sum")
}

func (c *churn) any() *instance { return c.churned[c.random.IntN(len(c.churned))] }

// anyThere is a registered instance.
func (c *churn) anyThere() *instance {
	for {
		if i := c.any(); i.there {
			return i
		}
	}
}

func (c *churn) coin() bool { return c.random.IntN(2) == 0 }

func (c *churn) turnHealth(context.Context) error {
	i, refuse := c.any(), c.coin()
	return i.turn(!i.healthy, refuse)
}

// changeMeta gives a probe another definition; half of the time it drops the
// checks as well.
func (c *churn) changeMeta(context.Context) error {
	i, replace := c.anyThere(), c.coin()
	i.meta = goodMeta()
	i.meta["hds_path"] = fmt.Sprintf("/path-%d", c.random.IntN(1000))
	i.meta["hds_interval"] = []string{"1s", "1200ms", "1500ms"}[c.random.IntN(3)]
	return c.register(i, replace)
}

// comeOrGo deregisters an instance, or registers one that is gone, half of the
// time as a new one with an id that there never was.
func (c *churn) comeOrGo(context.Context) error {
	i, anew := c.any(), c.coin()
	if !i.there {
		if anew {
			i.generation++
		}
		return c.register(i, false)
	}
	if c.away() >= mostAway {
		return nil
	}
	return c.deregister(i)
}

func (c *churn) away() (n int) {
	for _, i := range c.churned {
		if !i.there {
			n++
		}
	}
	return n
}

// badMeta are problems that the daemon has to tell of.
func badMeta() []map[string]string {
	return []map[string]string{
		{"hds": "htpp"},
		{"hds": "http", "hds_interval": "soon"},
		{"hds": "http", "hds_colour": "red"},
		{"hds": "tcp", "hds_path": "/"},
	}
}

// broken marks meta as bad for the churn; the daemon reads no such key.
const broken = "broken"

func (c *churn) isBad(i *instance) bool { return i.meta[broken] != "" }

// breakMeta makes the meta of an instance bad, or good again.
func (c *churn) breakMeta(context.Context) error {
	i, which := c.anyThere(), c.random.IntN(len(badMeta()))
	if c.isBad(i) {
		i.meta = goodMeta()
	} else {
		i.meta = badMeta()[which]
		i.meta[broken] = "yes"
	}
	return c.register(i, false)
}

// loseCheck removes a check by hand. There may be none: of an instance that has
// just come.
func (c *churn) loseCheck(context.Context) error {
	id := c.anyThere().checkID()
	checks, err := c.agent.Checks()
	if err != nil || checks[id] == nil {
		return err
	}
	return c.agent.CheckDeregister(id)
}

// request asks the daemon for something. Any answer will do: it does not know
// yet what has just come, nor any more what has gone.
func (c *churn) request(ctx context.Context) error {
	id := c.any().id()
	paths := []string{
		"/", "/?q=churned", "/config", "/metrics", "/v1/status", "/v1/ready", "/v1/transitions", "/v1/observers/" + nodeEnvoy,
		"/v1/explain/" + id, "/explain/" + id, "/v1/explain/nobody", "/nowhere",
	}
	_, _ = c.daemon.Get(ctx, paths[c.random.IntN(len(paths))])
	return nil
}

// reload gives all probes another interval.
func (c *churn) reload(context.Context) error {
	interval := time.Second + time.Duration(c.random.IntN(5))*100*time.Millisecond
	if err := c.daemon.WriteConfig(c.config(interval)); err != nil {
		return err
	}
	return c.daemon.Signal(syscall.SIGHUP)
}

func (c *churn) newToken(context.Context) error { return c.tokens.rotate() }

// signal is a polite end or a sudden one.
func (c *churn) signal() syscall.Signal {
	if c.coin() {
		return syscall.SIGTERM
	}
	return syscall.SIGKILL
}

func (c *churn) restartEnvoy(ctx context.Context) error {
	return c.envoys[c.random.IntN(len(c.envoys))].Restart(ctx, c.signal())
}

// restartAgent restarts the client agent; one that ends politely leaves its
// cluster, and joins it again.
func (c *churn) restartAgent(ctx context.Context) error {
	return c.consul.Restart(ctx, c.signal())
}
