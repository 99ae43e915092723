package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	rootToken = "11111111-1111-1111-1111-111111111111"
	// policyName is that of the daemon's token.
	policyName = "consul-hds"
	// forbidden is how long the daemon waits at most until it tries again what its
	// token may not do.
	forbidden = 30 * time.Second
	// rotated is how long it takes at most to take over a new token.
	rotated = 2 * time.Second
)

// withACLs denies what no policy allows, and has agents forget in a second what a
// token may do.
var withACLs = `
acl {
  enabled        = true
  default_policy = "deny"
  token_ttl      = "1s"
  policy_ttl     = "1s"
  tokens {
    initial_management = "` + rootToken + `"
    agent              = "` + rootToken + `"
    default            = "` + rootToken + `"
  }
}`

// acls are those of a world.
type acls struct {
	client *api.Client
	// file is the daemon's token_file.
	file   string
	rules  string
	policy *api.ACLPolicy
	token  *api.ACLToken
}

// setting has a daemon with the policy that is shipped.
func (a *acls) setting() setting {
	s := quick()
	s.name = "acls"
	s.consuls = func(server, agent *lab.ConsulOptions) {
		for _, o := range []*lab.ConsulOptions{server, agent} {
			o.Config, o.Token = withACLs, rootToken
		}
	}
	s.daemon = func(_ context.Context, w *world, opts *lab.DaemonOptions) error {
		rules, err := os.ReadFile(filepath.Join(w.lab.Root(), "nomad", "policy.hcl"))
		if err != nil {
			return err
		}
		*a = acls{client: w.server.Client(), file: w.lab.Path("faults-token"), rules: string(rules)}
		opts.Args = append(opts.Args, "-consul-token-file", a.file)
		return errors.Join(a.makePolicy(), a.makeToken(""))
	}
	return s
}

func (a *acls) makePolicy() (err error) {
	a.policy, _, err = a.client.ACL().PolicyCreate(&api.ACLPolicy{Name: policyName, Rules: a.rules}, nil)
	return err
}

// makeToken makes a token, with a secret if it is given, and writes it into the file.
func (a *acls) makeToken(secret string) (err error) {
	a.token, _, err = a.client.ACL().TokenCreate(&api.ACLToken{SecretID: secret, Policies: []*api.ACLTokenPolicyLink{{Name: policyName}}}, nil)
	if err != nil {
		return err
	}
	return os.WriteFile(a.file, []byte(a.token.SecretID), 0o600)
}

func (a *acls) deleteToken() error {
	_, err := a.client.ACL().TokenDelete(a.token.AccessorID, nil)
	return err
}

// allow gives the policy other rules.
func (a *acls) allow(rules string) error {
	_, _, err := a.client.ACL().PolicyUpdate(&api.ACLPolicy{ID: a.policy.ID, Name: policyName, Rules: rules}, nil)
	return err
}

// tokenScenarios take the daemon's rights away for a time that is shorter than what
// is left of a TTL, and for one that is longer.
func tokenScenarios() []scenario {
	a := &acls{}
	var all []scenario
	for _, t := range []denied{
		{"token-deleted", "the daemon's token is deleted, and a new one is put into its file", rotated, a.deleteToken, func() error { return a.makeToken("") }},
		{"acl-reset", "policy and token of the daemon are deleted, and the same are made again", forbidden, a.reset, a.restored},
		{"policy-weak", "the daemon may only read, and may write again", forbidden, func() error { return a.allow(`service_prefix "" { policy = "read" }`) }, func() error { return a.allow(a.rules) }},
	} {
		for _, long := range []time.Duration{5 * time.Second, 40 * time.Second} {
			all = append(all, ofConsul(t.name+brief(long), t.what, brief(long), a.setting(), t.run(long)))
		}
	}
	return all
}

func (a *acls) reset() error {
	_, err := a.client.ACL().PolicyDelete(a.policy.ID, nil)
	return errors.Join(err, a.deleteToken())
}

func (a *acls) restored() error { return errors.Join(a.makePolicy(), a.makeToken(a.token.SecretID)) }

// denied is a way to lose a right.
type denied struct {
	name, what string
	// again is how long it takes the daemon at most to notice that it has it again.
	again      time.Duration
	take, give func() error
}

func (d denied) run(long time.Duration) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		f := fault{what: d.name, after: d.again + slack, expires: t.setting.leftOfTTL()}
		return t.during(f, func() error {
			if err := d.take(); err != nil {
				return err
			}
			if err := around(ctx, long, t.turn); err != nil {
				return err
			}
			return d.give()
		})
	}
}
