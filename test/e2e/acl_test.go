package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

const rootToken = "11111111-1111-1111-1111-111111111111"

// withACLs makes an agent deny what no policy allows.
var withACLs = lab.ConsulOptions{Token: rootToken, Config: `
acl {
  enabled        = true
  default_policy = "deny"
  tokens {
    initial_management = "` + rootToken + `"
    agent              = "` + rootToken + `"
  }
}`}

// shippedPolicy is the ACL policy of the folder nomad, without the comment that
// it begins with.
func shippedPolicy(t *testing.T) string {
	t.Helper()
	file, err := os.ReadFile("../../nomad/policy.hcl")
	require.NoError(t, err)
	_, policy, ok := strings.Cut(string(file), "\n\n")
	require.True(t, ok)
	return policy
}

// policyOfNode is the shipped policy in its narrowest form, for one node.
func policyOfNode(t *testing.T, node string) string {
	t.Helper()
	policy := shippedPolicy(t)
	require.Contains(t, policy, `node_prefix ""`)
	return strings.ReplaceAll(policy, `node_prefix ""`, fmt.Sprintf("node %q", node))
}

func TestTheDocsPrintThePolicy(t *testing.T) {
	page, err := os.ReadFile("../../docs/acl.md")
	require.NoError(t, err)
	assert.Contains(t, string(page), "```hcl\n"+shippedPolicy(t)+"```")
}

// newToken makes a token of a policy.
func (w *world) newToken(policy string) *api.ACLToken {
	w.t.Helper()
	token, _, err := w.client.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{Name: policy}}}, nil)
	require.NoError(w.t, err)
	return token
}

// secretCheck is a second check of the service web, whose probes carry secrets.
const secretCheck = `
service "web" {
  check "secret" {
    http {
      method = "POST"
      header = { "X-Key" = ["hush-header"] }
      body   = "hush-body"
    }
  }
}
`

func TestThePolicyIsEnoughAndTokensRotate(t *testing.T) {
	t.Parallel()
	w := newConsul(t, withACLs)
	_, _, err := w.client.ACL().PolicyCreate(&api.ACLPolicy{Name: "hds", Rules: policyOfNode(t, w.consul.NodeName())}, nil)
	require.NoError(t, err)
	first, second := w.newToken("hds"), w.newToken("hds")
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(first.SecretID+"\n"), 0o600))
	w.startDaemon(quick + fmt.Sprintf("log_level = \"trace\"\nconsul {\n  token_file = %q\n}\n", file) + secretCheck)
	w.startEnvoy(theNode)

	one, hidden := w.app(), w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.register("api-1", hidden.Port(), map[string]string{"hds": "http"}) // which the policy does not show
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, w.has("hds.secret:web-1", api.HealthPassing))
	require.NoError(t, w.has("hds:api-1", "")())
	one.SetStatus(500)
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))

	require.NoError(t, os.WriteFile(file, []byte(second.SecretID), 0o600))
	w.eventually(patience, func() error {
		if !strings.Contains(w.daemon.Log(), "the Consul token has changed, registering every check again") {
			return fmt.Errorf("the daemon has not noticed")
		}
		return nil
	})
	time.Sleep(time.Second)
	_, err = w.client.ACL().TokenDelete(first.AccessorID, nil)
	require.NoError(t, err)
	one.SetStatus(200)
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing)) // in the catalog, too: the check has the new token
	w.deregister("web-1")
	w.eventually(patience, func() error {
		if n := len(w.status().Checks); n != 0 {
			return fmt.Errorf("%d checks are left", n)
		}
		return nil
	})

	log := w.daemon.Log()
	metrics, err := w.daemon.Get(w.ctx, "/metrics")
	require.NoError(t, err)
	status, err := w.daemon.Get(w.ctx, "/v1/status")
	require.NoError(t, err)
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", w.daemon.Pid()))
	require.NoError(t, err)
	for _, secret := range []string{first.SecretID, second.SecretID, "hush-header", "hush-body"} {
		for _, text := range []string{log, string(metrics), string(status), string(args)} {
			assert.NotContains(t, text, secret)
		}
	}
}

func TestATokenThatMayNotWriteIsAProblem(t *testing.T) {
	t.Parallel()
	w := newConsul(t, withACLs)
	_, _, err := w.client.ACL().PolicyCreate(&api.ACLPolicy{Name: "reader", Rules: `service_prefix "" { policy = "read" }`}, nil)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(w.newToken("reader").SecretID), 0o600))
	w.startDaemon(quick + fmt.Sprintf("consul {\n  token_file = %q\n}\n", file))
	w.register("web-1", w.app().Port(), map[string]string{"hds": "http"})
	w.eventually(patience, func() error {
		if p := w.problems("web-1"); len(p) != 1 || !strings.HasPrefix(p[0], `check "hds:web-1" cannot be written: the token needs service:write on "web" (`) {
			return fmt.Errorf("problems are %q", p)
		}
		return nil
	})
	_, err = w.daemon.Get(w.ctx, "/v1/ready")
	require.NoError(t, err, "it stays ready")
	time.Sleep(3 * time.Second)
	assert.Equal(t, 1, strings.Count(w.daemon.Log(), "[WARN]  consul-hds.checks: writing a check failed"), "it is said once a minute")
}

