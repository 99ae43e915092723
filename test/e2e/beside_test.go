package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// shortTTL has every check refreshed each four seconds, and expired after twelve.
const shortTTL = `
checks {
  ttl = "12s"
}
`

// refreshes is a time in which every check of shortTTL is refreshed.
const refreshes = 6 * time.Second

// flips bounds how long a flip of a quick probe takes to show.
var flips = bound(200*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond, 2) + slack

// routed says that health/service?passing lists these instances and no others.
func (w *world) routed(service string, ids ...string) func() error {
	return func() error {
		if got := w.passing(service); !slices.Equal(got, ids) {
			return fmt.Errorf("instances %q of %s are passing, want %q", got, service, ids)
		}
		return nil
	}
}

// aside is what a check says that is not ours: all that we might spoil.
type aside struct{ name, notes, kind, status, output string }

func (w *world) aside(id string) aside {
	w.t.Helper()
	c := w.check(id)
	require.NotNil(w.t, c, id)
	return aside{c.Name, c.Notes, c.Type, c.Status, c.Output}
}

// forgotten says that the daemon knows nothing of an instance any more.
func (w *world) forgotten(serviceID string) func() error {
	return func() error {
		for _, c := range w.status().Checks {
			if c.ServiceID == serviceID {
				return fmt.Errorf("the status has %+v", c)
			}
		}
		if p := w.problems(serviceID); len(p) != 0 {
			return fmt.Errorf("the problems of %s are %q", serviceID, p)
		}
		return nil
	}
}

// quiet says that the daemon has logged no warning and no error in a part of
// its log.
func quiet(log string) error {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "[WARN]") || strings.Contains(line, "[ERROR]") {
			return fmt.Errorf("the daemon has logged %s", line)
		}
	}
	return nil
}

func TestMaintenanceOfAService(t *testing.T) {
	t.Parallel() // it watches for longer than a TTL
	w := newWorld(t, shortTTL+quick)
	w.maintained("_service_maintenance:web-1", []string{"web-2"},
		func() error { return w.client.Agent().EnableServiceMaintenance("web-1", "a new rack") },
		func() error { return w.client.Agent().DisableServiceMaintenance("web-1") })
}

func TestMaintenanceOfTheNode(t *testing.T) {
	t.Parallel() // it watches for longer than a TTL
	w := newWorld(t, shortTTL+quick)
	w.maintained("_node_maintenance", nil,
		func() error { return w.client.Agent().EnableNodeMaintenance("a new rack") },
		w.client.Agent().DisableNodeMaintenance)
}

// maintained puts web-1 into maintenance, by a check of Consul's own that leaves
// only rest in routing, and asserts that neither check heeds the other.
func (w *world) maintained(theirs string, rest []string, on, off func() error) {
	w.t.Helper()
	w.startEnvoy(theNode)
	one, two := w.app(), w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.register("web-2", two.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, w.has("hds:web-2", api.HealthPassing))

	require.NoError(w.t, on())
	w.eventually(slack, w.routed("web", rest...))
	index := w.checkIndexes()[theirs]
	require.NotZero(w.t, index)
	w.always(13*time.Second, w.has("hds:web-1", api.HealthPassing)) // which takes refreshes
	one.SetStatus(500)
	w.eventually(flips, w.has("hds:web-1", api.HealthCritical))
	one.SetStatus(200)
	w.eventually(flips, w.has("hds:web-1", api.HealthPassing))
	require.NoError(w.t, w.routed("web", rest...)(), "a passing check of ours ends no maintenance")
	one.SetStatus(500)
	w.eventually(flips, w.has("hds:web-1", api.HealthCritical))
	assert.Equal(w.t, index, w.checkIndexes()[theirs], "nobody has written Consul's own check")
	assert.Equal(w.t, "a new rack", w.check(theirs).Notes)
	assert.Empty(w.t, w.status().Problems)

	require.NoError(w.t, off())
	w.eventually(slack, w.routed("web", "web-2"))
	w.always(time.Second, w.routed("web", "web-2")) // web-1 is back with the status of our check
	one.SetStatus(200)
	w.eventually(flips, w.routed("web", "web-1", "web-2"))
	require.NoError(w.t, w.has(theirs, "")())
}

// connectPassing says how many sidecars of a service are in the mesh.
func (w *world) connectPassing(service string, want int) func() error {
	return func() error {
		entries, _, err := w.client.Health().Connect(service, "", true, nil)
		if err != nil || len(entries) != want {
			return fmt.Errorf("%d sidecars of %s are passing, want %d: %w", len(entries), service, want, err)
		}
		return nil
	}
}

