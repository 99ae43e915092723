package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

// What docs/failures.md says of Consul's own troubles.
const (
	// lostCheck is for how long a check that Consul has lost may be missing.
	lostCheck = 2 * time.Second
	// drift is for how long the catalog may differ from the agent.
	drift = 2 * time.Minute
)

// consulScenarios have Consul lose or forget something, or refuse it.
func consulScenarios() []scenario {
	all := append([]scenario{
		ofConsul("server-away", "no server, so no leader", "40s", quick(), serverAway),
		ofConsul("agent-wiped", "the agent starts without its data, and all is registered again", "a restart", quick(), agentWiped),
		ofConsul("catalog-restored", "the catalog goes back to a snapshot", "at once", quick(), catalogRestored),
		clockJumps(),
	}, tokenScenarios()...)
	all = append(append(all, diskScenarios()...), leaderScenarios()...)
	replaced := ofConsul("replaced", "all is registered again with replace-existing-checks, each 3 s", "9s", quick(), replaced)
	replaced.short = true
	return append(all, replaced)
}

// ofConsul is a scenario that does something as often as it shall.
func ofConsul(name, what, long string, s setting, once func(context.Context, *trial) error) scenario {
	return scenario{name: name, group: "consul", what: what, long: long, setting: s, run: func(ctx context.Context, t *trial) error {
		return t.each(ctx, func() error { return once(ctx, t) })
	}}
}

// serverAway has no server for longer than a TTL.
func serverAway(ctx context.Context, t *trial) error {
	return t.during(serverAllows(t.setting, how{}), func() error {
		if err := t.server.Kill(); err != nil {
			return err
		}
		if err := around(ctx, 40*time.Second, t.turn); err != nil {
			return err
		}
		if err := t.server.Start(); err != nil {
			return err
		}
		return t.server.WaitReady(ctx)
	})
}

// agentWiped allows that what is registered after that is new: an instance begins
// as critical, and is seen as it is when it has been probed.
func agentWiped(ctx context.Context, t *trial) error {
	f := fault{what: "wiped", after: lostCheck + t.setting.grace() + slack, expires: time.Nanosecond, consul: true, downtime: true, lost: lostCheck + slack}
	return t.during(f, func() error {
		if err := t.agent.Wipe(ctx); err != nil {
			return err
		}
		t.turn()
		if err := t.agent.Start(); err != nil {
			return err
		}
		if err := t.agent.WaitReady(ctx); err != nil {
			return err
		}
		return t.registerAgain(api.ServiceRegisterOpts{})
	})
}

// registerAgain registers all instances of the node once more.
func (w *world) registerAgain(opts api.ServiceRegisterOpts) error {
	for _, i := range w.instances {
		if i.elsewhere {
			continue
		}
		if err := w.registerOne(i, opts); err != nil {
			return fmt.Errorf("registering %s again: %w", i.id, err)
		}
	}
	return nil
}

// replaced registers all again and again, by which each check is lost.
func replaced(ctx context.Context, t *trial) error {
	f := fault{what: "replaced", lost: lostCheck + slack, after: lostCheck + slack}
	return t.during(f, func() error {
		for n := range 3 {
			if err := t.registerAgain(api.ServiceRegisterOpts{ReplaceExistingChecks: true}); err != nil {
				return err
			}
			if n == 1 {
				t.turn()
			}
			if err := lab.Pause(ctx, 3*time.Second); err != nil {
				return err
			}
		}
		return nil
	})
}

// catalogRestored takes a snapshot, lets apps turn, and restores it: the agent does
// not know that the catalog shows what it showed before.
func catalogRestored(ctx context.Context, t *trial) error {
	snapshot, err := t.snapshot()
	if err != nil {
		return err
	}
	t.turn()
	if err := t.well(ctx); err != nil {
		return err
	}
	f := fault{what: "restored", after: drift + slack, expires: time.Nanosecond, consul: true, older: drift + slack}
	err = t.during(f, func() error { return t.server.Client().Snapshot().Restore(nil, bytes.NewReader(snapshot)) })
	if err != nil {
		return err
	}
	return lab.Eventually(ctx, drift+slack, func() error { return t.shown(ctx) })
}

func (t *trial) snapshot() ([]byte, error) {
	in, _, err := t.server.Client().Snapshot().Save(nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	return io.ReadAll(in)
}

// clockJumps runs a daemon whose wall clock jumps to and fro all the time. Nothing is
// allowed that is not without it.
func clockJumps() scenario {
	s := quick()
	s.name = "clock"
	s.daemon = func(ctx context.Context, w *world, opts *lab.DaemonOptions) (err error) {
		opts.Binary, err = w.lab.JumpingDaemonBinary(ctx)
		return err
	}
	return ofConsul("clock-jumps", "the daemon's wall clock jumps by an hour or ten years, forth and back, each 3 s", "40s", s, func(ctx context.Context, t *trial) error {
		for range 4 { // it takes longer than a TTL
			if err := around(ctx, 10*time.Second, t.turn); err != nil {
				return err
			}
		}
		return hasJumped(t.daemon.Log())
	})
}

// hasJumped is an error if the lines of a log are all of about the same time.
func hasJumped(log string) error {
	var first, last time.Time
	for line := range strings.Lines(log) {
		text, _, _ := strings.Cut(line, " ")
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			continue
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	if apart := last.Sub(first); apart < time.Hour {
		return fmt.Errorf("the clock has not jumped: the lines of the log are at most %s apart", apart)
	}
	return nil
}
