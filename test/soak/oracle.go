package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

// lookEvery is the pause between two looks of the oracle at the catalog.
const lookEvery = 100 * time.Millisecond

// oracle looks at the catalog all the time, and notes when an instance that the
// churn leaves alone has a status that it must never have.
type oracle struct {
	node   *node
	cancel context.CancelFunc
	done   sync.WaitGroup
	seen   sightings // of the oracle's goroutine, until done
	since  map[string]time.Time
}

// sightings are what an oracle has seen.
type sightings struct {
	// looks is how often the catalog was read, away how often it could not be.
	looks, away int
	// absent is how often a look did not show a check, as when an agent has left.
	absent int
	// wrong is how often a look showed a wrong status, first tells of the first;
	// longest is how long one stood at most.
	wrong   int
	first   string
	longest time.Duration
}

// watch starts an oracle of the steady instances.
func (n *node) watch() *oracle {
	ctx, cancel := context.WithCancel(context.Background())
	o := &oracle{node: n, cancel: cancel, since: map[string]time.Time{}}
	o.done.Go(func() { lab.Every(ctx, lookEvery, func() { o.ask(ctx) }) })
	return o
}

// stop ends the oracle, and returns what it has seen.
func (o *oracle) stop() sightings {
	o.cancel()
	o.done.Wait()
	return o.seen
}

// ask looks at the catalog once.
func (o *oracle) ask(ctx context.Context) {
	list, err := o.node.catalog(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		o.seen.away++
	default:
		o.look(list, time.Now())
	}
}

// look compares one state of the catalog, by check id.
func (o *oracle) look(statuses map[string]string, now time.Time) {
	o.seen.looks++
	for _, i := range o.node.steady {
		id := i.checkID()
		status, there := statuses[id]
		if !there {
			o.seen.absent++
		}
		if status != i.never() {
			delete(o.since, id)
			continue
		}
		o.note(id, status, now)
	}
}

func (o *oracle) note(id, status string, now time.Time) {
	if o.seen.wrong == 0 {
		o.seen.first = fmt.Sprintf("%s was %s at %s", id, status, now.UTC().Format(time.RFC3339))
	}
	o.seen.wrong++
	if _, known := o.since[id]; !known {
		o.since[id] = now
	}
	o.seen.longest = max(o.seen.longest, now.Sub(o.since[id])+lookEvery)
}

// never is the status that a steady instance must not have.
func (i *instance) never() string {
	if i.healthy {
		return api.HealthCritical
	}
	return api.HealthPassing
}

// String implements fmt.Stringer.
func (s sightings) String() string {
	return fmt.Sprintf("The catalog was read %d times (no answer: %d, a check absent: %d): a wrong status %d times, the longest for %s.",
		s.looks, s.away, s.absent, s.wrong, s.longest.Round(10*time.Millisecond))
}

func (s sightings) fault() error {
	if s.looks == 0 {
		return errors.New("the catalog was never seen")
	}
	if s.wrong > 0 {
		return fmt.Errorf("a wrong status was seen %d times; first, %s", s.wrong, s.first)
	}
	return nil
}
