package checkstest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/health"
)

// long is a TTL that never runs out in a test.
const long = time.Hour

// trial is an agent with one instance, and the id of the check that is tried.
type trial struct {
	Agent
	t           *testing.T
	service, id string
}

// begin registers an instance for the rest of the test.
func begin(t *testing.T, a Agent, service string) *trial {
	t.Helper()
	tr := &trial{Agent: a, t: t, service: service, id: "hds:" + service}
	require.NoError(t, a.RegisterService(service))
	t.Cleanup(func() { assert.NoError(t, a.DeregisterService(service)) })
	return tr
}

// registration is that of the trial's check.
func (tr *trial) registration(ttl time.Duration, s health.Status) checks.Registration {
	return checks.Registration{CheckID: tr.id, ServiceID: tr.service, Name: "c", Notes: "n", TTL: ttl, Status: s}
}

func (tr *trial) register(ttl time.Duration, s health.Status) {
	tr.t.Helper()
	require.NoError(tr.t, tr.Register(tr.t.Context(), tr.registration(ttl, s)))
}

func (tr *trial) update(s health.Status, output string) {
	tr.t.Helper()
	require.NoError(tr.t, tr.Update(tr.t.Context(), tr.id, s, output))
}

func (tr *trial) deregister() {
	tr.t.Helper()
	require.NoError(tr.t, tr.Deregister(tr.t.Context(), tr.id))
}

// check is what the agent shows of the check, or nil.
func (tr *trial) check() *catalog.Check {
	tr.t.Helper()
	all, err := tr.Checks()
	require.NoError(tr.t, err)
	return all[tr.id]
}

// shows fails the test unless the check has this status and output.
func (tr *trial) shows(s health.Status, output string) {
	tr.t.Helper()
	c := tr.check()
	require.NotNil(tr.t, c)
	assert.Equal(tr.t, []string{string(s), output}, []string{c.Status, c.Output})
}

// unknown fails the test unless the agent knows neither the check nor, for a
// registration, its instance.
func (tr *trial) unknown(err error) {
	tr.t.Helper()
	assert.ErrorIs(tr.t, err, checks.ErrUnknown)
}
