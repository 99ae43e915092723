package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// registerSidecar registers a sidecar for an instance, as connect.sidecar_service
// does, with a local address of its own.
func (w *world) registerSidecar(parent, localAddress string, localPort int) string {
	w.t.Helper()
	name, _, _ := strings.Cut(parent, "-")
	id := parent + "-sidecar-proxy"
	require.NoError(w.t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: id, Name: name + "-sidecar-proxy", Kind: api.ServiceKindConnectProxy, Address: "127.0.0.1", Port: 21000,
		Proxy: &api.AgentServiceConnectProxyConfig{
			DestinationServiceName: name, DestinationServiceID: parent,
			LocalServiceAddress: localAddress, LocalServicePort: localPort,
		},
		Checks: api.AgentServiceChecks{{AliasService: parent}},
	}))
	return id
}

// observer is an observer of the status by node id.
func (w *world) observer(id string) (o lab.StatusObserver) {
	w.t.Helper()
	for _, o = range w.status().Observers {
		if o.NodeID == id {
			return o
		}
	}
	w.t.Fatalf("no observer %s", id)
	return o
}

func TestASidecarProbesItsOwnInstanceAndNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	hidden, other := w.app(), w.app()
	// The registered port is nobody's: only the sidecar knows the app's own.
	w.register("web-1", 1, map[string]string{"hds": "http"})
	w.register("web-2", other.Port(), map[string]string{"hds": "http"})
	id := w.registerSidecar("web-1", "127.0.0.1", hidden.Port())
	w.startEnvoy(theNode)
	w.startEnvoy(id)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, w.has("hds:web-2", api.HealthPassing))
	one, _ := w.status().Check("hds:web-1")
	two, _ := w.status().Check("hds:web-2")
	assert.Equal(t, []string{id}, one.Observers)
	assert.Equal(t, fmt.Sprint("127.0.0.1:", hidden.Port()), one.Target)
	assert.Equal(t, []string{theNode}, two.Observers)
	assert.Equal(t, []any{"sidecar", 1}, []any{w.observer(id).Kind, w.observer(id).Probes})
	assert.Equal(t, []any{"node", 1}, []any{w.observer(theNode).Kind, w.observer(theNode).Probes})

	hidden.SetStatus(500)
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
	require.NoError(t, w.has("hds:web-2", api.HealthPassing)())
	w.eventually(patience, func() error { // the alias takes the sidecar out
		entries, _, err := w.catalog.Health().Connect("web", "", true, nil)
		if err != nil || len(entries) != 0 {
			return fmt.Errorf("%d sidecars are passing, %w", len(entries), err)
		}
		return nil
	})
}

func TestAnUnknownEnvoyProbesNothingUntilItIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick+"hds {\n  node_ids = [\"*\"]\n}\n")
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http", "hds_observer": "sidecar"})
	e := w.startEnvoy("web-1-sidecar-proxy")
	w.eventually(patience, func() error {
		if o := w.observer("web-1-sidecar-proxy"); o.Kind != "unknown" || o.Probes != 0 || !o.Applied {
			return fmt.Errorf("it is %+v", o)
		}
		return nil
	})
	w.eventually(patience, func() error {
		for _, p := range w.status().Problems {
			if strings.Contains(p.Message, `Envoy "web-1-sidecar-proxy" is unknown and probes nothing`) {
				return nil
			}
		}
		return fmt.Errorf("problems are %v", w.status().Problems)
	})
	assert.Zero(t, one.Hits())

	w.registerSidecar("web-1", "127.0.0.1", one.Port())
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	assert.Equal(t, "sidecar", w.observer("web-1-sidecar-proxy").Kind)

	w.deregister("web-1-sidecar-proxy")
	w.eventually(patience, func() error {
		if o := w.observer("web-1-sidecar-proxy"); o.Kind != "unknown" || o.Probes != 0 {
			return fmt.Errorf("it is %+v", o)
		}
		return nil
	})
	w.registerSidecar("web-1", "127.0.0.1", one.Port())
	w.eventually(patience, func() error {
		if o := w.observer("web-1-sidecar-proxy"); o.Kind != "sidecar" || o.Probes != 1 || !o.Applied {
			return fmt.Errorf("it is %+v", o)
		}
		return nil
	})
	w.always(2*time.Second, w.has("hds:web-1", api.HealthPassing))
	errors, err := e.Stat(w.ctx, "hds_delegate.errors")
	require.NoError(t, err)
	assert.Zero(t, errors)
}

func TestTwoNodeEnvoysAndTheWorstWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick+"hds {\n  node_ids = [\"node-*\"]\n}\n")
	a, b := w.startEnvoy("node-a"), w.startEnvoy("node-b")
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	c, _ := w.status().Check("hds:web-1")
	assert.Equal(t, []string{"node-a", "node-b"}, c.Observers)
	require.NoError(t, a.Kill())
	one.SetStatus(500)
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
	require.NoError(t, b.Kill())
	require.NoError(t, a.Start())
	one.SetStatus(200)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
}

