package e2e

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog/catalogtest"
	"github.com/consul-hds/consul-hds/bridge/checks"
	"github.com/consul-hds/consul-hds/bridge/checks/checkstest"
	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/test/lab"
)

// The fake agents of the packages' own tests are held to the same contracts.

func TestTheCatalogOnARealAgent(t *testing.T) {
	t.Parallel()
	w := newConsul(t, lab.ConsulOptions{})
	catalogtest.Contract(t, w.client)
}

func TestTheCatalogWithLeastPrivilege(t *testing.T) {
	t.Parallel()
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

func TestTheChecksOnARealAgent(t *testing.T) {
	t.Parallel()
	w := newConsul(t, lab.ConsulOptions{})
	checkstest.Contract(t, func(t *testing.T, try func(*testing.T, checkstest.Agent)) {
		try(t, checkstest.HTTPAgent{ConsulAgent: checks.ConsulAgent{Client: w.client}})
	})
}

func TestWithoutRightsEveryWriteIsDenied(t *testing.T) {
	t.Parallel()
	w := newConsul(t, withACLs)
	_, _, err := w.client.ACL().PolicyCreate(&api.ACLPolicy{Name: "reader", Rules: `service_prefix "" { policy = "read" }`}, nil)
	require.NoError(t, err)
	w.register("web-1", 80, nil)
	r := checks.Registration{CheckID: "hds:web-1", ServiceID: "web-1", Name: "c", TTL: time.Hour, Status: health.Warning}
	require.NoError(t, checks.ConsulAgent{Client: w.client}.Register(w.ctx, r))
	for name, token := range map[string]string{
		"read only": w.newToken("reader").SecretID, "dead": "22222222-2222-2222-2222-222222222222", "none": "",
	} {
		client, err := api.NewClient(&api.Config{Address: w.consul.HTTPAddr(), Token: token})
		require.NoError(t, err)
		a := checks.ConsulAgent{Client: client}
		require.ErrorIs(t, a.Register(w.ctx, r), checks.ErrDenied, name)
		require.ErrorIs(t, a.Update(w.ctx, r.CheckID, health.Passing, "up"), checks.ErrDenied, name)
		require.ErrorIs(t, a.Deregister(w.ctx, r.CheckID), checks.ErrDenied, name)
	}
	require.Equal(t, api.HealthWarning, w.check(r.CheckID).Status)
}
