package main

import (
	"context"
	"fmt"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

// streams is how many Envoys there are for row 7.
const streams = 200

// memory is row 7.
func (b *bench) memory(ctx context.Context) error {
	for _, n := range []int{5, 50} {
		var live, resident [2][]float64
		for range b.runs {
			for i, r := range []role{roleBridge, roleRaw} {
				used, err := b.used(ctx, r, n)
				if err != nil {
					return err
				}
				live[i], resident[i] = append(live[i], float64(used.Live)), append(resident[i], float64(used.Resident))
			}
		}
		what := fmt.Sprintf("%d streams × %d endpoints", streams, n)
		b.add(memoryRow("live heap a stream, "+what, live, "≤ 1.3 × idle grpc-go streams", 1.3))
		b.add(memoryRow("resident size a stream, "+what, resident, "≤ 2 × idle grpc-go streams", 2))
	}
	return nil
}

func memoryRow(measure string, values [2][]float64, target string, most float64) row {
	ratio := median(ratios(values[0], values[1]))
	kilo := func(v []float64) string { return fmt.Sprintf("%.1f kB", median(v)/streams/1000) }
	return row{
		number: "7", measure: measure, ours: kilo(values[0]), floor: kilo(values[1]),
		ratio: fmt.Sprintf("%.2f", ratio), target: target, met: ratio <= most,
	}
}

// used is what a fresh server uses more with its streams open than without.
func (b *bench) used(ctx context.Context, r role, endpoints int) (usage, error) {
	s, err := b.startSide(ctx, r, plain, endpoints)
	if err != nil {
		return usage{}, err
	}
	defer s.end()
	before, err := s.usage(ctx, 0, true)
	if err != nil {
		return usage{}, err
	}
	reports, err := reportsOf(hdstest.Endpoints(endpoints), 0)
	if err != nil {
		return usage{}, err
	}
	for i := range streams {
		e, err := s.connect(fmt.Sprint("load-", i))
		if err != nil {
			return usage{}, err
		}
		defer e.close()
		if r == roleBridge {
			spec, _, err := e.awaitSpec(ctx, endpoints)
			if err != nil {
				return usage{}, err
			}
			if reports, err = reportsOf(hdstest.Asked(spec), 0); err != nil {
				return usage{}, err
			}
		}
		for range 2 { // the first report, and the steady state
			if err := e.stream.SendMsg(reports[0]); err != nil {
				return usage{}, err
			}
		}
	}
	after, err := s.usage(ctx, 2*streams, true)
	return usage{Live: after.Live - before.Live, Resident: after.Resident - before.Resident}, err
}
