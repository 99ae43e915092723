package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

// instance is an instance of the service.
type instance struct {
	id  string
	app *lab.App
	// healthy is how its app is now. All serve; an unhealthy one tells that it
	// should not be used.
	healthy bool
	// flips is true for those that turn healthy and unhealthy in scenarios.
	flips bool
	// query is added to the path that is probed; any is the same to its app.
	query string
	// elsewhere is true for one beside the server, which nobody probes: users have
	// somewhere to go whatever becomes of the node.
	elsewhere bool
	// meshed is true for those with a sidecar, which observes them, and through
	// which the ingress reaches them. The node Envoy observes the others.
	meshed  bool
	sidecar *lab.Envoy
	// public is the port of the sidecar.
	public int
}

// flippingID is the instance that flips and has a sidecar.
const flippingID = "web-flips-meshed"

// newInstances are those of every world: two that are healthy all the time, one
// that is not, two that flip, and one that the daemon does not know.
func newInstances() []*instance {
	return []*instance{
		{id: "web-steady-meshed", healthy: true, meshed: true},
		{id: "web-steady", healthy: true},
		{id: "web-ill"},
		{id: flippingID, healthy: true, flips: true, meshed: true},
		{id: "web-flips", healthy: true, flips: true},
		{id: "web-elsewhere", healthy: true, meshed: true, elsewhere: true},
	}
}

func (i *instance) sidecarID() string { return i.id + "-sidecar-proxy" }

func (i *instance) checkID() string { return "hds:" + i.id }

// is turns the app.
func (i *instance) is(healthy bool) {
	i.healthy = healthy
	code := map[bool]int{true: http.StatusOK, false: http.StatusServiceUnavailable}[healthy]
	i.app.SetHealth(code)
}

// register starts the apps and registers the instances.
func (w *world) register(context.Context) error {
	w.instances = newInstances()
	for _, i := range w.instances {
		var err error
		if i.app, err = w.lab.StartNamedApp(i.id); err != nil {
			return err
		}
		w.closes = append(w.closes, func() error { i.app.Close(); return nil })
		if i.public, err = w.lab.Port(); err != nil {
			return err
		}
		i.is(i.healthy)
		if err := w.registerOne(i, api.ServiceRegisterOpts{}); err != nil {
			return fmt.Errorf("registering %s: %w", i.id, err)
		}
	}
	return nil
}

// agentOf is the agent that an instance is registered with.
func (w *world) agentOf(i *instance) *lab.Consul {
	if i.elsewhere {
		return w.server
	}
	return w.agent
}

// registerOne registers an instance, with its sidecar if it has one, or registers
// it anew.
//
// The sidecar is a registration of its own with an alias check alone. To one that is
// part of its instance's registration, an agent adds a check of its own whenever it
// starts, of the sidecar's listener, which begins as critical and is made every ten
// seconds only.
func (w *world) registerOne(i *instance, opts api.ServiceRegisterOpts) error {
	agent := w.agentOf(i).Client().Agent()
	r := &api.AgentServiceRegistration{ID: i.id, Name: serviceName, Address: "127.0.0.1", Port: i.app.Port()}
	if !i.elsewhere {
		probe, err := w.via(linkProbe, i.app.Addr())
		if err != nil {
			return err
		}
		_, port, _ := strings.Cut(probe, ":")
		r.Meta = map[string]string{"hds": "http", "hds_path": healthPath + i.query, "hds_port": port}
	}
	if err := agent.ServiceRegisterOpts(r, opts); err != nil || !i.meshed {
		return err
	}
	return agent.ServiceRegisterOpts(&api.AgentServiceRegistration{
		Kind: api.ServiceKindConnectProxy, ID: i.sidecarID(), Name: serviceName + "-sidecar-proxy", Address: "127.0.0.1", Port: i.public,
		Checks: api.AgentServiceChecks{{AliasService: i.id}},
		Proxy: &api.AgentServiceConnectProxyConfig{
			DestinationServiceName: serviceName, DestinationServiceID: i.id,
			LocalServiceAddress: "127.0.0.1", LocalServicePort: i.app.Port(),
		},
	}, opts)
}
