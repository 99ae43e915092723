package main

import (
	"context"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

// burst is how many bytes are sent each time, as whole reports; between fewest and
// most of them.
const (
	burst  = 96 << 20
	fewest = 50
	most   = 40000
)

// unchangedReports is row 1.
func (b *bench) unchangedReports(ctx context.Context) error {
	for _, t := range []transport{plain, socket, mutual} {
		for _, n := range []int{10, 100, 1000, 5000} {
			r := row{number: "1", measure: fmt.Sprintf("CPU per unchanged report, %d endpoints, %s", n, t), target: "≤ 1.15 × a raw frame"}
			if err := b.compareReports(ctx, r, roleRaw, t, n, 0, 1.15); err != nil {
				return err
			}
		}
	}
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
		if err := b.compareReports(ctx, r, roleProto, plain, n, 1, most); err != nil {
			return err
		}
	}
	return nil
}

// compareReports measures the CPU time per report of ours and of a floor, one
// after the other, and adds the row. So many endpoints flip between two reports.
func (b *bench) compareReports(ctx context.Context, r row, floor role, t transport, endpoints, flips int, most float64) error {
	ours, err := b.startReporter(ctx, roleBridge, t, endpoints)
	if err != nil {
		return err
	}
	defer ours.end()
	theirs, err := b.startReporter(ctx, floor, t, endpoints)
	if err != nil {
		return err
	}
	defer theirs.end()
	spec, _, err := ours.envoy.awaitSpec(ctx, endpoints)
	if err != nil {
		return err
	}
	reports, err := reportsOf(hdstest.Asked(spec), flips)
	if err != nil {
		return err
	}
	var spent [2][]time.Duration
	for range b.runs + 1 { // the first is to warm up
		for i, side := range []*reporter{ours, theirs} {
			each, err := side.burst(ctx, reports)
			if err != nil {
				return err
			}
			spent[i] = append(spent[i], each)
		}
	}
	our, their := spent[0][1:], spent[1][1:]
	ratio := median(ratios(our, their))
	r.ours, r.floor = microseconds(median(our)), microseconds(median(their))
	r.ratio, r.met = fmt.Sprintf("%.2f", ratio), ratio <= most
	b.add(r)
	return nil
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

// burst sends reports, and returns the CPU time that the server spent on each.
func (r *reporter) burst(ctx context.Context, reports [2][]byte) (time.Duration, error) {
	before, err := r.usage(ctx, r.sent, false)
	if err != nil {
		return 0, err
	}
	n := min(max(burst/len(reports[0]), fewest), most)
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
