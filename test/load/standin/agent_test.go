package standin_test

import (
	"net/http"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/consul-hds/consul-hds/bridge/catalog/catalogtest"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/checks/checkstest"
	"github.com/consul-hds/consul-hds/test/load/standin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Real agents are held to the same contracts in test/e2e.

func TestTheCatalogOfAStandIn(t *testing.T) { catalogtest.Contract(t, start(t)) }

func TestTheChecksOfAStandIn(t *testing.T) {
	client := start(t)
	checkstest.Contract(t, func(t *testing.T, try func(*testing.T, checkstest.Agent)) {
		try(t, checkstest.HTTPAgent{ConsulAgent: checks.ConsulAgent{Client: client}})
	})
}

// start starts a stand-in for the rest of the test.
func start(t *testing.T) *api.Client {
	a, err := standin.Start()
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		require.NoError(t, a.Close())
	})
	client, err := api.NewClient(&api.Config{Address: a.HTTPAddr(), Transport: transport})
	require.NoError(t, err)
	return client
}
