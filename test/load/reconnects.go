package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/consul-hds/consul-hds/config"
	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// crowd is how many Envoys reconnect at once for row 8, each with so many
	// endpoints.
	crowd     = 100
	endpoints = 50
)

// soonest is how soon after an update of a check a refresh of it may be due: each
// check has its place in the period, and the first comes before it is over.
func soonest() time.Duration { return config.Default().Checks.TTL / 3 / 2 }

// reconnects is row 8.
func (b *bench) reconnects(ctx context.Context) error {
	t, err := b.newBed(ctx, shared(endpoints), true)
	if err != nil {
		return err
	}
	defer t.close()
	e, err := t.steady(ctx, endpoints)
	if err != nil {
		return err
	}
	if err := lab.Pause(ctx, 2*soonest()); err != nil { // until each check has its pace
		return err
	}
	e.close()
	t.wire.taken()
	var took []time.Duration
	for range b.runs + 1 {
		one, err := t.reconnect(ctx)
		if err != nil {
			return err
		}
		took = append(took, one)
	}
	served := median(took[1:]) // the first run is to warm up
	turns, early := t.wire.taken()
	b.add(row{
		number: "8", measure: fmt.Sprintf("%d Envoys reconnect at once, %d endpoints each: all have their specifier", crowd, endpoints),
		ours: milliseconds(served), floor: "–", ratio: fmt.Sprintf("%d status changes, %d writes beside refreshes", turns, early),
		target: "≤ 1 s, 0, 0", met: served <= time.Second && turns == 0 && early == 0,
	})
	return nil
}

// reconnect connects the crowd at once, and measures how long it takes until each
// has its specifier. All of them report for two seconds before they go.
func (t *bed) reconnect(ctx context.Context) (time.Duration, error) {
	envoys := make([]*envoy, crowd)
	defer func() {
		for _, e := range envoys {
			if e != nil {
				e.close()
			}
		}
	}()
	start := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	served := make([]time.Duration, crowd)
	for i := range envoys {
		group.Go(func() (err error) {
			if envoys[i], err = connect(t.daemon.HDSAddr(), fmt.Sprint("load-", i), nil); err != nil {
				return err
			}
			spec, at, err := envoys[i].awaitSpec(ctx, endpoints)
			if err != nil {
				return err
			}
			served[i] = at.Sub(start)
			return envoys[i].apply(spec)
		})
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	for _, e := range envoys {
		e.reportEvery(config.Default().HDS.ReportInterval)
	}
	var last time.Duration
	for _, d := range served {
		last = max(last, d)
	}
	return last, lab.Pause(context.Background(), 2*time.Second)
}
