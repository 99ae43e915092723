package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// The agent listens on a unix socket besides its port, which only the test uses.
func TestTheAgentBehindAUnixSocket(t *testing.T) {
	t.Parallel()
	for how, opts := range map[string]func(address string) lab.DaemonOptions{
		"consul.address": func(address string) lab.DaemonOptions {
			return lab.DaemonOptions{Config: fmt.Sprintf("consul {\n  address = %q\n}\n", address)}
		},
		"CONSUL_HTTP_ADDR": func(address string) lab.DaemonOptions {
			return lab.DaemonOptions{Env: []string{"CONSUL_HTTP_ADDR=" + address}}
		},
	} {
		t.Run(how, func(t *testing.T) {
			socket, err := theLab.SocketPath("consul-" + how + ".sock")
			require.NoError(t, err)
			w := newConsul(t, lab.ConsulOptions{
				Persistent: true, Config: fmt.Sprintf("addresses {\n  http = \"127.0.0.1 unix://%s\"\n}\n", socket),
			})
			options := opts("unix://" + socket)
			options.Config = withNode(options.Config + quick)
			w.startDaemonWith(options)
			assert.Equal(t, "unix://"+socket, w.status().Consul.Address)
			w.tellsTheStory()
		})
	}
}

// tellsTheStory takes an instance from its registration over a flip, a restart of
// the agent, which makes a new socket, and another flip to its end.
func (w *world) tellsTheStory() {
	w.t.Helper()
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	one.SetStatus(500)
	w.eventually(flips, w.has("hds:web-1", api.HealthCritical))
	require.NoError(w.t, w.consul.Restart(w.ctx, syscall.SIGKILL))
	one.SetStatus(200)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, w.routed("web", "web-1"))
	w.deregister("web-1")
	w.eventually(patience, w.forgotten("web-1"))
}
