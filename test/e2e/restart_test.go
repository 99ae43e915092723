package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/consul-hds/consul-hds/test/lab"
)

// sampler is a lab.Sampler whose end is an assertion.
type sampler struct{ *lab.Sampler }

func (w *world) sample(want map[string]string) sampler { return sampler{w.consul.Sample(want)} }

// ends stops the sampler and asserts that it saw nothing wrong.
func (s sampler) ends(t *testing.T) {
	t.Helper()
	seen := s.Stop()
	t.Logf("%d samples, %d times away", seen.Count, seen.Away)
	assert.Greater(t, seen.Count, 10)
	assert.Empty(t, seen.Wrong)
}

// twoInstances registers a healthy and a failing instance and waits until their
// checks say so.
func (w *world) twoInstances(meta map[string]string) (healthy, failing *lab.App) {
	healthy, failing = w.app(), w.app()
	w.register("web-1", healthy.Port(), meta)
	w.register("web-2", failing.Port(), meta)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, w.has("hds:web-2", api.HealthPassing))
	failing.SetStatus(500)
	w.eventually(patience, w.has("hds:web-2", api.HealthCritical))
	return healthy, failing
}

var asTheyAre = map[string]string{"hds:web-1": api.HealthPassing, "hds:web-2": api.HealthCritical}

func TestARestartOfTheDaemonChangesNoStatus(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			w := newWorld(t, quick)
			w.startEnvoy(theNode)
			healthy, failing := w.twoInstances(map[string]string{"hds": "http"})
			outputs := []string{w.check("hds:web-1").Output, w.check("hds:web-2").Output}
			s := w.sample(asTheyAre)
			for range 3 {
				require.NoError(t, w.daemon.Restart(w.ctx, sig))
				w.eventually(patience, func() error {
					for id := range asTheyAre {
						if c, _ := w.status().Check(id); c.Phase != "reported" {
							return fmt.Errorf("%s is %q", id, c.Phase)
						}
					}
					return nil
				})
			}
			time.Sleep(time.Second)
			s.ends(t)
			assert.Equal(t, outputs, []string{w.check("hds:web-1").Output, w.check("hds:web-2").Output})

			healthy.SetStatus(503)
			failing.SetStatus(200)
			w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
			w.eventually(patience, w.has("hds:web-2", api.HealthPassing))
		})
	}
}

func TestARestartOfEnvoyChangesNoStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	e := w.startEnvoy(theNode)
	w.twoInstances(map[string]string{"hds": "http"})
	s := w.sample(asTheyAre)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		require.NoError(t, e.Restart(w.ctx, sig))
		time.Sleep(2 * time.Second)
	}
	s.ends(t)
}

func TestAChangedDefinitionChangesNoStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	healthy, failing := w.twoInstances(map[string]string{"hds": "http"})
	s := w.sample(asTheyAre)
	for _, path := range []string{"/a", "/b", "/"} {
		for id, a := range map[string]*lab.App{"web-1": healthy, "web-2": failing} {
			w.register(id, a.Port(), map[string]string{"hds": "http", "hds_path": path})
		}
		time.Sleep(1200 * time.Millisecond)
	}
	s.ends(t)
	assert.Equal(t, "Envoy HDS: http /", w.check("hds:web-1").Name)
}

func TestAnEnvoyThatGoesAwayLetsTheTTLExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick+`
checks {
  ttl         = "10s"
  stale_after = "2s"
}`)
	e := w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	require.NoError(t, e.Kill())
	gone := time.Now()
	w.always(5*time.Second, w.has("hds:web-1", api.HealthPassing))
	c, _ := w.status().Check("hds:web-1")
	assert.Equal(t, "stale", c.Phase)
	w.eventually(10*time.Second, w.has("hds:web-1", api.HealthCritical))
	assert.InDelta(t, 12, time.Since(gone).Seconds(), 3.5, "a TTL after the last refresh, which was within stale_after")
	assert.Contains(t, w.check("hds:web-1").Output, "TTL expired")
	w.always(2*time.Second, w.has("hds:web-1", api.HealthCritical))
	require.NoError(t, e.Start())
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
}

func TestTheAgentIsRestarted(t *testing.T) {
	t.Parallel()
	w := newConsul(t, lab.ConsulOptions{Persistent: true})
	w.startDaemon(quick)
	w.startEnvoy(theNode)
	w.twoInstances(map[string]string{"hds": "http"})
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		require.NoError(t, w.consul.Restart(w.ctx, sig))
		w.eventually(patience, w.has("hds:web-2", api.HealthCritical))
		w.always(2*time.Second, all(w.has, asTheyAre))
	}
}

