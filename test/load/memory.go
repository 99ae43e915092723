package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/consul-hds/consul-hds/bridge/hds/hdstest"
)

const (
	// streams is how many Envoys there are for row 7.
	streams = 200
	// reportInterval is the default of how often an Envoy reports; after steadyAfter
	// reports nothing about it changes any more (bridge/hds packs what was the same
	// for ten seconds, and has the daemon give memory back a second later).
	reportInterval = 500 * time.Millisecond
	steadyAfter    = 26
)

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

// used is what a server uses more with its streams open than with one: what it
// makes once for all is in neither.
func (b *bench) used(ctx context.Context, r role, endpoints int) (usage, error) {
	s, err := b.startSide(ctx, r, plain, endpoints)
	if err != nil {
		return usage{}, err
	}
	defer s.end()
	var envoys []*envoy
	defer func() {
		for _, e := range envoys {
			e.close()
		}
	}()
	var with [2]usage
	for i, more := range []int{1, streams} {
		for range more {
			e, err := s.connect(fmt.Sprint("load-", len(envoys)))
			if err != nil {
				return usage{}, err
			}
			envoys = append(envoys, e)
			if err := e.begin(ctx, r, endpoints); err != nil {
				return usage{}, err
			}
		}
		if with[i], err = s.steady(ctx, envoys, with[0].Reports); err != nil {
			return usage{}, err
		}
	}
	err = b.saveMemory(ctx, s, fmt.Sprintf("%s-%d", r, endpoints))
	return usage{Live: with[1].Live - with[0].Live, Resident: with[1].Resident - with[0].Resident}, err
}

// steady makes Envoys report at the usual pace until nothing about it changes any
// more, and tells what the server uses then. So many reports it had before.
func (s *side) steady(ctx context.Context, envoys []*envoy, before int64) (usage, error) {
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for range steadyAfter {
		for _, e := range envoys {
			if err := e.say(e.report); err != nil {
				return usage{}, err
			}
		}
		select {
		case <-ctx.Done():
			return usage{}, context.Cause(ctx)
		case <-tick.C:
		}
	}
	return s.usage(ctx, before+int64(steadyAfter*len(envoys)), true)
}

// begin makes an Envoy say its first report: of what it is asked for, or, if the
// server asks for nothing, of as much.
func (e *envoy) begin(ctx context.Context, r role, endpoints int) error {
	if r == roleBridge {
		spec, _, err := e.awaitSpec(ctx, endpoints)
		if err != nil {
			return err
		}
		return e.apply(spec)
	}
	report, err := hdstest.Report(hdstest.Endpoints(endpoints))
	if err != nil {
		return err
	}
	return e.say(report)
}

// saveMemory keeps what a server's memory is of.
func (b *bench) saveMemory(ctx context.Context, s *side, name string) error {
	return errors.Join(
		b.saveProfile(ctx, s, "heap", name+".heap"),
		b.saveProfile(ctx, s, "goroutine?debug=1", name+".goroutines"),
	)
}
