package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// nodeEnvoy and sidecarEnvoy are the node ids of the two real Envoys.
	nodeEnvoy    = "node-envoy"
	sidecarEnvoy = "steady-0-sidecar-proxy"
	// patience bounds every wait.
	patience = time.Minute
	// profileRate has the heap's profile count each so many bytes: the usual rate,
	// half a megabyte, would miss what grows slowly.
	profileRate = "GODEBUG=memprofilerate=16384"
	// rootToken may do anything. It is no secret: it dies with the lab.
	rootToken = "11111111-1111-1111-1111-111111111111"
)

// withACLs makes an agent deny what no policy allows.
const withACLs = `
acl {
  enabled        = true
  default_policy = "deny"
  tokens {
    initial_management = "` + rootToken + `"
    agent              = "` + rootToken + `"
  }
}`

// policy is what the daemon may do.
const policy = `
service_prefix "" {
  policy = "write"
}
node_prefix "" {
  policy = "read"
}`

// node is a client agent with its daemon, a node Envoy and a sidecar, and the
// server that it belongs to.
type node struct {
	lab             *lab.Lab
	server, consul  *lab.Consul
	daemon          *lab.Daemon
	envoys          []*lab.Envoy
	agent           *api.Agent
	tokens          tokens
	steady, churned []*instance
}

// startNode starts all of it, and registers the instances.
func startNode(ctx context.Context, l *lab.Lab) (*node, error) {
	n := &node{lab: l}
	for _, start := range []func(context.Context) error{n.startConsul, n.startDaemon, n.startInstances, n.startEnvoys} {
		if err := start(ctx); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (n *node) startConsul(ctx context.Context) (err error) {
	n.server, err = n.lab.StartConsul(ctx, lab.ConsulOptions{Name: "server", Persistent: true, Config: withACLs, Token: rootToken})
	if err != nil {
		return err
	}
	n.consul, err = n.lab.StartConsul(ctx, lab.ConsulOptions{Name: "client", Server: n.server, Config: withACLs, Token: rootToken})
	if err != nil {
		return err
	}
	n.agent = n.consul.Client().Agent()
	n.tokens = tokens{acl: n.server.Client().ACL(), file: n.lab.Path("token")}
	if err := n.tokens.start(); err != nil {
		return err
	}
	return n.tokens.rotate()
}

func (n *node) startDaemon(ctx context.Context) (err error) {
	n.daemon, err = n.lab.StartDaemon(ctx, lab.DaemonOptions{Consul: n.consul, Config: n.config(time.Second), Env: []string{profileRate}})
	if err != nil {
		return err
	}
	return n.daemon.WaitReady(ctx)
}

// config is the daemon's, with that interval for all probes that have none of
// their own.
func (n *node) config(interval time.Duration) string {
	return fmt.Sprintf(`log_level = "info"
admin {
  enable_debug = true
}
consul {
  token_file = %q
}
hds {
  node_ids = ["node-*"]
}
defaults {
  interval = %q
  timeout  = "500ms"
}
`, n.tokens.file, interval)
}

func (n *node) startEnvoys(ctx context.Context) error {
	for _, id := range []string{nodeEnvoy, sidecarEnvoy} {
		e, err := n.lab.StartEnvoy(ctx, lab.EnvoyOptions{NodeID: id, HDSAddr: n.daemon.HDSAddr(), LogLevel: "warning"})
		if err != nil {
			return err
		}
		n.envoys = append(n.envoys, e)
	}
	return nil
}

// catalog is the status of each check of the node, by its id, as the server
// shows it.
func (n *node) catalog(ctx context.Context) (map[string]string, error) {
	list, err := n.consul.CatalogChecks(ctx)
	out := map[string]string{}
	for _, c := range list {
		out[c.CheckID] = c.Status
	}
	return out, err
}

// tokens are those of the daemon, which change.
type tokens struct {
	acl  *api.ACL
	file string
	// kept are the ids of the token in use and of the one before it, which the
	// daemon may need until it has seen the new one.
	kept []string
}

// start makes the policy of all tokens.
func (t *tokens) start() error {
	_, _, err := t.acl.PolicyCreate(&api.ACLPolicy{Name: "hds", Rules: policy}, nil)
	return err
}

// rotate puts a new token into the file, and deletes the one before the last.
func (t *tokens) rotate() error {
	token, _, err := t.acl.TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{Name: "hds"}}}, nil)
	if err != nil {
		return fmt.Errorf("making a token: %w", err)
	}
	next := t.file + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(token.SecretID), 0o600), os.Rename(next, t.file)); err != nil {
		return err
	}
	t.kept = append(t.kept, token.AccessorID)
	if len(t.kept) < 3 {
		return nil
	}
	old := t.kept[0]
	t.kept = t.kept[1:]
	_, err = t.acl.TokenDelete(old, nil)
	return err
}
