package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/consul-hds/consul-hds/test/lab"
)

// writes prints what steady instances make the daemon write to its agent, as a
// proxy between the two sees it, and what of it reaches the servers.
func (f *figures) writes(ctx context.Context) error {
	s, err := f.newAgent(ctx, lab.ConsulOptions{})
	if err != nil {
		return err
	}
	defer s.close()
	proxy, err := s.lab.StartProxy(s.consul)
	if err != nil {
		return err
	}
	s.closes = append(s.closes, proxy.Close)
	if err := s.startBridge(ctx, "-consul-address", proxy.Addr()); err != nil {
		return err
	}
	if err := s.registerMany(f.instances, map[string]string{"hds": "http"}, nil); err != nil {
		return err
	}
	if err := s.consul.WaitPassing(ctx, f.instances, patience); err != nil {
		return err
	}
	w, err := f.watchWrites(ctx, s, proxy)
	if err != nil {
		return err
	}
	return errors.Join(f.printWrites(ctx, s, w), w.fault())
}

// written are writes by what they do.
type written struct {
	updates, expected, others int
	// checks is how many checks there are, and how far expected may be off: the
	// time watched begins and ends within a refresh period of each.
	checks int
	// moved is how many of them the servers have written.
	moved int
}

// watchWrites watches the writes of steady instances, for a while that begins
// when the first refresh of each is over.
func (f *figures) watchWrites(ctx context.Context, s *stage, proxy *lab.Proxy) (written, error) {
	w := written{checks: f.instances, expected: f.instances * int(f.steady/refreshPeriod())}
	if err := lab.Pause(ctx, refreshPeriod()); err != nil {
		return w, err
	}
	before, err := s.consul.CheckIndexes(ctx)
	if err != nil {
		return w, err
	}
	proxy.Reset()
	if err := lab.Pause(ctx, f.steady); err != nil {
		return w, err
	}
	for path, n := range proxy.Writes() {
		if strings.HasPrefix(path, "PUT /v1/agent/check/update/") {
			w.updates += n
		} else {
			w.others += n
		}
	}
	after, err := s.consul.CheckIndexes(ctx)
	for id, index := range after {
		if before[id] != index {
			w.moved++
		}
	}
	return w, err
}

func (f *figures) printWrites(ctx context.Context, s *stage, w written) error {
	t := table{
		title:   fmt.Sprintf("Writes to the agent for %d steady instances in %s, TTL %s", w.checks, f.steady, 3*refreshPeriod()),
		columns: []string{"", "measured", "expected"},
	}
	t.row("check updates", w.updates, fmt.Sprintf("%d ± %d", w.expected, w.checks))
	t.row("other writes", w.others, 0)
	t.row("checks whose modify index moved", w.moved, 0)
	return f.print(ctx, s, "writes", t)
}

// fault is an error if anything was written but one refresh of each check per
// period, or if the servers were troubled.
func (w written) fault() error {
	if off := w.updates - w.expected; max(off, -off) > w.checks || w.others > 0 || w.moved > 0 {
		return fmt.Errorf("the steady state is not steady: %+v", w)
	}
	return nil
}
