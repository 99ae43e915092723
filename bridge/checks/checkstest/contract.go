// Package checkstest holds what a checks.Manager relies on in a Consul agent, so
// that the fake one of its tests and real ones are held to the same contract.
package checkstest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/catalog/catalogtest"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// Agent is an agent to try, and what others than consul-hds do to it.
type Agent interface {
	checks.Agent
	// RegisterService registers an instance, for the first time or again, with
	// the checks that the registration carries.
	RegisterService(id string, carried ...checks.Registration) error
	// ReplaceService is RegisterService with replace-existing-checks, as Nomad
	// does it.
	ReplaceService(id string, carried ...checks.Registration) error
	DeregisterService(id string) error
	// RegisterForeign registers a check of an instance that is no TTL check.
	RegisterForeign(checkID, serviceID string) error
	// Checks are the checks that the agent shows, by id.
	Checks() (map[string]*catalog.Check, error)
}

// Rig gives an agent to one trial, and returns when try does. Trials run in
// parallel, each with names of its own, so they may share an agent.
type Rig func(t *testing.T, try func(t *testing.T, a Agent))

// Contract tries agents that let the test do anything. What it registers, it
// removes. It waits for TTLs, so a fake agent's rig had better fake the time.
func Contract(t *testing.T, rig Rig) {
	for name, try := range map[string]func(*trial){
		"register": registers, "update": updates, "register-again": registersAgain, "register-anew": registersAnew,
		"unknown": knowsNot, "foreign": knowsNoForeign,
		"service-removed": endsWithItsService, "service-again": staysWithItsService,
		"service-replaced": isReplaced, "service-carries": isCarried,
		"odd-ids": oddIDs, "context": heedsItsContext,
		"ttl-expires": expires, "ttl-longer": getsLonger,
		"ttl-updated": isRenewedByUpdates, "ttl-registered": isRenewedByRegistrations,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig(t, func(t *testing.T, a Agent) { try(begin(t, a, name)) })
		})
	}
}

func registers(tr *trial) {
	tr.register(long, health.Warning)
	assert.Equal(tr.t, &catalog.Check{
		ID: tr.id, Name: "c", ServiceID: tr.service, Type: catalog.CheckTypeTTL, Status: "warning", Notes: "n",
	}, tr.check(), "as wanted, and without output")
}

func updates(tr *trial) {
	tr.register(long, health.Critical)
	for _, s := range []health.Status{health.Critical, health.Passing, health.Warning, health.Critical} {
		output := "it is " + string(s) + ",\nso überaus"
		tr.update(s, output)
		tr.shows(s, output)
		tr.update(s, output)
		tr.shows(s, output)
	}
	tr.update(health.Passing, "")
	tr.shows(health.Passing, "")
}

// registersAgain: that a registration cannot set the status of a check is why an
// update follows each.
func registersAgain(tr *trial) {
	tr.register(long, health.Critical)
	tr.update(health.Warning, "so so")
	again := tr.registration(2*long, health.Passing)
	again.Name, again.Notes = "another", "anything"
	require.NoError(tr.t, tr.Register(tr.t.Context(), again))
	assert.Equal(tr.t, &catalog.Check{
		ID: tr.id, Name: "another", ServiceID: tr.service, Type: catalog.CheckTypeTTL,
		Status: "warning", Output: "so so", Notes: "anything",
	}, tr.check())
}

func registersAnew(tr *trial) {
	tr.register(long, health.Critical)
	tr.update(health.Critical, "down")
	tr.deregister()
	assert.Nil(tr.t, tr.check())
	tr.register(long, health.Passing)
	tr.shows(health.Passing, "")
}

func knowsNot(tr *trial) {
	ctx := tr.t.Context()
	tr.unknown(tr.Update(ctx, tr.id, health.Passing, "up"))
	tr.unknown(tr.Deregister(ctx, tr.id))
	astray := tr.registration(long, health.Passing)
	astray.ServiceID = "nowhere"
	tr.unknown(tr.Register(ctx, astray))
	assert.Nil(tr.t, tr.check(), "and none of them made it")
}