// registerWithAliases registers web-1 with a sidecar that has Consul's default
// checks, and an instance front-1 of another service with an alias check of
// web-1. It returns the ids of the sidecar and of the two alias checks.
func (w *world) registerWithAliases(app *lab.App) (sidecar string, aliases []string) {
	w.t.Helper()
	proxy, err := theLab.StartTCPApp() // what the default check of the listener connects to
	require.NoError(w.t, err)
	w.t.Cleanup(proxy.Close)
	require.NoError(w.t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "web-1", Name: "web", Address: "127.0.0.1", Port: app.Port(), Meta: map[string]string{"hds": "http"},
		Connect: &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{Port: proxy.Port()}},
	}))
	w.register("front-1", app.Port(), nil)
	require.NoError(w.t, w.client.Agent().CheckRegister(&api.AgentCheckRegistration{
		ID: "front-needs-web", Name: "the web", Notes: "front is nothing without web", ServiceID: "front-1",
		AgentServiceCheck: api.AgentServiceCheck{AliasService: "web-1"},
	}))
	return "web-1-sidecar-proxy", []string{"service:web-1-sidecar-proxy:2", "front-needs-web"}
}

func TestAliasChecksFollowOursAndAreLeftAlone(t *testing.T) {
	t.Parallel() // it watches refreshes
	w := newConsul(t, lab.ConsulOptions{})
	proxy := w.behindProxy(0, shortTTL+quick)
	one := w.app()
	sidecar, aliases := w.registerWithAliases(one)
	w.startEnvoy(sidecar)
	all := func(within time.Duration, status string, sidecars int, fronts ...string) {
		t.Helper()
		for _, id := range []string{"hds:web-1", aliases[0], aliases[1]} {
			w.eventually(within, w.has(id, status))
		}
		w.eventually(within, w.connectPassing("web", sidecars))
		w.eventually(slack, w.routed("front", fronts...))
	}
	all(patience, api.HealthPassing, 1, "front-1") // the check of the listener takes its time
	before := []aside{w.aside(aliases[0]), w.aside(aliases[1])}
	assert.Equal(t, "alias", before[0].kind)

	indexes := w.checkIndexes()
	proxy.Reset()
	w.always(refreshes, func() error {
		for _, id := range aliases {
			if now := w.checkIndexes()[id]; now != indexes[id] {
				return fmt.Errorf("%s was written: its index is %d after %d", id, now, indexes[id])
			}
		}
		return nil
	})
	assert.NotZero(t, proxy.Writes()["PUT /v1/agent/check/update/hds:web-1"], "ours was refreshed meanwhile")

	one.SetStatus(500)
	all(flips, api.HealthCritical, 0)
	one.SetStatus(200)
	all(flips, api.HealthPassing, 1, "front-1")
	assert.Equal(t, before, []aside{w.aside(aliases[0]), w.aside(aliases[1])})
	for request := range proxy.Writes() {
		assert.Equal(t, "PUT /v1/agent/check/update/hds:web-1", request)
	}
}

func TestConsulsReaperIsNeitherHeldUpNorFedByUs(t *testing.T) {
	t.Parallel() // Consul reaps after a minute at the earliest, and looks each 30 s
	const reapAfter, reaperLooks = time.Minute, 30 * time.Second
	w := newConsul(t, lab.ConsulOptions{})
	proxy := w.behindProxy(0, shortTTL+quick)
	one, sick := w.app(), w.app()
	sick.SetStatus(500)
	w.register("sick-1", sick.Port(), map[string]string{"hds": "http"})
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	require.NoError(t, w.client.Agent().CheckRegister(&api.AgentCheckRegistration{
		ID: "theirs", Name: "theirs", ServiceID: "web-1",
		AgentServiceCheck: api.AgentServiceCheck{TTL: "1h", Status: "passing", DeregisterCriticalServiceAfter: reapAfter.String()},
	}))
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, func() error {
		if c, _ := w.status().Check("hds:sick-1"); c.Phase != "reported" || c.Status != api.HealthCritical {
			return fmt.Errorf("sick-1 is %s, %s", c.Phase, c.Status)
		}
		return nil
	})

	logged, start := len(w.daemon.Log()), time.Now()
	require.NoError(t, w.client.Agent().UpdateTTL("theirs", "out of order", "fail"))
	for time.Since(start) < reapAfter-15*time.Second { // updates, and refreshes in between
		one.SetStatus(500)
		w.eventually(flips, w.has("hds:web-1", api.HealthCritical))
		one.SetStatus(200)
		w.eventually(flips, w.has("hds:web-1", api.HealthPassing))
		w.always(refreshes, w.has("hds:web-1", api.HealthPassing))
	}
	w.eventually(reapAfter+reaperLooks+5*time.Second-time.Since(start), w.has("hds:web-1", ""))
	t.Logf("web-1 was reaped after %s", time.Since(start).Round(time.Second))
	w.eventually(patience, w.forgotten("web-1"))
	require.NoError(t, w.has("hds:sick-1", api.HealthCritical)(), "our critical check reaps nobody")

	proxy.Reset()
	w.always(refreshes, w.forgotten("web-1"))
	writes := proxy.Writes()
	assert.Len(t, writes, 1, "only sick-1 is refreshed")
	assert.NotZero(t, writes["PUT /v1/agent/check/update/hds:sick-1"])
	require.NoError(t, quiet(w.daemon.Log()[logged:]))

	one.SetStatus(500)
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(2*time.Second, w.has("hds:web-1", api.HealthCritical)) // anew: nothing of its earlier life
	one.SetStatus(200)
	w.eventually(patience, w.routed("web", "web-1"))
}
