package catalog_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// fakeAgent answers as a Consul agent does, as far as the watcher can tell.
type fakeAgent struct {
	mu       sync.Mutex
	services map[string]map[string]any
	checks   map[string]map[string]any
	index    int
	changed  chan struct{}
	// override may answer a request in the agent's stead.
	override func(w http.ResponseWriter, r *http.Request) bool
	// hidden are services that the token may not read.
	hidden   map[string]bool
	requests atomic.Int64
}

// newFake starts one, and makes a client as the daemon has it.
func newFake(t *testing.T) (*fakeAgent, *api.Client) {
	t.Helper()
	return newFakeFor(t, true)
}

// newFakeFor makes a client with the transport of the package, or without.
func newFakeFor(t *testing.T, bodies bool) (*fakeAgent, *api.Client) {
	t.Helper()
	f := &fakeAgent{
		services: map[string]map[string]any{}, checks: map[string]map[string]any{},
		hidden: map[string]bool{}, index: 10, changed: make(chan struct{}),
	}
	mux := http.NewServeMux() // cleans paths, as Consul's own does
	mux.HandleFunc("GET /v1/agent/services", f.listServices)
	mux.HandleFunc("GET /v1/agent/checks", f.listChecks)
	mux.HandleFunc("GET /v1/agent/service/", f.getService)
	mux.HandleFunc("GET /v1/agent/self", f.getSelf)
	mux.HandleFunc("GET /v1/catalog/node-services/n1", f.nodeServices)
	mux.HandleFunc("PUT /v1/agent/service/register", f.register)
	mux.HandleFunc("PUT /v1/agent/service/deregister/", f.deregister)
	mux.HandleFunc("PUT /v1/agent/check/update/", f.updateCheck)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		f.mu.Lock()
		override := f.override
		f.mu.Unlock()
		if override == nil || !override(w, r) {
			mux.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	config := api.DefaultConfig()
	config.Address = server.Listener.Addr().String()
	if bodies {
		config.HttpClient = &http.Client{Transport: catalog.Bodies{Next: config.Transport}}
	}
	client, err := api.NewClient(config)
	require.NoError(t, err)
	t.Cleanup(config.HttpClient.CloseIdleConnections)
	t.Cleanup(config.Transport.CloseIdleConnections)
	return f, client
}

func (f *fakeAgent) setOverride(o func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.override = o
}

func (f *fakeAgent) hide(id string, hidden bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hidden[id] = hidden
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (f *fakeAgent) listServices(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	shown := map[string]any{}
	for id, s := range f.services {
		if !f.hidden[id] {
			shown[id] = s
		}
	}
	writeJSON(w, shown)
}

func (f *fakeAgent) listChecks(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	writeJSON(w, f.checks)
}

func (f *fakeAgent) getService(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := strings.TrimPrefix(r.URL.Path, "/v1/agent/service/")
	switch {
	case f.hidden[id]:
		http.Error(w, "Permission denied", http.StatusForbidden)
	case f.services[id] == nil:
		http.Error(w, "unknown service ID: "+id, http.StatusNotFound)
	default:
		writeJSON(w, f.services[id])
	}
}

func (f *fakeAgent) getSelf(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{
		"Config": map[string]any{"NodeName": "n1"},
		"Member": map[string]any{"Addr": "192.0.2.1", "Port": 8301},
	})
}

func (f *fakeAgent) nodeServices(w http.ResponseWriter, r *http.Request) {
	for {
		f.mu.Lock()
		index, changed := f.index, f.changed
		f.mu.Unlock()
		if r.FormValue("index") != fmt.Sprint(index) {
			w.Header().Set("X-Consul-Index", fmt.Sprint(index))
			answer := map[string]any{"Node": map[string]any{"Node": "n1", "Address": "192.0.2.1"}, "Services": []any{}}
			if r.FormValue("filter") != `ID == ""` { // it knows no other
				f.mu.Lock()
				answer["Services"] = slices.Collect(maps.Values(f.services))
				f.mu.Unlock()
			}
			writeJSON(w, answer)
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fakeAgent) ring() {
	f.index++
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeAgent) register(_ http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	id := body["ID"].(string)
	body["Service"] = body["Name"]
	f.services[id] = body
	if check, ok := body["Check"].(map[string]any); ok {
		check["ServiceID"], check["Type"], check["Node"] = id, "ttl", "n1"
		if check["Status"] == nil || check["Status"] == "" {
			check["Status"] = "critical"
		}
		f.checks[check["CheckID"].(string)] = check
	}
	f.ring()
}

func (f *fakeAgent) deregister(_ http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := strings.TrimPrefix(r.URL.Path, "/v1/agent/service/deregister/")
	delete(f.services, id)
	for check, c := range f.checks {
		if c["ServiceID"] == id {
			delete(f.checks, check)
		}
	}
	f.ring()
}

func (f *fakeAgent) updateCheck(_ http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	check := f.checks[strings.TrimPrefix(r.URL.Path, "/v1/agent/check/update/")]
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	check["Status"], check["Output"] = body["Status"], body["Output"]
}
