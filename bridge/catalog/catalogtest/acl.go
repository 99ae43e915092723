package catalogtest

import (
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

const (
	servicesOnly = `service_prefix "" { policy = "write" }`
	oneService   = `service "mine" { policy = "write" }`
	withNode     = servicesOnly + ` node_prefix "" { policy = "read" }`
)

// LeastPrivilege tries a Watcher on an agent with ACLs and default policy deny.
// connect makes a client with a token; root is the token that may do anything.
func LeastPrivilege(t *testing.T, connect func(token string) *api.Client, root string) {
	admin := connect(root)
	policy, _, err := admin.ACL().PolicyCreate(&api.ACLPolicy{Name: "catalogtest", Rules: servicesOnly}, nil)
	require.NoError(t, err)
	link := []*api.ACLTokenPolicyLink{{ID: policy.ID}}
	token, _, err := admin.ACL().TokenCreate(&api.ACLToken{Policies: link}, nil)
	require.NoError(t, err)
	for _, name := range []string{"mine", "other"} {
		check := &api.AgentServiceCheck{CheckID: "hds:" + name, TTL: "60s"}
		register(t, admin, &api.AgentServiceRegistration{ID: name, Name: name, Check: check})
	}

	w := Start(t, connect(token.SecretID), 100*time.Millisecond)
	s := Await(t, w, has("other"))
	assert.NotEmpty(t, s.Node.Name, "told by the checks")
	assert.Empty(t, s.Node.Address)
	assert.Eventually(t, func() bool { return w.Health().DoorbellErr != "" }, patience, 10*time.Millisecond)

	setRules(t, admin, policy, oneService)
	for range 10 {
		s = Await(t, w, func(n *catalog.Snapshot) bool { return n.ReadAt.After(s.ReadAt) })
		assert.Contains(t, s.Instances, "other", "forbidden is not gone")
	}
	require.NoError(t, admin.Agent().ServiceDeregister("mine"))
	Await(t, w, hasNot("mine"))

	setRules(t, admin, policy, withNode)
	Await(t, w, func(n *catalog.Snapshot) bool { return n.ReadAt.After(s.ReadAt.Add(time.Second)) }) // listed again
	require.NoError(t, admin.Agent().ServiceDeregister("other"))
	Await(t, w, hasNot("other"))
	Await(t, w, func(s *catalog.Snapshot) bool { return s.Node.Address != "" })
	assert.Empty(t, w.Health().DoorbellErr)
}

func setRules(t *testing.T, admin *api.Client, policy *api.ACLPolicy, rules string) {
	t.Helper()
	policy.Rules = rules
	_, _, err := admin.ACL().PolicyUpdate(policy, nil)
	require.NoError(t, err)
}