// Envoy says UNHEALTHY until the first probe of an endpoint has ended, and then
// after one failure whatever the threshold (facts/envoy-hds.md 0.15, 0c).
func TestASlowFirstProbeIsNoFailure(t *testing.T) {
	w := newWorld(t, `
defaults {
  interval            = "200ms"
  timeout             = "2s"
  unhealthy_threshold = 2
}
hds {
  node_ids        = ["`+theNode+`"]
  report_interval = "100ms"
}`)
	e := w.startEnvoy(theNode)
	slow := w.app()
	slow.SetDelay(1500 * time.Millisecond)
	w.register("web-1", slow.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	s := w.sample(map[string]string{"hds:web-1": api.HealthPassing})
	require.NoError(t, e.Restart(w.ctx, syscall.SIGKILL)) // a new Envoy knows nothing yet
	time.Sleep(3 * time.Second)
	require.NoError(t, w.daemon.Restart(w.ctx, syscall.SIGKILL))
	time.Sleep(3 * time.Second)
	w.register("web-1", slow.Port(), map[string]string{"hds": "http", "hds_path": "/other"})
	time.Sleep(3 * time.Second)
	s.ends(t)
	slow.SetStatus(500)
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
}

func TestRestartsInAnyOrderChangeNoStatus(t *testing.T) {
	t.Parallel()
	w := newConsul(t, lab.ConsulOptions{Persistent: true})
	w.startDaemon(quick)
	e := w.startEnvoy(theNode)
	w.twoInstances(map[string]string{"hds": "http"})
	time.Sleep(2 * time.Second)
	restart := map[string]func(syscall.Signal) error{
		"daemon": func(s syscall.Signal) error { return w.daemon.Restart(w.ctx, s) },
		"envoy":  func(s syscall.Signal) error { return e.Restart(w.ctx, s) },
		"agent":  func(s syscall.Signal) error { return w.consul.Restart(w.ctx, s) },
	}
	s := w.sample(asTheyAre)
	for i, order := range [][]string{
		{"daemon", "envoy", "agent"}, {"daemon", "agent", "envoy"}, {"envoy", "daemon", "agent"},
		{"envoy", "agent", "daemon"}, {"agent", "daemon", "envoy"}, {"agent", "envoy", "daemon"},
	} {
		for _, who := range order {
			require.NoError(t, restart[who]([]syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[i%2]), "%v", order)
		}
	}
	var all errgroup.Group
	for _, r := range restart { // and all at once
		all.Go(func() error { return r(syscall.SIGKILL) })
	}
	require.NoError(t, all.Wait())
	time.Sleep(5 * time.Second)
	s.ends(t)
	for id, status := range asTheyAre {
		w.eventually(patience, w.has(id, status))
	}
	w.eventually(patience, func() error {
		if c, _ := w.status().Check("hds:web-1"); c.Phase != "reported" {
			return fmt.Errorf("it is %q", c.Phase)
		}
		return nil
	})
}

// An answer that says nothing new ends staleness too, and on a quiet node there
// is nothing else that would.
func TestAnEnvoyThatStoodStillIsHeardAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick+`
checks {
  ttl         = "20s"
  stale_after = "2s"
  on_stale    = "critical"
}`)
	e := w.startEnvoy(theNode)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	time.Sleep(time.Second)
	require.NoError(t, e.Signal(syscall.SIGSTOP))
	w.eventually(5*time.Second, w.has("hds:web-1", api.HealthCritical))
	assert.Contains(t, w.check("hds:web-1").Output, "stale, no Envoy has answered for too long")
	time.Sleep(2 * time.Second)
	require.NoError(t, e.Signal(syscall.SIGCONT))
	w.eventually(5*time.Second, w.has("hds:web-1", api.HealthPassing))
	c, _ := w.status().Check("hds:web-1")
	assert.Equal(t, "reported", c.Phase)
}

func TestOnStaleKeepGoesOnRefreshing(t *testing.T) {
	t.Parallel() // it waits for a TTL
	w := newWorld(t, quick+`
checks {
  ttl         = "10s"
  stale_after = "2s"
  on_stale    = "keep"
}`)
	e := w.startEnvoy(theNode)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	require.NoError(t, e.Kill())
	w.always(15*time.Second, w.has("hds:web-1", api.HealthPassing))
	c, _ := w.status().Check("hds:web-1")
	assert.Equal(t, "stale", c.Phase)
}

// While an agent reloads its configuration it shows neither the services in it
// nor their checks for some milliseconds.
func TestAReloadOfTheAgentLosesNothing(t *testing.T) {
	t.Parallel()
	one := (&world{t: t}).app()
	w := newConsul(t, lab.ConsulOptions{Persistent: true, Config: fmt.Sprintf(`
services {
  id      = "web-1"
  name    = "web"
  address = "127.0.0.1"
  port    = %d
  meta {
    hds = "http"
  }
}`, one.Port())})
	w.startDaemon(strings.Replace(quick, "defaults", "consul {\n  poll_interval = \"100ms\"\n}\ndefaults", 1))
	w.startEnvoy(theNode)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	for range 12 {
		require.NoError(t, w.client.Agent().Reload())
		time.Sleep(400 * time.Millisecond)
	}
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	assert.NotContains(t, w.daemon.Log(), "status=critical")
	assert.NotContains(t, w.daemon.Log(), "check is lost")
}
