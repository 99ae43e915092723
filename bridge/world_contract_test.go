package bridge

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/catalog/catalogtest"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/checks/checkstest"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// client is one that reaches a simulated agent.
func (a *simAgent) client(t *testing.T) *api.Client {
	conf := api.DefaultConfig()
	conf.Address, conf.HttpClient, conf.Transport = "http://agent.invalid", &http.Client{Transport: linkTo(a, nil)}, nil
	c, err := api.NewClient(conf)
	require.NoError(t, err)
	return c
}

// TestTheSimulatedAgent holds the agent of the random world to what real ones are
// held to.
func TestTheSimulatedAgent(t *testing.T) {
	t.Run("catalog", func(t *testing.T) { catalogtest.Contract(t, newSimAgent().client(t)) })
	t.Run("checks", func(t *testing.T) {
		checkstest.Contract(t, func(t *testing.T, try func(*testing.T, checkstest.Agent)) {
			synctest.Test(t, func(t *testing.T) {
				a := newSimAgent()
				try(t, tried{checks.ConsulAgent{Client: a.client(t)}, a})
			})
		})
	})
}

// tried is a simulated agent as the contract of checks wants it.
type tried struct {
	checks.ConsulAgent
	agent *simAgent
}

func (a tried) RegisterService(id string, carried ...checks.Registration) error {
	a.agent.put(&catalog.Instance{ID: id, Service: "s"}, false, carried...)
	return nil
}

func (a tried) ReplaceService(id string, carried ...checks.Registration) error {
	a.agent.put(&catalog.Instance{ID: id, Service: "s"}, true, carried...)
	return nil
}

func (a tried) DeregisterService(id string) error {
	a.agent.drop(id)
	return nil
}

func (a tried) RegisterForeign(checkID, serviceID string) error {
	a.agent.putCheck(catalog.Check{ID: checkID, ServiceID: serviceID, Type: "http", Status: "critical"})
	return nil
}

func (a tried) Checks() (map[string]*catalog.Check, error) {
	defer a.agent.lock()()
	out := map[string]*catalog.Check{}
	for id, c := range maps.All(a.agent.checks) {
		clone := c.Check
		out[id] = &clone
	}
	return out, nil
}

func (l link) registerService(w http.ResponseWriter, r *http.Request) {
	var body api.AgentServiceRegistration
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	inst := &catalog.Instance{
		ID: body.ID, Service: body.Name, Kind: catalog.Kind(body.Kind), Address: body.Address, Port: body.Port, SocketPath: body.SocketPath, Meta: body.Meta,
	}
	if p := body.Proxy; p != nil {
		inst.Proxy = &catalog.Proxy{
			DestinationServiceName: p.DestinationServiceName, DestinationServiceID: p.DestinationServiceID,
			LocalServiceAddress: p.LocalServiceAddress, LocalServicePort: p.LocalServicePort,
		}
	}
	var carried []checks.Registration
	if c := body.Check; c != nil {
		ttl, err := time.ParseDuration(c.TTL)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		status := "critical"
		if c.Status != "" {
			status = c.Status
		}
		carried = append(carried, checks.Registration{CheckID: c.CheckID, ServiceID: body.ID, Name: c.Name, Notes: c.Notes, TTL: ttl, Status: health.Status(status)})
	}
	l.agent.put(inst, false, carried...)
}

func (l link) deregisterService(_ http.ResponseWriter, r *http.Request) {
	l.agent.drop(strings.TrimPrefix(r.URL.Path, "/v1/agent/service/deregister/"))
}

var _ checkstest.Agent = tried{}
