package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

// instances is how many there are for rows 3, 4 and 8.
const instances = 1000

const (
	// bareCheck is the check that the bare client updates, and bareOutput what it
	// says: as much as the daemon does.
	bareCheck  = "bare"
	bareOutput = "http GET http://127.0.0.1:10000/: unhealthy, HTTP 503, says Envoy load-0"
	// rest is the pause after an update, in which the agent tells the servers.
	rest = 20 * time.Millisecond
)

// flips is row 3: of as many Envoys as have 50 checks each, and, for comparison, of
// one that has all of them, whose report alone takes a millisecond on its way.
func (b *bench) flips(ctx context.Context) error {
	many, err := b.flipsOf(ctx, grouped(instances/perEnvoy), func(t *bed) ([]*envoy, error) { return t.sidecars(ctx, instances/perEnvoy) })
	if err != nil {
		return err
	}
	one, err := b.flipsOf(ctx, shared(instances), func(t *bed) ([]*envoy, error) {
		e, err := t.steady(ctx, instances)
		return []*envoy{e}, err
	})
	if err != nil {
		return err
	}
	what := func(envoys string, q string) string {
		return fmt.Sprintf("flip in the report → Consul's answer, %d checks of %s, %s", instances, envoys, q)
	}
	several := fmt.Sprintf("%d Envoys", instances/perEnvoy)
	b.add(delayRow("3", what(several, "p50"), many, 0.5, "≤ 1.3 × a bare client's update", 1.3))
	b.add(delayRow("3", what(several, "p99"), many, 0.99, "≤ 1.5 × a bare client's update", 1.5))
	b.add(delayRow("3", what("one Envoy", "p50"), one, 0.5, "", 0))
	b.add(delayRow("3", what("one Envoy", "p99"), one, 0.99, "", 0))
	return nil
}

// sidecars connects the Envoys of groups, and waits until all their checks pass.
func (t *bed) sidecars(ctx context.Context, groups int) (all []*envoy, err error) {
	for i := range groups {
		e, err := reporting(ctx, t.daemon, groupName(i)+"-sidecar-proxy", perEnvoy)
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, awaitReported(ctx, t.daemon, groups*perEnvoy)
}

// flipsOf measures the flips of some Envoys, and the updates of the bare client:
// all samples of all runs.
func (b *bench) flipsOf(ctx context.Context, p population, connect func(*bed) ([]*envoy, error)) (all [2][]time.Duration, err error) {
	t, err := b.newBed(ctx, p, true)
	if err != nil {
		return all, err
	}
	defer t.close()
	envoys, err := connect(t)
	for _, e := range envoys {
		if e != nil {
			defer e.close()
		}
	}
	if err != nil {
		return all, err
	}
	err = t.consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "bare", Name: "bare", Check: &api.AgentServiceCheck{CheckID: bareCheck, TTL: "10m", Status: api.HealthPassing},
	})
	for run := 0; run < b.runs && err == nil; run++ {
		var both [2][]time.Duration
		both, err = b.flipRun(ctx, t, envoys, run%2 == 1)
		for i := range both {
			all[i] = append(all[i], both[i]...)
		}
	}
	return all, err
}

// delayRow compares a quantile of all samples of one side with that of the other's:
// of the hundred samples of one run, the 99th is but the longest or the next.
func delayRow(number, measure string, values [2][]time.Duration, q float64, target string, most float64) row {
	ours, floor := quantile(values[0], q), quantile(values[1], q)
	ratio := float64(ours) / float64(floor)
	return row{
		number: number, measure: measure, ours: milliseconds(ours), floor: milliseconds(floor),
		ratio: fmt.Sprintf("%.2f", ratio), target: target, met: ratio <= most,
	}
}

// flipRun flips endpoints up or down, one after the other, of each Envoy in turn,
// and measures each flip and each update of the bare client.
func (b *bench) flipRun(ctx context.Context, t *bed, envoys []*envoy, up bool) (both [2][]time.Duration, err error) {
	status := api.HealthCritical
	if up {
		status = api.HealthPassing
	}
	for i := range b.samples {
		sides := []int{i % 2, 1 - i%2} // who goes first may find the agent rested
		for _, side := range sides {
			if err := lab.Pause(ctx, rest); err != nil {
				return both, err
			}
			check, do, err := envoys[i%len(envoys)].flipping(i/len(envoys), up)
			if err != nil {
				return both, err
			}
			if side == 1 {
				check, do = bareCheck, func() error { return t.bare.Agent().UpdateTTL(bareCheck, bareOutput, turned(status, i)) }
			}
			took, err := t.timed(ctx, check, do)
			if err != nil {
				return both, err
			}
			both[side] = append(both[side], took)
		}
	}
	return both, nil
}

// flipping is what makes an endpoint flip, and the check that it is of. The report
// is made beforehand: that is no work of the daemon's.
func (e *envoy) flipping(i int, up bool) (check string, do func() error, err error) {
	report, err := e.flipped(i, up)
	return checkOf(e.endpoints[i].Cluster), func() error { return e.say(report) }, err
}

// turned is another status at each call, so that each update changes the catalog.
func turned(status string, i int) string {
	all := []string{api.HealthPassing, api.HealthCritical}
	return all[(slices.Index(all, status)+i)%2]
}

// timed does something that leads to an update of a check, and measures how long
// it takes until the agent has answered that.
func (t *bed) timed(ctx context.Context, check string, do func() error) (time.Duration, error) {
	answered := t.wire.await(check)
	start := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	select {
	case at := <-answered:
		return at.Sub(start), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(patience):
		return 0, fmt.Errorf("check %s was not updated within %s", check, patience)
	}
}

// checkOf is the check of a cluster: its name before the definition's hash.
func checkOf(cluster string) string { return cluster[:len(cluster)-len("@01234567")] }

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }
