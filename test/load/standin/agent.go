// Package standin is a stand-in for the Consul agent, for more checks than a
// development agent of Consul is good for. It does what the daemon relies on, and
// no more: its tests hold it to the contracts that a real agent is held to
// (catalogtest, checkstest).
package standin

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"
)

// Node and Address are the name and the address of the agent's node.
const (
	Node    = "standin"
	Address = "192.0.2.1"
)

// Agent is an agent that has no servers: its catalog is what it knows itself.
type Agent struct {
	listener net.Listener
	server   *http.Server

	mu       sync.Mutex
	services map[string]*api.AgentService
	checks   map[string]*check
	// index moves with the services, and changed is closed when it does.
	index   uint64
	changed chan struct{}
}

// Start starts an agent on a free port of the loopback.
func Start() (*Agent, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &Agent{
		listener: l, services: map[string]*api.AgentService{}, checks: map[string]*check{},
		index: 1, changed: make(chan struct{}),
	}
	a.server = &http.Server{Handler: a.handler(), ReadHeaderTimeout: time.Minute}
	go func() { _ = a.server.Serve(l) }() // until Close
	return a, nil
}

// Close ends the agent, and with it all requests.
func (a *Agent) Close() error { return a.server.Close() }

// HTTPAddr is the host:port of the HTTP API.
func (a *Agent) HTTPAddr() string { return a.listener.Addr().String() }

// What is said of what is not there: with it, an answer is a 404.
var (
	errNoService = errors.New("Unknown service ID")
	errNoCheck   = errors.New("Unknown check ID")
	errNoTTL     = errors.New("the check does not have associated TTL")
)

// ring tells those who wait that the services have changed.
func (a *Agent) ring() {
	a.index++
	close(a.changed)
	a.changed = make(chan struct{})
}

// moved returns once the services have moved past index, or no more is to be
// waited. It returns where they are then.
func (a *Agent) moved(index uint64, enough <-chan struct{}, wait time.Duration) uint64 {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		a.mu.Lock()
		now, changed := a.index, a.changed
		a.mu.Unlock()
		if now != index {
			return now
		}
		select {
		case <-changed:
		case <-timer.C:
			return now
		case <-enough:
			return now
		}
	}
}

// registerService registers a service, for the first time or again, with the
// checks that its registration carries. If it replaces, its other checks go.
func (a *Agent) registerService(r *api.AgentServiceRegistration, replaces bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := r.ID
	if id == "" {
		id = r.Name
	}
	carried := r.Checks
	if r.Check != nil {
		carried = append(carried, r.Check)
	}
	if replaces {
		a.dropChecks(id, carried)
	}
	a.services[id] = &api.AgentService{
		Kind: r.Kind, ID: id, Service: r.Name, Tags: r.Tags, Meta: r.Meta, Port: r.Port, Address: r.Address, SocketPath: r.SocketPath, Proxy: r.Proxy,
	}
	a.ring()
	for _, c := range carried {
		if err := a.registerCheck(&api.AgentCheckRegistration{ID: c.CheckID, Name: c.Name, Notes: c.Notes, ServiceID: id, AgentServiceCheck: *c}); err != nil {
			return err
		}
	}
	return nil
}

func (a *Agent) deregisterService(id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.services[id] == nil {
		return errNoService
	}
	a.dropChecks(id, nil)
	delete(a.services, id)
	a.ring()
	return nil
}

// dropChecks removes the checks of a service, but those to keep.
func (a *Agent) dropChecks(service string, keep api.AgentServiceChecks) {
	kept := map[string]bool{}
	for _, k := range keep {
		kept[k.CheckID] = true
	}
	for id, c := range a.checks {
		if c.ServiceID == service && !kept[id] {
			delete(a.checks, id)
		}
	}
}
