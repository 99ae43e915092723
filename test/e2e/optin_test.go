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

func TestAServiceWithoutOptInIsNeverTouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	e := w.startEnvoy(theNode)
	plain, side := w.app(), w.app()
	w.register("plain-1", plain.Port(), map[string]string{"version": "3"})
	require.NoError(t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "side-1", Name: "side", Kind: api.ServiceKindConnectProxy, Address: "127.0.0.1", Port: side.Port(),
		Meta:  map[string]string{"hds": "http"},
		Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "plain", DestinationServiceID: "plain-1"},
	}))
	before, _, err := w.client.Agent().Service("plain-1", nil)
	require.NoError(t, err)
	index := w.modifyIndex("plain")
	optedIn := w.app()
	w.register("web-1", optedIn.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	time.Sleep(2 * time.Second)

	after, _, err := w.client.Agent().Service("plain-1", nil)
	require.NoError(t, err)
	assert.Equal(t, before, after)
	assert.Equal(t, index, w.modifyIndex("plain"))
	assert.Len(t, w.checks(), 1, "nobody else has a check")
	assert.Zero(t, plain.Hits(), "nobody probes it")
	assert.Zero(t, side.Hits(), "a proxy is no instance, whatever its meta says")
	updates, err := e.Stat(w.ctx, "hds_delegate.errors")
	require.NoError(t, err)
	assert.Zero(t, updates)
}

// modifyIndex is that of the only instance of a service in the catalog.
func (w *world) modifyIndex(service string) uint64 {
	w.t.Helper()
	list, _, err := w.catalog.Catalog().Service(service, "", nil)
	require.NoError(w.t, err)
	require.Len(w.t, list, 1)
	return list[0].ModifyIndex
}

func TestABadMetaIsAProblemAndAllElseGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	good, typo, fresh := w.app(), w.app(), w.app()
	w.register("good-1", good.Port(), map[string]string{"hds": "http"})
	w.register("typo-1", typo.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:good-1", api.HealthPassing))
	w.eventually(patience, w.has("hds:typo-1", api.HealthPassing))

	w.register("typo-1", typo.Port(), map[string]string{"hds": "http", "hds_interval": "5"})
	w.register("fresh-1", fresh.Port(), map[string]string{"hds": "htpp"})
	w.eventually(patience, func() error {
		if len(w.problems("typo-1")) != 1 || len(w.problems("fresh-1")) != 1 {
			return fmt.Errorf("problems are %v", w.status().Problems)
		}
		return nil
	})
	assert.Equal(t, []string{`meta hds_interval: "5" is not a duration: a number with a unit, such as 500ms, 1s or 1m30s`}, w.problems("typo-1"))
	assert.Equal(t, []string{`meta hds: "htpp" is not allowed: http, tcp, grpc or off`}, w.problems("fresh-1"))
	assert.Nil(t, w.check("hds:fresh-1"), "nothing is guessed")

	require.NoError(t, w.has("hds:typo-1", api.HealthPassing)())
	typo.SetStatus(500)
	w.eventually(patience, w.has("hds:typo-1", api.HealthCritical)) // its last good definition goes on
	good.SetStatus(500)
	w.eventually(patience, w.has("hds:good-1", api.HealthCritical))

	w.register("fresh-1", fresh.Port(), map[string]string{"hds": "http"})
	w.register("typo-1", typo.Port(), map[string]string{"hds": "http", "hds_interval": "300ms"})
	w.eventually(patience, w.has("hds:fresh-1", api.HealthPassing))
	w.eventually(patience, func() error {
		if p := w.status().Problems; len(p) != 0 {
			return fmt.Errorf("problems are left: %v", p)
		}
		return nil
	})
	require.NoError(t, w.has("hds:typo-1", api.HealthCritical)())
}

func TestSeveralChecksByConfig(t *testing.T) {
	t.Parallel()
	w := newConsul(t, lab.ConsulOptions{})
	one, db := w.app(), w.app()
	w.startDaemon(quick + fmt.Sprintf(`
service "we*" {
  check "never" {
    tcp {
      port = 1
    }
  }
}
service "web" {
  check "ready" {
    http {
      path              = "/ready"
      expected_statuses = ["200-299", "404"]
    }
  }
  check "db" {
    interval = "300ms"
    tcp {
      port = %d
    }
  }
}`, db.Port()))
	w.startEnvoy(theNode)
	one.SetStatus(404)
	w.register("web-1", one.Port(), nil)
	w.eventually(patience, w.has("hds.ready:web-1", api.HealthPassing))
	w.eventually(patience, w.has("hds.db:web-1", api.HealthPassing))
	db.Close()
	w.eventually(patience, w.has("hds.db:web-1", api.HealthCritical))
	require.NoError(t, w.has("hds.ready:web-1", api.HealthPassing)())
	assert.Empty(t, w.passing("web"), "one critical check is enough")
	assert.Len(t, w.checks(), 2)

	w.register("web-1", one.Port(), map[string]string{"hds": "off"}) // beats the config
	w.eventually(patience, w.has("hds.db:web-1", ""))
	w.eventually(patience, w.has("hds.ready:web-1", ""))
	assert.Equal(t, []string{"web-1"}, w.passing("web"))
}

