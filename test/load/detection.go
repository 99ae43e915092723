package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// watchedApps is how many apps each way to check has in row 10: all of them fail
	// in each round, independent of one another. A failure is found after anything up
	// to a period, and with the 500 failures of one round a run chance would move the
	// ratio of two medians by 6 %; with four it is 3 %.
	watchedApps = 100
	rounds      = 4
	// failingWithin is the time in which they do: many periods of each check, and so
	// few failures a second that none waits for another.
	failingWithin = 10 * time.Second
)

// quick are the settings that row 10 compares, for the services second and fast.
const quick = `
log_level = "info"
hds {
  node_ids        = ["detector"]
  report_interval = "100ms"
}
service "second-*" {
  check "default" {
    unhealthy_threshold = 1
    http {}
  }
}
service "fast-*" {
  check "default" {
    interval            = "200ms"
    unhealthy_threshold = 1
    http {}
  }
}
`

// byDefault are the default settings.
const byDefault = `
log_level = "info"
hds {
  node_ids = ["detector"]
}
service "default-*" {
  check "default" {
    http {}
  }
}
`

// watched are the apps of one way to check.
type watched struct {
	name   string
	agent  *lab.Consul
	apps   []*lab.App
	delays []time.Duration
}

// detection is what row 10 compares, all of it running side by side.
type detection struct {
	ways      []*watched
	processes []*lab.Process
}

// detections is row 10.
func (b *bench) detections(ctx context.Context) error {
	d := &detection{}
	defer d.close()
	if err := d.start(ctx, b.lab); err != nil {
		return err
	}
	for range rounds * b.runs {
		if err := failAll(ctx, d.ways); err != nil {
			return err
		}
	}
	for _, r := range detectionRows(d.ways) {
		b.add(r)
	}
	return nil
}

// close ends all of it.
func (d *detection) close() {
	for _, p := range d.processes {
		_ = p.Kill()
	}
	for _, w := range d.ways {
		for _, app := range w.apps {
			app.Close()
		}
	}
}

// start starts two agents with a daemon and an Envoy each: the settings
// that are compared share the agent, and the report interval is the daemon's. It
// waits until all is passing.
func (d *detection) start(ctx context.Context, l *lab.Lab) error {
	for _, daemon := range []struct {
		config string
		ways   []string
	}{{quick, []string{"own", "second", "fast"}}, {byDefault, []string{"default"}}} {
		agent, err := d.startDetector(ctx, l, daemon.config)
		if err != nil {
			return err
		}
		for _, name := range daemon.ways {
			w := &watched{name: name, agent: agent}
			d.ways = append(d.ways, w)
			if err := w.register(l); err != nil {
				return err
			}
		}
	}
	return each(d.ways, func(w *watched) error { return w.await(ctx, api.HealthPassing) })
}

// startDetector starts an agent with a daemon and an Envoy. One client waits for
// each service, from one address: the agent has to let it.
func (d *detection) startDetector(ctx context.Context, l *lab.Lab, config string) (*lab.Consul, error) {
	agent, err := l.StartConsul(ctx, lab.ConsulOptions{Config: "limits {\n  http_max_conns_per_client = 2000\n}\n"})
	if err != nil {
		return nil, err
	}
	d.processes = append(d.processes, agent.Process)
	daemon, err := l.StartDaemon(ctx, lab.DaemonOptions{Consul: agent, Config: config})
	if err != nil {
		return nil, err
	}
	d.processes = append(d.processes, daemon.Process)
	if err := daemon.WaitReady(ctx); err != nil {
		return nil, err
	}
	envoy, err := l.StartEnvoy(ctx, lab.EnvoyOptions{NodeID: "detector", HDSAddr: daemon.HDSAddr()})
	if err != nil {
		return nil, err
	}
	d.processes = append(d.processes, envoy.Process)
	return agent, nil
}

// id is the name of an instance, and of its service.
func (w *watched) id(i int) string { return fmt.Sprintf("%s-%03d", w.name, i) }

