package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// allAtOnce breaks all parts in each of some rounds, in an order, in ways and after
// pauses that a seed decides, and mends them in another order. Apps fail in one
// round, and recover in the next.
func allAtOnce(seed uint64, rounds int) scenario {
	return scenario{
		name: "all-at-once", group: "process", what: "all parts are killed, ended or stand still, in random order, and come back in another",
		long: fmt.Sprintf("%d rounds", rounds), setting: quick(),
		run: func(ctx context.Context, t *trial) error {
			for n, r := range plan(seed, rounds) {
				err := t.during(r.allows(t.setting), func() error { return r.do(ctx, t) })
				if err == nil {
					err = t.well(ctx)
				}
				if err != nil {
					return fmt.Errorf("round %d, %s: %w", n+1, r, err)
				}
			}
			return nil
		},
	}
}

// round is what happens to all parts.
type round struct {
	down []step
	// turn is before which step the apps turn.
	turn int
	up   []step
}

// step breaks or mends a part, after a pause.
type step struct {
	pause time.Duration
	// part is its number.
	part   int
	signal syscall.Signal
}

// plan is the same for the same seed.
func plan(seed uint64, rounds int) []round {
	random := rand.New(rand.NewPCG(seed, 0))
	signals := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSTOP}
	all := make([]round, rounds)
	for n := range all {
		r := round{turn: random.IntN(len(parts()))}
		how := map[int]syscall.Signal{}
		for _, p := range random.Perm(len(parts())) {
			how[p] = signals[random.IntN(len(signals))]
			r.down = append(r.down, step{time.Duration(random.Int64N(int64(500 * time.Millisecond))), p, how[p]})
		}
		for _, p := range random.Perm(len(parts())) {
			r.up = append(r.up, step{time.Duration(random.Int64N(int64(time.Second))), p, how[p]})
		}
		all[n] = r
	}
	return all
}

// String names the order.
func (r round) String() string {
	text := ""
	for _, s := range r.down {
		text += fmt.Sprintf("%s %s, ", parts()[s.part].name, s.signal)
	}
	text += "back:"
	for _, s := range r.up {
		text += " " + parts()[s.part].name
	}
	return text
}

// allows is what any of the faults allows.
func (r round) allows(s setting) fault {
	f := fault{what: r.String()}
	for _, step := range r.down {
		one := parts()[step.part].allows(s, how{hangs: step.signal == syscall.SIGSTOP, ends: step.signal == syscall.SIGTERM})
		f.after += one.after
		if f.expires == 0 || one.expires > 0 && one.expires < f.expires {
			f.expires = one.expires
		}
		f.consul, f.downtime = f.consul || one.consul, f.downtime || one.downtime
		f.starts, f.fails = f.starts || one.starts, f.fails || one.fails
		f.lost, f.deaf = max(f.lost, one.lost), max(f.deaf, one.deaf)
	}
	return f
}

func (r round) do(ctx context.Context, t *trial) error {
	for n, s := range r.down {
		if n == r.turn {
			t.turn()
		}
		if err := s.breaks(ctx, t.world); err != nil {
			return err
		}
	}
	for _, s := range r.up {
		if err := s.mends(ctx, t.world); err != nil {
			return err
		}
	}
	for _, p := range parts() {
		if err := p.ready(ctx, t.world); err != nil {
			return err
		}
	}
	return nil
}

func (s step) breaks(ctx context.Context, w *world) error {
	if err := lab.Pause(ctx, s.pause); err != nil {
		return err
	}
	p := parts()[s.part].process(w)
	if s.signal == syscall.SIGSTOP {
		return p.Signal(s.signal)
	}
	if s.signal == syscall.SIGKILL {
		return p.Kill()
	}
	_, err := p.Stop(ctx)
	return err
}

func (s step) mends(ctx context.Context, w *world) error {
	if err := lab.Pause(ctx, s.pause); err != nil {
		return err
	}
	p := parts()[s.part].process(w)
	if s.signal == syscall.SIGSTOP {
		return p.Signal(syscall.SIGCONT)
	}
	return p.Start()
}
