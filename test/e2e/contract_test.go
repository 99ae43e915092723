package e2e

import (
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog/catalogtest"
	"github.com/consul-hds/consul-hds/test/lab"
)

// The fake agent of the catalog's own tests is held to the same contract.

func TestTheCatalogOnARealAgent(t *testing.T) {
	w := newConsul(t, lab.ConsulOptions{})
	catalogtest.Contract(t, w.client)
}

func TestTheCatalogWithLeastPrivilege(t *testing.T) {
	const root = "11111111-1111-1111-1111-111111111111"
	w := newConsul(t, lab.ConsulOptions{Token: root, Config: `
acl {
  enabled        = true
  default_policy = "deny"
  tokens {
    initial_management = "` + root + `"
    agent              = "` + root + `"
  }
}`})
	catalogtest.LeastPrivilege(t, func(token string) *api.Client {
		c, err := api.NewClient(&api.Config{Scheme: "http", Address: w.consul.HTTPAddr(), Token: token})
		require.NoError(t, err)
		return c
	}, root)
}
