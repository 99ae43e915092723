package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The ids that Nomad's client gives to a service of a group, and to its checks
// (facts/consul.md 5.1).
const (
	nomadService = "_nomad-task-5e3c1b5e-8d0a-6b1f-3d9e-1f0f8f5b2c11-group-web-web-http"
	nomadScript  = "_nomad-check-0b6c1f7d3a95e2480c6f1b7a9d3e5f2048c6a1b7"
	nomadHTTP    = "_nomad-check-7a1de0945c3b28f6e90d4c5b1a2f3e4d5c6b7a80"
)

// nomadRegisters registers the instance as Nomad's client does: with its checks
// in the registration, in place of all that it finds.
func (w *world) nomadRegisters(port, checked int, tags ...string) {
	w.t.Helper()
	require.NoError(w.t, w.client.Agent().ServiceRegisterOpts(&api.AgentServiceRegistration{
		ID: nomadService, Name: "web", Tags: tags, Address: "127.0.0.1", Port: port,
		Meta: map[string]string{"external-source": "nomad", "hds": "http"},
		Checks: api.AgentServiceChecks{
			{CheckID: nomadScript, Name: "a script", TTL: "1h"},
			{CheckID: nomadHTTP, Name: "service: web check", HTTP: fmt.Sprintf("http://127.0.0.1:%d/", checked), Interval: "1s", Timeout: "1s"},
		},
	}, api.ServiceRegisterOpts{ReplaceExistingChecks: true}))
}

// nomadRemovesChecks is the pass of Nomad's sync that removes the checks which
// its client does not know: by the prefixes of service and check.
func (w *world) nomadRemovesChecks() {
	w.t.Helper()
	for id, c := range w.checks() {
		known := id == nomadScript || id == nomadHTTP
		if !known && strings.HasPrefix(c.ServiceID, "_nomad-task") && strings.HasPrefix(id, "_nomad-check-") {
			require.NoError(w.t, w.client.Agent().CheckDeregister(id))
		}
	}
}

func TestNomadsOwnChecksAndOursLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quick)
	w.startEnvoy(theNode)
	one, checked := w.app(), w.app()
	const ours = "hds:" + nomadService
	w.nomadRegisters(one.Port(), checked.Port(), "blue")
	require.NoError(t, w.client.Agent().UpdateTTL(nomadScript, "the script is content", "pass"))
	w.eventually(patience, w.routed("web", nomadService))
	w.eventually(patience, w.has(ours, api.HealthPassing))
	theirs := []aside{w.aside(nomadScript), w.aside(nomadHTTP)}

	replaced := func(tag, status string) {
		t.Helper()
		index := w.checkIndexes()[ours]
		w.nomadRegisters(one.Port(), checked.Port(), "blue", tag)
		took := w.eventually(2*time.Second+slack, w.has(ours, status))
		t.Logf("%s: %s is back after %s", tag, status, took.Round(time.Millisecond))
		assert.NotEqual(t, index, w.checkIndexes()[ours], "it was gone")
		assert.Equal(t, theirs, []aside{w.aside(nomadScript), w.aside(nomadHTTP)}, tag)
	}
	replaced("canary", api.HealthPassing)
	replaced("promoted", api.HealthPassing)
	one.SetStatus(500)
	w.eventually(flips, w.routed("web"))
	require.NoError(t, w.has(ours, api.HealthCritical)())
	assert.Equal(t, theirs, []aside{w.aside(nomadScript), w.aside(nomadHTTP)}, "ours fails alone")
	replaced("critical", api.HealthCritical)
	w.eventually(slack, w.routed("web"))

	require.NoError(t, w.client.Agent().CheckRegister(&api.AgentCheckRegistration{
		ID: "_nomad-check-forgotten", Name: "of an earlier job", ServiceID: nomadService, AgentServiceCheck: api.AgentServiceCheck{TTL: "1h"},
	}))
	index := w.checkIndexes()[ours]
	w.nomadRemovesChecks()
	require.NoError(t, w.has("_nomad-check-forgotten", "")())
	assert.Equal(t, index, w.checkIndexes()[ours], "ours was not even removed and made again")
	assert.Len(t, w.checks(), 3)

	one.SetStatus(200)
	w.eventually(flips, w.routed("web", nomadService))
	w.eventually(slack, func() error {
		if c, _ := w.status().Check(ours); c.ServiceID != nomadService || c.Phase != "reported" || c.Status != api.HealthPassing {
			return fmt.Errorf("the status has %+v", c)
		}
		return nil
	})
	logged := len(w.daemon.Log())
	w.deregister(nomadService) // the job is stopped
	w.eventually(patience, w.forgotten(nomadService))
	require.NoError(t, quiet(w.daemon.Log()[logged:]))
}
