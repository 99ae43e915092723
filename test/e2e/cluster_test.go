package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// newCluster starts a server, a client agent that joins it, and a daemon beside
// the client. The world's catalog is the one that the server shows.
func newCluster(t *testing.T, config string) (w *world, server *lab.Consul) {
	t.Helper()
	server = newConsul(t, lab.ConsulOptions{Name: "server", Persistent: true}).consul
	w = newConsul(t, lab.ConsulOptions{Name: "client", Server: server})
	w.startDaemon(config)
	return w, server
}

// family is a family of the daemon's metrics that has one series.
func (w *world) family(name string) *dto.Metric {
	w.t.Helper()
	families := w.metrics()
	require.Len(w.t, families[name].GetMetric(), 1, name)
	return families[name].GetMetric()[0]
}

// doorbell says that the daemon is told of changes, by its metrics.
func (w *world) doorbell() error {
	if up := w.family("consul_hds_doorbell_up").GetGauge().GetValue(); up != 1 {
		return fmt.Errorf("the doorbell's metric is %v", up)
	}
	return nil
}

// The agent is polled so rarely that the doorbell alone brings what is registered.
func TestTheStoryOnAClientAgent(t *testing.T) {
	t.Parallel()
	w, _ := newCluster(t, quick+"consul {\n  poll_interval = \"1m\"\n}\n")
	w.startEnvoy(theNode)
	w.eventually(patience, w.doorbell)
	one, two := w.app(), w.app()
	for id, a := range map[string]*lab.App{"web-1": one, "web-2": two} {
		w.register(id, a.Port(), map[string]string{"hds": "http"})
		took := w.eventually(5*time.Second, w.has("hds:"+id, api.HealthPassing))
		t.Logf("%s is passing %s after its registration", id, took.Round(time.Millisecond))
	}
	says := func(what string) string {
		return fmt.Sprintf("http GET http://127.0.0.1:%d/: %s, says Envoy %s", one.Port(), what, theNode)
	}
	w.play(one, two, []act{
		{"answers 500", func() { one.SetStatus(500) }, []string{"web-2"}, 2, says("unhealthy" + w.code(500))},
		{"recovers", func() { one.SetStatus(200) }, []string{"web-1", "web-2"}, 1, says("healthy")},
	})
	require.NoError(t, w.doorbell())
}

// ttl30 is what facts/consul.md 0.9 asks for where servers hang. It is enough for
// 10 s: an agent with something to tell holds its lock for as long as the server
// hangs, and gives up after half a minute only.
const ttl30 = `
checks {
  ttl = "30s"
}
`

