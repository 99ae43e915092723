package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
	"github.com/consul-hds/consul-hds/test/lab/mesh"
)

// way is how the backends of a mesh are checked.
type way struct {
	name         string
	registration mesh.Registration
}

func waysToCheck() []way {
	meta := func(more ...string) map[string]string {
		m := map[string]string{"hds": "http", "hds_path": mesh.HealthPath}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	return []way{
		{"consul-hds, defaults", mesh.Registration{Meta: meta()}},
		{"consul-hds, 200ms, threshold 1", mesh.Registration{Meta: meta("hds_interval", "200ms", "hds_unhealthy_threshold", "1")}},
		{"Consul, 1s, exposed path", mesh.Registration{OwnCheck: time.Second}},
	}
}

// flips are what users have seen of a backend whose health turned bad, and good
// again, so many times.
type flips struct {
	requests, failed int
	// late is how many requests the bad backend got after a second without any.
	late int
	// left is how long after its health turned bad its last answer came, and back
	// how long after its recovery the first.
	left, back []time.Duration
}

// mesh prints for how long a backend gets traffic whose health has turned bad
// while it still serves. The backend is in a network namespace, where the machine
// allows it.
func (f *figures) mesh(ctx context.Context) error {
	m, err := mesh.Start(ctx, f.lab, mesh.Options{Backends: waysToCheck()[0].registration})
	if err != nil {
		return err
	}
	defer func() { _ = m.Close() }()
	t := table{
		title: fmt.Sprintf("From bad health to a backend's last request through a sidecar and an ingress gateway, and back; %d of each,\n"+
			"under a steady load of 8 users, while the backend goes on to serve", f.runs),
		columns: []string{"checked by", "requests", "failed", "last p50", "max", "later", "back p50", "max"},
	}
	var broken []error
	for _, way := range waysToCheck() {
		seen, err := f.flipsOf(ctx, m, way)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		t.row(way.name, seen.requests, seen.failed, median(seen.left), longest(seen.left), seen.late, median(seen.back), longest(seen.back))
		broken = append(broken, seen.fault(way.name))
	}
	s := &stage{lab: f.lab, consul: m.Hidden.Consul, daemon: m.Hidden.Daemon, client: m.Hidden.Consul.Client(),
		setting: "sidecars, a server and three client agents"}
	return errors.Join(f.print(ctx, s, "mesh", t), errors.Join(broken...))
}

// fault is an error if a request failed, or reached a backend that was out.
func (s flips) fault(way string) error {
	if s.failed+s.late > 0 {
		return fmt.Errorf("%s: %d requests failed, %d went to a backend that was out", way, s.failed, s.late)
	}
	return nil
}

// flipsOf checks the backends in a way, and flips the health of one of them under
// load.
func (f *figures) flipsOf(ctx context.Context, m *mesh.Mesh, way way) (seen flips, err error) {
	for _, b := range []*mesh.Backend{m.Plain, m.Hidden} {
		if err := b.Register(way.registration); err != nil {
			return seen, err
		}
		if err := settled(ctx, b, way.registration); err != nil {
			return seen, err
		}
	}
	load := m.StartLoad()
	defer load.Stop()
	if err := load.AwaitAll(ctx, patience, m.Plain.ID, m.Hidden.ID); err != nil {
		return seen, err
	}
	start := time.Now()
	for range f.runs {
		if err := lab.Pause(ctx, rand.N(1500*time.Millisecond)); err != nil {
			return seen, err
		}
		if err := seen.flip(ctx, load, m.Hidden); err != nil {
			return seen, err
		}
	}
	all := load.Since(start)
	seen.requests, seen.failed = len(all), len(all.Failed())
	return seen, nil
}

// settled waits until a backend has the check of its registration, by an answer
// and not adopted only, and all its checks are passing.
func settled(ctx context.Context, b *mesh.Backend, r mesh.Registration) error {
	return lab.Eventually(ctx, patience, func() error {
		checks, err := b.Consul.Client().Agent().Checks()
		if err != nil {
			return err
		}
		if _, ours := checks[b.CheckID()]; ours == (r.OwnCheck > 0) {
			return fmt.Errorf("%s is still checked in another way", b.ID)
		}
		for id, check := range checks {
			if check.Status != api.HealthPassing {
				return fmt.Errorf("%s is %s: %s", id, check.Status, check.Output)
			}
		}
		status, err := b.Daemon.Status(ctx)
		if check, probed := status.Check(b.CheckID()); err == nil && probed && check.Phase != "reported" {
			return fmt.Errorf("%s is %s", b.CheckID(), check.Phase)
		}
		return err
	})
}

// flip turns the health of a backend bad and good again.
func (s *flips) flip(ctx context.Context, load *mesh.Load, b *mesh.Backend) error {
	turned := time.Now()
	if err := b.App.SetHealth(ctx, 503); err != nil {
		return err
	}
	if err := load.AwaitNone(ctx, b.ID, patience); err != nil {
		return err
	}
	out := time.Now()
	s.left = append(s.left, load.Since(turned).By(b.ID).LastAfter(turned))
	if err := lab.Pause(ctx, time.Second); err != nil {
		return err
	}
	s.late += len(load.Since(out).By(b.ID))
	mended := time.Now()
	if err := b.App.SetHealth(ctx, 200); err != nil {
		return err
	}
	if err := load.AwaitAll(ctx, patience, b.ID); err != nil {
		return err
	}
	s.back = append(s.back, load.Since(mended).By(b.ID)[0].At.Sub(mended))
	return nil
}
