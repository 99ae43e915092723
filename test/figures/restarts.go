package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/consul-hds/consul-hds/test/lab"
)

// restartable is a part of a stage.
type restartable struct {
	name    string
	restart func(context.Context, syscall.Signal) error
}

func (s *stage) restartables() []restartable {
	return []restartable{{"daemon", s.daemon.Restart}, {"Envoy", s.envoy.Restart}, {"agent", s.consul.Restart}}
}

// restarts prints what a sampler sees of the catalog while daemon, Envoy and
// agent are restarted, politely or not, in random order and with random pauses.
func (f *figures) restarts(ctx context.Context) error {
	s, err := f.newStage(ctx, lab.ConsulOptions{Persistent: true})
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.twoInstances(ctx); err != nil {
		return err
	}
	sampler := s.consul.Sample(asTheyAre())
	err = s.restartInAnyOrder(ctx, f.rounds, rand.New(rand.NewPCG(f.seed, 0)))
	seen := sampler.Stop()
	return errors.Join(err, f.printRestarts(ctx, s, seen), unchanged(seen))
}

// restartInAnyOrder restarts all parts in each round, one after the other, and
// waits for the end of what this leads to.
func (s *stage) restartInAnyOrder(ctx context.Context, rounds int, random *rand.Rand) error {
	parts := s.restartables()
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}
	for range rounds {
		for _, i := range random.Perm(len(parts)) {
			if err := parts[i].restart(ctx, signals[random.IntN(len(signals))]); err != nil {
				return fmt.Errorf("restarting the %s: %w", parts[i].name, err)
			}
			if err := lab.Pause(ctx, time.Duration(random.Int64N(int64(2*time.Second)))); err != nil {
				return err
			}
		}
	}
	if err := s.reported(ctx); err != nil {
		return err
	}
	return lab.Pause(ctx, 5*time.Second)
}

func (f *figures) printRestarts(ctx context.Context, s *stage, seen lab.Samples) error {
	t := table{
		title: fmt.Sprintf("%d rounds of restarts of daemon, Envoy and agent (data directory kept), SIGTERM or SIGKILL, in random order (seed %d),\n"+
			"seen in the catalog every 20 ms (no answer while the agent restarts: %d times); the apps answer after %s", f.rounds, f.seed, seen.Away, slowness),
		columns: []string{"instance", "should be", "samples", "seen otherwise", "bound"},
	}
	for _, instance := range []string{healthy, failing} {
		id := checkID(instance)
		t.row(instance, asTheyAre()[id], seen.Count, wrongOf(seen, id), 0)
	}
	return f.print(ctx, s, "restarts", t)
}

// unchanged is an error if any sample showed a wrong status, or if there is no
// sample.
func unchanged(seen lab.Samples) error {
	if seen.Count == 0 {
		return errors.New("the catalog was never seen")
	}
	if len(seen.Wrong) > 0 {
		return fmt.Errorf("a wrong status was seen %d times, first %+v", len(seen.Wrong), seen.Wrong[0])
	}
	return nil
}

// wrongOf is how often a check was wrong.
func wrongOf(seen lab.Samples, id string) (n int) {
	for _, w := range seen.Wrong {
		if w.CheckID == id {
			n++
		}
	}
	return n
}
