package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

func TestReloadTakesOverAGoodFileAndSurvivesABadOne(t *testing.T) {
	t.Parallel()
	service := func(name, more string) string {
		return withNode(quick + fmt.Sprintf("service %q {\n  check \"c\" {\n    %s\n    http {\n    }\n  }\n}\n", name, more))
	}
	for how, reload := range map[string]func(*world){
		"SIGHUP": func(w *world) { require.NoError(w.t, w.daemon.Signal(syscall.SIGHUP)) },
		"PUT":    func(w *world) { _, _ = w.daemon.Put(w.ctx, "/v1/reload") },
	} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t, service("web", ""))
			w.startEnvoy(theNode)
			one, two := w.app(), w.app()
			w.register("web-1", one.Port(), nil)
			w.register("api-1", two.Port(), nil)
			w.eventually(patience, w.has("hds.c:web-1", api.HealthPassing))
			s := w.sample(map[string]string{"hds.c:web-1": api.HealthPassing})

			require.NoError(t, w.daemon.WriteConfig(service("web", "interval = \"5\"")))
			reload(w)
			w.eventually(patience, func() error {
				if !strings.Contains(w.daemon.Log(), "reloading failed, keeping the running configuration") {
					return fmt.Errorf("nothing is logged")
				}
				return nil
			})
			assert.Regexp(t, `consul-hds[^/]*\.hcl:8,16-19: Invalid check\.interval`, w.daemon.Log())
			assert.NoError(t, w.has("hds.c:api-1", "")())
			require.NoError(t, w.daemon.WriteConfig(service("*", "interval = \"300ms\"")))
			reload(w)
			w.eventually(patience, w.has("hds.c:api-1", api.HealthPassing))
			time.Sleep(time.Second)
			s.ends(t)

			require.NoError(t, w.daemon.WriteConfig(service("api", "")))
			reload(w)
			w.eventually(patience, w.has("hds.c:web-1", ""))
			require.NoError(t, w.has("hds.c:api-1", api.HealthPassing)())
		})
	}
}

func TestWhatCannotBeReloadedIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	require.NoError(t, w.daemon.WriteConfig(withNode(quick+"data_dir = \"/nonexistent\"\ntelemetry {\n  statsd_address = \"127.0.0.1:8125\"\n}\n")))
	require.NoError(t, w.daemon.Signal(syscall.SIGHUP))
	w.eventually(patience, func() error {
		if !strings.Contains(w.daemon.Log(), "need a restart and are not taken over: keys=[\"data_dir\", \"telemetry\"]") {
			return fmt.Errorf("it is not logged")
		}
		return nil
	})
	answer, err := w.daemon.Put(w.ctx, "/v1/reload")
	require.NoError(t, err)
	assert.JSONEq(t, `{"status": "reloaded", "need_restart": ["data_dir", "telemetry"]}`, string(answer))
}

func TestTheFirstSignalDrainsAndTheSecondExitsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	w.twoInstances(map[string]string{"hds": "http"})
	start := time.Now()
	code, err := w.daemon.Stop(w.ctx)
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.Less(t, time.Since(start), 4*time.Second)
	require.NoError(t, w.has("hds:web-1", api.HealthPassing)())
	require.NoError(t, w.has("hds:web-2", api.HealthCritical)())
	_, err = os.Stat(strings.TrimPrefix(w.daemon.HDSAddr(), "unix://"))
	assert.ErrorIs(t, err, os.ErrNotExist, "the socket is gone")

	// An agent that hangs keeps the last writes waiting, but not for long.
	require.NoError(t, w.daemon.Start())
	require.NoError(t, w.daemon.WaitReady(w.ctx))
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	time.Sleep(time.Second)
	require.NoError(t, w.consul.Signal(syscall.SIGSTOP))
	defer func() { assert.NoError(t, w.consul.Signal(syscall.SIGCONT)) }()
	start = time.Now()
	code, err = w.daemon.Stop(w.ctx)
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.Less(t, time.Since(start), 4*time.Second)

	require.NoError(t, w.consul.Signal(syscall.SIGCONT))
	require.NoError(t, w.daemon.Start())
	require.NoError(t, w.daemon.WaitReady(w.ctx))
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	time.Sleep(time.Second)
	require.NoError(t, w.consul.Signal(syscall.SIGSTOP))
	require.NoError(t, w.daemon.Signal(syscall.SIGTERM))
	time.Sleep(300 * time.Millisecond)
	start = time.Now()
	require.NoError(t, w.daemon.Signal(syscall.SIGTERM))
	code, err = w.daemon.Wait(w.ctx)
	require.NoError(t, err)
	assert.Equal(t, 1, code)
	assert.Less(t, time.Since(start), 500*time.Millisecond)
}

