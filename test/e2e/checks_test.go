package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// lostBound is the contract's for a lost check, at the default poll_interval.
const lostBound = 2 * time.Second

func TestALostCheckIsBackWithItsLastStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	w.twoInstances(map[string]string{"hds": "http"})
	outputs := w.outputs()
	back := func(how string, lose func()) {
		t.Helper()
		lose()
		took := w.eventually(lostBound+slack, w.areBack(outputs))
		t.Logf("%s: all are back after %s", how, took.Round(time.Millisecond))
	}
	byHand := func() {
		for id := range asTheyAre {
			require.NoError(t, w.client.Agent().CheckDeregister(id))
		}
	}
	back("deregistered by hand", byHand)
	back("twice, the second time as soon as there was something to lose", func() {
		byHand()
		w.eventually(lostBound+slack, func() error {
			if n := len(w.checks()); n != len(asTheyAre) {
				return fmt.Errorf("the agent has %d checks", n)
			}
			return nil
		})
		byHand()
	})
	for i := range 6 {
		back(fmt.Sprint("over and over, ", i), byHand)
		time.Sleep(2 * time.Second)
	}
	back("replaced", func() {
		for _, id := range []string{"web-1", "web-2"} {
			s, _, err := w.client.Agent().Service(id, nil)
			require.NoError(t, err)
			require.NoError(t, w.client.Agent().ServiceRegisterOpts(&api.AgentServiceRegistration{
				ID: id, Name: s.Service, Address: s.Address, Port: s.Port, Meta: s.Meta, Tags: []string{"canary"},
			}, api.ServiceRegisterOpts{ReplaceExistingChecks: true}))
		}
	})
}

// outputs are what the agent shows of the checks of twoInstances.
func (w *world) outputs() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for id, c := range w.checks() {
		out[id] = c.Output
	}
	require.Len(w.t, out, len(asTheyAre))
	return out
}

// areBack says that the checks of twoInstances have their statuses, in the agent
// and in the catalog, and these outputs in the agent.
func (w *world) areBack(outputs map[string]string) func() error {
	return func() error {
		if err := all(w.has, asTheyAre)(); err != nil {
			return err
		}
		for id, c := range w.checks() {
			if c.Output != outputs[id] {
				return fmt.Errorf("the output of %s is %q, want %q", id, c.Output, outputs[id])
			}
		}
		return nil
	}
}

func TestAForeignCheckWithOurIDIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one, two := w.app(), w.app()
	w.register("web-1", one.Port(), nil)
	require.NoError(t, w.client.Agent().CheckRegister(&api.AgentCheckRegistration{
		ID: "hds:web-1", Name: "theirs", ServiceID: "web-1", AgentServiceCheck: api.AgentServiceCheck{TTL: "1h", Status: "warning"},
	}))
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.register("web-2", two.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-2", api.HealthPassing))
	w.eventually(patience, func() error {
		if p := w.problems("web-1"); len(p) != 1 || !strings.Contains(p[0], `"hds:web-1" belongs to a check that consul-hds did not make`) {
			return fmt.Errorf("problems are %q", p)
		}
		return nil
	})
	w.always(time.Second, w.has("hds:web-1", api.HealthWarning))
	c := w.check("hds:web-1")
	assert.Equal(t, []string{"theirs", "", ""}, []string{c.Name, c.Notes, c.Output})
	require.NoError(t, w.client.Agent().CheckDeregister("hds:web-1"))
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, func() error {
		if p := w.problems("web-1"); len(p) != 0 {
			return fmt.Errorf("problems are %q", p)
		}
		return nil
	})
}

func TestARegistrationMayCarryTheCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one := w.app()
	require.NoError(t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "web-1", Name: "web", Address: "127.0.0.1", Port: one.Port(), Meta: map[string]string{"hds": "http"},
		Check: &api.AgentServiceCheck{CheckID: "hds:web-1", TTL: "1h", Status: "critical", Notes: "consul-hds: carried by the registration"},
	}))
	require.NoError(t, w.has("hds:web-1", api.HealthCritical)(), "there is no instant without it")
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	one.SetStatus(500)
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
}

