package main

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

// quiet is how long nothing changes before a registration, so that it is not
// gathered with the change before it.
const quiet = 1500 * time.Millisecond

// registrations is row 4.
func (b *bench) registrations(ctx context.Context) error {
	t, err := b.newBed(ctx, shared(instances), false)
	if err != nil {
		return err
	}
	defer t.close()
	e, err := t.steady(ctx, instances)
	if err != nil {
		return err
	}
	defer e.close()
	var both [2][]time.Duration
	var more []time.Duration
	for i := range max(b.samples/10, b.runs) {
		ours, floor, err := t.registration(ctx, e, fmt.Sprint("new-", i))
		if err != nil {
			return err
		}
		both[0], both[1], more = append(both[0], ours), append(both[1], floor), append(more, ours-floor)
	}
	b.add(row{
		number: "4", measure: fmt.Sprintf("registration → specifier, %d services, p50", instances),
		ours: milliseconds(median(both[0])), floor: milliseconds(median(both[1])),
		ratio: "+ " + milliseconds(median(more)), target: "≤ + 50 ms to a bare client's blocking query", met: median(more) <= 50*time.Millisecond,
	})
	return nil
}

// registration registers an instance, and measures how long it takes until an
// Envoy is asked to probe it, and until a bare client's blocking query, the same
// as the daemon's, returns. Then it takes the instance away.
func (t *bed) registration(ctx context.Context, e *envoy, id string) (ours, floor time.Duration, err error) {
	if err := lab.Pause(ctx, quiet); err != nil {
		return 0, 0, err
	}
	returned, err := t.block(ctx)
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := t.registerOne(id, 9999); err != nil {
		return 0, 0, err
	}
	_, at, err := e.awaitSpec(ctx, instances+1)
	if err != nil {
		return 0, 0, err
	}
	ours, floor = at.Sub(start), (<-returned).Sub(start)
	if err := t.consul.Client().Agent().ServiceDeregister(id); err != nil {
		return 0, 0, err
	}
	spec, _, err := e.awaitSpec(ctx, instances)
	if err != nil {
		return 0, 0, err
	}
	return ours, floor, e.apply(spec)
}

// noServices is the filter of the daemon's query: the index alone matters.
const noServices = `ID == ""`

// block begins a blocking query on the node, and tells when it has returned.
func (t *bed) block(ctx context.Context) (<-chan time.Time, error) {
	ask := func(index uint64) (uint64, error) {
		q := (&api.QueryOptions{AllowStale: true, WaitIndex: index, WaitTime: patience, Filter: noServices}).WithContext(ctx)
		_, meta, err := t.bare.Catalog().NodeServiceList(t.consul.NodeName(), q)
		if err != nil {
			return 0, err
		}
		return meta.LastIndex, nil
	}
	index, err := ask(0)
	if err != nil {
		return nil, err
	}
	returned := make(chan time.Time, 1)
	go func() {
		_, _ = ask(index) // a query that failed has returned, too
		returned <- time.Now()
	}()
	return returned, lab.Pause(ctx, 100*time.Millisecond) // until it blocks
}