// register starts the apps and registers them, with a check of the agent's own if
// nobody else checks them.
func (w *watched) register(l *lab.Lab) error {
	for i := range watchedApps {
		app, err := l.StartApp()
		if err != nil {
			return err
		}
		r := &api.AgentServiceRegistration{ID: w.id(i), Name: w.id(i), Address: "127.0.0.1", Port: app.Port()}
		if w.name == "own" {
			r.Check = ownCheck(app.Port())
		}
		if err := w.agent.Client().Agent().ServiceRegister(r); err != nil {
			return err
		}
		w.apps = append(w.apps, app)
	}
	return nil
}

// failAll has every app fail once, each at a moment of its own, measures how long
// it takes to the catalog, and mends them.
func failAll(ctx context.Context, ways []*watched) error {
	err := each(ways, func(w *watched) error {
		delays, err := w.fail(ctx)
		w.delays = append(w.delays, delays...)
		return err
	})
	if err != nil {
		return err
	}
	for _, w := range ways {
		for _, app := range w.apps {
			app.SetStatus(200)
		}
	}
	return each(ways, func(w *watched) error { return w.await(ctx, api.HealthPassing) })
}

// fail has the apps fail, and tells how long each took to be critical.
func (w *watched) fail(ctx context.Context) ([]time.Duration, error) {
	delays := make([]time.Duration, len(w.apps))
	return delays, each(indexes(w.apps), func(i int) error {
		if err := lab.Pause(ctx, rand.N(failingWithin)); err != nil {
			return err
		}
		start := time.Now()
		w.apps[i].SetStatus(500)
		err := w.until(ctx, i, api.HealthCritical)
		delays[i] = time.Since(start)
		return err
	})
}

// await waits until all instances have a status in the catalog.
func (w *watched) await(ctx context.Context, status string) error {
	return each(indexes(w.apps), func(i int) error { return w.until(ctx, i, status) })
}

// until waits until the catalog shows a status of an instance's check, by blocking
// queries as routers make them.
func (w *watched) until(ctx context.Context, i int, status string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	q := (&api.QueryOptions{WaitTime: patience}).WithContext(ctx)
	for {
		checks, meta, err := w.agent.Client().Health().Checks(w.id(i), q)
		if err != nil {
			return fmt.Errorf("waiting until %s is %s: %w", w.id(i), status, err)
		}
		if len(checks) == 1 && checks[0].Status == status {
			return nil
		}
		q.WaitIndex = meta.LastIndex
	}
}

// each calls f for all values at once, and returns an error of theirs.
func each[T any](values []T, f func(T) error) error {
	var wg sync.WaitGroup
	errs := make(chan error, len(values))
	for _, v := range values {
		wg.Go(func() { errs <- f(v) })
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func indexes[T any](of []T) []int {
	out := make([]int, len(of))
	for i := range out {
		out[i] = i
	}
	return out
}

// detectionRows are the rows of what was measured, the ways in the order in which
// they are started.
func detectionRows(ways []*watched) []row {
	own, second, fast, steady := ways[0].delays, ways[1].delays, ways[2].delays, ways[3].delays
	compared := func(measure string, ours []time.Duration, target string, most float64) row {
		ratio := float64(median(ours)) / float64(median(own))
		return row{
			number: "10", measure: fmt.Sprintf("failure → catalog, p50 of %d: %s", len(ours), measure), ours: milliseconds(median(ours)),
			floor: milliseconds(median(own)), ratio: fmt.Sprintf("%.2f", ratio), target: target, met: ratio <= most,
		}
	}
	return []row{
		compared("probes each 1 s, once, reports each 100 ms", second, "≤ 1.25 × Consul's own HTTP check each 1 s", 1.25),
		compared("probes each 200 ms, once, reports each 100 ms", fast, "≤ 0.35 × Consul's own HTTP check each 1 s", 0.35),
		compared("default settings: 1 s, twice in a row, reports each 500 ms", steady, "", 0),
	}
}