func TestOrphansAreKeptAndThenRemoved(t *testing.T) {
	t.Parallel()
	w := newConsul(t, lab.ConsulOptions{})
	one := w.app()
	w.register("web-1", one.Port(), nil)
	for id, notes := range map[string]string{"hds:web-1": "consul-hds: of an earlier life", "hds.x:web-1": "somebody's", "other": "consul-hds: no id of ours"} {
		require.NoError(t, w.client.Agent().CheckRegister(&api.AgentCheckRegistration{
			ID: id, Name: id, Notes: notes, ServiceID: "web-1", AgentServiceCheck: api.AgentServiceCheck{TTL: "1h", Status: "passing"},
		}))
	}
	w.cleansInto("web/3", "web//3")
	w.startDaemon(quick + "checks {\n  orphan_grace = \"3s\"\n}\n")
	w.always(2*time.Second, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, w.has("hds:web-1", ""))
	time.Sleep(time.Second)
	assert.Len(t, w.checks(), 4, "only ours")
	assert.Equal(t, "theirs", w.check("hds:web/3").Output)
}

// cleansInto registers two services of which one carries a check of ours, which no
// probe may have, because Consul's API would take it for the other's.
func (w *world) cleansInto(clean, odd string) {
	w.t.Helper()
	for id, notes := range map[string]string{clean: "somebody's", odd: "consul-hds: carried by the registration"} {
		require.NoError(w.t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
			ID: id, Name: "web", Address: "127.0.0.1", Port: 1,
			Check: &api.AgentServiceCheck{CheckID: "hds:" + id, TTL: "1h", Status: "passing", Notes: notes},
		}))
	}
	require.NoError(w.t, w.client.Agent().UpdateTTL("hds:"+clean, "theirs", "passing"))
}

func TestAProbeThatIsWithdrawnTakesItsCheckAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one := w.app()
	one.SetStatus(500)
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, func() error {
		if c, _ := w.status().Check("hds:web-1"); c.Phase != "reported" || c.Status != "critical" {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	w.register("web-1", one.Port(), map[string]string{"hds": "off"})
	w.eventually(2*time.Second, w.has("hds:web-1", ""))
	assert.Equal(t, []string{"web-1"}, w.passing("web"))
}

// behindProxy starts a daemon that reaches its agent through a proxy, a node
// Envoy, and n instances; it waits until all are passing.
func (w *world) behindProxy(n int, config string) *lab.Proxy {
	w.t.Helper()
	proxy, err := theLab.StartProxy(w.consul)
	require.NoError(w.t, err)
	w.t.Cleanup(proxy.Close)
	d, err := theLab.StartDaemon(w.ctx, lab.DaemonOptions{Consul: w.consul, Config: withNode(config), Args: []string{"-consul-address", proxy.Addr()}})
	require.NoError(w.t, err)
	w.daemon = d
	w.ends(d.Process)
	require.NoError(w.t, d.WaitReady(w.ctx))
	w.startEnvoy(theNode)
	for i := range n {
		w.register(fmt.Sprintf("s%d-1", i), w.app().Port(), map[string]string{"hds": "http"})
	}
	require.NoError(w.t, w.consul.WaitPassing(w.ctx, n, 2*patience))
	return proxy
}

func TestTheSteadyStateWritesNothingButRefreshes(t *testing.T) {
	t.Parallel() // it watches for two minutes
	w := newConsul(t, lab.ConsulOptions{})
	const n, periods = 200, 12
	proxy := w.behindProxy(n, "checks {\n  ttl = \"30s\"\n}\ndefaults {\n  timeout = \"10s\"\n}\n") // on a busy machine, too, no probe fails
	time.Sleep(10 * time.Second)                                                                    // one period, after which all is steady
	index := w.checkIndexes()
	proxy.Reset()
	time.Sleep(periods * 10 * time.Second)
	writes := proxy.Writes()
	total := 0
	for path, count := range writes {
		assert.Regexp(t, `^PUT /v1/agent/check/update/hds:s\d+-1$`, path)
		assert.InDelta(t, periods, count, 1, path)
		total += count
	}
	assert.Len(t, writes, n)
	assert.InDelta(t, n*periods, total, n)
	assert.Equal(t, index, w.checkIndexes(), "the servers have not been troubled")
	t.Logf("%d writes for %d instances in %d periods of a third of the TTL", total, n, periods)
}

func TestAFlappingInstanceIsOneWritePerTransition(t *testing.T) {
	t.Parallel()
	w := newConsul(t, lab.ConsulOptions{})
	proxy := w.behindProxy(1, quick)
	one := w.app()
	w.register("flaps-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:flaps-1", api.HealthPassing))
	time.Sleep(time.Second)
	proxy.Reset()
	const flaps = 5
	for range flaps {
		one.SetStatus(500)
		w.eventually(patience, w.has("hds:flaps-1", api.HealthCritical))
		one.SetStatus(200)
		w.eventually(patience, w.has("hds:flaps-1", api.HealthPassing))
	}
	assert.InDelta(t, 2*flaps, proxy.Writes()["PUT /v1/agent/check/update/hds:flaps-1"], 1, "and a refresh at most")
}

