package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/prometheus/procfs"

	"github.com/consul-hds/consul-hds/config"
	"github.com/consul-hds/consul-hds/test/lab"
	"github.com/consul-hds/consul-hds/test/load/standin"
)

const (
	// perEnvoy is how many checks an Envoy has for row 9: an instance, and its sidecar.
	perEnvoy = 50
	// growthSettling is how long the daemon goes on after its start before it is measured,
	// and growthWindow how long each run of its CPU time takes: five runs are the minute in
	// which it does all that it does again and again, the comparison with the catalog too.
	growthSettling = 3 * time.Second
	growthWindow   = 12 * time.Second
	// perCheckMost is how much more a check may cost where there are ten times as many.
	perCheckMost = 1.15
	// judgedFrom is the number of checks from which on growth is judged: below it, a
	// check's cost is lost in what the daemon costs without any.
	judgedFrom = 100
)

// agent is what the daemon works for: a real one, or a stand-in for it.
type agent struct {
	name  string
	start func(*bench, context.Context) (address string, end func(), err error)
	sizes []int
}

func agents() []agent {
	return []agent{
		{"a real agent", (*bench).realAgent, []int{0, 10, 100, 1000}},
		{"the stand-in", (*bench).standIn, []int{0, 10, 100, 1000, 10000}},
	}
}

func (b *bench) realAgent(ctx context.Context) (string, func(), error) {
	c, err := b.lab.StartConsul(ctx, lab.ConsulOptions{})
	if err != nil {
		return "", nil, err
	}
	return c.HTTPAddr(), func() { _ = c.Kill() }, nil
}

func (b *bench) standIn(context.Context) (string, func(), error) {
	a, err := standin.Start()
	if err != nil {
		return "", nil, err
	}
	return a.HTTPAddr(), func() { _ = a.Close() }, nil
}

// cost is what the daemon costs in the steady state.
type cost struct {
	// cpu is time of the processor in a second; live is the heap after a collection;
	// resident is the size of the process.
	cpu, live, resident float64
}

// growth is row 9.
func (b *bench) growth(ctx context.Context) error {
	for _, a := range agents() {
		costs := make([]cost, len(a.sizes))
		for i, n := range a.sizes {
			var err error
			if costs[i], err = b.costOf(ctx, a, n); err != nil {
				return fmt.Errorf("%d checks on %s: %w", n, a.name, err)
			}
		}
		for _, what := range []struct {
			name, unit string
			scale      float64
			of         func(cost) float64
		}{
			{"CPU time a second", "ms", 1e-3, func(c cost) float64 { return c.cpu }},
			{"live heap", "MB", 1e6, func(c cost) float64 { return c.live }},
			{"resident size", "MB", 1e6, func(c cost) float64 { return c.resident }},
		} {
			values := make([]float64, len(costs))
			for i, c := range costs {
				values[i] = what.of(c)
			}
			b.add(growthRow(what.name+", "+a.name, what.unit, what.scale, a.sizes, values))
		}
	}
	return nil
}

// growthRow tells what there is at each size, what that is for a check beyond the
// first size, which is none, and how the latter grows.
func growthRow(measure, unit string, scale float64, sizes []int, values []float64) row {
	r := row{number: "9", target: fmt.Sprintf("≤ %.2f × a tenth as many, a check, from %d on", perCheckMost, judgedFrom), met: true}
	var counts, totals, shares, steps []string
	last := math.NaN()
	for i, n := range sizes {
		counts, totals = append(counts, strconv.Itoa(n)), append(totals, fmt.Sprintf("%.1f", values[i]/scale))
		if n == 0 {
			continue
		}
		share := (values[i] - values[0]) / float64(n)
		shares = append(shares, fmt.Sprintf("%.1f", share/scale*1000))
		if step := share / last; !math.IsNaN(step) {
			steps = append(steps, fmt.Sprintf("%.2f", step))
			r.met = r.met && (n/10 < judgedFrom || step <= perCheckMost)
		}
		last = share
	}
	list := func(s []string) string { return strings.Join(s, " / ") }
	r.measure, r.ours = measure+", "+list(counts)+" checks", list(totals)+" "+unit
	r.floor, r.ratio = list(shares)+" "+map[string]string{"ms": "µs", "MB": "kB"}[unit]+" a check", list(steps)
	return r
}

