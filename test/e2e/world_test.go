// Package e2e drives the built daemon against a real Consul and real Envoys,
// and asserts on what Consul's users see.
package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// patience bounds every wait for something that has no bound of its own in the
// contract.
const patience = 20 * time.Second

// theLab is shared by all tests: it holds the built daemon. What a test starts
// in it, the test ends.
var theLab *lab.Lab

func TestMain(m *testing.M) {
	lab.AppMain()
	os.Exit(lab.RunTests(m, func(l *lab.Lab) { theLab = l }))
}

// world is a node: an agent, a daemon, and the Envoys that a test starts.
type world struct {
	t      *testing.T
	ctx    context.Context
	consul *lab.Consul
	daemon *lab.Daemon
	// hds is where Envoys connect to if not to the daemon's socket.
	hds    string
	client *api.Client
	// catalog is what the catalog is read with: client, or that of the server
	// in a cluster.
	catalog *api.Client
}

// quick makes probes fast, for tests that are not about the defaults.
const quick = `
defaults {
  interval = "200ms"
  timeout  = "500ms"
}
`

// theNode is the id of the node Envoy; every world's config names it.
const theNode = "node-envoy"

// newWorld starts an agent and a daemon.
func newWorld(t *testing.T, config string) *world {
	t.Helper()
	w := newConsul(t, lab.ConsulOptions{})
	w.startDaemon(config)
	return w
}

// newConsul starts an agent alone.
func newConsul(t *testing.T, opts lab.ConsulOptions) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx}
	var err error
	w.consul, err = theLab.StartConsul(ctx, opts)
	require.NoError(t, err)
	w.ends(w.consul.Process)
	w.client = w.consul.Client()
	w.catalog = w.consul.Catalog()
	return w
}

// ends ends a process with the test, and shows its log if the test failed.
func (w *world) ends(p *lab.Process) {
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("the end of the log of %s:\n%s", p.Name(), p.LogTail(60))
		}
		assert.NoError(w.t, p.Kill())
	})
}

func (w *world) startDaemon(config string, env ...string) {
	w.t.Helper()
	w.startDaemonWith(lab.DaemonOptions{Consul: w.consul, Config: withNode(config), Env: env})
}

// startDaemonWith starts a daemon by options that are not the usual ones.
func (w *world) startDaemonWith(opts lab.DaemonOptions) {
	w.t.Helper()
	d, err := theLab.StartDaemon(w.ctx, opts)
	require.NoError(w.t, err)
	w.daemon = d
	w.ends(d.Process)
	w.t.Cleanup(func() {
		if strings.Contains(d.Log(), "DATA RACE") || strings.Contains(d.Log(), "panic:") {
			w.t.Errorf("the daemon raced or panicked:\n%s", d.Log())
		}
	})
	require.NoError(w.t, d.WaitReady(w.ctx))
}

// withNode adds theNode to a config.
func withNode(config string) string {
	if strings.Contains(config, "node_ids") {
		return config
	}
	return config + "\nhds {\n  node_ids = [\"" + theNode + "\"]\n}\n"
}

// startEnvoy starts an Envoy and waits until the daemon knows it.
func (w *world) startEnvoy(id string) *lab.Envoy {
	w.t.Helper()
	e, err := theLab.StartEnvoy(w.ctx, lab.EnvoyOptions{NodeID: id, HDSAddr: cmp.Or(w.hds, w.daemon.HDSAddr())})
	require.NoError(w.t, err)
	w.ends(e.Process)
	w.eventually(patience, func() error {
		for _, o := range w.status().Observers {
			if o.NodeID == id {
				return nil
			}
		}
		return fmt.Errorf("no stream of %s", id)
	})
	return e
}

func (w *world) app() *lab.App {
	w.t.Helper()
	a, err := theLab.StartApp()
	require.NoError(w.t, err)
	w.t.Cleanup(a.Close)
	return a
}

// eventually waits for f to succeed, and returns how long it took.
func (w *world) eventually(within time.Duration, f func() error) time.Duration {
	w.t.Helper()
	start := time.Now()
	require.NoError(w.t, lab.Eventually(w.ctx, within, f))
	return time.Since(start)
}

// never fails the test if f does not succeed all the time.
func (w *world) always(during time.Duration, f func() error) {
	w.t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		require.NoError(w.t, f())
	}
}

func (w *world) status() lab.Status {
	w.t.Helper()
	s, err := w.daemon.Status(w.ctx)
	require.NoError(w.t, err)
	return s
}

// register registers an instance with an app's port.
func (w *world) register(id string, port int, meta map[string]string) {
	w.t.Helper()
	name, _, _ := strings.Cut(id, "-")
	require.NoError(w.t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: id, Name: name, Address: "127.0.0.1", Port: port, Meta: meta,
	}))
}

func (w *world) deregister(id string) {
	w.t.Helper()
	require.NoError(w.t, w.client.Agent().ServiceDeregister(id))
}

// checks are the agent's checks by id.
func (w *world) checks() map[string]*api.AgentCheck {
	w.t.Helper()
	c, err := w.client.Agent().Checks()
	require.NoError(w.t, err)
	return c
}

// check is one of the agent's checks, or nil.
func (w *world) check(id string) *api.AgentCheck { return w.checks()[id] }

// has says that a check has a status, in the agent and in the catalog; an empty
// status is no check.
func (w *world) has(id, status string) func() error {
	return func() error {
		if err := w.agentHas(id, status)(); err != nil {
			return err
		}
		if got := w.catalogChecks()[id]; got != status {
			return fmt.Errorf("the catalog's check %s is %q, want %q", id, got, status)
		}
		return nil
	}
}

// agentHas is has, of the agent alone.
func (w *world) agentHas(id, status string) func() error {
	return func() error {
		got := ""
		if c := w.check(id); c != nil {
			got = c.Status
		}
		if got != status {
			return fmt.Errorf("the agent's check %s is %q, want %q", id, got, status)
		}
		return nil
	}
}

// all says that several checks have their statuses: has is that of the world, or
// agentHas.
func all(has func(id, status string) func() error, want map[string]string) func() error {
	return func() error {
		for id, status := range want {
			if err := has(id, status)(); err != nil {
				return err
			}
		}
		return nil
	}
}

// catalogChecks are the statuses that the catalog shows for the node.
func (w *world) catalogChecks() map[string]string {
	w.t.Helper()
	list, err := w.consul.CatalogChecks(w.ctx)
	require.NoError(w.t, err)
	out := map[string]string{}
	for _, c := range list {
		out[c.CheckID] = c.Status
	}
	return out
}

// passing are the ids of the instances of a service that health/service?passing
// lists, in order.
func (w *world) passing(service string) []string {
	w.t.Helper()
	entries, _, err := w.catalog.Health().Service(service, "", true, nil)
	require.NoError(w.t, err)
	ids := map[string]bool{}
	for _, e := range entries {
		ids[e.Service.ID] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

// dns are the ports that DNS gives for a service, in order.
func (w *world) dns(service string) []int {
	w.t.Helper()
	ports, err := w.consul.DNSPorts(w.ctx, service)
	require.NoError(w.t, err)
	slices.Sort(ports)
	return ports
}

// problems are the messages about an instance.
func (w *world) problems(serviceID string) (out []string) {
	w.t.Helper()
	for _, p := range w.status().Problems {
		if p.ServiceID == serviceID {
			out = append(out, p.Message)
		}
	}
	return out
}
