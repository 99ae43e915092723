package main

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// processScenarios kill, stop, restart and upgrade each part. Meanwhile apps fail, or
// recover.
func processScenarios(seed uint64) []scenario {
	var all []scenario
	for _, p := range parts() {
		all = append(all,
			breaking(p, killed(time.Second), quick(), true),
			breaking(p, upgraded(), quick(), p.name == "daemon"),
			breaking(p, stopped(5*time.Second), usual(), false),
			breaking(p, restarted(), usual(), false),
			breaking(p, stopped(time.Minute), usual(), false),
		)
	}
	return append(all, newVersion(), allAtOnce(seed, 5))
}

// breaking is the scenario that breaks a part in a way.
func breaking(p part, h how, s setting, short bool) scenario {
	return scenario{
		name: p.name + "-" + h.name, group: "process", what: p.name + " " + h.what, long: h.long, short: short, setting: s,
		run: func(ctx context.Context, t *trial) error {
			return t.each(ctx, func() error {
				return t.during(p.allows(s, h), func() error { return h.do(ctx, p, t.world, t.turn) })
			})
		},
	}
}

// part is one that can be broken.
type part struct {
	name    string
	process func(*world) *lab.Process
	// ready waits until it works again after its start.
	ready func(context.Context, *world) error
	// allows is what may be seen while it is broken in a way.
	allows func(setting, how) fault
}

// how is a way to break a part.
type how struct {
	name, what, long string
	// hangs is true if the process lives on.
	hangs bool
	// ends is true if it is asked to end.
	ends bool
	// do breaks it, calls meanwhile, and mends it.
	do func(ctx context.Context, p part, w *world, meanwhile func()) error
}

// killed kills a process as kill -9 does, and starts it again after a time.
func killed(away time.Duration) how {
	return how{name: "kill", what: "is killed", long: brief(away),
		do: func(ctx context.Context, p part, w *world, meanwhile func()) error {
			if err := p.process(w).Kill(); err != nil {
				return err
			}
			if err := around(ctx, away, meanwhile); err != nil {
				return err
			}
			return p.starts(ctx, w)
		}}
}

// stopped lets a process stand still for a time.
func stopped(still time.Duration) how {
	return how{name: "stop" + brief(still), what: "stands still", long: brief(still), hangs: true,
		do: func(ctx context.Context, p part, w *world, meanwhile func()) error {
			if err := p.process(w).Signal(syscall.SIGSTOP); err != nil {
				return err
			}
			if err := around(ctx, still, meanwhile); err != nil {
				return err
			}
			return p.process(w).Signal(syscall.SIGCONT)
		}}
}

// restarted ends a process politely, and starts it again.
func restarted() how {
	return how{name: "restart", what: "is restarted", long: "a restart", ends: true, do: restart}
}

// upgraded starts a second process before the first has ended, which has to be
// refused, and restarts it then.
func upgraded() how {
	return how{name: "upgrade", what: "is upgraded in place", long: "a restart", ends: true,
		do: func(ctx context.Context, p part, w *world, meanwhile func()) error {
			if err := refusedTwin(ctx, p, w); err != nil {
				return err
			}
			return restart(ctx, p, w, meanwhile)
		}}
}

func restart(ctx context.Context, p part, w *world, meanwhile func()) error {
	if _, err := p.process(w).Stop(ctx); err != nil {
		return err
	}
	meanwhile()
	return p.starts(ctx, w)
}

// refusedTwin starts a process beside one of the same configuration, and is an error
// if it does not fail by itself.
func refusedTwin(ctx context.Context, p part, w *world) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	said, code, err := p.process(w).Twin(ctx)
	if err == nil && code != 1 {
		err = fmt.Errorf("it ended with %d and said %s", code, said)
	}
	if err == nil && p.name == "daemon" && !strings.Contains(said, "is held by another consul-hds agent") {
		err = fmt.Errorf("it does not tell of the lock: %s", said)
	}
	if err != nil {
		return fmt.Errorf("a second %s: %w", p.name, err)
	}
	return nil
}

// starts starts the process of a part anew and waits until it works.
func (p part) starts(ctx context.Context, w *world) error {
	if err := p.process(w).Start(); err != nil {
		return err
	}
	return p.ready(ctx, w)
}

// around does something in the middle of a pause.
func around(ctx context.Context, d time.Duration, meanwhile func()) error {
	if err := lab.Pause(ctx, d/2); err != nil {
		return err
	}
	meanwhile()
	return lab.Pause(ctx, d/2)
}

// brief is a duration in whole seconds.
func brief(d time.Duration) string { return fmt.Sprintf("%.0fs", d.Seconds()) }
