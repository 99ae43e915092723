package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

// burst is how many bytes are sent each time, as whole reports; between fewest and
// most of them. Of each run there are pairsPerRun pairs.
const (
	burst       = 64 << 20
	fewest      = 50
	most        = 30000
	pairsPerRun = 3
)

// unchangedReports is row 1, with the default codec beside it.
func (b *bench) unchangedReports(ctx context.Context) error {
	for _, t := range []transport{plain, socket, mutual} {
		for _, n := range []int{10, 100, 1000, 5000} {
			r := row{number: "1", measure: fmt.Sprintf("CPU per unchanged report, %d endpoints, %s", n, t), target: "≤ 1.15 × a raw frame"}
			ours, err := b.compareReports(ctx, r, roleRaw, t, n, 0, 1.15)
			if err != nil {
				return err
			}
			if t != plain {
				continue
			}
			if err := b.besideDefault(ctx, ours, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// besideDefault adds a row on what a server with the default codec spends on the
// reports on which ours spends so much; it has no target.
func (b *bench) besideDefault(ctx context.Context, ours time.Duration, endpoints int) error {
	s, err := b.startReporter(ctx, roleProto, plain, endpoints)
	if err != nil {
		return err
	}
	defer s.end()
	reports, err := reportsOf(hdstest.Endpoints(endpoints), 0)
	if err != nil {
		return err
	}
	var spent []time.Duration
	for range b.runs {
		each, err := s.burst(ctx, reports, max(fewest, reportsIn(burst, reports)/20))
		if err != nil {
			return err
		}
		spent = append(spent, each)
	}
	b.add(row{
		number: "1", measure: fmt.Sprintf("CPU per unchanged report, %d endpoints, plain, beside gRPC's default codec", endpoints),
		ours: microseconds(ours), floor: microseconds(median(spent)), ratio: fmt.Sprintf("%.2f", float64(ours)/float64(median(spent))),
	})
	return nil
}

// flippedReports is row 2.
func (b *bench) flippedReports(ctx context.Context) error {
	for _, n := range []int{10, 100, 1000} {
		r := row{number: "2", measure: fmt.Sprintf("CPU per report with one flip, %d endpoints", n), target: "≤ 0.3 × decoding it, at 100 and more"}
		most := 0.3
		if n < 100 {
			most = 1
		}
		if _, err := b.compareReports(ctx, r, roleProto, plain, n, 1, most); err != nil {
			return err
		}
	}
	return nil
}

// compareReports measures the CPU time per report of ours and of a floor, and adds
// the row; it returns ours. Each run has two new processes: how the memory of one
// happens to lie moves all that it does. So many endpoints flip between two reports.
func (b *bench) compareReports(ctx context.Context, r row, floor role, t transport, endpoints, flips int, most float64) (time.Duration, error) {
	var spent [2][]time.Duration
	for range b.runs {
		one, err := b.reportsOnce(ctx, floor, t, endpoints, flips)
		if err != nil {
			return 0, err
		}
		for i := range spent {
			spent[i] = append(spent[i], one[i]...)
		}
	}
	ratio := median(ratios(spent[0], spent[1]))
	r.ours, r.floor = microseconds(median(spent[0])), microseconds(median(spent[1]))
	r.ratio, r.met = fmt.Sprintf("%.2f", ratio), ratio <= most
	b.add(r)
	return median(spent[0]), nil
}

// reportsOnce is a run: what ours and the floor spent per report. The two take turns
// in going first, in short bursts, and what counts are the ratios of neighbours: a
// machine that is busy for a while is busy for both.
func (b *bench) reportsOnce(ctx context.Context, floor role, t transport, endpoints, flips int) (spent [2][]time.Duration, err error) {
	ours, err := b.startReporter(ctx, roleBridge, t, endpoints)
	if err != nil {
		return spent, err
	}
	defer ours.end()
	theirs, err := b.startReporter(ctx, floor, t, endpoints)
	if err != nil {
		return spent, err
	}
	defer theirs.end()
	spec, _, err := ours.envoy.awaitSpec(ctx, endpoints)
	if err != nil {
		return spent, err
	}
	reports, err := reportsOf(hdstest.Asked(spec), flips)
	if err != nil {
		return spent, err
	}
	profiled := b.profileCPU(ctx, fmt.Sprintf("%s-%d", t, endpoints), ours.side, theirs.side)
	spent, err = pairs(ctx, [2]*reporter{ours, theirs}, reports, pairsPerRun)
	return spent, errors.Join(err, profiled())
}

// pairs has two servers take reports in by turns, and returns what each spent per
// report.
func pairs(ctx context.Context, sides [2]*reporter, reports [2][]byte, n int) (spent [2][]time.Duration, err error) {
	many := reportsIn(burst, reports)
	for k := range n + 1 { // the first is to warm up
		for i := range sides {
			i = (i + k) % 2
			each, err := sides[i].burst(ctx, reports, many)
			if err != nil {
				return spent, err
			}
			if k > 0 {
				spent[i] = append(spent[i], each)
			}
		}
	}
	return spent, nil
}

// reportsIn is how many whole reports make so many bytes, within bounds.
func reportsIn(bytes int, reports [2][]byte) int {
	return min(max(bytes/len(reports[0]), fewest), most)
}

// reportsOf are a report and the next.
func reportsOf(endpoints []hdstest.Endpoint, flips int) (out [2][]byte, err error) {
	for i := range out {
		if out[i], err = hdstest.Report(endpoints); err != nil {
			return out, err
		}
		for k := range flips {
			endpoints[k].Status, endpoints[k].Code = corev3.HealthStatus_UNHEALTHY, 503
		}
	}
	return out, nil
}

// reporter is a side with one Envoy that reports to it.
type reporter struct {
	*side
	envoy *envoy
	sent  int64
}

func (b *bench) startReporter(ctx context.Context, r role, t transport, endpoints int) (*reporter, error) {
	s, err := b.startSide(ctx, r, t, endpoints)
	if err != nil {
		return nil, err
	}
	e, err := s.connect("load")
	if err != nil {
		s.end()
		return nil, err
	}
	return &reporter{side: s, envoy: e}, nil
}

func (r *reporter) end() {
	r.envoy.close()
	r.side.end()
}

// burst sends n reports, and returns the CPU time that the server spent on each.
func (r *reporter) burst(ctx context.Context, reports [2][]byte, n int) (time.Duration, error) {
	before, err := r.usage(ctx, r.sent, false)
	if err != nil {
		return 0, err
	}
	for i := range n {
		if err := r.envoy.stream.SendMsg(reports[i%2]); err != nil {
			return 0, fmt.Errorf("%s: %w", r.process.Name(), err)
		}
	}
	r.sent += int64(n)
	after, err := r.usage(ctx, r.sent, false)
	return (after.CPU - before.CPU) / time.Duration(n), err
}

func microseconds(d time.Duration) string { return fmt.Sprintf("%.1f µs", float64(d)/1e3) }