// costOf starts a daemon with n checks, and measures it in the steady state.
func (b *bench) costOf(ctx context.Context, a agent, n int) (c cost, err error) {
	address, end, err := a.start(b, ctx)
	if err != nil {
		return c, err
	}
	defer end()
	client, err := api.NewClient(&api.Config{Scheme: "http", Address: address})
	if err != nil {
		return c, err
	}
	groups := (n + perEnvoy - 1) / perEnvoy
	if err := registerGroups(client, groups); err != nil {
		return c, err
	}
	daemon, err := b.lab.StartDaemon(ctx, lab.DaemonOptions{Config: growthConfig(address, max(1, min(n, perEnvoy)))})
	if err != nil {
		return c, err
	}
	defer func() { _ = daemon.Kill() }()
	if err := daemon.WaitReady(ctx); err != nil {
		return c, err
	}
	for i := range groups {
		e, err := reporting(ctx, daemon, groupName(i)+"-sidecar-proxy", min(n, perEnvoy))
		if err != nil {
			return c, err
		}
		defer e.close()
	}
	if err := awaitReported(ctx, daemon, n); err != nil {
		return c, err
	}
	return b.steadyCost(ctx, daemon)
}

func groupName(i int) string { return fmt.Sprintf("grown-%04d", i) }

// registerGroups registers instances with their sidecars. One instance has as many
// checks as an Envoy is to have, by the daemon's config.
func registerGroups(client *api.Client, groups int) error {
	for i := range groups {
		id := groupName(i)
		err := client.Agent().ServiceRegister(&api.AgentServiceRegistration{ID: id, Name: id, Address: "127.0.0.1", Port: 10000})
		if err != nil {
			return err
		}
		err = client.Agent().ServiceRegister(&api.AgentServiceRegistration{
			ID: id + "-sidecar-proxy", Name: id + "-sidecar-proxy", Kind: api.ServiceKindConnectProxy, Address: "127.0.0.1", Port: 21000,
			Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: id, DestinationServiceID: id, LocalServiceAddress: "127.0.0.1", LocalServicePort: 10000},
			Check: &api.AgentServiceCheck{Name: "alias", AliasService: id},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// growthConfig is all defaults but for what is measured.
func growthConfig(address string, checks int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "log_level = \"info\"\nadmin {\n  enable_debug = true\n}\nconsul {\n  address = %q\n}\nservice \"grown-*\" {\n", address)
	for i := range checks {
		fmt.Fprintf(&b, "  check \"c%02d\" {\n    http {\n      path = \"/%02d\"\n    }\n  }\n", i, i)
	}
	return b.String() + "}\n"
}

// reporting is an Envoy that reports what it is asked for at the default pace, all
// of it healthy.
func reporting(ctx context.Context, daemon *lab.Daemon, id string, n int) (*envoy, error) {
	e, err := connect(daemon.HDSAddr(), id, nil)
	if err != nil {
		return nil, err
	}
	spec, _, err := e.awaitSpec(ctx, n)
	if err == nil {
		err = e.apply(spec)
	}
	if err != nil {
		e.close()
		return nil, err
	}
	e.reportEvery(config.Default().HDS.ReportInterval)
	return e, nil
}

// awaitReported waits until n checks of the daemon pass. It asks rarely, and for
// what costs little.
func awaitReported(ctx context.Context, daemon *lab.Daemon, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	want := fmt.Sprintf("consul_hds_checks{phase=\"reported\",status=\"passing\"} %v\n", float64(n))
	for {
		metrics, err := daemon.Get(ctx, "/metrics")
		if strings.Contains(string(metrics), want) {
			return nil
		}
		if ended := lab.Pause(ctx, time.Second); ended != nil {
			return fmt.Errorf("waiting until %d checks pass: %w", n, errors.Join(ended, err))
		}
	}
}

// steadyCost measures the daemon as it is.
func (b *bench) steadyCost(ctx context.Context, daemon *lab.Daemon) (c cost, err error) {
	if err := lab.Pause(ctx, growthSettling); err != nil {
		return c, err
	}
	before, err := daemon.CPUTime()
	if err != nil {
		return c, err
	}
	start := time.Now()
	if err := lab.Pause(ctx, time.Duration(b.runs)*growthWindow); err != nil {
		return c, err
	}
	took := time.Since(start)
	after, err := daemon.CPUTime()
	if err != nil {
		return c, err
	}
	c.cpu = (after - before).Seconds() / took.Seconds()
	if c.resident, err = residentOf(daemon); err != nil {
		return c, err
	}
	c.live, err = liveOf(ctx, daemon)
	return c, err
}

func residentOf(daemon *lab.Daemon) (float64, error) {
	proc, err := procfs.NewProc(daemon.Pid())
	if err != nil {
		return 0, err
	}
	stat, err := proc.Stat()
	return float64(stat.ResidentMemory()), err
}

// liveOf is the daemon's heap after two collections: what pools hold goes with the
// second.
func liveOf(ctx context.Context, daemon *lab.Daemon) (float64, error) {
	var profile []byte
	for range 2 {
		var err error
		if profile, err = daemon.Get(ctx, "/debug/pprof/heap?gc=1&debug=1"); err != nil {
			return 0, err
		}
	}
	_, rest, _ := strings.Cut(string(profile), "# HeapAlloc = ")
	number, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseFloat(number, 64)
}
