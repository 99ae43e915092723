package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

// How many instances there are: those that the churn leaves alone, of which some
// are always failing, and those that it does not.
const (
	steadyInstances  = 16
	failingInstances = 6
	churnedInstances = 24
)

// instance is a service instance with its app. That of the churn may be away,
// and comes back as a new one, with another id, or as the same.
type instance struct {
	name       string
	generation int
	meta       map[string]string
	app        *lab.App

	// there says that it is registered, healthy what its app is, refusing that
	// the app of one that is not healthy does not listen.
	there, healthy, refusing bool
}

func (i *instance) id() string {
	if i.generation == 0 {
		return i.name
	}
	return fmt.Sprintf("%s-%d", i.name, i.generation)
}

func (i *instance) checkID() string { return "hds:" + i.id() }

// status is what the check should be once the churn has stopped.
func (i *instance) status() string {
	if i.healthy {
		return api.HealthPassing
	}
	return api.HealthCritical
}

// turn makes the app healthy or not: it answers 500, or refuses.
func (i *instance) turn(healthy, refuse bool) error {
	i.app.SetStatus(map[bool]int{true: http.StatusOK, false: http.StatusInternalServerError}[healthy])
	was := i.refusing
	i.healthy, i.refusing = healthy, !healthy && refuse
	switch {
	case i.refusing && !was:
		i.app.Close()
	case was && !i.refusing:
		return i.app.Open()
	}
	return nil
}

// goodMeta asks for a probe, and for nothing else.
func goodMeta() map[string]string { return map[string]string{"hds": "http"} }

// startInstances registers all instances; steady-0 has a sidecar.
func (n *node) startInstances(context.Context) error {
	for k := range steadyInstances + churnedInstances {
		app, err := n.lab.StartApp()
		if err != nil {
			return err
		}
		i := &instance{name: fmt.Sprint("steady-", k), meta: goodMeta(), app: app, healthy: true}
		if k < steadyInstances {
			n.steady = append(n.steady, i)
		} else {
			i.name = fmt.Sprint("churned-", k-steadyInstances)
			n.churned = append(n.churned, i)
		}
		if err := i.turn(k < steadyInstances-failingInstances || k >= steadyInstances, false); err != nil {
			return err
		}
		if err := n.register(i, false); err != nil {
			return err
		}
	}
	return n.registerSidecar(n.steady[0])
}

// register registers an instance as its meta says; replace drops the checks that
// it has, as Nomad does.
func (n *node) register(i *instance, replace bool) error {
	err := n.agent.ServiceRegisterOpts(&api.AgentServiceRegistration{
		ID: i.id(), Name: i.name, Address: "127.0.0.1", Port: i.app.Port(), Meta: i.meta,
	}, api.ServiceRegisterOpts{ReplaceExistingChecks: replace})
	if err == nil {
		i.there = true
	}
	return err
}

func (n *node) deregister(i *instance) error {
	err := n.agent.ServiceDeregister(i.id())
	if err == nil {
		i.there = false
	}
	return err
}

func (n *node) registerSidecar(of *instance) error {
	return n.agent.ServiceRegister(&api.AgentServiceRegistration{
		ID: sidecarEnvoy, Name: of.name + "-sidecar-proxy", Kind: api.ServiceKindConnectProxy, Address: "127.0.0.1", Port: 21000,
		Proxy: &api.AgentServiceConnectProxyConfig{
			DestinationServiceName: of.name, DestinationServiceID: of.id(),
			LocalServiceAddress: "127.0.0.1", LocalServicePort: of.app.Port(),
		},
		Checks: api.AgentServiceChecks{{AliasService: of.id()}},
	})
}
