package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	// checksOfNode is how many checks the node has of which the servers' costs are
	// measured, and bystanders how many services are registered beside.
	checksOfNode = 50
	bystanders   = 10
	// heldBack is the agent's check_update_interval, made short: an output that
	// changes alone reaches the servers after half of it to one and a half.
	heldBack = 40 * time.Second
	// aftermath is what is waited for after a step, for writes that nobody waits for.
	aftermath = 5 * time.Second
	rootToken = "11111111-1111-1111-1111-111111111111"
)

// cluster is a server and the stage of a client agent.
type cluster struct {
	*stage
	server *lab.Consul
	apps   []*lab.App
	token  string // the file with the daemon's token
}

// serverStep is something that happens on a node, how often, and what it must
// make the servers write: nothing if writes is 0.
type serverStep struct {
	name   string
	writes int
	do     func(*cluster, context.Context) error
}

func serverSteps() []serverStep {
	minute := func(_ *cluster, ctx context.Context) error { return lab.Pause(ctx, time.Minute) }
	return []serverStep{
		{"a minute without the daemon", 0, minute},
		{"first install: 50 checks are made", checksOfNode, (*cluster).install},
		{"their outputs, once, within 1.5 × check_update_interval", checksOfNode, func(_ *cluster, ctx context.Context) error { return lab.Pause(ctx, heldBack*3/2) }},
		{"a minute with the daemon", 0, minute},
		{"a flip", 1, func(c *cluster, ctx context.Context) error { return c.turn(ctx, c.apps[:1], 500) }},
		{"and back", 1, func(c *cluster, ctx context.Context) error { return c.turn(ctx, c.apps[:1], 200) }},
		{"all 50 flip", checksOfNode, func(c *cluster, ctx context.Context) error { return c.turn(ctx, c.apps, 500) }},
		{"and back", checksOfNode, func(c *cluster, ctx context.Context) error { return c.turn(ctx, c.apps, 200) }},
		{"10 other services are registered, a second apart", bystanders, (*cluster).registerBystanders},
		{"restart or upgrade of the daemon, same token", 0, (*cluster).restartDaemon},
		{"a new token", 0, (*cluster).changeToken},
	}
}

// servers prints what a node of 50 checks makes a server do.
func (f *figures) servers(ctx context.Context) error {
	c, err := f.newCluster(ctx)
	if err != nil {
		return err
	}
	defer c.close()
	t := table{
		title:   fmt.Sprintf("What a node with %d checks costs a server (agent's check_update_interval: %s)", checksOfNode, heldBack),
		columns: []string{"", "catalog writes", "raft entries (of these coordinates)", "bytes of raft log", "queries", "held after it"},
	}
	var broken []error
	for _, step := range serverSteps() {
		l, err := c.take(ctx, step)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		t.row(step.name, l.writes, fmt.Sprintf("%v (%v)", l.entries, l.coordinates), l.bytes, l.queries, l.blocking)
		broken = append(broken, step.fault(l))
	}
	drift, err := c.weigh(c.driftRead)
	if err != nil {
		return err
	}
	bell, err := c.weigh(c.bell)
	if err != nil {
		return err
	}
	t.title += fmt.Sprintf(";\nbytes from server to agent: a drift read %d, an answer of the doorbell with %d services %d", drift, checksOfNode+bystanders, bell)
	return errors.Join(f.print(ctx, c.stage, "servers", t), errors.Join(broken...))
}

// fault is an error if the catalog was written to more or less than it should.
func (s serverStep) fault(l load) error {
	if int(l.writes) != s.writes {
		return fmt.Errorf("%s: %v catalog writes, want %d", s.name, l.writes, s.writes)
	}
	return nil
}

// take makes a step, and tells what the server counted.
func (c *cluster) take(ctx context.Context, step serverStep) (load, error) {
	before, err := c.load(ctx)
	if err != nil {
		return load{}, err
	}
	if err := step.do(c, ctx); err != nil {
		return load{}, err
	}
	after, err := c.load(ctx)
	return after.since(before), err
}

