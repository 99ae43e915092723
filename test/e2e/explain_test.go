package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// explained is what the command explain prints about an id.
func (w *world) explained(id string) string {
	w.t.Helper()
	out, code, err := w.daemon.Command(w.ctx, "explain", "-admin-addr", w.daemon.AdminAddr(), id)
	require.NoError(w.t, err)
	require.Zero(w.t, code, out)
	return out
}

func TestExplainTellsTheWholeChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick+"service \"web\" {\n  check \"default\" {\n    http {\n      path = \"/config\"\n    }\n  }\n}\n")
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds_unhealthy_threshold": "1"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	one.SetStatus(503)
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
	for _, id := range []string{"web-1", "hds:web-1"} {
		out := w.explained(id)
		at := 0
		for _, text := range []string{ // in this order
			"1. registration", fmt.Sprintf(`service "web", id "web-1", at 127.0.0.1:%d`, one.Port()), "[the Consul agent, 20",
			"2. opt-in", ".hcl:", "interval = 200ms (", ".hcl:", "healthy_threshold = 1 (default)", "unhealthy_threshold = 1 (meta hds_unhealthy_threshold)", "http.path = /config (", ".hcl:", "http.method = GET (default)",
			"3. probe", "/config, each 200ms, timeout 500ms", "cluster hds:web-1@",
			"4. observer", "the node Envoys (hds.node_ids), as no sidecar of the instance is registered", "connected: " + theNode,
			"5. specifier", theNode + " has applied it",
			"6. report", theNode + " says unhealthy" + w.code(503) + ": counts",
			"7. verdict", "critical, phase reported", "counts at once",
			"8. write", "the agent shows critical; the last write was: ",
			"9. catalog", "critical", "[the Consul servers",
			"hds:web-1 is critical since 20", "unhealthy" + w.code(503) + ", says Envoy " + theNode,
		} {
			i := strings.Index(out[at:], text)
			require.GreaterOrEqual(t, i, 0, "%q in\n%s", text, out)
			at += i
		}
	}
	body, err := w.daemon.Get(w.ctx, "/v1/explain/web-1")
	require.NoError(t, err)
	var e struct {
		Schema int
		Checks []struct {
			CheckID    string `json:"check_id"`
			Conclusion string
			Chain      []struct{ Name, Time, Source, Text string }
		}
	}
	require.NoError(t, json.Unmarshal(body, &e))
	require.Len(t, e.Checks, 1)
	var names []string
	for _, l := range e.Checks[0].Chain {
		names = append(names, l.Name)
		assert.NotEmpty(t, l.Source, l.Name)
		assert.NotEmpty(t, l.Text, l.Name)
	}
	assert.Equal(t, []string{"registration", "opt-in", "probe", "observer", "specifier", "report", "verdict", "write", "catalog"}, names)
}

func TestExplainTellsWhyAnInstanceIsNotProbed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.register("plain-1", 8080, nil)
	w.register("off-1", 8080, map[string]string{"hds": "off"})
	w.register("bad-1", 8080, map[string]string{"hds": "htpp"})
	w.register("odd/1", 8080, nil)
	w.register("alone-1", 8080, map[string]string{"hds": "http"})
	require.NoError(t, w.client.Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: "plain-1-sidecar-proxy", Name: "plain-sidecar-proxy", Kind: api.ServiceKindConnectProxy, Port: 1,
		Proxy: &api.AgentServiceConnectProxyConfig{DestinationServiceName: "plain", DestinationServiceID: "plain-1"},
	}))
	require.NoError(t, w.client.Agent().CheckRegister(&api.AgentCheckRegistration{
		ID: "theirs", Name: "theirs", ServiceID: "plain-1", AgentServiceCheck: api.AgentServiceCheck{TTL: "60s"},
	}))
	w.eventually(patience, w.has("hds:alone-1", api.HealthCritical))
	for id, want := range map[string]string{
		"plain-1":               `plain-1 is not probed: its meta has no key hds, and no service block of the configuration names its service, "plain".`,
		"off-1":                 "off-1 is not probed, because its meta says hds = off.",
		"bad-1":                 `bad-1 has no probe because of a problem: meta hds: "htpp" is not allowed: http, tcp, grpc or off.`,
		"odd/1":                 "odd/1 is not probed",
		"plain-1-sidecar-proxy": "is a proxy and never probed itself; ask for the instance that it serves, plain-1.",
		"theirs":                "theirs is a check of somebody else's",
		"alone-1":               "none of them is connected",
	} {
		w.eventually(patience, func() error { // a check by hand is seen by the next poll
			out, _, err := w.daemon.Command(w.ctx, "explain", "-admin-addr", w.daemon.AdminAddr(), id)
			if !strings.Contains(out, want) {
				return fmt.Errorf("%s: %s", id, out)
			}
			return err
		})
	}
	assert.Contains(t, w.explained("alone-1"), "hds:alone-1 is critical since ")
	assert.Contains(t, w.explained("alone-1"), "and no node Envoy is connected.")
	out, code, err := w.daemon.Command(w.ctx, "explain", "-admin-addr", w.daemon.AdminAddr(), "nobody-1")
	require.NoError(t, err)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, `the local Consul agent has no service and no check with the id "nobody-1"`)
	assert.NotContains(t, out, "admin.listen")
}

func TestExplainTellsWhatIsNotInTheChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick+`checks {
  ttl         = "10s"
  stale_after = "2s"
}
`)
	w.startEnvoy("stranger")
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
	w.eventually(patience, w.says("web-1", `Envoy "stranger" is unknown and probes nothing`))

	envoy := w.startEnvoy(theNode)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	require.NoError(t, w.client.Agent().EnableServiceMaintenance("web-1", "a new disk"))
	w.eventually(patience, w.says("web-1", "The service is in maintenance mode: Consul keeps the instance out"))

	require.NoError(t, envoy.Kill())
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
	w.eventually(patience, w.says("web-1", "hds:web-1 is critical, because nothing refreshes it any more: stale since 20"))
}

// says is whether explain says something of an id.
func (w *world) says(id, text string) func() error {
	return func() error {
		if out := w.explained(id); !strings.Contains(out, text) {
			return fmt.Errorf("%q in\n%s", text, out)
		}
		return nil
	}
}

func TestObserversShowWhatWasSaidLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	body, err := w.daemon.Get(w.ctx, "/v1/observers/"+theNode)
	require.NoError(t, err)
	var e struct {
		NodeID        string `json:"node_id"`
		SpecifierSent string `json:"specifier_sent"`
		Specifier     struct {
			ClusterHealthChecks []struct{ ClusterName string }
		}
		Report struct {
			EndpointHealthResponse struct {
				ClusterEndpointsHealth []struct{ ClusterName string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(body, &e))
	assert.Equal(t, theNode, e.NodeID)
	assert.NotEmpty(t, e.SpecifierSent)
	require.Len(t, e.Specifier.ClusterHealthChecks, 1, string(body))
	assert.True(t, strings.HasPrefix(e.Specifier.ClusterHealthChecks[0].ClusterName, "hds:web-1@"))
	assert.Equal(t, e.Specifier.ClusterHealthChecks[0].ClusterName, e.Report.EndpointHealthResponse.ClusterEndpointsHealth[0].ClusterName)
	_, err = w.daemon.Get(w.ctx, "/v1/observers/nobody")
	assert.ErrorContains(t, err, "404")
}
