package main

import (
	"context"
	"fmt"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// steadyEnvoys is how many Envoys row 6 has.
	steadyEnvoys = 10
	// settling is how long all is left alone before it is measured.
	settling = 10 * time.Second
	// window is how long a run of row 6 lasts: the kernel tells CPU time in steps of
	// 10 ms.
	window = 20 * time.Second
)

// spent is the CPU time of a run, in percent of a core.
type spent struct{ idle, own, served, daemon, probing, resting, bare float64 }

// checking is what the agent's own checks cost it.
func (s spent) checking() float64 { return s.own - s.idle }

// ttl is what the daemon makes the agent do: the reads, and the refreshes of the
// checks.
func (s spent) ttl() float64 { return s.served - s.idle }

// probes is what the probes and the reports cost the Envoys.
func (s spent) probes() float64 { return s.probing - s.resting }

// floor is what the same probes cost Envoys that nobody asks by HDS.
func (s spent) floor() float64 { return s.bare - s.resting }

// ours is all that consul-hds costs the node.
func (s spent) ours() float64 { return s.daemon + s.probes() + s.ttl() }

// steadyCPU is row 6.
func (b *bench) steadyCPU(ctx context.Context) error {
	n := &node{}
	defer n.close()
	if err := n.start(ctx, b.lab, steadyEnvoys); err != nil {
		return err
	}
	if err := lab.Pause(ctx, settling); err != nil {
		return err
	}
	var runs []spent
	for range b.runs {
		s, err := n.spend(ctx)
		if err != nil {
			return err
		}
		runs = append(runs, s)
	}
	for _, r := range steadyRows(runs) {
		b.add(r)
	}
	return nil
}

// spend measures a run; all sides at once.
func (n *node) spend(ctx context.Context) (spent, error) {
	before, err := n.cpuTimes()
	if err != nil {
		return spent{}, err
	}
	start := time.Now()
	if err := lab.Pause(ctx, window); err != nil {
		return spent{}, err
	}
	after, err := n.cpuTimes()
	took := time.Since(start)
	share := func(side int) float64 { return 100 * (after[side] - before[side]).Seconds() / took.Seconds() }
	return spent{share(0), share(1), share(2), share(3), share(4), share(5), share(6)}, err
}

// sides are the processes of each field of spent, in order.
func (n *node) sides() [][]*lab.Process {
	return [][]*lab.Process{
		{n.idle.Process}, {n.own.Process}, {n.served.Process}, {n.daemon.Process},
		processes(n.probing), processes(n.resting), processes(n.bare),
	}
}

func processes(envoys []*lab.Envoy) (out []*lab.Process) {
	for _, e := range envoys {
		out = append(out, e.Process)
	}
	return out
}

// cpuTimes are those of all sides so far.
func (n *node) cpuTimes() (out []time.Duration, err error) {
	for _, side := range n.sides() {
		var sum time.Duration
		for _, p := range side {
			t, err := p.CPUTime()
			if err != nil {
				return nil, err
			}
			sum += t
		}
		out = append(out, sum)
	}
	return out, nil
}

// steadyRows are the rows of the runs: medians of each side, and of the ratios of
// each run.
func steadyRows(runs []spent) []row {
	of := func(f func(spent) float64) float64 {
		var all []float64
		for _, r := range runs {
			all = append(all, f(r))
		}
		return median(all)
	}
	percent := func(f func(spent) float64) string { return fmt.Sprintf("%.2f %%", of(f)) }
	ratio := of(func(s spent) float64 { return s.ours() / s.checking() })
	bare := of(func(s spent) float64 { return s.floor() / s.checking() })
	daemon := func(s spent) float64 { return s.daemon }
	own := percent(spent.checking)
	return []row{
		{number: "6", measure: "CPU of the daemon: 200 checks each second, 10 Envoys, reports each 500 ms", ours: percent(daemon), floor: "–",
			ratio: "–", target: "≤ 1 % of a core", met: of(daemon) <= 1},
		{number: "6", measure: fmt.Sprintf("the daemon + the Envoys' probing (%s) + the agent's TTL work (%s)", percent(spent.probes), percent(spent.ttl)),
			ours: percent(spent.ours), floor: own, ratio: fmt.Sprintf("%.2f", ratio), target: "≤ 0.5 × the agent's own HTTP checks of the same apps", met: ratio <= 0.5},
		{number: "6", measure: "for comparison: the same probes in Envoys that have them in their bootstraps, without HDS", ours: percent(spent.floor),
			floor: own, ratio: fmt.Sprintf("%.2f", bare)},
	}
}