// The agent has a data directory: such a one takes a check that is registered
// again for the one that it has, and tells its servers nothing of it.
func TestADeadTokenIsVisible(t *testing.T) {
	t.Parallel()
	persistent := withACLs
	persistent.Persistent = true
	w := newConsul(t, persistent)
	_, _, err := w.client.ACL().PolicyCreate(&api.ACLPolicy{Name: "hds", Rules: policyOfNode(t, w.consul.NodeName())}, nil)
	require.NoError(t, err)
	first, second := w.newToken("hds"), w.newToken("hds")
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(first.SecretID), 0o600))
	w.startDaemon(quick + fmt.Sprintf("consul {\n  token_file = %q\n}\n", file))
	w.startEnvoy(theNode)
	one, two := w.app(), w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.register("web-2", two.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))
	w.eventually(patience, w.has("hds:web-2", api.HealthPassing))

	_, err = w.client.ACL().TokenDelete(first.AccessorID, nil)
	require.NoError(t, err)
	one.SetStatus(500) // nobody may write this
	w.eventually(patience, func() error {
		p := w.status().Problems
		if len(p) != 1 || p[0].Source != "consul" || !strings.Contains(p[0].Message, "Consul does not know the token any more (ACL not found)") {
			return fmt.Errorf("problems are %v", p)
		}
		return nil
	})
	w.eventually(patience, w.metric("consul_hds_token_unknown 1"))
	logged := func() error {
		if n := strings.Count(w.daemon.Log(), "does not know the token any more"); n != 1 {
			return fmt.Errorf("it is logged %d times", n)
		}
		return nil
	}
	w.eventually(patience, logged)
	w.always(3*time.Second, func() error {
		if err := logged(); err != nil {
			return err
		}
		_, err := w.daemon.Get(w.ctx, "/v1/ready")
		return err
	})
	assert.Equal(t, 0, strings.Count(w.daemon.Log(), "[WARN]  consul-hds.checks: writing a check failed"))
	require.NoError(t, w.has("hds:web-2", api.HealthPassing)())

	require.NoError(t, os.WriteFile(file, []byte(second.SecretID), 0o600))
	w.eventually(patience, w.has("hds:web-1", api.HealthCritical))
	w.eventually(2*time.Second, w.metric("consul_hds_token_unknown 0"))
	assert.Empty(t, w.status().Problems)
	require.NoError(t, w.has("hds:web-2", api.HealthPassing)())
}

// metric says that the daemon's metrics have a line.
func (w *world) metric(line string) func() error {
	return func() error {
		m, err := w.daemon.Get(w.ctx, "/metrics")
		if err == nil && !strings.Contains(string(m), "\n"+line+"\n") {
			err = fmt.Errorf("no metric %s", line)
		}
		return err
	}
}

// A check that was registered with a token that is dead by now is stuck in the
// catalog for good, although the agent answers 200 to every update
// (facts/consul.md 3).
func TestDriftIsFoundAndHealed(t *testing.T) {
	persistent := withACLs
	persistent.Persistent = true
	t.Parallel() // it waits for two comparisons, a minute apart
	w := newConsul(t, persistent)
	_, _, err := w.client.ACL().PolicyCreate(&api.ACLPolicy{Name: "hds", Rules: policyOfNode(t, w.consul.NodeName())}, nil)
	require.NoError(t, err)
	ours, theirs := w.newToken("hds"), w.newToken("hds")
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(ours.SecretID), 0o600))
	w.startDaemon(quick + fmt.Sprintf("consul {\n  token_file = %q\n}\n", file))
	w.startEnvoy(theNode)
	one := w.app()
	w.register("web-1", one.Port(), map[string]string{"hds": "http"})
	w.eventually(patience, w.has("hds:web-1", api.HealthPassing))

	c := w.check("hds:web-1")
	other, err := api.NewClient(&api.Config{Scheme: "http", Address: w.consul.HTTPAddr(), Token: theirs.SecretID})
	require.NoError(t, err)
	require.NoError(t, other.Agent().CheckRegister(&api.AgentCheckRegistration{
		ID: c.CheckID, Name: c.Name, Notes: c.Notes, ServiceID: c.ServiceID, AgentServiceCheck: api.AgentServiceCheck{TTL: "60s"},
	}))
	_, err = w.client.ACL().TokenDelete(theirs.AccessorID, nil)
	require.NoError(t, err)
	one.SetStatus(500)
	w.eventually(patience, func() error {
		if s := w.check("hds:web-1").Status; s != api.HealthCritical {
			return fmt.Errorf("the agent says %s", s)
		}
		return nil
	})
	require.Equal(t, api.HealthPassing, w.catalogChecks()["hds:web-1"], "the catalog does not follow")
	w.eventually(150*time.Second, w.has("hds:web-1", api.HealthCritical))
	metrics, err := w.daemon.Get(w.ctx, "/metrics")
	require.NoError(t, err)
	assert.Contains(t, string(metrics), "consul_hds_check_drift_total 1")
}
