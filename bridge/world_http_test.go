package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// ailment is one way in which an agent can fail.
type ailment string

// The ailments. A hanging agent answers nobody, and takes writes over, or not; a
// full one takes them over and says that it cannot save them.
const (
	refusing ailment = "refuses connections"
	failing  ailment = "answers 500"
	hanging  ailment = "hangs"
	applying ailment = "takes writes over and hangs"
	slow     ailment = "takes two seconds"
	full     ailment = "has a full disk"
	denying  ailment = "answers 403"
)

// trouble is what ails reads or writes for a while.
type trouble struct {
	ailment       ailment
	reads, writes bool
	until         time.Time
}

// link is how one daemon reaches the agent. It implements http.RoundTripper.
type link struct {
	agent   *simAgent
	daemon  *simDaemon
	handler http.Handler
}

// linkTo makes the link of a daemon, or of nobody in particular.
func linkTo(a *simAgent, d *simDaemon) link {
	l := link{agent: a, daemon: d}
	l.handler = l.mux()
	return l
}

// RoundTrip answers as the agent does, or fails as what ails it makes it.
func (l link) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if l.daemon != nil && l.daemon.isDead() {
		return nil, errRefused
	}
	write := r.Method == http.MethodPut
	if !pause(ctx, way(write)) {
		return nil, ctx.Err()
	}
	switch l.ails(write) {
	case refusing:
		return nil, errRefused
	case failing:
		return answer(http.StatusInternalServerError, "No cluster leader"), nil
	case denying:
		return answer(http.StatusForbidden, "Permission denied"), nil
	case hanging:
		<-ctx.Done()
		return nil, ctx.Err()
	case applying:
		l.serve(r)
		<-ctx.Done()
		return nil, ctx.Err()
	case slow:
		if !pause(ctx, 2*time.Second) {
			return nil, ctx.Err()
		}
	}
	resp := l.serve(r)
	if l.daemon != nil && resp.StatusCode == http.StatusOK && r.URL.Path == "/v1/agent/checks" {
		l.agent.showed(l.daemon, tokenOf(r))
	}
	return resp, nil
}

func (l link) serve(r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	l.handler.ServeHTTP(w, r)
	return w.Result()
}

// way is how long a request takes to the agent. It is never nothing, and not the
// same for both, or goroutines would race where nothing else would.
func way(write bool) time.Duration {
	if write {
		return 700 * time.Microsecond
	}
	return 1100 * time.Microsecond
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

func answer(code int, text string) *http.Response {
	w := httptest.NewRecorder()
	http.Error(w, text, code)
	return w.Result()
}

// pause waits; it says whether ctx still lives.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// ails is what ails the agent now, for a read or a write.
func (l link) ails(write bool) ailment {
	l.agent.mu.Lock()
	defer l.agent.mu.Unlock()
	t := l.agent.trouble
	if time.Now().Before(t.until) && (write && t.writes || !write && t.reads) {
		return t.ailment
	}
	return ""
}

func (l link) mux() *http.ServeMux {
	m := http.NewServeMux() // cleans paths, as Consul's own does
	for pattern, handle := range map[string]func(w http.ResponseWriter, r *http.Request){
		"GET /v1/agent/services":               l.services,
		"GET /v1/agent/checks":                 l.checks,
		"GET /v1/agent/service/":               l.service,
		"GET /v1/agent/self":                   l.self,
		"GET /v1/health/node/n1":               l.healthNode,
		"PUT /v1/agent/check/register":         l.registerCheck,
		"PUT /v1/agent/check/update/":          l.updateCheck,
		"PUT /v1/agent/check/deregister/":      l.deregisterCheck,
		"PUT /v1/agent/service/register":       l.registerService,
		"PUT /v1/agent/service/deregister/":    l.deregisterService,
		"GET /v1/catalog/node-services/{node}": l.nodeServices,
	} {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !l.known(r) {
				http.Error(w, "ACL not found", http.StatusForbidden)
				return
			}
			handle(w, r)
		})
	}
	return m
}

func tokenOf(r *http.Request) string { return r.Header.Get("X-Consul-Token") }

func (l link) hand(r *http.Request) hand { return hand{l.daemon, tokenOf(r)} }

