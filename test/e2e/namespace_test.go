package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// tenant is a namespace and a partition of Consul Enterprise.
type tenant struct{ namespace, partition string }

// tenantProxy makes a community agent, which refuses namespaces and partitions,
// pass for an Enterprise one: it takes both off each request, and keeps them.
type tenantProxy struct {
	addr string

	mu   sync.Mutex
	seen map[string][]tenant // by request
}

func newTenantProxy(t *testing.T, agent string) *tenantProxy {
	t.Helper()
	target, err := url.Parse("http://" + agent)
	require.NoError(t, err)
	p := &tenantProxy{seen: map[string][]tenant{}}
	server := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		assert.NoError(t, p.strip(r.Out))
	}})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	p.addr = server.Listener.Addr().String()
	return p
}

// strip takes the tenant off the query and off the body of a request. A blocking
// query is a request of its own, and so is a body.
func (p *tenantProxy) strip(r *http.Request) error {
	request, q := r.Method+" "+r.URL.Path, r.URL.Query()
	if q.Has("index") {
		request += "?index"
	}
	p.keep(request, tenant{q.Get("ns"), q.Get("partition")})
	q.Del("ns")
	q.Del("partition")
	r.URL.RawQuery = q.Encode()
	if r.URL.Path != "/v1/agent/check/register" {
		return nil
	}
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return err
	}
	namespace, _ := body["Namespace"].(string)
	partition, _ := body["Partition"].(string)
	p.keep("the body of "+request, tenant{namespace, partition})
	delete(body, "Namespace")
	delete(body, "Partition")
	b, err := json.Marshal(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
	return err
}

func (p *tenantProxy) keep(request string, t tenant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.seen[request], t) {
		p.seen[request] = append(p.seen[request], t)
	}
}

// assertSeen asserts that each of these requests was made, and that these and all
// others named the tenant.
func (p *tenantProxy) assertSeen(t *testing.T, want tenant, requests ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, request := range requests {
		assert.Contains(t, p.seen, request)
	}
	for request, tenants := range p.seen {
		assert.Equal(t, []tenant{want}, tenants, request)
	}
}

func TestEveryRequestNamesTheNamespaceAndPartition(t *testing.T) {
	t.Parallel()
	team := tenant{"team-a", "rack-b"}
	for how, c := range map[string]struct {
		want    tenant
		options lab.DaemonOptions
		cleanup []string
	}{
		"by config": {team, lab.DaemonOptions{Config: "consul {\n  namespace = \"team-a\"\n  partition = \"rack-b\"\n}\n"},
			[]string{"-consul-namespace", "team-a", "-consul-partition", "rack-b"}},
		"by variables": {team, lab.DaemonOptions{Env: []string{"CONSUL_NAMESPACE=team-a", "CONSUL_PARTITION=rack-b"}},
			[]string{"-consul-namespace", "team-a", "-consul-partition", "rack-b"}},
		"of neither": {tenant{}, lab.DaemonOptions{}, nil},
	} {
		t.Run(how, func(t *testing.T) {
			w := newConsul(t, lab.ConsulOptions{})
			proxy := newTenantProxy(t, w.consul.HTTPAddr())
			c.options.Args = []string{"-consul-address", proxy.addr, "-checks-orphan-grace", "0s"}
			c.options.Config = withNode(c.options.Config + quick)
			w.asksEverything(c.options, append(c.cleanup, "-consul-address", proxy.addr))
			proxy.assertSeen(t, c.want,
				"GET /v1/agent/services", "GET /v1/agent/checks", "GET /v1/agent/self", "GET /v1/agent/service/gone-1",
				"GET /v1/catalog/node-services/"+w.consul.NodeName(), "GET /v1/catalog/node-services/"+w.consul.NodeName()+"?index",
				"PUT /v1/agent/check/register", "the body of PUT /v1/agent/check/register", "PUT /v1/agent/check/update/hds:web-1",
				"PUT /v1/agent/check/deregister/hds:old-1", "PUT /v1/agent/check/deregister/hds:web-1",
			)
		})
	}
}

// asksEverything has a daemon, and then cleanup, make every kind of request that
// they have for their agent, but the comparison with the catalog, once a minute.
func (w *world) asksEverything(opts lab.DaemonOptions, cleanup []string) {
	w.t.Helper()
	w.register("old-1", w.app().Port(), nil)
	require.NoError(w.t, w.client.Agent().CheckRegister(&api.AgentCheckRegistration{
		ID: "hds:old-1", Name: "an orphan", Notes: "consul-hds: of an earlier life", ServiceID: "old-1",
		AgentServiceCheck: api.AgentServiceCheck{TTL: "1h", Status: "passing"},
	}))
	w.startDaemonWith(opts)
	w.startEnvoy(theNode)
	w.eventually(patience, w.has("hds:old-1", ""))
	one, gone := w.app(), w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.register("gone-1", gone.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, w.has("hds:gone-1", api.HealthPassing))
	w.deregister("gone-1")
	w.eventually(patience, w.forgotten("gone-1"))
	one.SetStatus(500)
	w.eventually(flips, w.has("hds:web-1", api.HealthCritical))
	_, err := w.daemon.Stop(w.ctx)
	require.NoError(w.t, err)
	out, code, err := w.daemon.Command(w.ctx, append([]string{"cleanup", "-data-dir", w.daemon.DataDir()}, cleanup...)...)
	require.NoError(w.t, err)
	require.Zero(w.t, code, out)
	require.NoError(w.t, w.has("hds:web-1", "")())
}