// At 5 s a write, three at a time, 13 checks get one or two beats in their TTL.
func TestASlowAgentLetsNobodyExpire(t *testing.T) {
	t.Parallel() // it waits for TTLs
	w := newConsul(t, lab.ConsulOptions{})
	const n = 12
	proxy := w.behindProxy(n, "checks {\n  ttl = \"30s\"\n}\n"+quick)
	flips := w.app()
	w.register("flips-1", flips.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:flips-1", api.HealthPassing))
	s := w.sample(allPassing(n))
	proxy.OnWrite(func(http.ResponseWriter) bool { time.Sleep(5 * time.Second); return false })
	for range 3 {
		time.Sleep(15 * time.Second)
		flips.SetStatus(500)
		took := w.eventually(patience, w.has("hds:flips-1", api.HealthCritical)) // it overtakes refreshes
		t.Logf("critical after %s at 5 s a write", took.Round(time.Millisecond))
		flips.SetStatus(200)
		w.eventually(patience, w.has("hds:flips-1", api.HealthPassing))
	}
	s.ends(t)
}

func TestAnAgentThatFailsForAMinuteLetsNobodyExpire(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusTooManyRequests, http.StatusInternalServerError} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel() // it waits for TTLs
			w := newConsul(t, lab.ConsulOptions{})
			const n = 6
			proxy := w.behindProxy(n, "checks {\n  ttl = \"100s\"\n}\n"+quick)
			flips := w.app()
			w.register("flips-1", flips.Port(), map[string]string{"hds": "http"})
			w.eventually(patience, w.has("hds:flips-1", api.HealthPassing))
			s := w.sample(allPassing(n))
			proxy.OnWrite(func(w http.ResponseWriter) bool { w.WriteHeader(code); return true })
			proxy.Reset()
			for i := range 6 {
				flips.SetStatus(500 - 300*(i%2))
				time.Sleep(10 * time.Second)
			}
			flips.SetStatus(500)
			time.Sleep(3 * time.Second)
			tried := 0
			for _, count := range proxy.Writes() {
				tried += count
			}
			assert.Less(t, tried, 100, "no hot loop")
			proxy.OnWrite(nil)
			proxy.Reset()
			w.eventually(8*time.Second, w.has("hds:flips-1", api.HealthCritical))
			assert.LessOrEqual(t, proxy.Writes()["PUT /v1/agent/check/update/hds:flips-1"], 2, "the newest wins, nothing has queued")
			time.Sleep(40 * time.Second) // the TTL counted from the last beat before
			s.ends(t)
		})
	}
}

// allPassing is what a sampler is to see of the instances of behindProxy.
func allPassing(n int) map[string]string {
	want := map[string]string{}
	for i := range n {
		want[fmt.Sprintf("hds:s%d-1", i)] = api.HealthPassing
	}
	return want
}

// checkIndexes are the modify indexes of the node's checks in the catalog.
func (w *world) checkIndexes() map[string]uint64 {
	w.t.Helper()
	indexes, err := w.consul.CheckIndexes(w.ctx)
	require.NoError(w.t, err)
	return indexes
}

func TestASecondDaemonIsStoppedByTheLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	port, err := theLab.Port()
	require.NoError(t, err)
	admin, err := theLab.Port()
	require.NoError(t, err)
	out, code, err := w.daemon.Command(ctx, "agent", "-data-dir", w.daemon.DataDir(),
		"-hds-listen", fmt.Sprintf("127.0.0.1:%d", port), "-admin-listen", fmt.Sprintf("127.0.0.1:%d", admin))
	require.NoError(t, err)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, fmt.Sprintf("is held by another consul-hds agent, pid %d", w.daemon.Pid()))
	require.NoError(t, w.daemon.WaitReady(w.ctx), "the first one goes on")
}
