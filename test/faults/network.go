package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// pings is after how long without an answer to a ping a stream ends, at both of
	// its ends.
	pings = 15 * time.Second
	// hanging is for how long the daemon waits for an answer of its agent.
	hanging = 15 * time.Second
	// late is for how long a status may stand that the agent was told late: until
	// the daemon reads it (consul.poll_interval), and for a second more.
	late = 2 * time.Second
	// delay is what a slow link takes each way.
	delay = 500 * time.Millisecond
)

// bad is a way in which a network can be bad.
type bad struct {
	name, what string
	trouble    lab.Trouble
	// silent is true if nobody is told that nothing comes through; slow is true if
	// all comes through.
	silent, slow bool
	// plain is true if it is tried between a single sidecar and the daemon, too: the
	// others are there what they are on the way from the node Envoy.
	plain bool
}

func bads() []bad {
	return []bad{
		{name: "refused", what: "refuses connections", trouble: lab.Trouble{Refuse: true}, plain: true},
		{name: "swallowed", what: "takes all and gives nothing on, for good", trouble: lab.Trouble{Swallow: true}, silent: true, plain: true},
		{name: "stalled", what: "loses all packets", trouble: lab.Trouble{Stall: true}, silent: true},
		{name: "slow", what: "takes 500 ms each way", trouble: lab.Trouble{Delay: delay}, slow: true},
		{name: "narrow", what: "carries 1 kB a second each way", trouble: lab.Trouble{Rate: 1000}, silent: true},
		{name: "cut", what: "ends connections in the middle of messages", trouble: lab.Trouble{Cut: 100}, plain: true},
	}
}

// networkScenarios make the network between any two parts bad: for a time that is
// shorter than all patience, and for one that is longer than a TTL. Meanwhile apps
// fail, or recover.
func networkScenarios() []scenario {
	var all []scenario
	for _, b := range bads() {
		for _, l := range badLinks() {
			if b.slow {
				all = append(all, between(relayed(), l, b, 10*time.Second)) // turns are seen meanwhile
				continue
			}
			all = append(all, between(relayed(), l, b, 5*time.Second), between(relayed(), l, b, 45*time.Second))
		}
		all = append(all, ofProbes(b, 10*time.Second))
		if b.plain {
			all = append(all, ofSidecar(b, 5*time.Second), ofSidecar(b, 45*time.Second))
		}
		if b.silent {
			// What is left of the usual TTL is longer than an agent is locked.
			all = append(all, between(relayedUsual(), badLink{linkAgentServer, toServer}, b, 5*time.Second))
		}
	}
	return all
}

// badLink is a link that can be bad, and what may be seen then.
type badLink struct {
	name   string
	allows func(setting, bad) fault
}

func badLinks() []badLink {
	return []badLink{{linkDaemonAgent, toAgent}, {linkNodeDaemon, toDaemon}, {linkAgentServer, toServer}}
}

// between is the scenario in which a link is bad for a time.
func between(s setting, l badLink, b bad, long time.Duration) scenario {
	name := l.name + "-" + b.name + brief(long)
	if s.name != relayed().name {
		name += "-" + s.name
	}
	return scenario{
		name: name, group: "network", what: "from " + l.name + ", the network " + b.what, long: brief(long), setting: s,
		short: slices.Contains([]string{"node-daemon-refused5s", "daemon-agent-cut5s"}, name),
		run: func(ctx context.Context, t *trial) error {
			return t.each(ctx, func() error {
				err := t.during(l.allows(s, b), func() error { return t.badly(ctx, l.name, b, long, t.turn) })
				if err == nil && b.silent { // what hangs is over before it is tried once more
					err = lab.Pause(ctx, hanging)
				}
				return err
			})
		},
	}
}

// badly makes a link bad for a time, and calls meanwhile.
func (t *trial) badly(ctx context.Context, link string, b bad, long time.Duration, meanwhile func()) error {
	if err := t.trouble(link, b.trouble); err != nil {
		return err
	}
	if err := around(ctx, long, meanwhile); err != nil {
		return err
	}
	if err := t.trouble(link, lab.Trouble{}); err != nil {
		return err
	}
	return t.unlocked(ctx)
}

// unlocked waits until the agent answers: one that has something to tell a silent
// server answers nobody until it has given up, which may be after the end.
func (w *world) unlocked(ctx context.Context) error {
	return lab.Eventually(ctx, patience, func() error {
		_, err := w.agent.Client().Agent().ChecksWithFilterOpts("", query(ctx))
		return err
	})
}

