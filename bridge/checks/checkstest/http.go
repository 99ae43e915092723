package checkstest

import (
	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
)

// HTTPAgent is an agent to try that is reached by Consul's HTTP API: a real one, or
// what stands in for one.
type HTTPAgent struct{ checks.ConsulAgent }

var _ Agent = HTTPAgent{}

// RegisterService implements Agent.
func (a HTTPAgent) RegisterService(id string, carried ...checks.Registration) error {
	return a.register(id, carried, api.ServiceRegisterOpts{})
}

// ReplaceService implements Agent.
func (a HTTPAgent) ReplaceService(id string, carried ...checks.Registration) error {
	return a.register(id, carried, api.ServiceRegisterOpts{ReplaceExistingChecks: true})
}

func (a HTTPAgent) register(id string, carried []checks.Registration, opts api.ServiceRegisterOpts) error {
	s := &api.AgentServiceRegistration{ID: id, Name: "s"}
	for _, r := range carried {
		s.Checks = append(s.Checks, &api.AgentServiceCheck{
			CheckID: r.CheckID, Name: r.Name, Notes: r.Notes, TTL: r.TTL.String(), Status: string(r.Status),
		})
	}
	return a.Client.Agent().ServiceRegisterOpts(s, opts)
}

// DeregisterService implements Agent.
func (a HTTPAgent) DeregisterService(id string) error {
	return a.Client.Agent().ServiceDeregister(id)
}

// RegisterForeign implements Agent, with a check that runs so rarely that it tells
// nothing here.
func (a HTTPAgent) RegisterForeign(checkID, serviceID string) error {
	return a.Client.Agent().CheckRegister(&api.AgentCheckRegistration{
		ID: checkID, Name: "foreign", ServiceID: serviceID,
		AgentServiceCheck: api.AgentServiceCheck{HTTP: "http://127.0.0.1:1", Interval: "1h"},
	})
}

// Checks implements Agent.
func (a HTTPAgent) Checks() (map[string]*catalog.Check, error) {
	all, err := a.Client.Agent().Checks()
	out := make(map[string]*catalog.Check, len(all))
	for id, c := range all {
		out[id] = &catalog.Check{
			ID: c.CheckID, Name: c.Name, ServiceID: c.ServiceID, Type: c.Type, Status: c.Status, Output: c.Output, Notes: c.Notes,
		}
	}
	return out, err
}