func TestAnInstanceThatAppearsIsCriticalAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick) // and no Envoy
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	took := w.eventually(2*time.Second, w.has("hds:web-1", api.HealthCritical))
	t.Logf("critical after %s", took)
	assert.Empty(t, w.passing("web"))
	assert.Empty(t, w.dns("web"))
	w.eventually(time.Second, func() error {
		if o := w.check("hds:web-1").Output; o != fmt.Sprintf("http GET http://127.0.0.1:%d/: awaiting the first answer of a node Envoy", one.Port()) {
			return fmt.Errorf("the output is %q", o)
		}
		return nil
	})
	c, ok := w.status().Check("hds:web-1")
	require.True(t, ok)
	assert.Equal(t, "pending", c.Phase)
	w.startEnvoy(theNode)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
}

func TestAnInstanceThatWasThereGetsItsCheckWithItsFirstAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	healthy, failing := w.app(), w.app()
	failing.SetStatus(500)
	w.register("web-1", healthy.Port(), nil)
	w.register("web-2", failing.Port(), nil)
	w.always(2*time.Second, w.has("hds:web-1", ""))
	w.register("web-1", healthy.Port(), map[string]string{"hds": "http"}) // opts in later
	w.register("web-2", failing.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, func() error {
		if _, ok := w.status().Check("hds:web-2"); !ok {
			return fmt.Errorf("no probe yet")
		}
		return nil
	})
	w.always(2*time.Second, w.has("hds:web-1", ""))
	assert.Equal(t, []string{"web-1", "web-2"}, w.passing("web"))
	v := w.watchPassing("web")
	w.startEnvoy(theNode)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, w.has("hds:web-2", api.HealthCritical))
	v.until(t, time.Second, "web-1")
	w.always(time.Second, w.has("hds:web-1", api.HealthPassing))
	assert.Empty(t, v.news, "web-1 was never left out")
}

func TestTwentyServicesAtOnce(t *testing.T) {
	w := newWorld(t, quick)
	e := w.startEnvoy(theNode)
	for i := range 20 {
		a := w.app()
		if i%4 == 0 {
			a.SetStatus(500)
		}
		w.register(fmt.Sprintf("s%d-1", i), a.Port(), map[string]string{"hds": "http"})
	}
	w.eventually(patience, func() error {
		for i := range 20 {
			want := api.HealthPassing
			if i%4 == 0 {
				want = api.HealthCritical
			}
			id := fmt.Sprintf("hds:s%d-1", i)
			if err := w.has(id, want)(); err != nil {
				return err
			}
			if c, _ := w.status().Check(id); c.Phase != "reported" {
				return fmt.Errorf("%s is %s", id, c.Phase)
			}
		}
		return nil
	})
	got, err := e.Stats(w.ctx)
	require.NoError(t, err)
	assert.LessOrEqual(t, got["hds_delegate.requests"], uint64(8), "changes are gathered")
	assert.Zero(t, got["hds_delegate.errors"])
	assert.Equal(t, got["hds_delegate.requests"], got["hds_delegate.updates"])

	time.Sleep(3 * time.Second)
	again, err := e.Stats(w.ctx)
	require.NoError(t, err)
	assert.Equal(t, got["hds_delegate.requests"], again["hds_delegate.requests"], "sent only if different")
}

func TestAServiceDeregisteredWhileFailing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	one.SetStatus(500)
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
	w.deregister("web-1")
	w.eventually(patience, func() error {
		if s := w.status(); len(s.Checks) != 0 || s.Observers[0].Probes != 0 || !s.Observers[0].Applied {
			return fmt.Errorf("there are checks or probes: %+v", s)
		}
		return nil
	})
	w.always(2*time.Second, w.has("hds:web-1", ""))
	hits := one.Hits()
	time.Sleep(time.Second)
	assert.Equal(t, hits, one.Hits(), "nobody probes it any more")

	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(2*time.Second, w.has("hds:web-1", api.HealthCritical))
	one.SetStatus(200)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
}

func TestShadowModeWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one := w.app()
	shadow := map[string]string{"hds": "http", "hds_mode": "shadow"}
	require.NoError(t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "web-1", Name: "web", Address: "127.0.0.1", Port: one.Port(), Meta: shadow,
		Check: &api.AgentServiceCheck{CheckID: "own", HTTP: "http://" + one.Addr(), Interval: "1s", Status: "passing"},
	}))
	shows := func(mode, status string) {
		w.eventually(patience, func() error {
			if c, _ := w.status().Check("hds:web-1"); c.Mode != mode || c.Status != status || c.Phase != "reported" {
				return fmt.Errorf("it is %+v", c)
			}
			return nil
		})
	}
	shows("shadow", api.HealthPassing)
	one.SetStatus(500)
	shows("shadow", api.HealthCritical)
	require.NoError(t, w.has("hds:web-1", "")())
	w.eventually(patience, w.has("own", api.HealthCritical))
	w.eventually(patience, func() error {
		m, err := w.daemon.Get(w.ctx, "/metrics")
		if err != nil || !strings.Contains(string(m), `consul_hds_shadow_checks{status="critical"} 1`) || strings.Contains(string(m), `consul_hds_shadow_comparisons_total{result="agree"} 0`) {
			return fmt.Errorf("the metrics do not say so: %w", err)
		}
		return nil
	})
	c, _ := w.status().Check("hds:web-1")
	require.NotNil(t, c.Shadow)
	assert.Positive(t, c.Shadow.Agreed)
	out, _, err := w.daemon.Command(w.ctx, "status", "-admin-addr", w.daemon.AdminAddr())
	require.NoError(t, err)
	assert.Contains(t, out, "shadow (as Consul's own checks: ")
	w.register("web-1", one.Port(), map[string]string{"hds": "http"}) // to enforce
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
	w.register("web-1", one.Port(), shadow)
	w.eventually(2*time.Second, w.has("hds:web-1", ""))
	assert.NotContains(t, w.daemon.Log(), "no probe explains")
}