// knowsNoForeign: an update that comes when somebody else has taken the id.
func knowsNoForeign(tr *trial) {
	require.NoError(tr.t, tr.RegisterForeign(tr.id, tr.service))
	before := tr.check()
	require.NotNil(tr.t, before)
	assert.NotEqual(tr.t, catalog.CheckTypeTTL, before.Type)
	tr.unknown(tr.Update(tr.t.Context(), tr.id, health.Passing, "up"))
	assert.Equal(tr.t, before, tr.check())
	tr.deregister()
	assert.Nil(tr.t, tr.check(), "it can be removed, so the manager must not try")
}

func endsWithItsService(tr *trial) {
	ctx := tr.t.Context()
	tr.register(long, health.Passing)
	require.NoError(tr.t, tr.DeregisterService(tr.service))
	assert.Nil(tr.t, tr.check())
	tr.unknown(tr.Update(ctx, tr.id, health.Passing, "up"))
	tr.unknown(tr.Deregister(ctx, tr.id))
	tr.unknown(tr.Register(ctx, tr.registration(long, health.Passing)))
	require.NoError(tr.t, tr.RegisterService(tr.service))
	assert.Nil(tr.t, tr.check(), "nor does it return with it")
	tr.register(long, health.Warning)
	tr.shows(health.Warning, "")
}

func staysWithItsService(tr *trial) {
	tr.register(long, health.Critical)
	tr.update(health.Passing, "up")
	require.NoError(tr.t, tr.RegisterService(tr.service))
	tr.shows(health.Passing, "up")
}

func isReplaced(tr *trial) {
	tr.register(long, health.Critical)
	tr.update(health.Passing, "up")
	require.NoError(tr.t, tr.ReplaceService(tr.service))
	assert.Nil(tr.t, tr.check())
	tr.unknown(tr.Update(tr.t.Context(), tr.id, health.Passing, "up"))
	tr.register(long, health.Passing)
	tr.shows(health.Passing, "")
}

// isCarried: a check in the service's own registration is treated as any other,
// and outlives a replacement.
func isCarried(tr *trial) {
	carried := tr.registration(long, health.Critical)
	require.NoError(tr.t, tr.RegisterService(tr.service, carried))
	tr.shows(health.Critical, "")
	tr.update(health.Passing, "up")
	require.NoError(tr.t, tr.ReplaceService(tr.service, carried))
	tr.shows(health.Passing, "up")
	tr.register(long, health.Critical)
	tr.shows(health.Passing, "up")
}

// oddIDs tries that each id reaches its own check and no other.
func oddIDs(first *trial) {
	trials := make([]*trial, 0, len(catalogtest.OddIDs))
	for _, id := range catalogtest.OddIDs {
		tr := begin(first.t, first.Agent, id)
		tr.register(long, health.Critical)
		trials = append(trials, tr)
	}
	for _, tr := range trials {
		tr.update(health.Passing, "that of "+tr.service)
	}
	for _, tr := range trials {
		tr.shows(health.Passing, "that of "+tr.service)
	}
	for i, tr := range trials {
		tr.deregister()
		assert.Nil(first.t, tr.check())
		for _, other := range trials[i+1:] {
			assert.NotNil(first.t, other.check(), "%q, when %q was removed", other.id, tr.id)
		}
	}
}

// heedsItsContext: a write whose context has ended is no write.
func heedsItsContext(tr *trial) {
	tr.register(long, health.Critical)
	canceled, cancel := context.WithCancel(tr.t.Context())
	cancel()
	late, cancel := context.WithDeadline(tr.t.Context(), time.Now())
	defer cancel()
	for _, ctx := range []context.Context{canceled, late} {
		for _, err := range []error{
			tr.Register(ctx, tr.registration(long, health.Passing)),
			tr.Update(ctx, tr.id, health.Passing, "up"),
			tr.Deregister(ctx, tr.id),
		} {
			assert.ErrorIs(tr.t, err, ctx.Err())
			assert.ErrorIs(tr.t, err, checks.ErrAway)
		}
	}
	tr.shows(health.Critical, "")
}