func TestTheDaemonWaitsForAnAgentThatIsNotThere(t *testing.T) {
	t.Parallel()
	w := newConsul(t, lab.ConsulOptions{})
	require.NoError(t, w.consul.Kill())
	d, err := theLab.StartDaemon(w.ctx, lab.DaemonOptions{Consul: w.consul, Config: withNode(quick)})
	require.NoError(t, err)
	w.daemon = d
	w.ends(d.Process)
	w.eventually(patience, func() error { _, err := d.Get(w.ctx, "/v1/health"); return err })
	_, err = d.Get(w.ctx, "/v1/ready")
	require.Error(t, err)
	assert.Contains(t, err.Error(), "503")
	assert.Contains(t, err.Error(), "not synced with the Consul agent yet")
	assert.Contains(t, err.Error(), "connection refused")
	assert.False(t, w.status().Consul.Synced)

	require.NoError(t, w.consul.Start())
	require.NoError(t, d.WaitReady(w.ctx))
	require.NoError(t, w.consul.WaitReady(w.ctx))
	w.startEnvoy(theNode)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
}

func TestWhatTheDaemonSaysOfItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http", "hds_path": "/health"})
	w.register("bad-1", 1, map[string]string{"hds": "x"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, func() error {
		if len(w.problems("bad-1")) != 1 {
			return fmt.Errorf("no problem yet")
		}
		return nil
	})
	body, err := w.daemon.Get(w.ctx, "/v1/status")
	require.NoError(t, err)
	var raw map[string]any
	require.NoError(t, json.Unmarshal(body, &raw))
	check := raw["checks"].([]any)[0].(map[string]any)
	_, err = time.Parse(time.RFC3339, check["since"].(string))
	require.NoError(t, err)
	delete(check, "since")
	assert.Equal(t, map[string]any{
		"check_id": "hds:web-1", "service": "web", "service_id": "web-1", "probe": "default", "kind": "http",
		"target": fmt.Sprintf("127.0.0.1:%d", one.Port()), "mode": "enforce", "phase": "reported", "status": "passing",
		"output":    fmt.Sprintf("http GET http://127.0.0.1:%d/health: healthy, says Envoy %s", one.Port(), theNode),
		"observers": []any{theNode},
	}, check)
	observer := raw["observers"].([]any)[0].(map[string]any)
	_, err = time.Parse(time.RFC3339, observer["last_report"].(string))
	require.NoError(t, err)
	assert.Equal(t, []any{theNode, "node", true, 1.0}, []any{observer["node_id"], observer["kind"], observer["applied"], observer["probes"]})
	assert.Regexp(t, `^1\.\d+\.\d+$`, observer["envoy"])
	consul := raw["consul"].(map[string]any)
	assert.Equal(t, []any{w.consul.HTTPAddr(), true, ""}, []any{consul["address"], consul["synced"], consul["error"]})
	assert.Equal(t, []any{1.0, w.consul.NodeName()}, []any{raw["schema"], raw["node"]})
	assert.Equal(t, []any{map[string]any{"service_id": "bad-1", "source": "meta", "message": `meta hds: "x" is not allowed: http, tcp, grpc or off`}}, raw["problems"])

	metrics, err := w.daemon.Get(w.ctx, "/metrics")
	require.NoError(t, err)
	w.eventually(patience, func() error {
		metrics, err = w.daemon.Get(w.ctx, "/metrics")
		if err != nil {
			return err
		}
		for _, line := range []string{
			`consul_hds_checks{phase="reported",status="passing"} 1`, `consul_hds_observers{kind="node"} 1`, `consul_hds_probes{kind="http"} 1`,
			`consul_hds_problems{source="meta"} 1`, `grpc_server_started_total{`, `go_goroutines`, `process_open_fds`,
			"\ngo_sched_gomaxprocs_threads 1\n",
		} {
			if !strings.Contains(string(metrics), line) {
				return fmt.Errorf("the metrics have no %s", line)
			}
		}
		return nil
	})
	assert.NotContains(t, string(metrics), "web-1", "labels are of bounded size")

	out, code, err := w.daemon.Command(w.ctx, "status", "-admin-addr", w.daemon.AdminAddr())
	require.NoError(t, err)
	assert.Zero(t, code)
	for _, text := range []string{"hds:web-1", "reported", "passing", theNode, "bad-1", "meta hds:"} {
		assert.Contains(t, out, text)
	}
	out, code, err = w.daemon.Command(w.ctx, "status", "-admin-addr", w.daemon.AdminAddr(), "-format", "json")
	require.NoError(t, err)
	assert.Zero(t, code)
	assert.True(t, json.Valid([]byte(out)))
	out, code, err = w.daemon.Command(w.ctx, "status", "-admin-addr", "127.0.0.1:1")
	require.NoError(t, err)
	assert.Equal(t, 1, code, out)
}