func TestEnvoysConnectByLoopbackTCP(t *testing.T) {
	t.Parallel()
	port, err := theLab.Port()
	require.NoError(t, err)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	w := newConsul(t, lab.ConsulOptions{})
	d, err := theLab.StartDaemon(w.ctx, lab.DaemonOptions{Consul: w.consul, Config: withNode(quick), Args: []string{"-hds-listen", addr}})
	require.NoError(t, err)
	w.daemon = d
	w.ends(d.Process)
	require.NoError(t, d.WaitReady(w.ctx))
	e, err := theLab.StartEnvoy(w.ctx, lab.EnvoyOptions{NodeID: theNode, HDSAddr: addr})
	require.NoError(t, err)
	w.ends(e.Process)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	assert.Regexp(t, `^tcp:127\.0\.0\.1:\d+$`, w.observer(theNode).Peer)
}

func TestACrashLoopingEnvoyKeepsNoStatusAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick+`
hds {
  node_ids        = ["`+theNode+`"]
  report_interval = "2s"
}
checks {
  ttl           = "10s"
  stale_after   = "4s"
  adopt_timeout = "5s"
}`)
	e := w.startEnvoy(theNode)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	last := time.Now()
	streams := 0
	for time.Since(last) < 16*time.Second { // it is killed before its first report, every time
		require.NoError(t, e.Kill())
		require.NoError(t, e.Start())
		time.Sleep(time.Second)
		streams++
	}
	require.NoError(t, w.has("hds:web-1", api.HealthCritical)(), "after %d streams", streams)
	assert.Greater(t, streams, 5)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing)) // and an answer revives it
}

func TestAHotRestartChangesNoStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	start := func(epoch int) *lab.Envoy {
		e, err := theLab.StartEnvoy(w.ctx, lab.EnvoyOptions{
			NodeID: theNode, HDSAddr: w.daemon.HDSAddr(), HotRestart: lab.HotRestart{BaseID: 4711, Epoch: epoch},
		})
		require.NoError(t, err)
		w.ends(e.Process)
		return e
	}
	old := start(0)
	w.twoInstances(map[string]string{"hds": "http"})
	s := w.sample(asTheyAre)
	start(1)
	w.eventually(patience, func() error {
		if n := len(w.status().Observers); n != 2 {
			return fmt.Errorf("%d streams", n)
		}
		return nil
	})
	select {
	case <-old.Done():
	case <-time.After(patience):
		t.Fatal("the old Envoy is still there")
	}
	time.Sleep(2 * time.Second)
	assert.Len(t, w.status().Observers, 1)
	s.ends(t)
}

func TestAnEnvoyThatMovesToAnotherIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	one, two := w.app(), w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.register("web-2", two.Port(), map[string]string{"hds": "http"})
	first, second := w.registerSidecar("web-1", "", one.Port()), w.registerSidecar("web-2", "", two.Port())
	e := w.startEnvoy(first)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	require.NoError(t, w.has("hds:web-2", api.HealthCritical)(), "nobody observes it")
	require.NoError(t, e.Kill())
	w.startEnvoy(second)
	w.eventually(patience, w.has("hds:web-2", api.HealthPassing))
	c, _ := w.status().Check("hds:web-1")
	assert.Empty(t, c.Observers)
	c, _ = w.status().Check("hds:web-2")
	assert.Equal(t, []string{second}, c.Observers)
}

func TestTheObserverMayBeChosen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http", "hds_observer": "node"})
	side := w.registerSidecar("web-1", "", one.Port())
	w.startEnvoy(side)
	w.startEnvoy(theNode)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	observers := func(want string) {
		w.eventually(patience, func() error {
			if c, _ := w.status().Check("hds:web-1"); fmt.Sprint(c.Observers) != want || c.Phase != "reported" {
				return fmt.Errorf("%v observe it, %s", c.Observers, c.Phase)
			}
			return nil
		})
	}
	s := w.sample(map[string]string{"hds:web-1": api.HealthPassing})
	observers("[" + theNode + "]")
	for policy, want := range map[string]string{"sidecar": side, "auto": side, "node": theNode} {
		w.register("web-1", one.Port(), map[string]string{"hds": "http", "hds_observer": policy})
		observers("[" + want + "]")
	}
	time.Sleep(time.Second)
	s.ends(t)
}

func TestASidecarWithoutAliasIsToldOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	require.NoError(t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "web-1-sidecar-proxy", Name: "web-sidecar-proxy", Kind: api.ServiceKindConnectProxy, Address: "127.0.0.1", Port: 21000,
		Proxy:  &api.AgentServiceConnectProxyConfig{DestinationServiceName: "web", DestinationServiceID: "web-1"},
		Checks: api.AgentServiceChecks{{TTL: "1h", Status: "passing"}}, // the operator's own, instead of Consul's
	}))
	alias := `sidecar "web-1-sidecar-proxy" has no alias check of this service`
	w.eventually(patience, func() error {
		if p := fmt.Sprint(w.problems("web-1")); !strings.Contains(p, alias) {
			return fmt.Errorf("problems are %s", p)
		}
		return nil
	})
	w.registerSidecar("web-1", "", 1)
	w.eventually(patience, func() error {
		if p := fmt.Sprint(w.problems("web-1")); strings.Contains(p, alias) {
			return fmt.Errorf("problems are %s", p)
		}
		return nil
	})
}