func (l link) known(r *http.Request) bool {
	l.agent.mu.Lock()
	defer l.agent.mu.Unlock()
	return l.agent.knows(tokenOf(r))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (l link) services(w http.ResponseWriter, _ *http.Request) {
	defer l.agent.lock()()
	shown := map[string]*catalog.Instance{}
	for id, s := range l.agent.services {
		if !l.agent.hidden[s.ID] {
			shown[id] = s
		}
	}
	writeJSON(w, shown)
}

func (l link) checks(w http.ResponseWriter, _ *http.Request) {
	defer l.agent.lock()()
	type wire struct {
		Node string
		catalog.Check
	}
	shown := map[string]wire{}
	for id, c := range l.agent.checks {
		if !l.agent.hidden[c.ServiceID] {
			shown[id] = wire{"n1", c.Check}
		}
	}
	writeJSON(w, shown)
}

func (l link) service(w http.ResponseWriter, r *http.Request) {
	defer l.agent.lock()()
	id := strings.TrimPrefix(r.URL.Path, "/v1/agent/service/")
	switch {
	case l.agent.hidden[id]:
		http.Error(w, "Permission denied", http.StatusForbidden)
	case l.agent.services[id] == nil:
		http.Error(w, "unknown service ID: "+id, http.StatusNotFound)
	default:
		writeJSON(w, l.agent.services[id])
	}
}

func (l link) self(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"Config": map[string]any{"NodeName": "n1"}, "Member": map[string]any{"Addr": "192.0.2.1"}})
}

// healthNode is what the catalog shows.
func (l link) healthNode(w http.ResponseWriter, _ *http.Request) {
	defer l.agent.lock()()
	out := []api.HealthCheck{{CheckID: "serfHealth", Status: "passing"}}
	for id, status := range l.agent.carried {
		out = append(out, api.HealthCheck{CheckID: id, Status: status})
	}
	writeJSON(w, out)
}

// nodeServices blocks until the doorbell rings. It knows one filter, which leaves
// no services.
func (l link) nodeServices(w http.ResponseWriter, r *http.Request) {
	for {
		l.agent.mu.Lock()
		index, changed := l.agent.index, l.agent.changed
		l.agent.mu.Unlock()
		if r.FormValue("index") != fmt.Sprint(index) {
			w.Header().Set("X-Consul-Index", fmt.Sprint(index))
			writeJSON(w, map[string]any{"Node": map[string]any{"Node": "n1", "Address": "192.0.2.1"}, "Services": l.listed(r.FormValue("filter"))})
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// listed are the services that the catalog shows through a filter.
func (l link) listed(filter string) []map[string]string {
	out := []map[string]string{}
	if filter == `ID == ""` {
		return out
	}
	defer l.agent.lock()()
	for id, s := range l.agent.services {
		out = append(out, map[string]string{"ID": id, "Service": s.Service})
	}
	return out
}

func (l link) registerCheck(w http.ResponseWriter, r *http.Request) {
	defer l.agent.lock()()
	var body api.AgentCheckRegistration
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ttl, err := time.ParseDuration(body.TTL)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case l.agent.services[body.ServiceID] == nil:
		http.Error(w, "Unknown service ID "+body.ServiceID, http.StatusNotFound)
	case l.agent.hidden[body.ServiceID]:
		http.Error(w, "Permission denied", http.StatusForbidden)
	default:
		status := health.Status(body.Status)
		if status == health.None {
			status = health.Critical
		}
		l.agent.note("register %s %s", body.ID, body.Status)
		l.agent.register(checks.Registration{
			CheckID: body.ID, ServiceID: body.ServiceID, Name: body.Name, Notes: body.Notes, TTL: ttl, Status: status,
		}, l.hand(r))
	}
}

func (l link) updateCheck(w http.ResponseWriter, r *http.Request) {
	defer l.agent.lock()()
	id := strings.TrimPrefix(r.URL.Path, "/v1/agent/check/update/")
	var body struct{ Status, Output string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if l.forbids(w, id) {
		return
	}
	if !l.agent.update(id, body.Status, body.Output, l.hand(r)) {
		http.Error(w, fmt.Sprintf("CheckID %q does not have associated TTL", id), http.StatusInternalServerError)
		return
	}
	l.agent.note("update %s %s %s", id, body.Status, body.Output)
	if t := l.agent.trouble; t.ailment == full && time.Now().Before(t.until) {
		http.Error(w, "failed persisting state for check", http.StatusInternalServerError)
	}
}

func (l link) deregisterCheck(w http.ResponseWriter, r *http.Request) {
	defer l.agent.lock()()
	id := strings.TrimPrefix(r.URL.Path, "/v1/agent/check/deregister/")
	if l.forbids(w, id) {
		return
	}
	if l.agent.checks[id] == nil {
		http.Error(w, "Unknown check ID "+id, http.StatusNotFound)
		return
	}
	l.agent.note("deregister %s", id)
	l.agent.remove(id, l.hand(r))
}

// forbids answers for a check that the token may not write.
func (l link) forbids(w http.ResponseWriter, id string) bool {
	c := l.agent.checks[id]
	if c == nil || !l.agent.hidden[c.ServiceID] {
		return false
	}
	http.Error(w, "Permission denied", http.StatusForbidden)
	return true
}
