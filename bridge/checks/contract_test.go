package checks_test

import (
	"testing"
	"testing/synctest"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/checks/checkstest"
)

// A real agent is held to the same contract in test/e2e.
func TestContract(t *testing.T) {
	checkstest.Contract(t, func(t *testing.T, try func(*testing.T, checkstest.Agent)) {
		synctest.Test(t, func(t *testing.T) { try(t, newFakeAgent()) })
	})
}

func (a *fakeAgent) RegisterService(id string, carried ...checks.Registration) error {
	defer a.lock()()
	a.services[id] = true
	for _, r := range carried {
		a.register(r)
	}
	return nil
}

func (a *fakeAgent) ReplaceService(id string, carried ...checks.Registration) error {
	keep := map[string]bool{}
	for _, r := range carried {
		keep[r.CheckID] = true
	}
	a.dropChecks(id, keep)
	return a.RegisterService(id, carried...)
}

func (a *fakeAgent) DeregisterService(id string) error {
	a.dropChecks(id, nil)
	defer a.lock()()
	delete(a.services, id)
	return nil
}

// dropChecks removes the checks of a service, but those to keep.
func (a *fakeAgent) dropChecks(service string, keep map[string]bool) {
	defer a.lock()()
	for id, c := range a.checks {
		if c.ServiceID == service && !keep[id] {
			delete(a.checks, id)
		}
	}
}

func (a *fakeAgent) RegisterForeign(checkID, serviceID string) error {
	defer a.lock()()
	a.put(&catalog.Check{ID: checkID, ServiceID: serviceID, Type: "http", Status: "critical"})
	return nil
}

func (a *fakeAgent) Checks() (map[string]*catalog.Check, error) { return a.snapshot().Checks, nil }