func TestWhatBecomesOfTheChecksAtShutdown(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][2]string{
		"keep": {"passing", "critical"}, "deregister": {"", ""}, "critical": {"critical", "critical"},
	} {
		t.Run(mode, func(t *testing.T) {
			w := newWorld(t, quick+"checks {\n  on_shutdown = \""+mode+"\"\n}\n")
			w.startEnvoy(theNode)
			w.twoInstances(map[string]string{"hds": "http"})
			code, err := w.daemon.Stop(w.ctx)
			require.NoError(t, err)
			assert.Zero(t, code)
			w.eventually(slack, w.has("hds:web-1", want[0]))
			w.eventually(slack, w.has("hds:web-2", want[1]))
			w.always(time.Second, w.has("hds:web-1", want[0]))
			if mode == "critical" {
				assert.Equal(t, "consul-hds was shut down", w.check("hds:web-1").Output)
			}
		})
	}
}

func TestCleanupRemovesEveryCheckOfOursAndNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	w.twoInstances(map[string]string{"hds": "http"})
	require.NoError(t, w.client.Agent().CheckRegister(&api.AgentCheckRegistration{
		ID: "hds.theirs:web-1", Name: "theirs", ServiceID: "web-1", AgentServiceCheck: api.AgentServiceCheck{TTL: "1h", Status: "passing"},
	}))
	w.cleansInto("web/3", "web//3")
	cleanup := func(more ...string) (string, int) {
		out, code, err := w.daemon.Command(w.ctx, append([]string{"cleanup", "-data-dir", w.daemon.DataDir(), "-consul-address", w.consul.HTTPAddr()}, more...)...)
		require.NoError(t, err)
		return out, code
	}
	out, code := cleanup()
	assert.Equal(t, 1, code)
	assert.Contains(t, out, fmt.Sprintf("is held by another consul-hds agent, pid %d", w.daemon.Pid()))
	out, code = cleanup("-dry-run")
	assert.Zero(t, code, out)
	assert.Contains(t, out, "2 checks would be removed.")
	assert.Len(t, w.checks(), 5)
	out, code = cleanup("-force")
	assert.Zero(t, code, out)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing)) // the running daemon makes it anew

	_, err := w.daemon.Stop(w.ctx)
	require.NoError(t, err)
	out, code = cleanup()
	assert.Zero(t, code, out)
	assert.Contains(t, out, "hds:web-1 of service web-1\nhds:web-2 of service web-2\n2 checks removed.")
	left := w.checks()
	assert.Len(t, left, 3)
	assert.Contains(t, left, "hds:web/3", "Consul's API would take hds:web//3 for it")
	assert.Contains(t, left, "hds.theirs:web-1")
	out, code = cleanup("-consul-address", "127.0.0.1:1")
	assert.Equal(t, 1, code, out)
	out, code = cleanup("-consul-poll-interval", "never")
	assert.Equal(t, 2, code, out)
}

func TestStatusShowsMaintenanceMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	shows := func(want, text string) {
		t.Helper()
		w.eventually(patience, func() error {
			c, _ := w.status().Check("hds:web-1")
			out, _, err := w.daemon.Command(w.ctx, "status", "-admin-addr", w.daemon.AdminAddr())
			if c.Maintenance != want || c.Status != api.HealthPassing || !strings.Contains(out, text) {
				return fmt.Errorf("the status shows %+v and %s", c, out)
			}
			return err
		})
	}
	shows("", "passing  http")
	require.NoError(t, w.client.Agent().EnableServiceMaintenance("web-1", "a new disk"))
	shows("service", "passing, service in maintenance")
	require.NoError(t, w.client.Agent().EnableNodeMaintenance("a new rack"))
	shows("node", "passing, node in maintenance")
	require.NoError(t, w.client.Agent().DisableNodeMaintenance())
	require.NoError(t, w.client.Agent().DisableServiceMaintenance("web-1"))
	shows("", "passing  http")
}