// flip is a third instance that was healthy and is about to fail.
func (w *world) flip() *lab.App {
	w.t.Helper()
	a := w.app()
	w.register("web-3", a.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-3", api.HealthPassing))
	return a
}

// nothingExpired asserts that no check of the agent missed its TTL, and that no
// write that turned a status took longer than within.
func (w *world) nothingExpired(within time.Duration) {
	w.t.Helper()
	assert.NotContains(w.t, w.consul.Log(), "missed TTL")
	delays := w.family("consul_hds_check_write_delay_seconds").GetHistogram()
	w.t.Logf("%d writes of new statuses took %.3f s together", delays.GetSampleCount(), delays.GetSampleSum())
	assert.Less(w.t, delays.GetSampleSum(), within.Seconds())
}

func TestTheOnlyServerIsAwayForLongerThanTheTTL(t *testing.T) {
	t.Parallel() // it waits for a TTL
	w, server := newCluster(t, quick+ttl30)
	w.startEnvoy(theNode)
	w.twoInstances(map[string]string{"hds": "http"})
	flips := w.flip()
	pid := w.daemon.Pid()
	s := w.sample(asTheyAre)
	require.NoError(t, server.Kill())
	flips.SetStatus(500)
	took := w.eventually(quickBound(2)+slack, w.agentHas("hds:web-3", api.HealthCritical))
	t.Logf("the agent shows the failure after %s", took.Round(time.Millisecond))
	w.always(35*time.Second, all(w.agentHas, map[string]string{
		"hds:web-1": api.HealthPassing, "hds:web-2": api.HealthCritical, "hds:web-3": api.HealthCritical,
	}))

	require.NoError(t, server.Start())
	require.NoError(t, server.WaitReady(w.ctx))
	// The agent syncs within 3 s of its server's return, or else with the next
	// refresh of any check.
	took = w.eventually(5*time.Second+slack, w.has("hds:web-3", api.HealthCritical))
	t.Logf("the catalog shows the failure %s after there is a leader again", took.Round(time.Millisecond))
	w.nothingExpired(10 * time.Second)
	flips.SetStatus(200)
	w.eventually(quickBound(2)+slack, w.has("hds:web-3", api.HealthPassing))
	w.eventually(2*patience, w.doorbell)
	s.ends(t)
	assert.Equal(t, pid, w.daemon.Pid())
}

// While its server hangs and there is something to tell it, the agent holds its
// lock and answers nobody (facts/consul.md 0.9).
func TestTheServerHangsForAWhile(t *testing.T) {
	t.Parallel() // it waits for a TTL
	w, server := newCluster(t, quick+ttl30)
	w.startEnvoy(theNode)
	w.twoInstances(map[string]string{"hds": "http"})
	flips := w.flip()
	s := w.sample(asTheyAre)
	const hang = 10 * time.Second
	require.NoError(t, server.Signal(syscall.SIGSTOP))
	flips.SetStatus(500)
	time.Sleep(hang)
	require.NoError(t, server.Signal(syscall.SIGCONT))
	took := w.eventually(patience, w.has("hds:web-3", api.HealthCritical))
	t.Logf("the catalog shows the failure %s after the server goes on", took.Round(time.Millisecond))
	w.always(25*time.Second, all(w.has, asTheyAre)) // without refreshes they would expire
	s.ends(t)
	w.nothingExpired(hang + 5*time.Second)
}

func TestTheClientAgentIsKilled(t *testing.T) {
	t.Parallel()
	w, _ := newCluster(t, quick)
	w.startEnvoy(theNode)
	w.twoInstances(map[string]string{"hds": "http"})
	outputs := w.outputs()
	s := w.sample(asTheyAre)
	for range 3 {
		require.NoError(t, w.consul.Restart(w.ctx, syscall.SIGKILL))
		w.eventually(patience, w.areBack(outputs))
		w.always(2*time.Second, w.areBack(outputs))
	}
	s.ends(t)
	assert.Zero(t, s.Stop().Away, "the catalog knew the node all the time")
}

// forgets stops the agent, and starts it again without its data after a while.
func (w *world) forgets(away time.Duration) {
	w.t.Helper()
	require.NoError(w.t, w.consul.Wipe(w.ctx))
	time.Sleep(away)
	require.NoError(w.t, w.consul.Start())
	w.eventually(patience, func() error { _, err := w.client.Agent().Checks(); return err })
	require.Empty(w.t, w.checks())
}

// The services are registered again before the daemon is sure that they are gone. In
// 8 s it has failed to read the agent so often that it might ask more rarely.
func TestAClientAgentThatForgotAllIsToldAgain(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{0, 8 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			w, _ := newCluster(t, quick)
			w.startEnvoy(theNode)
			meta := map[string]string{"hds": "http"}
			healthy, failing := w.twoInstances(meta)
			outputs, before := w.outputs(), len(w.daemon.Log())
			w.forgets(away)
			w.register("web-1", healthy.Port(), meta)
			w.register("web-2", failing.Port(), meta)
			took := w.eventually(lostBound+slack, w.areBack(outputs))
			t.Logf("all are back after %s", took.Round(time.Millisecond))
			assert.NotContains(t, w.daemon.Log()[before:], "awaiting the first answer", "nothing has begun anew")
		})
	}
}

// An instance that the agent itself said it does not know is a new one when it
// comes back: it is critical until it is probed, which is at once.
func TestServicesThatStayAwayComeBackAsNewOnes(t *testing.T) {
	t.Parallel()
	w, _ := newCluster(t, quick)
	w.startEnvoy(theNode)
	meta := map[string]string{"hds": "http"}
	healthy, failing := w.twoInstances(meta)
	outputs := w.outputs()
	w.forgets(0)
	require.NoError(t, w.consul.WaitReady(w.ctx))
	w.eventually(patience, func() error {
		if n := len(w.status().Checks); n != 0 {
			return fmt.Errorf("the daemon has %d checks", n)
		}
		return nil
	})
	w.register("web-1", healthy.Port(), meta)
	w.register("web-2", failing.Port(), meta)
	took := w.eventually(lostBound+slack, all(w.has, asTheyAre))
	t.Logf("all have their statuses after %s", took.Round(time.Millisecond))
	w.eventually(patience, w.areBack(outputs))
}
