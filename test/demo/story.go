package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
	"golang.org/x/sync/errgroup"

	"github.com/consul-hds/consul-hds/test/lab"
)

// stepTimeout bounds each step of the story; with default settings one takes
// up to five seconds.
const stepTimeout = 15 * time.Second

// step is something that happens to an instance, and what must follow.
type step struct {
	what   string
	do     func(ctx context.Context) error
	id     string // of the instance that it happens to
	status string // that its check must then have
}

// tell tells the story.
func (d *demo) tell(ctx context.Context) error {
	d.start = time.Now()
	if err := d.introduce(ctx); err != nil {
		return fmt.Errorf("the beginning, two healthy instances: %w", err)
	}
	web1, web2 := d.apps["web-1"], d.apps["web-2"]
	steps := []step{
		{"web-1 starts to answer 500",
			func(ctx context.Context) error { return web1.SetStatus(ctx, 500) }, "web-1", api.HealthCritical},
		{"web-1 recovers",
			func(ctx context.Context) error { return web1.SetStatus(ctx, 200) }, "web-1", api.HealthPassing},
		{"web-2 is killed",
			func(context.Context) error { return web2.Kill() }, "web-2", api.HealthCritical},
		{"web-2 is started again",
			func(context.Context) error { return web2.Start() }, "web-2", api.HealthPassing},
	}
	for _, s := range steps {
		if err := d.play(ctx, s); err != nil {
			return fmt.Errorf("step %q: %w", s.what, err)
		}
	}
	d.say("The end: both instances are passing, and Consul routes to both.")
	return nil
}

// introduce registers both instances and waits until both are passing.
func (d *demo) introduce(ctx context.Context) error {
	d.say("web-1 and web-2 are registered, with meta hds=http, hds_path=/health")
	begin := time.Now()
	both := []step{{id: "web-1", status: api.HealthPassing}, {id: "web-2", status: api.HealthPassing}}
	for _, s := range both {
		if err := d.register(ctx, s.id); err != nil {
			return err
		}
	}
	// The check first: an instance without any check is in DNS too.
	for _, see := range []func(context.Context, step) error{d.seeCheck, d.seePassing, d.seeDNS} {
		for _, s := range both {
			if err := lab.Eventually(ctx, stepTimeout, func() error { return see(ctx, s) }); err != nil {
				return fmt.Errorf("%s: %w", s.id, err)
			}
		}
	}
	d.say("  → both passing, in health/service/web?passing and in DNS after %d ms", time.Since(begin).Milliseconds())
	return d.sayWhy(ctx, both[0])
}

// say prints a line of the story with its time.
func (d *demo) say(format string, args ...any) {
	fmt.Printf("[%5.1f s] %s\n", time.Since(d.start).Seconds(), fmt.Sprintf(format, args...))
}

// play does a step and measures when Consul's users see what must follow.
func (d *demo) play(ctx context.Context, s step) error {
	d.say("%s", s.what)
	begin := time.Now()
	if err := s.do(ctx); err != nil {
		return err
	}
	views := []struct {
		what string
		see  func(context.Context, step) error
	}{
		{"the check is not " + s.status, d.seeCheck},
		{"health/service/web?passing is unchanged", d.seePassing},
		{"DNS is unchanged", d.seeDNS},
	}
	after := make([]time.Duration, len(views))
	g, gctx := errgroup.WithContext(ctx)
	for i, v := range views {
		g.Go(func() error {
			if err := lab.Eventually(gctx, stepTimeout, func() error { return v.see(gctx, s) }); err != nil {
				return fmt.Errorf("%s: %w", v.what, err)
			}
			after[i] = time.Since(begin)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	verb := "back in"
	if s.status != api.HealthPassing {
		verb = "gone from"
	}
	d.say("  → %s %s after %d ms; %s ?passing after %d ms, %s DNS after %d ms",
		s.id, s.status, after[0].Milliseconds(), verb, after[1].Milliseconds(), verb, after[2].Milliseconds())
	return d.sayWhy(ctx, s)
}

// sayWhy prints what the check says.
func (d *demo) sayWhy(ctx context.Context, s step) error {
	check, err := d.check(ctx, s.id)
	if err != nil {
		return err
	}
	d.say("    %s: %s", check.Name, strings.Join(strings.Fields(check.Output), " "))
	return nil
}

// check is the check that the agent has for an instance.
func (d *demo) check(ctx context.Context, id string) (*api.AgentCheck, error) {
	q := (&api.QueryOptions{}).WithContext(ctx)
	checks, err := d.consul.Client().Agent().ChecksWithFilterOpts("", q)
	if err != nil {
		return nil, err
	}
	check, ok := checks["hds:"+id]
	if !ok {
		return nil, fmt.Errorf("the agent has no check hds:%s", id)
	}
	return check, nil
}

func (d *demo) seeCheck(ctx context.Context, s step) error {
	check, err := d.check(ctx, s.id)
	if err == nil && check.Status != s.status {
		err = fmt.Errorf("it is %s: %s", check.Status, check.Output)
	}
	return err
}

func (d *demo) seePassing(ctx context.Context, s step) error {
	q := (&api.QueryOptions{}).WithContext(ctx)
	entries, _, err := d.consul.Client().Health().Service("web", "", true, q)
	if err != nil {
		return err
	}
	there := slices.ContainsFunc(entries, func(e *api.ServiceEntry) bool { return e.Service.ID == s.id })
	return wantPresence(s, there)
}

func (d *demo) seeDNS(ctx context.Context, s step) error {
	ports, err := d.consul.DNSPorts(ctx, "web")
	if err != nil {
		return err
	}
	return wantPresence(s, slices.Contains(ports, d.apps[s.id].Port()))
}

func wantPresence(s step, there bool) error {
	if want := s.status == api.HealthPassing; there != want {
		return fmt.Errorf("%s is in it: %t, want %t", s.id, there, want)
	}
	return nil
}
