package standin

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"
)

// handler is the HTTP API. The mux cleans paths, as Consul's own does.
func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/agent/self", self)
	mux.HandleFunc("GET /v1/agent/services", a.listServices)
	mux.HandleFunc("GET /v1/agent/checks", a.listChecks)
	mux.HandleFunc("GET /v1/agent/service/{id...}", a.getService)
	mux.HandleFunc("GET /v1/catalog/node-services/"+Node, a.nodeServices)
	mux.HandleFunc("GET /v1/health/node/"+Node, a.nodeChecks)
	mux.HandleFunc("PUT /v1/agent/service/register", writing(func(r *http.Request, s *api.AgentServiceRegistration) error {
		return a.registerService(s, r.URL.Query().Has("replace-existing-checks"))
	}))
	mux.HandleFunc("PUT /v1/agent/check/register", writing(func(_ *http.Request, c *api.AgentCheckRegistration) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.registerCheck(c)
	}))
	mux.HandleFunc("PUT /v1/agent/check/update/{id...}", writing(func(r *http.Request, u *struct{ Status, Output string }) error {
		return a.updateCheck(r.PathValue("id"), u.Status, u.Output)
	}))
	mux.HandleFunc("PUT /v1/agent/service/deregister/{id...}", func(w http.ResponseWriter, r *http.Request) { answer(w, a.deregisterService(r.PathValue("id"))) })
	mux.HandleFunc("PUT /v1/agent/check/deregister/{id...}", func(w http.ResponseWriter, r *http.Request) { answer(w, a.deregisterCheck(r.PathValue("id"))) })
	return mux
}

// writing takes in what the body of a request holds.
func writing[T any](write func(*http.Request, *T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body := new(T)
		if err := json.NewDecoder(r.Body).Decode(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, write(r, body))
	}
}

// answer tells how a write has ended.
func answer(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errNoService), errors.Is(err, errNoCheck), errors.Is(err, errNoTTL):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// show answers with JSON, which is made while the agent is locked, and sent
// afterwards: who reads slowly keeps nobody else waiting.
func (a *Agent) show(w http.ResponseWriter, value func() any) {
	var b bytes.Buffer
	a.mu.Lock()
	err := json.NewEncoder(&b).Encode(value())
	a.mu.Unlock()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b.Bytes()) // whoever asked has gone
}

func (a *Agent) listServices(w http.ResponseWriter, _ *http.Request) {
	a.show(w, func() any { return a.services })
}

func (a *Agent) listChecks(w http.ResponseWriter, _ *http.Request) {
	a.show(w, func() any {
		out, now := make(map[string]*api.AgentCheck, len(a.checks)), time.Now()
		for id, c := range a.checks {
			out[id] = c.shown(now)
		}
		return out
	})
}

// nodeChecks are what the catalog shows: the agent's checks, and its own.
func (a *Agent) nodeChecks(w http.ResponseWriter, _ *http.Request) {
	a.show(w, func() any {
		out, now := []*api.AgentCheck{{Node: Node, CheckID: "serfHealth", Status: api.HealthPassing}}, time.Now()
		for _, c := range a.checks {
			out = append(out, c.shown(now))
		}
		return out
	})
}

func (a *Agent) getService(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	s := a.services[r.PathValue("id")]
	a.mu.Unlock()
	if s == nil {
		answer(w, errNoService)
		return
	}
	a.show(w, func() any { return s })
}

// nodeServices is the doorbell: it blocks as the query asks, and names the node.
func (a *Agent) nodeServices(w http.ResponseWriter, r *http.Request) {
	index, _ := strconv.ParseUint(r.FormValue("index"), 10, 64)
	wait, err := time.ParseDuration(r.FormValue("wait"))
	if err != nil {
		wait = 5 * time.Minute
	}
	now := a.moved(index, r.Context().Done(), wait)
	w.Header().Set("X-Consul-Index", strconv.FormatUint(now, 10))
	a.show(w, func() any {
		return map[string]any{"Node": &api.Node{Node: Node, Address: Address}, "Services": a.listed(r.FormValue("filter"))}
	})
}

// listed are the services that the catalog shows through a filter; the only one that
// it knows leaves none. The caller holds mu.
func (a *Agent) listed(filter string) []*api.AgentService {
	if filter == `ID == ""` {
		return nil
	}
	return slices.Collect(maps.Values(a.services))
}

func self(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{ // whoever asked has gone
		"Config": map[string]any{"NodeName": Node}, "Member": map[string]any{"Addr": Address},
	})
}