// newCluster starts a server and a client agent, with tokens, and registers the
// instances.
func (f *figures) newCluster(ctx context.Context) (*cluster, error) {
	config := fmt.Sprintf("acl {\n  enabled = true\n  tokens {\n    initial_management = %q\n    agent = %[1]q\n    default = %[1]q\n  }\n}\n"+
		"check_update_interval = %q\ntelemetry {\n  prometheus_retention_time = \"24h\"\n  disable_hostname = true\n}\n", rootToken, heldBack)
	server, err := f.lab.StartConsul(ctx, lab.ConsulOptions{Name: "server", Persistent: true, Token: rootToken, Config: config})
	if err != nil {
		return nil, err
	}
	s, err := f.newAgent(ctx, lab.ConsulOptions{Server: server, Token: rootToken, Config: config})
	if err != nil {
		return nil, err
	}
	s.ends(server.Process)
	c := &cluster{stage: s, server: server, token: f.lab.Path("token")}
	for i := range checksOfNode {
		app, err := c.app()
		if err != nil {
			return nil, err
		}
		if err := c.register(fmt.Sprint("steady", i), app.Port(), map[string]string{"hds": "http"}); err != nil {
			return nil, err
		}
		c.apps = append(c.apps, app)
	}
	return c, errors.Join(c.newToken(), lab.Pause(ctx, aftermath))
}

// newToken makes another token the daemon's.
func (c *cluster) newToken() error {
	token, _, err := c.server.Client().ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{Name: "global-management"}}}, nil)
	if err != nil {
		return err
	}
	return os.WriteFile(c.token, []byte(token.SecretID), 0o600)
}

// install starts a daemon for instances that have been there before, and an Envoy.
func (c *cluster) install(ctx context.Context) error {
	if err := c.startBridge(ctx, "-consul-token-file", c.token); err != nil {
		return err
	}
	return c.settle(ctx, 0)
}

// turn has apps answer with another status, and waits until their checks say so.
func (c *cluster) turn(ctx context.Context, apps []*lab.App, code int) error {
	critical := 0
	for _, app := range apps {
		app.SetStatus(code)
		if code != http.StatusOK {
			critical++
		}
	}
	return c.settle(ctx, critical)
}

// settle waits until Envoys have answered all checks, and the agent shows so many
// of them as critical, and a while longer. It asks the daemon: the queries of the
// servers are counted.
func (c *cluster) settle(ctx context.Context, critical int) error {
	err := lab.Eventually(ctx, patience, func() error {
		st, err := c.daemon.Status(ctx)
		if err != nil {
			return err
		}
		seen := map[string]int{}
		for _, check := range st.Checks {
			seen[check.Phase+" "+check.Status]++
		}
		if bad, good := seen["reported critical"], seen["reported passing"]; bad != critical || bad+good != checksOfNode {
			return fmt.Errorf("want %d of %d checks critical: %v", critical, checksOfNode, seen)
		}
		return nil
	})
	return errors.Join(err, lab.Pause(ctx, aftermath))
}

// registerBystanders registers services without probes.
func (c *cluster) registerBystanders(ctx context.Context) error {
	for i := range bystanders {
		if err := errors.Join(c.register(fmt.Sprint("bystander", i), 9, nil), lab.Pause(ctx, time.Second)); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) restartDaemon(ctx context.Context) error {
	if err := c.daemon.Restart(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	return c.settle(ctx, 0)
}

// changeToken ends when all checks have been registered with the new token.
func (c *cluster) changeToken(ctx context.Context) error {
	before, err := c.registrations(ctx)
	if err != nil {
		return err
	}
	if err := c.newToken(); err != nil {
		return err
	}
	err = lab.Eventually(ctx, patience, func() error {
		now, err := c.registrations(ctx)
		if err == nil && now-before < checksOfNode {
			err = fmt.Errorf("%v checks have been registered again", now-before)
		}
		return err
	})
	return errors.Join(err, lab.Pause(ctx, aftermath))
}