// What an agent that is out of reach was not told is told it once it is back; its
// checks expire in the end. What hangs is given up.
func toAgent(s setting, b bad) fault {
	f := fault{what: "daemon to agent: " + b.name, after: backoff + slack, expires: s.leftOfTTL()}
	switch {
	case b.slow: // one write is under way, and one follows it
		f.slows, f.expires = 4*delay, 0
	case b.trouble.Rate > 0: // refreshes get through
		f.after, f.expires = hanging+backoff+slack, 0
	case b.silent: // what was on its way may come late, and is put right
		f.after, f.older = f.after+hanging, late+slack
	}
	return f
}

// What an Envoy has said that cannot be heard is stale after a while, and expires.
func toDaemon(s setting, b bad) fault {
	f := envoyAllows(s, how{})
	f.what = "Envoy to daemon: " + b.name
	switch {
	case b.slow:
		f.slows, f.expires = 2*delay, 0
	case b.silent:
		f.after += pings
	}
	return f
}

// To the agent, a server that it cannot reach is away, and one that is silent hangs.
func toServer(s setting, b bad) fault {
	f := serverAllows(s, how{hangs: b.silent})
	f.what = "agent to server: " + b.name
	if b.slow {
		f.slows = 4 * delay
	}
	return f
}

// ofProbes is the scenario in which apps are hard to reach for their probes alone.
// Those that do not answer in time are unhealthy.
func ofProbes(b bad, long time.Duration) scenario {
	s := relayed()
	if b.trouble.Cut > 0 {
		b.trouble.Cut = 25 // no probe comes to its end within eight times that
	}
	return scenario{
		name: linkProbe + "-" + b.name + brief(long), group: "network", what: "between Envoys and apps, the network " + b.what, long: brief(long), setting: s,
		run: func(ctx context.Context, t *trial) error {
			slow := b.slow || b.trouble.Rate > 0
			// Each of the probes that decide takes as long as it may.
			f := fault{what: "probes: " + b.name, slows: s.conf.Defaults.Timeout * time.Duration(s.conf.Defaults.UnhealthyThreshold)}
			return t.each(ctx, func() error {
				return t.during(f, func() error {
					if slow {
						return t.badly(ctx, linkProbe, b, long, t.turn)
					}
					defer t.unreachable()()
					return t.badly(ctx, linkProbe, b, long, t.turnUnseen)
				})
			})
		},
	}
}

// ofSidecar is the scenario in which a single sidecar cannot reach the daemon well. The
// instance that it guards is observed by nobody else meanwhile, and becomes stale, as
// when an Envoy dies. No other instance is touched, and no request: what leads to the
// sidecar is the agent's.
func ofSidecar(b bad, long time.Duration) scenario {
	s := relayed()
	f := toDaemon(s, b)
	f.of = flippingID
	return scenario{
		name: linkSidecarDaemon + "-" + b.name + brief(long), group: "network", what: "from one sidecar to the daemon, the network " + b.what,
		long: brief(long), setting: s,
		run: func(ctx context.Context, t *trial) error {
			return t.each(ctx, func() error {
				var observed error
				err := t.during(f, func() error {
					return t.badly(ctx, linkSidecarDaemon, b, long, func() {
						t.turn()
						observed = t.observedByItsSidecar(ctx)
					})
				})
				return errors.Join(err, observed)
			})
		},
	}
}

// observedByItsSidecar is an error if another Envoy than its sidecar observes the
// instance that flips.
func (w *world) observedByItsSidecar(ctx context.Context) error {
	status, err := w.daemon.Status(ctx)
	if err != nil {
		return err
	}
	i := w.instances[w.numberOf(func(i *instance) bool { return i.id == flippingID })]
	check, found := status.Check(i.checkID())
	if others := slices.DeleteFunc(check.Observers, func(id string) bool { return id == i.sidecarID() }); !found || len(others) > 0 {
		return fmt.Errorf("%s is observed by %q beside its sidecar, and its check is there: %t", i.id, others, found)
	}
	return nil
}

// unreachable notes that probed instances are unhealthy from now on, whatever they
// would say, until what it returns is called.
func (t *trial) unreachable() (reachable func()) {
	all := func(healthy bool) {
		for n, i := range t.instances {
			if i.healthy && !i.elsewhere {
				t.oracle.record.turned(n, time.Now(), healthy)
			}
		}
	}
	all(false)
	return func() { all(true) }
}

// turnUnseen turns the instances that flip, which nobody can see.
func (t *trial) turnUnseen() {
	for _, i := range t.instances {
		if i.flips {
			i.is(!i.healthy)
		}
	}
}
