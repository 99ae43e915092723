// Command figures measures what the docs claim, on a real Consul and a real
// Envoy: how long a failure takes to reach Consul's users, and what a steady
// node writes. It prints tables; nothing in it passes or fails by a time.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

const envoyID = "figures-envoy"

func main() {
	runs := flag.Int("runs", 20, "how often each failure is made")
	steady := flag.Duration("steady", time.Minute, "how long steady instances are watched")
	flag.Parse()
	ctx, stop := lab.SignalContext(context.Background())
	defer stop()
	if err := measure(ctx, *runs, *steady); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

// stage is a node with a daemon and a node Envoy, at default settings.
type stage struct {
	lab    *lab.Lab
	consul *lab.Consul
	daemon *lab.Daemon
	client *api.Client
}

func measure(ctx context.Context, runs int, steady time.Duration) (err error) {
	s := &stage{}
	if s.lab, err = lab.New(ctx, lab.Options{Progress: os.Stderr}); err != nil {
		return err
	}
	defer s.lab.Close()
	if err := s.setUp(ctx); err != nil {
		return err
	}
	fmt.Printf("consul %s, envoy %s, default settings, a node Envoy\n\n", "1.13.9", s.envoyVersion(ctx))
	if err := s.delays(ctx, runs); err != nil {
		return err
	}
	return s.writes(ctx, 20, steady)
}

func (s *stage) setUp(ctx context.Context) (err error) {
	if s.consul, err = s.lab.StartConsul(ctx, lab.ConsulOptions{}); err != nil {
		return err
	}
	s.client = s.consul.Client()
	config := fmt.Sprintf("log_level = \"info\"\nhds {\n  node_ids = [%q]\n}\n", envoyID)
	if s.daemon, err = s.lab.StartDaemon(ctx, lab.DaemonOptions{Consul: s.consul, Config: config}); err != nil {
		return err
	}
	if err = s.daemon.WaitReady(ctx); err != nil {
		return err
	}
	_, err = s.lab.StartEnvoy(ctx, lab.EnvoyOptions{NodeID: envoyID, HDSAddr: s.daemon.HDSAddr()})
	return err
}

func (s *stage) envoyVersion(ctx context.Context) string {
	version := "?"
	_ = lab.Eventually(ctx, 10*time.Second, func() error {
		st, err := s.daemon.Status(ctx)
		if err != nil || len(st.Observers) == 0 {
			return fmt.Errorf("no observer yet: %w", err)
		}
		version = st.Observers[0].Envoy
		return nil
	})
	return version
}

func (s *stage) register(id string, port int, meta map[string]string) error {
	return s.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: id, Name: id, Address: "127.0.0.1", Port: port, Meta: meta,
	})
}

// until waits until the catalog, which routers read, shows a status; it returns
// how long that took.
func (s *stage) until(ctx context.Context, id, status string) (time.Duration, error) {
	start := time.Now()
	q := (&api.QueryOptions{WaitTime: 10 * time.Second}).WithContext(ctx)
	for time.Since(start) < time.Minute {
		checks, meta, err := s.client.Health().Checks(id, q)
		if err != nil {
			return 0, err
		}
		if len(checks) == 1 && checks[0].Status == status {
			return time.Since(start), nil
		}
		q.WaitIndex = meta.LastIndex
	}
	return 0, fmt.Errorf("%s is not %s within a minute", id, status)
}

// delays prints how long each failure and each recovery takes to reach the
// catalog. Each begins at a random moment of the probe's period.
func (s *stage) delays(ctx context.Context, runs int) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "failure\tdetected p50\tmax\trecovered p50\tmax\truns\t")
	for i, f := range failures() {
		down, up, err := s.delaysOf(ctx, fmt.Sprintf("f%d", i), f, runs)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t\n", f.name, median(down), slices.Max(down), median(up), slices.Max(up), runs)
	}
	return w.Flush()
}

func (s *stage) delaysOf(ctx context.Context, id string, f failure, runs int) (down, up []time.Duration, err error) {
	app, err := f.start(s.lab)
	if err != nil {
		return nil, nil, err
	}
	defer app.close()
	if err := s.register(id, app.port, map[string]string{"hds": f.kind}); err != nil {
		return nil, nil, err
	}
	if _, err := s.until(ctx, id, api.HealthPassing); err != nil {
		return nil, nil, err
	}
	for range runs {
		for _, turn := range []struct {
			do     func()
			status string
			took   *[]time.Duration
		}{{app.fail, api.HealthCritical, &down}, {app.mend, api.HealthPassing, &up}} {
			time.Sleep(rand.N(1500 * time.Millisecond))
			turn.do()
			took, err := s.until(ctx, id, turn.status)
			if err != nil {
				return nil, nil, err
			}
			*turn.took = append(*turn.took, took.Round(time.Millisecond))
		}
	}
	return down, up, s.client.Agent().ServiceDeregister(id)
}

func median(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

// writes prints what n steady instances make the daemon write.
func (s *stage) writes(ctx context.Context, n int, during time.Duration) error {
	for i := range n {
		app, err := s.lab.StartApp()
		if err != nil {
			return err
		}
		id := fmt.Sprint("steady", i)
		if err := s.register(id, app.Port(), map[string]string{"hds": "http"}); err != nil {
			return err
		}
		if _, err := s.until(ctx, id, api.HealthPassing); err != nil {
			return err
		}
	}
	time.Sleep(5 * time.Second)
	before, err := s.written(ctx)
	if err != nil {
		return err
	}
	time.Sleep(during)
	after, err := s.written(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("\n%d steady instances: %.0f writes to the agent in %s, all refreshes: %t\n",
		n, after.all-before.all, during, after.all-before.all == after.refreshes-before.refreshes)
	return nil
}
