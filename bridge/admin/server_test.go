package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fakeBackend struct {
	ready, reload error
	needRestart   []string
	status        Status
	reloads       atomic.Int32
	transitions   []Transition
	configuration string
	explanations  map[string]Explanation
}

func (b *fakeBackend) Ready() error   { return b.ready }
func (b *fakeBackend) Status() Status { return b.status }
func (b *fakeBackend) Explain(_ context.Context, id string) (Explanation, error) {
	if e, ok := b.explanations[id]; ok {
		return e, nil
	}
	if id != "web/1" {
		return Explanation{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	return Explanation{ID: id, Conclusion: "so it is"}, nil
}
func (b *fakeBackend) Observer(id string) (Exchange, error) {
	if id != "node/1" {
		return Exchange{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	return Exchange{Report: json.RawMessage(`{"a":1}`)}, nil
}
func (b *fakeBackend) Transitions() []Transition { return b.transitions }
func (b *fakeBackend) Configuration() string     { return b.configuration }
func (b *fakeBackend) Reload() ([]string, error) {
	b.reloads.Add(1)
	return b.needRestart, b.reload
}

func fakeMetrics(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("some_metric 1\n")) }

// newServer makes a server whose listeners claim to be open.
func newServer(t testing.TB, b *fakeBackend, debug bool) *Server {
	t.Helper()
	s, err := New(Config{
		Listen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0", EnableDebug: debug,
		Backend: b, Metrics: http.HandlerFunc(fakeMetrics),
	})
	require.NoError(t, err)
	for _, l := range s.listeners {
		l.set(&net.TCPAddr{}, nil)
	}
	return s
}

func ask(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:8511"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestNewRefuses(t *testing.T) {
	good := Config{Listen: "127.0.0.1:0", Backend: &fakeBackend{}, Metrics: http.NotFoundHandler()}
	_, err := New(good)
	require.NoError(t, err)
	for _, spoil := range []func(*Config){
		func(c *Config) { c.Listen = "" },
		func(c *Config) { c.Backend = nil },
		func(c *Config) { c.Metrics = nil },
	} {
		bad := good
		spoil(&bad)
		_, err := New(bad)
		require.Error(t, err)
	}
}

func TestRoutes(t *testing.T) {
	broken, invalid := errors.New("disk on fire"), fmt.Errorf("%w: a.hcl:3", ErrInvalid)
	cases := []struct {
		name, method, path string
		backend            *fakeBackend
		code               int
		body               string
	}{
		{"health", "GET", "/v1/health", &fakeBackend{ready: broken}, 200, `"alive"`},
		{"head", "HEAD", "/v1/health", &fakeBackend{}, 200, ""},
		{"ready", "GET", "/v1/ready", &fakeBackend{}, 200, `"ready"`},
		{"not ready", "GET", "/v1/ready", &fakeBackend{ready: broken}, 503, `{"error":"disk on fire"}`},
		{"reload", "PUT", "/v1/reload", &fakeBackend{}, 200, `{"status":"reloaded"}`},
		{"reload that needs a restart", "PUT", "/v1/reload", &fakeBackend{needRestart: []string{"admin"}}, 200, `{"status":"reloaded","need_restart": ["admin"]}`},
		{"reload of an invalid config", "PUT", "/v1/reload", &fakeBackend{reload: invalid}, 400, "a.hcl:3"},
		{"failed reload", "PUT", "/v1/reload", &fakeBackend{reload: broken}, 500, "disk on fire"},
		{"metrics", "GET", "/metrics", &fakeBackend{}, 200, "some_metric 1"},
		{"unknown path", "GET", "/v1/nope", &fakeBackend{}, 404, `{"error":"no such path"}`},
		{"below a path", "GET", "/v1/health/x", &fakeBackend{}, 404, `{"error":`},
		{"unclean path", "GET", "/v1//health", &fakeBackend{}, 404, `{"error":`},
		{"below the overview", "GET", "/nope", &fakeBackend{}, 404, `{"error":`},
		{"below the config", "GET", "/config/x", &fakeBackend{}, 404, `{"error":`},
		{"post to a page", "POST", "/", &fakeBackend{}, 405, `{"error":`},
		{"debug is off", "GET", "/debug/pprof/", &fakeBackend{}, 404, `{"error":`},
		{"wrong method", "POST", "/v1/health", &fakeBackend{}, 405, `{"error":"method not allowed"}`},
		{"no method", "BREW", "/metrics", &fakeBackend{}, 405, `{"error":`},
		{"get reload", "GET", "/v1/reload", &fakeBackend{}, 405, `{"error":`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := ask(newServer(t, c.backend, false).Handler(), c.method, c.path)
			assert.Equal(t, c.code, w.Code)
			compact := strings.NewReplacer("\n", "", "  ", "", `": "`, `":"`).Replace(w.Body.String())
			assert.Contains(t, compact, c.body)
			if c.path != "/metrics" || c.code != 200 {
				assert.Equal(t, "application/json", w.Header().Get("Content-Type"))
			}
			if c.method != "PUT" {
				assert.Zero(t, c.backend.reloads.Load())
			}
		})
	}
}

func TestAllow(t *testing.T) {
	h := newServer(t, &fakeBackend{}, false).Handler()
	assert.Equal(t, "GET, HEAD", ask(h, "DELETE", "/v1/status").Header().Get("Allow"))
	assert.Equal(t, "PUT", ask(h, "GET", "/v1/reload").Header().Get("Allow"))
}

func TestProfiles(t *testing.T) {
	h := newServer(t, &fakeBackend{}, true).Handler()
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap?debug=1", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
		assert.Equal(t, 200, ask(h, "GET", path).Code, path)
	}
	assert.Equal(t, 404, ask(newServer(t, &fakeBackend{}, true).MetricsHandler(), "GET", "/debug/pprof/").Code)
}

func TestMetricsHandlerServesNoMore(t *testing.T) {
	h := newServer(t, &fakeBackend{}, true).MetricsHandler()
	for path, code := range map[string]int{
		"/metrics": 200, "/v1/health": 200, "/v1/ready": 200, "/v1/status": 404, "/v1/reload": 404, "/debug/pprof/heap": 404,
	} {
		assert.Equal(t, code, ask(h, "GET", path, "Host", "node7.example:9102").Code, path)
	}
}

func TestHostMustBeLocal(t *testing.T) {
	h := newServer(t, &fakeBackend{}, false).Handler()
	for host, code := range map[string]int{
		"127.0.0.1:8511": 200, "127.0.0.1": 200, "localhost": 200, "LocalHost:80": 200, "[::1]:8511": 200, "[::1]": 200,
		"10.0.0.7:8511": 200, "evil.example": 403, "evil.example:8511": 403, "localhost.evil.example": 403,
		"127.0.0.1.evil.example": 403, "": 403, "a:b:c": 403, "%": 403,
	} {
		assert.Equal(t, code, ask(h, "GET", "/v1/status", "Host", host).Code, host)
	}
}

func TestOtherOriginsMayNotWrite(t *testing.T) {
	b := &fakeBackend{}
	h := newServer(t, b, false).Handler()
	for _, header := range [][]string{
		{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Origin", "http://127.0.0.1:9999"},
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
	} {
		assert.Equal(t, 403, ask(h, "PUT", "/v1/reload", header...).Code, header)
	}
	assert.Zero(t, b.reloads.Load())
	assert.Equal(t, 200, ask(h, "PUT", "/v1/reload", "Sec-Fetch-Site", "same-origin").Code)
	assert.Equal(t, 200, ask(h, "PUT", "/v1/reload", "Origin", "http://127.0.0.1:8511").Code)
}

func TestStatusDocument(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b := &fakeBackend{status: Status{
		Version: "1.0.0", Node: "n1", Consul: Consul{Address: "127.0.0.1:8500", Synced: true, LastSync: at},
		Observers: []Observer{{NodeID: "e1", Kind: "sidecar", Peer: "@", Envoy: "1.40.0", Applied: true, Probes: 3, LastReport: at}},
		Refused:   []Refused{{Reason: "token", Count: 2, Last: at, Peer: "@", Error: "e"}},
		Checks: []Check{{
			CheckID: "hds:web-1", Service: "web", ServiceID: "web-1", Probe: "default", Kind: "http",
			Target: "127.0.0.1:8080", Mode: "enforce", Phase: "reported", Status: "passing", Output: "ok", Since: at,
		}},
		Problems: []Problem{{ServiceID: "x", Source: "meta", Message: "m"}},
	}}
	want := `{"schema": 1, "version": "1.0.0", "node": "n1",
	 "consul": {"address": "127.0.0.1:8500", "synced": true, "last_sync": "2026-01-02T03:04:05Z", "error": ""},
	 "observers": [{"node_id": "e1", "kind": "sidecar", "peer": "@", "envoy": "1.40.0", "applied": true,
	                "probes": 3, "last_report": "2026-01-02T03:04:05Z"}],
	 "refused": [{"reason": "token", "count": 2, "last": "2026-01-02T03:04:05Z", "peer": "@", "error": "e"}],
	 "checks": [{"check_id": "hds:web-1", "service": "web", "service_id": "web-1", "probe": "default", "kind": "http",
	             "target": "127.0.0.1:8080", "mode": "enforce", "phase": "reported",
	             "status": "passing", "output": "ok", "since": "2026-01-02T03:04:05Z", "observers": []}],
	 "problems": [{"service_id": "x", "source": "meta", "message": "m"}]}`
	assert.JSONEq(t, want, ask(newServer(t, b, false).Handler(), "GET", "/v1/status").Body.String())
	assert.Nil(t, b.status.Checks[0].Observers, "the backend's own is left as it was")

	empty := `{"schema": 1, "version": "", "node": "", "consul": {"address": "", "synced": false, "error": ""},
	 "observers": [], "checks": [], "problems": []}`
	assert.JSONEq(t, empty, ask(newServer(t, &fakeBackend{}, false).Handler(), "GET", "/v1/status").Body.String())
}

func TestIDsInPathsMayHoldSlashes(t *testing.T) {
	h := newServer(t, &fakeBackend{}, false).Handler()
	for path, want := range map[string]int{
		"/v1/explain/web/1": 200, "/v1/explain/web%2F1": 200, "/v1/explain/web": 404, "/v1/explain/": 404,
		"/v1/observers/node/1": 200, "/v1/observers/node%2F1": 200, "/v1/observers/x": 404,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil))
		assert.Equal(t, want, w.Code, path)
	}
}
